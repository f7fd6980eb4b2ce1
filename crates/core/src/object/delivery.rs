//! Delivers messages to objects: messages and wake-ups become turns, jobs are performed and their
//! outcomes become messages.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;
use steadfast_store::{
    self as store, Commit, EntityId, Json, Message, Recorded, RetryPolicy, StoreError, Timestamp,
    Write,
};

use super::{
    CallError, Objects,
    connection::Caller,
    effect::{self, Performer, call_message},
    request::{Request, Settle},
};
use crate::{
    Error, Failure, Handler, Router,
    dispatch::{HandlerDelivery, PermitPool},
    script::{Script, ScriptKey},
};

/// Maximum deliveries in mailboxes, of all objects.
const DELIVERIES_MAX: usize = 4_096;

/// The metadata of a message to an object.
#[derive(Deserialize)]
struct Metadata {
    to: String,
    #[serde(default)]
    outcome: Option<String>,
}

impl Metadata {
    fn of(message: &Recorded) -> Result<(Self, store::Address), Failure> {
        let metadata: Self = serde_json::from_str(message.metadata.as_str()).map_err(fatal)?;
        let to = metadata.to.parse().map_err(fatal)?;
        Ok((metadata, to))
    }
}

impl Router for Objects {
    fn route(&self, message: &Recorded) -> Option<Arc<dyn Handler>> {
        match message.action.as_str() {
            action @ ("call" | "wake") => {
                let (_, to) = Metadata::of(message).ok()?;
                self.class(to.class()).ok()?;
                let is_wake = action == "wake";
                Some(Arc::new(ToObject { objects: self.clone(), to, is_wake }))
            }
            "perform" => {
                let performer = self.program.performers.get(&message.message_type)?.clone();
                Some(Arc::new(ToPerformer { performer, script: self.program.script.clone() }))
            }
            _ => None,
        }
    }

    fn own_pools(&self) -> Vec<(EntityId, usize)> {
        let performers = self.program.performers.iter();
        let places = performers.filter_map(|(job, performer)| {
            Some((effect::target(job).ok()?.id(), performer.at_once.max(1)))
        });
        places.collect()
    }
}

/// Delivers a message to its object: the turn's commit settles the delivery.
struct ToObject {
    objects: Objects,
    to: store::Address,
    is_wake: bool,
}

#[async_trait]
impl Handler for ToObject {
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
        let message = &delivery.message;
        let request = match self.is_wake {
            true => Request::Wake { due_at: due_at(message)? },
            false => Request::Call {
                message: message.message_type.as_str().into(),
                body: message.data.as_str().into(),
                key: None,
                caller: Caller::Internal,
            },
        };
        let settle = Settle { position: message.position, lease: delivery.lease() };
        let posted = self.objects.post(&self.to, request, Some(settle));
        // It is in the mailbox: the next message to this object may follow.
        delivery.begun();
        let reply = match posted {
            Ok(replied) => replied.await.unwrap_or(Err(CallError::Store(StoreError::Closed))),
            Err(error) => Err(error),
        };
        match reply {
            Ok(_) => {
                delivery.was_settled();
                Ok(Commit::default())
            }
            Err(error) => Err(failure(&error, self.is_wake)),
        }
    }

    fn leaves_the_process(&self) -> bool {
        false
    }

    /// The wait in the mailbox is unbounded, and a turn has limits of its own.
    fn is_timed(&self) -> bool {
        false
    }

    fn pool(&self) -> PermitPool {
        PermitPool::Of { kind: "objects", name: "", max: Some(DELIVERIES_MAX) }
    }

    fn in_order(&self) -> bool {
        true
    }

    /// The object depends on its wake-up: it is never given up.
    fn retry(&self) -> Option<RetryPolicy> {
        self.is_wake.then_some(RetryPolicy { attempts_max: u32::MAX, ..RetryPolicy::DEFAULT })
    }
}

fn due_at(message: &Recorded) -> Result<Timestamp, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wake {
        due_at: i64,
    }
    let wake: Wake = serde_json::from_str(message.data.as_str()).map_err(fatal)?;
    Ok(Timestamp(wake.due_at))
}

/// Errors that time, an operator or new code can fix are retried. A wake-up always is: once the
/// object is repaired, its alarms must fire.
fn failure(error: &CallError, is_wake: bool) -> Failure {
    let text = format!("{error} ({})", error.code());
    let untried =
        matches!(error, CallError::Busy { .. } | CallError::Lost { .. } | CallError::Store(_));
    if error.is_final() && !is_wake {
        Failure::fatal(text)
    } else if untried && !error.is_final() {
        Failure::untried(text)
    } else {
        Failure::retry(text)
    }
}

/// Performs a job, and sends its outcome to the object that requested it.
struct ToPerformer {
    performer: Arc<Performer>,
    script: Script,
}

#[async_trait]
impl Handler for ToPerformer {
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
        let message = &delivery.message;
        let body = message.data.as_str().to_owned();
        let scripted = self.script.next(|| ScriptKey::Job(self.performer.job));
        let performed = (self.performer.run)(body, delivery.id(), scripted).await;
        if let Some(error) = performed.again
            && delivery.attempt < self.performer.retry.attempts_max
        {
            return Err(Failure::retry(error));
        }
        let outcome = performed.outcome.map_err(fatal)?;
        bring_back(message, &outcome).or_else(|too_large| {
            let error = Error::terminal(too_large.error).with_code("invalid_outcome");
            let outcome = (self.performer.fail)(message.data.as_str(), error).map_err(fatal)?;
            bring_back(message, &outcome)
        })
    }

    fn give_up(&self, message: &Recorded, error: &str) -> Option<Commit> {
        let outcome = (self.performer.fail)(message.data.as_str(), Error::retryable(error)).ok()?;
        bring_back(message, &outcome).ok()
    }

    fn retry(&self) -> Option<RetryPolicy> {
        Some(self.performer.retry)
    }

    fn lease(&self) -> Option<Duration> {
        Some(self.performer.timeout)
    }

    fn pool(&self) -> PermitPool {
        PermitPool::OfTarget
    }
}

/// Sends the outcome of a job to the object that requested it.
fn bring_back(job: &Recorded, outcome: &str) -> Result<Commit, Failure> {
    let (metadata, to) = Metadata::of(job)?;
    let name = metadata.outcome.ok_or_else(|| Failure::fatal("the job has no outcome"))?;
    let outcome = outcome_message(job, &name, outcome, &to).map_err(fatal)?;
    Ok(Commit::of(Write::Append { stream: to, messages: vec![outcome] }))
}

fn outcome_message(
    asked: &Recorded,
    name: &str,
    outcome: &str,
    to: &store::Address,
) -> Result<Message, StoreError> {
    let message = call_message(to, name, Json::parse(outcome)?)?;
    Ok(message.cause(store::Cause::Position(asked.position)))
}

fn fatal(error: impl std::fmt::Display) -> Failure {
    Failure::fatal(error.to_string())
}
