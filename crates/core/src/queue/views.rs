//! Views of queues: settings, depth, age and rates.

use std::time::Duration;

use serde::{Serialize, Serializer, ser::SerializeStruct};
use steadfast_store::QueueDepth;
use tokio::sync::watch;

use super::{
    QueueError, QueueSettings, Queues, Rates, Sample, samples::SAMPLE_EVERY, state::QueueState,
};
use crate::workflow::Time;

/// A view of one queue.
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
    /// Messages that are pending or in flight.
    pub depth: QueueDepth,
    /// Messages that consumers of this program handle now.
    pub running: usize,
    /// Age of the oldest message.
    pub oldest_age: Option<Duration>,
    /// Messages per second.
    pub rates: Rates,
    /// Earlier samples, oldest first.
    pub history: Vec<Sample>,
}

/// A part of the list of queues.
#[derive(Clone, Debug)]
pub struct QueuePage {
    /// The queues.
    pub queues: Vec<QueueView>,
    /// The queue after which the next page begins; `None` at the end.
    pub next: Option<String>,
}

impl QueueView {
    /// Messages that may be delivered now. The store also counts those that a consumer of this
    /// process has.
    pub fn ready(&self) -> u64 {
        self.depth.ready.saturating_sub(self.running as u64)
    }

    /// Messages in flight.
    pub fn in_flight(&self) -> u64 {
        self.depth.leased + self.depth.ready.min(self.running as u64)
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

impl Queues {
    /// A part of the queues, in the order of [`Queues::names_behind`].
    #[steadfast_store::boxed]
    pub async fn page(&self, after: Option<&str>, limit: usize) -> Result<QueuePage, QueueError> {
        let mut names = self.names_behind(after, limit + 1).await?;
        let more = limit < names.len();
        names.truncate(limit);
        let next = names.last().filter(|_| more).cloned();
        // Within a page, sorted by name.
        names.sort_unstable();
        let mut queues = Vec::new();
        for name in &names {
            queues.push(self.view(&*self.queue(name).await?).await?);
        }
        Ok(QueuePage { queues, next })
    }

    /// One queue.
    #[steadfast_store::boxed]
    pub async fn show(&self, name: &str) -> Result<QueueView, QueueError> {
        self.view(&*self.known(name).await?).await
    }

    /// The names of queues that this program consumes.
    pub fn consumed(&self) -> impl Iterator<Item = &str> {
        self.shared.consumed.keys().map(|it| &**it)
    }

    async fn view(&self, queue: &QueueState) -> Result<QueueView, QueueError> {
        let now = self.shared.clock.now();
        let depth = self.shared.store.queue_depth(queue.address.id(), now).await?;
        let rules = queue.rules();
        let oldest_age = depth.oldest.map(|it| now.since(it));
        let sample = Sample {
            at: Time(now),
            depth: depth.waiting(),
            oldest_age_ms: oldest_age.map_or(0, |it| it.as_millis() as u64),
        };
        Ok(QueueView {
            name: queue.name.to_string(),
            settings: rules.settings,
            paused: rules.paused,
            consumed: self.shared.consumed.contains_key(&queue.name),
            depth,
            running: queue.window().in_flight(),
            oldest_age,
            rates: queue.meter.rates(now),
            history: queue.samples.keep(sample, queue.meter.total()),
        })
    }

    /// Samples the queues whose counters have changed since the last sample. An idle program does
    /// not query the store.
    pub(super) async fn sample(&self) {
        for queue in self.open_queues() {
            if queue.samples.is_old(queue.meter.total())
                && let Err(error) = self.view(&queue).await
            {
                tracing::debug!(queue = &*queue.name, error = %error, "queue was not sampled");
            }
        }
    }

    /// Samples the queues at intervals, until the program ends.
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
    // An error means that the sender is gone: the program ends.
    let _ = stopping.wait_for(|it| *it).await;
}
