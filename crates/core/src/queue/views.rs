//! Views of queues: settings, depth, age and rates, and messages, without consuming them.

use serde::{Deserialize, Serialize};
use steadfast_store::{DueCursor, Position, QueuedMessage, Recorded, State, Timestamp};
use tokio::sync::watch;

use super::{
    error::QueueError,
    meter::{Rates, SAMPLE_EVERY, Sample},
    name::QueueSettings,
    queues::Queues,
    state::QueueState,
};
use crate::body::{self, JsonText, Time, millis};

/// A queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Queue))]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// How its messages are delivered.
    pub settings: QueueSettings,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether the program has a consumer for it.
    pub consumed: bool,
    /// Messages that are waiting or in flight.
    pub depth: u64,
    /// Messages that may be delivered now.
    pub ready: u64,
    /// Messages that may be delivered later.
    pub delayed: u64,
    /// Messages that a consumer holds.
    pub in_flight: u64,
    /// Messages that consumers of this program handle now; some of them may be settled already.
    /// Only in the process: others see `in_flight`.
    #[serde(skip)]
    pub running: usize,
    /// Dead letters of this queue.
    pub dead: u64,
    /// Age of the oldest message that is waiting or in flight; null if there is none.
    pub oldest_age_ms: Option<u64>,
    /// Messages per second over the last minute.
    pub rates: Rates,
    /// Earlier depths, oldest first.
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
        let oldest_age_ms = depth.oldest.map(|it| millis(now.since(it)));
        let running = queue.window().in_flight();
        // The store counts a message as ready while a consumer of this process has it.
        let handled = depth.ready.min(running as u64);
        let sample = Sample {
            at: Time(now),
            depth: depth.waiting(),
            oldest_age_ms: oldest_age_ms.unwrap_or(0),
        };
        Ok(QueueView {
            name: queue.name.to_string(),
            settings: rules.settings,
            paused: rules.paused,
            consumed: self.shared.consumed.contains_key(&queue.name),
            depth: depth.waiting(),
            ready: depth.ready - handled,
            delayed: depth.delayed,
            in_flight: depth.leased + handled,
            running,
            dead: depth.dead,
            oldest_age_ms,
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

/// The state of a message in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = MessageState))]
#[expect(missing_docs, reason = "each would take a line of the reference")]
pub enum PeekState {
    #[default]
    Pending,
    InFlight,
    Dead,
}

steadfast_store::texts! {
    PeekState { Pending = "pending", InFlight = "in-flight", Dead = "dead" }
}

impl PeekState {
    /// The state as text.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A message in a queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = QueueMessage))]
pub struct QueueMessageView {
    /// Its id.
    #[serde(with = "body::text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: Position,
    /// The body.
    pub body: JsonText,
    /// Attempts in this queue so far.
    pub attempts: u32,
    /// Attempts before it was moved to this queue.
    pub attempts_before: u32,
    /// When it was sent.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub enqueued_at: Timestamp,
    /// When it may be delivered, or when its lease ends; null if it is dead.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub due_at: Option<Timestamp>,
    /// Its state.
    pub state: PeekState,
    /// The queue that it was sent to, if it is another one.
    pub from: Option<String>,
    /// The error of the last attempt.
    pub last_error: Option<String>,
}

impl Queues {
    /// Lists messages of a queue after a message: pending and in-flight ones in due order, dead
    /// ones in the order in which they were sent.
    #[steadfast_store::boxed]
    pub async fn peek(
        &self,
        name: &str,
        state: PeekState,
        after: Option<(Timestamp, Position)>,
        limit: usize,
    ) -> Result<Vec<QueueMessageView>, QueueError> {
        let queue = self.known(name).await?;
        let (store, now) = (&self.shared.store, self.shared.clock.now());
        let id = queue.address.id();
        let found = match state {
            PeekState::Dead => {
                let after = after.map_or(0, |it| it.1);
                let dead = store.dead_letters(id, after, limit).await?;
                return self.dead(&queue, dead).await;
            }
            PeekState::Pending => {
                let after = after
                    .map_or(DueCursor::START, |(due_at, position)| DueCursor { due_at, position });
                self.waiting(&queue, after, now, limit).await?
            }
            PeekState::InFlight => {
                let mut found = store.leased(id, now, limit).await?;
                found.extend(self.in_flight(&queue, now, limit).await?);
                let behind = |it: &QueuedMessage| {
                    after.is_none_or(|after| after < (it.due_at(), it.message.position))
                };
                found.retain(behind);
                found.sort_by_key(|it| (it.due_at(), it.message.position));
                found.dedup_by_key(|it| it.message.position);
                found.truncate(limit);
                found
            }
        };
        self.shown(&queue, state, found).await
    }

    /// Pending messages: neither leased nor in flight here.
    async fn waiting(
        &self,
        queue: &QueueState,
        mut after: DueCursor,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        let mut found = Vec::new();
        let mut size = limit;
        while found.len() < limit {
            let store = &self.shared.store;
            let page =
                store.queue_messages(queue.address.id(), after, Timestamp::MAX, size).await?;
            let Some(last) = page.last() else { break };
            after = DueCursor { due_at: last.due_at(), position: last.message.position };
            // Many may be in flight, however few are wanted.
            size = (2 * size).clamp(200, 1_000);
            let window = queue.window();
            found.extend(page.into_iter().filter(|it| {
                let is_held = matches!(it.message.state, Some(State::InFlight { .. }));
                let is_taken = window.is_in_flight(it.message.position);
                !(is_taken || is_held && now < it.due_at())
            }));
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Messages in flight in this process without a lease.
    async fn in_flight(
        &self,
        queue: &QueueState,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<QueuedMessage>, QueueError> {
        if queue.window().in_flight() == 0 {
            return Ok(Vec::new());
        }
        let store = &self.shared.store;
        // Messages in flight are due, and come before the others.
        let found =
            store.queue_messages(queue.address.id(), DueCursor::START, now, limit + 512).await?;
        let window = queue.window();
        let is_in_flight = |it: &QueuedMessage| window.is_in_flight(it.message.position);
        Ok(found.into_iter().filter(is_in_flight).take(limit).collect())
    }

    async fn shown(
        &self,
        queue: &QueueState,
        state: PeekState,
        all: Vec<QueuedMessage>,
    ) -> Result<Vec<QueueMessageView>, QueueError> {
        let messages: Vec<&Recorded> = all.iter().map(|it| &it.message).collect();
        let origins = self.origins(queue, &messages).await?;
        let shown = all.into_iter().zip(origins).map(|(it, from)| QueueMessageView {
            id: it.message.position,
            body: (&it.message.data).into(),
            attempts: it.tries(),
            attempts_before: it.attempts - it.tries(),
            enqueued_at: it.message.created_at,
            due_at: Some(it.due_at()),
            state,
            from,
            last_error: it.message.last_error,
        });
        Ok(shown.collect())
    }

    async fn dead(
        &self,
        queue: &QueueState,
        dead: Vec<Recorded>,
    ) -> Result<Vec<QueueMessageView>, QueueError> {
        let origins = self.origins(queue, &dead.iter().collect::<Vec<_>>()).await?;
        let shown = dead.into_iter().zip(origins).map(|(message, from)| {
            let (attempts, error) = match &message.state {
                Some(State::Settled(it)) => (it.attempts, it.error.clone()),
                Some(State::Pending { .. } | State::InFlight { .. }) | None => (0, None),
            };
            QueueMessageView {
                id: message.position,
                body: (&message.data).into(),
                attempts,
                attempts_before: 0,
                enqueued_at: message.created_at,
                due_at: None,
                state: PeekState::Dead,
                from,
                last_error: error.or(message.last_error),
            }
        });
        Ok(shown.collect())
    }

    /// The queues that messages were first sent to, where that was another one.
    pub(super) async fn origins(
        &self,
        queue: &QueueState,
        messages: &[&Recorded],
    ) -> Result<Vec<Option<String>>, QueueError> {
        let here = queue.address.id();
        let other = |it: &&Recorded| it.target.filter(|target| *target != here);
        let mut ids: Vec<_> = messages.iter().filter_map(other).collect();
        ids.sort_unstable();
        ids.dedup();
        let known = self.shared.store.addresses(&ids).await?;
        let name = |it: &&Recorded| Some(known.get(&other(it)?)?.class().to_owned());
        Ok(messages.iter().map(name).collect())
    }
}
