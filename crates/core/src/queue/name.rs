//! Names of queues, and their declarations.

use std::{fmt, marker::PhantomData, time::Duration};

use steadfast_store::{ENQUEUE, InvalidInput, Json, queue_address};

use super::{QueueError, QueueSettings};
use crate::{
    Body, Client, Receive,
    object::{Destination, Sending},
    remote::Backend,
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
    queue: Queue<T>,
    delay: Duration,
}

impl<M: Body> Destination<M, ()> for Queue<M> {
    fn sending(self, msg: M) -> Result<Sending, InvalidInput> {
        self.after(Duration::ZERO).sending(msg)
    }
}

impl<M: Body> Receive<M> for Queue<M> {
    type Error = QueueError;

    async fn receive(self, client: &Client, msg: M) -> Result<(), QueueError> {
        self.after(Duration::ZERO).receive(client, msg).await
    }
}

impl<M: Body> Receive<M> for DelayedQueue<M> {
    type Error = QueueError;

    async fn receive(self, client: &Client, msg: M) -> Result<(), QueueError> {
        let Self { queue, delay } = self;
        match client.backend()? {
            Backend::Local(running) => {
                running.queues.send_after(queue, &msg, delay).await.map(drop)
            }
            Backend::Remote(transport) => {
                let body = Json::of(&msg)?;
                Ok(transport.send(queue.name, body.as_str(), delay).await?)
            }
        }
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
