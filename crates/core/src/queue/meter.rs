//! Measures of a queue, in memory: counts per second of the last minute, depth and age of the last
//! hour. The rate limit is in messages per second.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::Timestamp;

use crate::{dispatch::attempt::EndKind, workflow::Time};

const SECONDS: usize = 60;

/// Events of a message that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageEvent {
    Sent,
    Delivered,
    Done,
    Retried,
    Dead,
}

impl From<EndKind> for MessageEvent {
    fn from(kind: EndKind) -> Self {
        match kind {
            EndKind::Done => MessageEvent::Done,
            EndKind::Retried => MessageEvent::Retried,
            EndKind::GivenUp => MessageEvent::Dead,
        }
    }
}

/// Messages per second over the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// Sent.
    pub sent: f64,
    /// Delivered to consumers.
    pub delivered: f64,
    /// Handled.
    pub done: f64,
    /// Retried.
    pub retried: f64,
    /// Moved to the dead letters.
    pub dead: f64,
}

#[derive(Default)]
pub(super) struct Meter(Mutex<Counts>);

struct Counts {
    first: i64,
    /// The second of each slot, and its counts.
    seconds: [(i64, [u64; 5]); SECONDS],
    totals: [u64; 5],
}

impl Default for Counts {
    fn default() -> Self {
        Self { first: i64::MAX, seconds: [(i64::MIN, [0; 5]); SECONDS], totals: [0; 5] }
    }
}

impl Meter {
    pub(super) fn count(&self, what: MessageEvent, number: usize, now: Timestamp) {
        if number == 0 {
            return;
        }
        let second = now.0.div_euclid(1_000);
        let mut counts = self.0.lock();
        counts.first = counts.first.min(second);
        counts.totals[what as usize] += number as u64;
        let place = &mut counts.seconds[second.rem_euclid(SECONDS as i64) as usize];
        if place.0 != second {
            *place = (second, [0; 5]);
        }
        place.1[what as usize] += number as u64;
    }

    pub(super) fn rates(&self, now: Timestamp) -> Rates {
        let second = now.0.div_euclid(1_000);
        let counts = self.0.lock();
        // Not longer than the time since the first count.
        let span = second.saturating_sub(counts.first).saturating_add(1).clamp(1, SECONDS as i64);
        let of = |what: MessageEvent| {
            let recent = counts.seconds.iter().filter(|it| second - span < it.0 && it.0 <= second);
            recent.map(|it| it.1[what as usize]).sum::<u64>() as f64 / span as f64
        };
        Rates {
            sent: of(MessageEvent::Sent),
            delivered: of(MessageEvent::Delivered),
            done: of(MessageEvent::Done),
            retried: of(MessageEvent::Retried),
            dead: of(MessageEvent::Dead),
        }
    }

    /// The sum of all counts: it changes with every event.
    pub(super) fn total(&self) -> u64 {
        self.0.lock().totals.iter().sum()
    }
}

/// The depth of a queue at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = QueueSample))]
pub struct Sample {
    /// When.
    pub at: Time,
    /// Messages that waited or were in flight.
    pub depth: u64,
    /// Age of the oldest.
    pub oldest_age_ms: u64,
}

/// The samples of a queue cover this time.
const REACH: Duration = Duration::from_hours(1);

/// Maximum samples of a queue. If there are more, every second one is dropped, and the interval
/// doubles.
const SAMPLES_MAX: usize = 120;

/// The shortest time between two samples.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// The last hour of one queue, in memory.
#[derive(Default)]
pub(super) struct Samples(Mutex<Ring>);

struct Ring {
    samples: VecDeque<Sample>,
    period: Duration,
    /// The counters of the queue at the last sample.
    total: Option<u64>,
}

impl Default for Ring {
    fn default() -> Self {
        Self { samples: VecDeque::new(), period: SAMPLE_EVERY, total: None }
    }
}

impl Samples {
    pub(super) fn keep(&self, sample: Sample, total: u64) -> Vec<Sample> {
        let mut ring = self.0.lock();
        ring.keep(sample);
        ring.total = Some(total);
        ring.samples.iter().copied().collect()
    }

    /// Whether the counters have changed since the last sample.
    pub(super) fn is_old(&self, total: u64) -> bool {
        self.0.lock().total != Some(total)
    }
}

impl Ring {
    fn keep(&mut self, sample: Sample) {
        let is_old = |it: &Sample| REACH < sample.at.0.since(it.at.0);
        while self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        match self.samples.back().map(|it| (*it, sample.at.0.since(it.at.0))) {
            None => self.period = SAMPLE_EVERY,
            Some((_, gap)) if gap < self.period => return,
            Some((last, gap)) if 2 * self.period < gap => self.samples.push_back(still(last, gap)),
            Some(_) => {}
        }
        self.samples.push_back(sample);
        if SAMPLES_MAX < self.samples.len() {
            let every_second = self.samples.iter().rev().step_by(2).rev();
            self.samples = every_second.copied().collect();
            self.period *= 2;
        }
    }
}

/// A sample just before a change: nothing happened in between.
fn still(last: Sample, gap: Duration) -> Sample {
    let gap_ms = gap.as_millis() as u64;
    let older = if last.depth == 0 { 0 } else { last.oldest_age_ms + gap_ms };
    Sample { at: Time(Timestamp(last.at.0.0 + gap_ms as i64 - 1)), oldest_age_ms: older, ..last }
}

/// The burst: messages of a quarter of a second, or one.
const BURST_SECONDS: f64 = 0.25;

/// A token bucket.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// The remaining tokens, as of `at`.
    left: f64,
    at: Option<Timestamp>,
}

impl Rate {
    /// The number of `wanted` messages that may be delivered now; or when one may.
    pub(super) fn allows(
        &mut self,
        per_second: Option<f64>,
        wanted: usize,
        now: Timestamp,
    ) -> Result<usize, Timestamp> {
        let Some(rate) = per_second else { return Ok(wanted) };
        let burst = (rate * BURST_SECONDS).max(1.0);
        let elapsed = self.at.map_or(f64::MAX, |at| now.since(at).as_secs_f64());
        self.left = (self.left + elapsed * rate).min(burst);
        self.at = Some(now);
        // A whole message must fit; rounding errors of the sum must not cost a millisecond.
        let whole = (self.left + 1e-6).floor();
        if 1.0 <= whole {
            return Ok(wanted.min(whole as usize));
        }
        let wait = Duration::from_secs_f64((1.0 - self.left) / rate);
        Err(now.after(wait.max(Duration::from_millis(1))))
    }

    pub(super) fn spend(&mut self, number: usize, now: Timestamp) {
        if self.at.is_some() {
            self.left -= number as f64;
            self.at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_minute_or_of_the_time_since_the_first() {
        let meter = Meter::default();
        let at = |second: i64| Timestamp(1_000_000 + second * 1_000);
        assert_eq!(meter.rates(at(0)), Rates::default());
        meter.count(MessageEvent::Sent, 10, at(0));
        assert!((meter.rates(at(0)).sent - 10.0).abs() < 1e-9);
        assert!((meter.rates(at(9)).sent - 1.0).abs() < 1e-9);
        meter.count(MessageEvent::Sent, 50, at(59));
        assert!((meter.rates(at(59)).sent - 1.0).abs() < 1e-9);
        assert!((meter.rates(at(60)).sent - 50.0 / 60.0).abs() < 1e-9);
        assert_eq!(meter.rates(at(200)), Rates::default());
    }

    fn sample(seconds: i64, depth: u64) -> Sample {
        Sample { at: Time(Timestamp(seconds * 1_000)), depth, oldest_age_ms: depth * 10 }
    }

    #[test]
    fn an_hour_is_kept_in_a_bounded_number_of_samples() {
        let mut ring = Ring::default();
        for second in (0..7_200).step_by(5) {
            ring.keep(sample(second, 1));
            assert!(ring.samples.len() <= SAMPLES_MAX);
        }
        let (first, last) = (ring.samples[0].at.0.0, ring.samples[ring.samples.len() - 1].at.0.0);
        assert!((3_500_000..=3_600_000).contains(&(last - first)), "{first} to {last}");
    }

    #[test]
    fn a_queue_that_rested_was_as_it_was_until_it_changed() {
        let mut ring = Ring::default();
        ring.keep(sample(0, 3));
        ring.keep(sample(1, 9));
        assert_eq!(ring.samples.len(), 1, "two samples are 5 seconds apart");
        ring.keep(sample(60, 0));
        let depths: Vec<_> = ring.samples.iter().map(|it| (it.at.0.0, it.depth)).collect();
        assert_eq!(depths, [(0, 3), (59_999, 3), (60_000, 0)]);
        assert_eq!(ring.samples[1].oldest_age_ms, 60_030);
    }

    #[test]
    fn no_more_is_delivered_in_a_second_than_allowed() {
        let mut rate = Rate::default();
        let mut delivered = 0;
        let mut now = Timestamp(0);
        while now < Timestamp(10_000) {
            match rate.allows(Some(8.0), 100, now) {
                Ok(number) => {
                    rate.spend(number, now);
                    delivered += number;
                }
                Err(at) => {
                    assert!(now < at);
                    now = at;
                }
            }
        }
        assert!((79..=83).contains(&delivered), "{delivered}");
    }

    #[test]
    fn without_a_rate_all_is_delivered() {
        assert_eq!(Rate::default().allows(None, 7, Timestamp(1)), Ok(7));
    }
}
