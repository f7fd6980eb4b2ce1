//! How the dispatcher reaches runs: they are started by messages, and woken by them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;
use steadfast_store::{Address, Commit, EntityId, Outcome, Recorded, Rejection, RetryPolicy};
use tokio::sync::oneshot;

use super::{
    RunError, Runs,
    begin::starting,
    record::{Entry, OnEnd},
    room::Room,
    runs::address,
    wake::{self, WakeUp},
};
use crate::{
    Failure, Handler, Router,
    dispatch::{Delivery, Places},
};

/// A run that is being driven may take as long as it likes; its steps have limits of their own.
const AS_LONG_AS_IT_TAKES: Duration = Duration::from_hours(24 * 365);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Beside {
    to: String,
    #[serde(default)]
    on_end: Option<OnEnd>,
}

fn beside(message: &Recorded) -> Option<Beside> {
    serde_json::from_str(message.metadata.as_str()).ok()
}

fn run_of(message: &Recorded) -> Option<Address> {
    let to: Address = beside(message)?.to.parse().ok()?;
    address(to.class(), to.name()).ok()
}

impl Router for Runs {
    fn route(&self, message: &Recorded) -> Option<Arc<dyn Handler>> {
        let run = match message.action.as_str() {
            "run" | "start" | "terminate" | "event" => run_of(message)?,
            _ => return None,
        };
        let room = self.shared.workflows.get(run.class())?.room.clone();
        if message.action == "start" {
            return Some(Arc::new(Start { run }));
        }
        if message.action == "terminate" {
            return Some(Arc::new(Terminate { runs: self.clone(), run }));
        }
        if message.action == "event" {
            return Some(Arc::new(Tell { runs: self.clone(), run }));
        }
        let begins =
            wake::target(run.class(), true).is_ok_and(|it| Some(it.id()) == message.target);
        Some(Arc::new(Wake { runs: self.clone(), run, room, begins }))
    }

    /// As many as may be awake, for those that begin. Twice as many for those that go on: when one
    /// of them ends, the next must be waiting for its place already, or one that begins takes it.
    fn own_places(&self) -> Vec<(EntityId, usize)> {
        let workflows = self.shared.workflows.iter();
        let both = workflows.flat_map(|it| [(it, true), (it, false)]);
        let places = both.filter_map(|((name, workflow), begins)| {
            let target = wake::target(name, begins).ok()?;
            let places = workflow.options.concurrency.max(1);
            Some((target.id(), if begins { places } else { places.saturating_mul(2) }))
        });
        places.collect()
    }
}

/// Makes the run that a turn has started: once, whoever else starts it.
struct Start {
    run: Address,
}

#[async_trait]
impl Handler for Start {
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure> {
        let input = serde_json::from_str(delivery.message.data.as_str())
            .map_err(|error| Failure::fatal(error.to_string()))?;
        let on_end = beside(&delivery.message).and_then(|it| it.on_end);
        match delivery.settle(starting(&self.run, input, on_end, wake::AT_ONCE)?).await? {
            Outcome::Committed(_)
            | Outcome::Duplicate(_)
            // It is there already.
            | Outcome::Rejected(Rejection::Version { .. }) => Ok(Commit::default()),
            Outcome::Rejected(rejection) => Err(Failure::retry(rejection.to_string())),
        }
    }

    fn leaves_the_process(&self) -> bool {
        false
    }

    fn places(&self) -> Places {
        Places::Of { kind: "runs", name: "", max: None }
    }
}

/// Ends the run that a turn does not want any more. One that was never started, or has ended, is as
/// it should be.
struct Terminate {
    runs: Runs,
    run: Address,
}

#[async_trait]
impl Handler for Terminate {
    async fn handle(&self, _: Delivery) -> Result<Commit, Failure> {
        match self.runs.terminate(self.run.class(), self.run.name()).await {
            Ok(()) | Err(RunError::UnknownRun { .. } | RunError::WrongStatus { .. }) => {
                Ok(Commit::default())
            }
            Err(error) => Err(Failure::retry(error.to_string())),
        }
    }

    fn leaves_the_process(&self) -> bool {
        false
    }

    fn places(&self) -> Places {
        Places::Of { kind: "runs", name: "", max: None }
    }
}

/// Tells a run of an event that a turn or a step has sent. A run that does not exist or has ended
/// leaves a dead letter.
struct Tell {
    runs: Runs,
    run: Address,
}

#[async_trait]
impl Handler for Tell {
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure> {
        let name = delivery.message.message_type.clone();
        let payload = serde_json::from_str(delivery.message.data.as_str())
            .map_err(|error| Failure::fatal(error.to_string()))?;
        let event = Entry::Event { name, payload };
        match self.runs.deliver_event(&self.run, event, &delivery).await {
            Ok(()) => Ok(Commit::default()),
            Err(error @ (RunError::UnknownRun { .. } | RunError::WrongStatus { .. })) => {
                Err(Failure::fatal(error.to_string()))
            }
            Err(error) => Err(Failure::retry(error.to_string())),
        }
    }

    fn leaves_the_process(&self) -> bool {
        false
    }

    fn places(&self) -> Places {
        Places::Of { kind: "runs", name: "", max: None }
    }
}

/// Lets a run go on. The delivery ends in the commit with which the run goes to sleep or ends.
struct Wake {
    runs: Runs,
    run: Address,
    room: Arc<Room>,
    begins: bool,
}

#[async_trait]
impl Handler for Wake {
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure> {
        let (told, done) = oneshot::channel();
        let (position, lease, attempt) =
            (delivery.message.position, delivery.lease(), delivery.attempt);
        let wake_up = WakeUp { position, lease, attempt, delivery: Some(told) };
        // One that is awake has its place; another has to wait for one.
        if let Err(Some(wake_up)) = self.runs.shared.active.poke(self.run.id(), Some(wake_up)) {
            let place = self.room.place(self.begins).await;
            self.runs.wake(&self.run, wake_up, place);
        }
        match done.await {
            Ok(()) => {
                delivery.was_settled();
                Ok(Commit::default())
            }
            Err(_) => Err(Failure::untried("the run could not be driven")),
        }
    }

    fn leaves_the_process(&self) -> bool {
        false
    }

    /// A run counts on its wake-up: it is never given up.
    fn retry(&self) -> Option<RetryPolicy> {
        Some(RetryPolicy { attempts_max: u32::MAX, ..RetryPolicy::DEFAULT })
    }

    fn lease(&self) -> Option<Duration> {
        Some(AS_LONG_AS_IT_TAKES)
    }

    fn places(&self) -> Places {
        Places::OfTarget
    }

    /// A run may be awake for long; most were only near when the process ended.
    fn apart_after(&self) -> u32 {
        5
    }
}
