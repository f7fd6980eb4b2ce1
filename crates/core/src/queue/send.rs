//! Sends messages: one, a batch, or with a delay; and the limits of a queue.

use std::time::Duration;

use serde::Serialize;
use steadfast_store::{
    Commit, Due, ENQUEUE, Expect, Json, Message, Outcome, Position, Rejection, StoreError, Task,
    Write, queue_address,
};

use super::{Queue, QueueError, Queues, state::QueueState};
use crate::{Body, RequestKey};

/// Messages that can be sent at once.
pub const SEND_MAX: usize = 1_000;

/// Maximum delay of a message.
const DELAY_MAX: Duration = Duration::from_hours(366 * 24);

/// A message to be sent: its body as JSON, and how long it waits.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The body.
    pub body: Json,
    /// The delay before it may be delivered.
    pub delay: Duration,
}

impl Queues {
    /// Sends a message, and returns its id. It is durable when this returns.
    pub async fn send<T: Body>(&self, to: Queue<T>, msg: &T) -> Result<Position, QueueError> {
        self.send_after(to, msg, Duration::ZERO).await
    }

    /// Sends a message that is delivered after a delay.
    pub async fn send_after<T: Body>(
        &self,
        to: Queue<T>,
        msg: &T,
        delay: Duration,
    ) -> Result<Position, QueueError> {
        let sent = self.send_json(to.name(), vec![outgoing(msg, delay)?], None).await?;
        Ok(sent.first().copied().unwrap_or_default())
    }

    /// Sends messages together: all of them, or none.
    pub async fn send_all<'a, T: Body>(
        &self,
        to: Queue<T>,
        all: impl IntoIterator<Item = &'a T>,
    ) -> Result<Vec<Position>, QueueError> {
        let all: Result<Vec<_>, _> =
            all.into_iter().map(|it| outgoing(it, Duration::ZERO)).collect();
        self.send_json(to.name(), all?, None).await
    }

    /// Sends messages to a queue by its name. With a key, a repetition sends nothing and returns
    /// the same ids.
    #[steadfast_store::boxed]
    pub async fn send_json(
        &self,
        name: &str,
        all: Vec<Outgoing>,
        key: Option<&str>,
    ) -> Result<Vec<Position>, QueueError> {
        if all.is_empty() || SEND_MAX < all.len() {
            return Err(QueueError::BatchLength { count: all.len(), max: SEND_MAX });
        }
        let queue = self.queue(name).await?;
        let target = queue_address(name).map_err(|error| QueueError::name(name, &error))?;
        let count = all.len();
        let delays: Vec<Duration> = all.iter().map(|it| it.delay).collect();
        let remember = match key {
            Some(key) => Some(RequestKey::within(target.id(), key, digest(&all).as_bytes())?),
            None => None,
        };
        if let Err(refused) = check(&queue, &all) {
            // The first request may have been sent by other settings.
            let before = match &remember {
                Some(key) => key.find(&*self.shared.store).await?,
                None => None,
            };
            let before = before.ok_or(refused)?.position;
            return Ok((before..).take(count).collect());
        }
        let messages: Result<Vec<Message>, _> = all
            .into_iter()
            .map(|it| {
                let (target, due) = (target.clone(), Due::After(it.delay));
                let message = Message::new(name, it.body)?.input().action(ENQUEUE);
                Ok::<_, StoreError>(message.task(Task { target, ordered: false, due }))
            })
            .collect();
        let stream = target.clone();
        let mut commit = Commit::of(Write::Append { stream, messages: messages? });
        if let Some(max) = queue.rules().settings.max_messages {
            commit = commit.expect(Expect::Room { queue: target.id(), more: count as u64, max });
        }
        if let Some(remember) = remember {
            commit = commit.write(remember.write());
        }
        match self.shared.store.commit(commit).await? {
            Outcome::Committed(receipt) => {
                let sent: Vec<Position> = receipt.appended.iter().map(|it| it.1).collect();
                let due = delays.into_iter().map(|it| receipt.at.after(it));
                queue.expect(sent.iter().copied().zip(due));
                Ok(sent)
            }
            // Their positions are consecutive.
            Outcome::Duplicate(it) => Ok((it.position..).take(count).collect()),
            Outcome::Rejected(Rejection::Full { max, .. }) => {
                Err(QueueError::Full { queue: queue.name.to_string(), max })
            }
            // Nothing else is expected.
            Outcome::Rejected(_) => {
                Err(QueueError::KeyReused { key: key.unwrap_or_default().into() })
            }
        }
    }
}

/// Checks bodies and delays.
fn check(queue: &QueueState, all: &[Outgoing]) -> Result<(), QueueError> {
    for (index, it) in all.iter().enumerate() {
        queue.check_size(index, &it.body)?;
        if DELAY_MAX < it.delay {
            let rule = "must be a year at most".into();
            return Err(QueueError::Argument { field: "delayMs", rule });
        }
    }
    Ok(())
}

fn outgoing(msg: &impl Serialize, delay: Duration) -> Result<Outgoing, QueueError> {
    Ok(Outgoing { body: Json::of(msg)?, delay })
}

fn digest(all: &[Outgoing]) -> String {
    all.iter().map(|it| format!("{} {}\n", it.delay.as_millis(), it.body.as_str())).collect()
}
