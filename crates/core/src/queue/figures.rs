//! What a queue looks like: settings, depth, age and rates.

use std::{collections::VecDeque, sync::Mutex, time::Duration};

use steadfast_store::{QueueDepth, Timestamp};
use tokio::sync::watch;

use super::{
    QueueError, QueueSettings, Queues, Rates,
    desk::{Desk, lock},
};

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

/// How full a queue was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Messages that waited or were held.
    pub depth: u64,
    /// How long the oldest had been there, in milliseconds.
    pub oldest_age_ms: u64,
}

/// Looks that are kept, and the time between them.
const SAMPLES: usize = 60;
const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// Looks at one queue, and what had gone through it at the last.
#[derive(Default)]
pub(super) struct Samples(Mutex<(VecDeque<Sample>, Option<u64>)>);

impl Samples {
    fn keep(&self, sample: Sample, total: u64) -> Vec<Sample> {
        let mut kept = lock(&self.0);
        let is_due = |last: &Sample| SAMPLE_EVERY <= sample.at.since(last.at);
        if kept.0.back().is_none_or(is_due) {
            kept.0.push_back(sample);
        }
        if SAMPLES < kept.0.len() {
            kept.0.pop_front();
        }
        kept.1 = Some(total);
        kept.0.iter().copied().collect()
    }

    /// Whether something happened since the last look.
    fn is_old(&self, total: u64) -> bool {
        lock(&self.0).1 != Some(total)
    }
}

impl Queues {
    /// All queues, by name.
    pub async fn list(&self) -> Result<Vec<QueueView>, QueueError> {
        let mut all = Vec::new();
        for name in self.names().await? {
            all.push(self.view(&*self.desk(&name).await?).await?);
        }
        Ok(all)
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
            at: now,
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
