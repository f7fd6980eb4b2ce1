//! A consumed queue as the source of its loop: it delivers due messages while there is capacity,
//! and reads ahead.

use std::sync::Arc;

use steadfast_store::{
    NoticeBatch, OpaqueArc, QueuedMessage, StoreError, Timestamp, futures::FutureExt,
};
use tokio::task::{JoinError, JoinSet};

use super::{
    ConsumeOptions, QueueSettings,
    consumer::Consume,
    meter::Rate,
    state::{QueueState, Shared},
    worker::BatchWorker,
};
use crate::dispatch::{
    attempt::Leases,
    engine::{Effect, IdleState, Source, read_apart},
    suspects::{Admission, Isolation},
};

/// Messages read at once.
const PAGE: usize = 512;

pub(super) struct ConsumedQueue {
    shared: OpaqueArc<Shared>,
    queue: Arc<QueueState>,
    consumer: Arc<dyn Consume>,
    options: ConsumeOptions,
    /// Batches in flight.
    running: usize,
    reading: bool,
    /// Since when the first message that is ready waits for a full batch.
    waiting_since: Option<Timestamp>,
    rate: Rate,
    /// Ready messages that were not admitted the last time.
    refused: usize,
}

pub(super) enum Ended {
    /// An error if the decisions are not recorded.
    Batch(Result<(), StoreError>),
    Read(Result<(), StoreError>),
}

/// Whether a batch can be delivered.
enum Next {
    Now(usize),
    /// Not before another delivery ends, or not before this time.
    Wait(Option<Timestamp>),
}

impl ConsumedQueue {
    pub(super) fn new(
        shared: OpaqueArc<Shared>,
        queue: Arc<QueueState>,
        consumer: Arc<dyn Consume>,
        options: ConsumeOptions,
    ) -> Self {
        Self {
            shared,
            queue,
            consumer,
            options,
            running: 0,
            reading: false,
            waiting_since: None,
            rate: Rate::default(),
            refused: 0,
        }
    }

    fn batch_size(&self, settings: &QueueSettings) -> usize {
        if self.consumer.is_batch() { settings.batch_size } else { 1 }
    }

    /// Starts batches while there is capacity; returns when the next one can start, if that is
    /// known.
    fn start_batches(
        &mut self,
        tasks: &mut JoinSet<Ended>,
        settings: &QueueSettings,
        now: Timestamp,
    ) -> Option<Timestamp> {
        while self.running < self.options.concurrency {
            let next = match self.next(settings, now) {
                Next::Now(size) => self.start_batch(tasks, size, settings, now),
                Next::Wait(until) => Next::Wait(until),
            };
            if let Next::Wait(until) = next {
                return until;
            }
        }
        None
    }

    fn next(&mut self, settings: &QueueSettings, now: Timestamp) -> Next {
        let waiting = self.queue.window().len();
        if waiting == 0 {
            self.waiting_since = None;
            return Next::Wait(None);
        }
        let size = self.batch_size(settings);
        let since = *self.waiting_since.get_or_insert(now);
        let full_at = since.after(settings.batch_timeout());
        if waiting < size && now < full_at {
            return Next::Wait(Some(full_at));
        }
        match self.rate.allows(settings.rate_per_second, size.min(waiting), now) {
            Ok(size) => Next::Now(size),
            Err(at) => Next::Wait(Some(at)),
        }
    }

    /// Delivers the first messages that may be delivered now.
    fn start_batch(
        &mut self,
        tasks: &mut JoinSet<Ended>,
        size: usize,
        settings: &QueueSettings,
        now: Timestamp,
    ) -> Next {
        let mut window = self.queue.window();
        let isolation_of = |it: &QueuedMessage| self.shared.isolation(it, settings);
        let (mut tried, mut admitted, mut until) = (Vec::new(), None, None);
        for isolation in window.messages().map(isolation_of) {
            if tried.contains(&isolation) {
                continue;
            }
            match self.shared.suspects.admit(isolation, now) {
                Admission::Yes(it) => {
                    admitted = Some((it, isolation));
                    break;
                }
                Admission::Wait(at) => {
                    tried.push(isolation);
                    until = until.into_iter().chain(at).min();
                }
            }
        }
        self.refused = match tried.is_empty() {
            true => 0,
            false => window.messages().filter(|it| tried.contains(&isolation_of(it))).count(),
        };
        let Some((admitted, isolation)) = admitted else { return Next::Wait(until) };
        let max = if let Isolation::Blamed { .. } = isolation { 1 } else { size };
        let messages = window.take(max, |it| isolation_of(it) == isolation);
        drop(window);
        self.rate.spend(messages.len(), now);
        self.waiting_since = None;
        let batch = BatchWorker {
            shared: self.shared.clone(),
            queue: self.queue.clone(),
            consumer: self.consumer.clone(),
            is_claimed: isolation != Isolation::Plain,
            timeout: self.options.timeout,
        };
        self.running += 1;
        tasks.spawn(async move { Ended::Batch(batch.deliver(messages, admitted).await) }.boxed());
        Next::Now(size)
    }

    /// Reads ahead before all messages are taken.
    fn start_read(&mut self, tasks: &mut JoinSet<Ended>, settings: &QueueSettings, now: Timestamp) {
        let size = self.batch_size(settings);
        let page = (size * self.options.concurrency).clamp(size, PAGE.max(size));
        let page = self.queue.fitting(page);
        // Messages that have to wait must not keep others from being read.
        let wanted = page.div_ceil(2).max(size) + self.refused.min(PAGE);
        if self.reading || !self.queue.window().would_read(wanted, now) {
            return;
        }
        self.reading = true;
        let (shared, queue) = (self.shared.clone(), self.queue.clone());
        let read =
            async move { queue.fill(&*shared.store, &*shared.clock, wanted, page).await.map(drop) };
        tasks.spawn(async move { Ended::Read(read_apart(read).await) }.boxed());
    }
}

impl Source for ConsumedQueue {
    type Ended = Ended;

    /// The dispatcher passes its notices on.
    const GETS_NOTICES: bool = false;

    fn name(&self) -> &str {
        &self.queue.name
    }

    fn start(&mut self, tasks: &mut JoinSet<Ended>, is_paused: bool) -> IdleState {
        let (rules, now) = (self.queue.rules(), self.shared.clock.now());
        let mut wake_at = None;
        if !rules.paused && !is_paused {
            wake_at = self.start_batches(tasks, &rules.settings, now);
            self.start_read(tasks, &rules.settings, now);
        }
        let next = self.queue.window().next();
        // Due messages wait for a read or for capacity, and both wake the loop.
        let is_ahead = now < next && next < Timestamp::MAX && !rules.paused;
        wake_at = wake_at.into_iter().chain(is_ahead.then_some(next)).min();
        // Everything that could start has started. While the store fails, nothing is due before the
        // pause ends.
        IdleState { is_settled: true, wake_at }
    }

    fn ended(&mut self, ended: Result<Ended, JoinError>) -> Effect {
        match ended {
            Ok(Ended::Read(result)) => {
                self.reading = false;
                result.map_or_else(Effect::Failed, |()| Effect::Read)
            }
            Ok(Ended::Batch(recorded)) => {
                self.running -= 1;
                match recorded {
                    Ok(()) => Effect::None,
                    Err(error) if error.is_over() => Effect::Over,
                    Err(_) => Effect::Unrecorded,
                }
            }
            // A batch panicked: reads and consumers run in tasks of their own.
            Err(_) => {
                self.running -= 1;
                Effect::None
            }
        }
    }

    fn on_notices(&mut self, _: &NoticeBatch) {}

    fn leases(&self) -> &Leases {
        &self.queue.leases
    }
}
