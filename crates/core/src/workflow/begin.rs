//! Starts a run, and delivers messages to runs: starts, wake-ups, events. If there is capacity, the
//! task that creates a run also drives it: this process holds the lease of its wake-up.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use steadfast_store::{
    Address, Commit, Due, EntityId, Lease, Message, Outcome, Position, Recorded, Rejection,
    RetryPolicy, RunStatus, StoreError, Write, futures::FutureExt,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    active::{Notification, Stop},
    definition::{RunLimit, address},
    drive::Driver,
    error::RunError,
    fold::RunFold,
    record::{AT_ONCE, Entry, OnEnd, WakeUp, first_wake_up, wake_target},
    runs::Runs,
    status::{StartOutcome, Status},
};
use crate::{
    Failure, Handler, RequestKey, Router,
    dispatch::{HandlerDelivery, PermitPool, attempt::lease_of},
};

/// Longer than any process runs: the next owner takes it over.
const HOLD_LEASE: Duration = Duration::from_hours(24 * 365);

/// If it is unknown whether a run was created, it is searched after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The record of a start under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedRecord {
    /// The id of the run.
    pub id: String,
    /// Whether the first request created it.
    pub created: bool,
}

/// The positions of the first message of a run and of its wake-up, if this start created it.
type Created = Option<(Position, Position)>;

type Answer = oneshot::Sender<Result<StartOutcome, RunError>>;

/// The commit that creates a run with this first entry, unless it exists.
pub(super) fn starting(run: &Address, started: &Entry, due: Due) -> Result<Commit, StoreError> {
    let messages: Vec<Message> = vec![started.message()?, first_wake_up(run, due)?];
    let (run, status, expires) = (run.clone(), RunStatus::Queued, None);
    Ok(Commit::append(&run, 0, messages).write(Write::Run { run, status, expires }))
}

impl Runs {
    /// The run that was started, or found, under the key of this handle.
    #[steadfast_store::boxed]
    pub async fn started_before(&self) -> Result<Option<StartedRecord>, RunError> {
        match &self.key {
            Some(key) => Ok(key.answer(&*self.shared.store).await?),
            None => Ok(None),
        }
    }

    /// Starts a run, or finds it.
    pub(super) async fn begin(
        &self,
        run: &Address,
        input: Value,
    ) -> Result<StartOutcome, RunError> {
        // The key belongs to this start, and not to other operations of the run.
        let (key, runs) = (self.key.as_ref(), self.keyed(None));
        let started = Entry::Started { input, on_end: None };
        let Some((driver, notifications)) = runs.permit_for(run) else {
            return Ok(self.make(run, &started, AT_ONCE, key).await?.0);
        };
        let (answer, answered) = oneshot::channel();
        // In a task of its own, so that the run is driven even if the caller is dropped.
        tokio::spawn(
            runs.make_and_drive(driver, notifications, started, key.cloned(), answer).boxed(),
        );
        answered.await.unwrap_or(Err(StoreError::Closed.into()))
    }

    fn permit_for(&self, run: &Address) -> Option<(Driver, mpsc::UnboundedReceiver<Notification>)> {
        if *self.shared.stop.borrow() != Stop::No {
            return None;
        }
        let permit = self.shared.workflows.get(run.class())?.limit.try_permit()?;
        self.awaken(run, permit).ok()
    }

    async fn make_and_drive(
        self,
        mut driver: Driver,
        notifications: mpsc::UnboundedReceiver<Notification>,
        started: Entry,
        key: Option<RequestKey>,
        answer: Answer,
    ) {
        let number = self.shared.leases.fetch_sub(1, Ordering::Relaxed);
        let lease = Lease { holder: self.shared.store.owner().epoch, number };
        let due = Due::Held(lease, HOLD_LEASE);
        let answered = match self.make(&driver.run, &started, due, key.as_ref()).await {
            Ok((outcome, created)) => {
                if let (Some((first, position)), Entry::Started { input, .. }) = (created, started)
                {
                    driver.made(RunFold::begun(first, position, input), own(position, lease));
                }
                Ok(outcome)
            }
            Err(error) => {
                if matches!(&error, RunError::Store(error) if !error.surely_unapplied()) {
                    tokio::spawn(self.clone().look_for(driver.run.clone(), lease).boxed());
                }
                Err(error)
            }
        };
        // Ignore a receiver that was dropped.
        let _ = answer.send(answered);
        self.keep_driving(driver, notifications).await;
    }

    /// Commits a run together with its key, or finds the run.
    async fn make(
        &self,
        run: &Address,
        started: &Entry,
        due: Due,
        key: Option<&RequestKey>,
    ) -> Result<(StartOutcome, Created), RunError> {
        let mut commit = starting(run, started, due)?;
        if let Some(key) = key {
            commit = commit.write(record(key, run, true)?);
        }
        let status = match self.shared.store.commit(commit).await? {
            Outcome::Committed(receipt) => {
                let created = match receipt.appended[..] {
                    [(_, first), (_, wake)] => Some((first, wake)),
                    _ => None,
                };
                return Ok((StartOutcome { created: true, status: Status::Queued }, created));
            }
            // The key was recorded by another request, perhaps for another id.
            Outcome::Duplicate(_) => Status::Queued,
            Outcome::Rejected(Rejection::KeyReused { key }) => {
                return Err(RunError::KeyReused { key });
            }
            Outcome::Rejected(_) => self.found(run, key).await?,
        };
        Ok((StartOutcome { created: false, status }, None))
    }

    /// The status of a run that a start found. Its key is recorded here: a repetition must not
    /// create the run after it was deleted.
    async fn found(&self, run: &Address, key: Option<&RequestKey>) -> Result<Status, RunError> {
        let status = self.head(run).await?.status;
        if let Some(key) = key {
            let commit = Commit::of(record(key, run, false)?);
            if let Outcome::Rejected(Rejection::KeyReused { key }) =
                self.shared.store.commit(commit).await?
            {
                return Err(RunError::KeyReused { key });
            }
        }
        Ok(status)
    }

    /// It is unknown whether the run was created. If it was, this process holds its wake-up, and no
    /// delivery will drive it.
    async fn look_for(self, run: Address, lease: Lease) {
        let (store, clock) = (&self.shared.store, &self.shared.clock);
        loop {
            clock.sleep(LOOK_AGAIN).await;
            match store.read_stream(run.id(), 2, 1).await {
                Ok(page) => {
                    if let Some(wake) = page.first().filter(|it| lease_of(it) == Some(lease)) {
                        let Some(workflow) = self.shared.workflows.get(run.class()) else { return };
                        let permit = workflow.limit.permit(false).await;
                        self.wake(&run, own(wake.position, lease), permit);
                    }
                    return;
                }
                Err(error) if error.is_over() => return,
                Err(error) => {
                    tracing::debug!(run = %run, error = %error, "search for a run is retried")
                }
            }
        }
    }
}

fn record(key: &RequestKey, run: &Address, created: bool) -> Result<Write, StoreError> {
    Ok(key.write_answer(&StartedRecord { id: run.name().into(), created })?)
}

fn own(position: Position, lease: Lease) -> WakeUp {
    WakeUp { position, lease: Some(lease), attempt: 1, delivery: None }
}

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
        let begins = wake_target(run.class(), true).is_ok_and(|it| Some(it.id()) == message.target);
        Some(Arc::new(Wake { runs: self.clone(), run, limit, begins }))
    }

    /// As many as may be active, for new runs. Twice as many for resumed runs: when one ends, the
    /// next must already wait for its permit, or a new run takes it.
    fn own_pools(&self) -> Vec<(EntityId, usize)> {
        let workflows = self.shared.workflows.iter();
        let both = workflows.flat_map(|it| [(it, true), (it, false)]);
        let places = both.filter_map(|((name, workflow), begins)| {
            let target = wake_target(name, begins).ok()?;
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
    async fn start(&self, delivery: &HandlerDelivery) -> Result<(), Failure> {
        let input = read(&delivery.message)?;
        let on_end = metadata(&delivery.message).and_then(|it| it.on_end);
        let started = Entry::Started { input, on_end };
        match delivery.settle(starting(&self.run, &started, AT_ONCE)?).await? {
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

    async fn deliver_event(&self, delivery: &HandlerDelivery) -> Result<(), Failure> {
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
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
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
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
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
