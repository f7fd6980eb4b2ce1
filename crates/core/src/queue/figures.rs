//! What a queue looks like: settings, depth, age and rates.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use steadfast_store::{QueueDepth, Timestamp};
use tokio::sync::watch;

use super::{QueueError, QueueSettings, Queues, Rates, desk::Desk};
use crate::workflow::Time;

/// A look at one queue.
#[derive(Clone, Debug)]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: QueueSettings,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether this program consumes it.
    pub consumed: bool,
    /// Messages that wait or are held.
    pub depth: QueueDepth,
    /// Messages that this program handles now.
    pub in_hand: usize,
    /// How long the oldest has been there.
    pub oldest_age: Option<Duration>,
    /// What goes through it.
    pub rates: Rates,
    /// How it was before, oldest first.
    pub history: Vec<Sample>,
}

/// A part of the list of queues.
#[derive(Clone, Debug)]
pub struct QueuePage {
    /// The queues.
    pub queues: Vec<QueueView>,
    /// The queue behind which the next part begins; `None` at the end.
    pub next: Option<String>,
}

impl QueueView {
    /// Messages that may be delivered now. The store counts those that a consumer of this process
    /// holds, too.
    pub fn ready(&self) -> u64 {
        self.depth.ready.saturating_sub(self.in_hand as u64)
    }

    /// Messages that a consumer holds.
    pub fn in_flight(&self) -> u64 {
        self.depth.leased + self.depth.ready.min(self.in_hand as u64)
    }
}

impl Serialize for QueueView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut view = serializer.serialize_struct("QueueView", 12)?;
        view.serialize_field("name", &self.name)?;
        view.serialize_field("settings", &self.settings)?;
        view.serialize_field("paused", &self.paused)?;
        view.serialize_field("consumed", &self.consumed)?;
        view.serialize_field("depth", &self.depth.waiting())?;
        view.serialize_field("ready", &self.ready())?;
        view.serialize_field("delayed", &self.depth.delayed)?;
        view.serialize_field("inFlight", &self.in_flight())?;
        view.serialize_field("dead", &self.depth.dead)?;
        let age = self.oldest_age.map(|it| it.as_millis() as u64);
        view.serialize_field("oldestAgeMs", &age)?;
        view.serialize_field("rates", &self.rates)?;
        view.serialize_field("history", &self.history)?;
        view.end()
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

/// The samples of a queue reach this far back.
const REACH: Duration = Duration::from_hours(1);

/// The most samples of a queue. If there are more, every second one goes, and the time between two
/// samples doubles.
const SAMPLES_MAX: usize = 120;

/// The shortest time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// The last hour of one queue, in memory.
#[derive(Default)]
pub(super) struct Samples(Mutex<Ring>);

struct Ring {
    samples: VecDeque<Sample>,
    period: Duration,
    /// How many messages had gone through the queue at the last sample.
    total: Option<u64>,
}

impl Default for Ring {
    fn default() -> Self {
        Self { samples: VecDeque::new(), period: SAMPLE_EVERY, total: None }
    }
}

impl Samples {
    fn keep(&self, sample: Sample, total: u64) -> Vec<Sample> {
        let mut ring = self.0.lock();
        ring.keep(sample);
        ring.total = Some(total);
        ring.samples.iter().copied().collect()
    }

    /// Whether something happened since the last sample.
    fn is_old(&self, total: u64) -> bool {
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

/// The queue a moment before it changed: nothing happened in the time between.
fn still(last: Sample, gap: Duration) -> Sample {
    let gap_ms = gap.as_millis() as u64;
    let older = if last.depth == 0 { 0 } else { last.oldest_age_ms + gap_ms };
    Sample { at: Time(Timestamp(last.at.0.0 + gap_ms as i64 - 1)), oldest_age_ms: older, ..last }
}

impl Queues {
    /// A part of the queues, in the order of [`Queues::names_behind`].
    pub async fn page(&self, after: Option<&str>, limit: usize) -> Result<QueuePage, QueueError> {
        let mut names = self.names_behind(after, limit + 1).await?;
        let more = limit < names.len();
        names.truncate(limit);
        let next = names.last().filter(|_| more).cloned();
        // Within a part by name, as people expect.
        names.sort_unstable();
        let mut queues = Vec::new();
        for name in &names {
            queues.push(self.view(&*self.desk(name).await?).await?);
        }
        Ok(QueuePage { queues, next })
    }

    /// One queue.
    pub async fn show(&self, name: &str) -> Result<QueueView, QueueError> {
        self.view(&*self.known(name).await?).await
    }

    async fn view(&self, desk: &Desk) -> Result<QueueView, QueueError> {
        let now = self.shared.clock.now();
        let depth = self.shared.store.queue_depth(desk.address.id(), now).await?;
        let rules = desk.rules();
        let oldest_age = depth.oldest.map(|it| now.since(it));
        let sample = Sample {
            at: Time(now),
            depth: depth.waiting(),
            oldest_age_ms: oldest_age.map_or(0, |it| it.as_millis() as u64),
        };
        Ok(QueueView {
            name: desk.name.to_string(),
            settings: rules.settings,
            paused: rules.paused,
            consumed: self.shared.consumed.contains_key(&*desk.name),
            depth,
            in_hand: desk.shelf().in_hand(),
            oldest_age,
            rates: desk.meter.rates(now),
            history: desk.samples.keep(sample, desk.meter.total()),
        })
    }

    /// Looks at the queues in which something happened since the last look, so that their history
    /// can be shown. An idle program asks the store nothing.
    pub(super) async fn sample(&self) {
        for desk in self.open_desks() {
            if desk.samples.is_old(desk.meter.total())
                && let Err(error) = self.view(&desk).await
            {
                tracing::debug!(queue = &*desk.name, error = %error, "not looked at");
            }
        }
    }

    /// Looks at the queues now and then, until the program ends.
    pub(super) async fn watch(self) {
        let mut stopping = self.shared.stop.subscribe();
        loop {
            tokio::select! {
                () = stopped(&mut stopping) => return,
                () = self.shared.clock.sleep(SAMPLE_EVERY) => {}
            }
            self.sample().await;
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that nobody is left who could say so.
    let _ = stopping.wait_for(|it| *it).await;
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
