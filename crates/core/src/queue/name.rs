//! Queues as a program declares them: names, declarations, and the settings of their deliveries.

use std::{fmt, marker::PhantomData, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_store::{ENQUEUE, InvalidInput, Json, RetryPolicy, limits, queue_address};

use super::error::QueueError;
use crate::{
    Body,
    dispatch::attempt::{GiveUp, Policy},
    object::{Destination, Sending},
    process::{Process, Processes, Published},
};

/// A queue of messages of one type, by its name: `const MAIL: Queue<Mail> = Queue::named("mail");`
pub struct Queue<T> {
    name: &'static str,
    message: PhantomData<fn() -> T>,
}

impl<T> Queue<T> {
    /// The queue of this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name, message: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// A destination for messages that are delivered after a delay: `turn.send(MAIL.after(day),
    /// mail)`.
    pub const fn after(self, delay: Duration) -> DelayedQueue<T> {
        DelayedQueue { queue: self, delay }
    }

    /// The queue with settings of its own.
    pub fn with(self, settings: QueueSettings) -> QueueSpec<T> {
        QueueSpec { queue: self, settings }
    }

    /// The queue with this maximum of retries.
    pub fn retries(self, limit: u32) -> QueueSpec<T> {
        self.with(QueueSettings { max_retries: limit, ..QueueSettings::default() })
    }

    /// The queue with a dead-letter queue.
    pub fn dead_letters(self, to: Queue<T>) -> QueueSpec<T> {
        self.with(QueueSettings::default()).dead_letters(to)
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Queue<T> {}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue/{}", self.name)
    }
}

/// The declaration of a queue. Settings of an operator override it.
#[derive(Clone, Debug)]
pub struct QueueSpec<T> {
    pub(crate) queue: Queue<T>,
    pub(crate) settings: QueueSettings,
}

impl<T> QueueSpec<T> {
    /// Sets the dead-letter queue.
    pub fn dead_letters(mut self, to: Queue<T>) -> Self {
        self.settings.dead_letter_queue = Some(to.name().into());
        self
    }
}

impl<T> From<Queue<T>> for QueueSpec<T> {
    fn from(queue: Queue<T>) -> Self {
        queue.with(QueueSettings::default())
    }
}

/// A queue with a delay for its messages.
#[derive(Clone, Copy, Debug)]
pub struct DelayedQueue<T> {
    pub(crate) queue: Queue<T>,
    pub(crate) delay: Duration,
}

impl<M: Body> Destination<M, ()> for Queue<M> {
    fn sending(self, msg: M) -> Result<Sending, InvalidInput> {
        self.after(Duration::ZERO).sending(msg)
    }
}

impl<M: Body> Destination<M, ()> for DelayedQueue<M> {
    fn sending(self, msg: M) -> Result<Sending, InvalidInput> {
        let (target, delay) = (queue_address(self.queue.name)?, self.delay);
        let (action, message_type, metadata) = (ENQUEUE, self.queue.name, Json::empty());
        let (data, ordered) = (Json::of(&msg)?, false);
        Ok(Sending { target, action, message_type, data, metadata, delay, ordered })
    }
}

/// The settings of a queue, as `PUT /v1/queues/{q}` takes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct QueueSettings {
    /// Retries after the first attempt; then the message becomes a dead letter.
    pub max_retries: u32,
    /// The delay after the first failure. It doubles with each further one, up to five minutes, and
    /// half of it is random.
    pub retry_delay_ms: u64,
    /// The dead-letter queue. Without one a dead letter stays in this queue.
    pub dead_letter_queue: Option<String>,
    /// Maximum messages of a batch.
    pub batch_size: usize,
    /// Maximum wait of a batch that is not full.
    pub batch_timeout_ms: u64,
    /// Maximum time that a due message waits for a consumer before it expires; no limit by default.
    pub retention_ms: Option<u64>,
    /// Maximum pending messages; further ones are refused, except those that objects and runs send.
    pub max_messages: Option<u64>,
    /// Maximum bytes of one message.
    pub max_message_bytes: usize,
    /// Maximum messages per second to consumers in the process. Consumers that pull have no rate
    /// limit.
    pub rate_per_second: Option<f64>,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            max_retries: 3,
            retry_delay_ms: 1_000,
            dead_letter_queue: None,
            batch_size: 10,
            batch_timeout_ms: 1_000,
            retention_ms: None,
            max_messages: None,
            max_message_bytes: 128 << 10,
            rate_per_second: None,
        }
    }
}

/// Maximum delay between attempts, unless a consumer sets a longer one.
const DELAY_MAX: Duration = Duration::from_mins(5);

/// The longest time that a setting may name.
const YEAR_MS: u64 = 366 * 24 * 3_600 * 1_000;

impl QueueSettings {
    /// Maximum attempts.
    pub(super) fn attempts_max(&self) -> u32 {
        self.max_retries.saturating_add(1)
    }

    /// Failed attempts are retried; then the message moves to the dead-letter queue, or stays here,
    /// dead.
    pub(super) fn policy(&self) -> Policy<'static> {
        let retry = RetryPolicy {
            attempts_max: self.attempts_max(),
            delay: Duration::from_millis(self.retry_delay_ms),
            delay_max: DELAY_MAX.max(Duration::from_millis(self.retry_delay_ms)),
        };
        let dead_letters = self.dead_letter_queue.as_deref().and_then(|it| queue_address(it).ok());
        Policy { retry, give_up: dead_letters.map_or(GiveUp::Dead, GiveUp::Move) }
    }

    pub(super) fn batch_timeout(&self) -> Duration {
        Duration::from_millis(self.batch_timeout_ms)
    }

    /// Checks the settings for this queue.
    pub(crate) fn check(&self, queue: &str) -> Result<(), QueueError> {
        let wrong = |field: &'static str, rule: String| {
            Err(QueueError::Setting { queue: queue.into(), field, rule })
        };
        if 1_000 < self.max_retries {
            return wrong("maxRetries", "must be 0 to 1000".into());
        }
        if YEAR_MS < self.retry_delay_ms {
            return wrong("retryDelayMs", "must be a year at most".into());
        }
        if !(1..=1_000).contains(&self.batch_size) {
            return wrong("batchSize", "must be 1 to 1000".into());
        }
        if 600_000 < self.batch_timeout_ms {
            return wrong("batchTimeoutMs", "must be ten minutes at most".into());
        }
        if self.retention_ms.is_some_and(|it| !(1_000..=YEAR_MS).contains(&it)) {
            return wrong("retentionMs", "must be a second to a year; null: for ever".into());
        }
        if !(1..=limits::DATA_BYTES_MAX).contains(&self.max_message_bytes) {
            return wrong("maxMessageBytes", format!("must be 1 to {}", limits::DATA_BYTES_MAX));
        }
        if self.rate_per_second.is_some_and(|it| !(0.001..=1e9).contains(&it)) {
            return wrong("ratePerSecond", "must be 0.001 at least; null: no limit".into());
        }
        match &self.dead_letter_queue {
            Some(it) if it == queue => wrong("deadLetterQueue", "must be another queue".into()),
            Some(it) if queue_address(it).is_err() => {
                wrong("deadLetterQueue", "must be the name of a queue".into())
            }
            _ => Ok(()),
        }
    }
}

impl Processes {
    /// Puts everything that a process publishes into a queue.
    pub fn subscribe<P: Process>(self, queue: Queue<Published>) -> Self {
        self.subscribers.add_queue::<P>(queue.name());
        self
    }
}
