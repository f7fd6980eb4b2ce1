//! Delivers messages to runs: starts, wake-ups, events.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, de::DeserializeOwned};
use steadfast_store::{Address, Commit, EntityId, Outcome, Recorded, Rejection, RetryPolicy};
use tokio::sync::oneshot;

use super::{
    RunError, Runs,
    begin::starting,
    record::{Entry, OnEnd},
    run_limit::RunLimit,
    runs::address,
    wake::{self, WakeUp},
};
use crate::{
    Failure, Handler, Router,
    dispatch::{Delivery, PermitPool},
};

/// An active run has no time limit; its steps have limits of their own.
const RUN_LEASE: Duration = Duration::from_hours(24 * 365);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    to: String,
    #[serde(default)]
    on_end: Option<OnEnd>,
}

fn metadata(message: &Recorded) -> Option<Metadata> {
    serde_json::from_str(message.metadata.as_str()).ok()
}

fn run_of(message: &Recorded) -> Option<Address> {
    let to: Address = metadata(message)?.to.parse().ok()?;
    address(to.class(), to.name()).ok()
}

impl Router for Runs {
    fn route(&self, message: &Recorded) -> Option<Arc<dyn Handler>> {
        let action = match message.action.as_str() {
            "start" => Some(Action::Start),
            "terminate" => Some(Action::Terminate),
            "event" => Some(Action::Event),
            "run" => None,
            _ => return None,
        };
        let run = run_of(message)?;
        let limit = self.shared.workflows.get(run.class())?.limit.clone();
        if let Some(action) = action {
            return Some(Arc::new(Change { runs: self.clone(), run, action }));
        }
        let begins =
            wake::target(run.class(), true).is_ok_and(|it| Some(it.id()) == message.target);
        Some(Arc::new(Wake { runs: self.clone(), run, limit, begins }))
    }

    /// As many as may be active, for new runs. Twice as many for resumed runs: when one ends, the
    /// next must already wait for its permit, or a new run takes it.
    fn own_pools(&self) -> Vec<(EntityId, usize)> {
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

/// Applies a message of a turn or a step to a run.
struct Change {
    runs: Runs,
    run: Address,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    /// Creates the run, once.
    Start,
    /// Terminates the run. Nothing happens if it was never started or has ended.
    Terminate,
    /// Delivers an event to the run. If the run does not exist or has ended, the message becomes a
    /// dead letter.
    Event,
}

impl Change {
    async fn start(&self, delivery: &Delivery) -> Result<(), Failure> {
        let input = read(&delivery.message)?;
        let on_end = metadata(&delivery.message).and_then(|it| it.on_end);
        match delivery.settle(starting(&self.run, input, on_end, wake::AT_ONCE)?).await? {
            Outcome::Committed(_)
            | Outcome::Duplicate(_)
            // It exists already.
            | Outcome::Rejected(Rejection::Version { .. }) => Ok(()),
            Outcome::Rejected(rejection) => Err(Failure::retry(rejection.to_string())),
        }
    }

    async fn terminate(&self) -> Result<(), Failure> {
        match self.runs.terminate(self.run.class(), self.run.name()).await {
            Ok(()) | Err(RunError::UnknownRun { .. } | RunError::WrongStatus { .. }) => Ok(()),
            Err(error) => Err(Failure::retry(error.to_string())),
        }
    }

    async fn deliver_event(&self, delivery: &Delivery) -> Result<(), Failure> {
        let (name, payload) = (delivery.message.message_type.clone(), read(&delivery.message)?);
        let event = Entry::Event { name, payload };
        match self.runs.deliver_event(&self.run, event, delivery).await {
            Err(error @ (RunError::UnknownRun { .. } | RunError::WrongStatus { .. })) => {
                Err(Failure::fatal(error.to_string()))
            }
            sent => sent.map_err(|error| Failure::retry(error.to_string())),
        }
    }
}

fn read<T: DeserializeOwned>(message: &Recorded) -> Result<T, Failure> {
    serde_json::from_str(message.data.as_str()).map_err(|error| Failure::fatal(error.to_string()))
}

#[async_trait]
impl Handler for Change {
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure> {
        match self.action {
            Action::Start => self.start(&delivery).await?,
            Action::Terminate => self.terminate().await?,
            Action::Event => self.deliver_event(&delivery).await?,
        }
        Ok(Commit::default())
    }

    fn leaves_the_process(&self) -> bool {
        false
    }

    fn pool(&self) -> PermitPool {
        PermitPool::Of { kind: "runs", name: "", max: None }
    }
}

/// Wakes a run. The commit with which the run sleeps or ends settles the delivery.
struct Wake {
    runs: Runs,
    run: Address,
    limit: Arc<RunLimit>,
    begins: bool,
}

#[async_trait]
impl Handler for Wake {
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure> {
        let (sent, done) = oneshot::channel();
        let (position, lease, attempt) =
            (delivery.message.position, delivery.lease(), delivery.attempt);
        let wake_up = WakeUp { position, lease, attempt, delivery: Some(sent) };
        // An active run has a permit; another one has to wait for one.
        if let Err(Some(wake_up)) = self.runs.shared.active.notify(self.run.id(), Some(wake_up)) {
            let permit = self.limit.permit(self.begins).await;
            self.runs.wake(&self.run, wake_up, permit);
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

    /// A run depends on its wake-up: it is never given up.
    fn retry(&self) -> Option<RetryPolicy> {
        Some(RetryPolicy { attempts_max: u32::MAX, ..RetryPolicy::DEFAULT })
    }

    fn lease(&self) -> Option<Duration> {
        Some(RUN_LEASE)
    }

    fn pool(&self) -> PermitPool {
        PermitPool::OfTarget
    }

    /// A run may be active for long; most were active only by coincidence when the process crashed.
    fn apart_after(&self) -> u32 {
        5
    }
}
