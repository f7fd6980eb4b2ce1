//! The last hour of a queue, in memory: its depth, and the age of its oldest message.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::Timestamp;

use crate::workflow::Time;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
