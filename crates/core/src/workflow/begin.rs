//! Starts a run. If there is capacity, the task that creates it also drives it: this process holds
//! the first wake-up from the beginning, so that only the next process would deliver it.

use std::{sync::atomic::Ordering, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::{
    Address, Commit, Due, Lease, Message, Outcome, Position, Recorded, Rejection, RunStatus, State,
    StoreError, Write, futures::FutureExt,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    RunError, StartOutcome, Status,
    active::{Notification, Stop},
    drive::Driver,
    fold::RunFold,
    record::{Entry, OnEnd},
    runs::Runs,
    wake::{self, WakeUp},
};
use crate::RequestKey;

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

/// The result of a start.
enum CreateResult {
    /// Created, with the positions of its first message and of its wake-up.
    Fresh(Position, Position),
    /// The run existed.
    Found,
    /// The key was recorded by another request, perhaps for another id.
    Repeated,
}

type Answer = oneshot::Sender<Result<StartOutcome, RunError>>;

/// The commit that creates a run, unless it exists.
pub(super) fn starting(
    run: &Address,
    input: Value,
    on_end: Option<OnEnd>,
    due: Due,
) -> Result<Commit, StoreError> {
    let started = Entry::Started { input, on_end }.message()?;
    let messages: Vec<Message> = vec![started, wake::beginning(run, due)?];
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
        let Some((driver, notifications)) = runs.permit_for(run) else {
            let made = self.make(run, input, wake::AT_ONCE, key).await?;
            return self.started(run, &made, key).await;
        };
        let (answer, answered) = oneshot::channel();
        // In a task of its own, so that the run is driven even if the caller is dropped.
        tokio::spawn(
            runs.make_and_drive(driver, notifications, input, key.cloned(), answer).boxed(),
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
        input: Value,
        key: Option<RequestKey>,
        answer: Answer,
    ) {
        let number = self.shared.leases.fetch_sub(1, Ordering::Relaxed);
        let lease = Lease { holder: self.shared.store.owner().epoch, number };
        let due = Due::Held(lease, HOLD_LEASE);
        let answered = match self.make(&driver.run, input.clone(), due, key.as_ref()).await {
            Ok(made) => {
                if let CreateResult::Fresh(first, position) = made {
                    driver.made(RunFold::begun(first, position, input), own(position, lease));
                }
                self.started(&driver.run, &made, key.as_ref()).await
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

    /// Commits a run together with its key.
    async fn make(
        &self,
        run: &Address,
        input: Value,
        due: Due,
        key: Option<&RequestKey>,
    ) -> Result<CreateResult, RunError> {
        let mut commit = starting(run, input, None, due)?;
        if let Some(key) = key {
            commit = commit.write(record(key, run, true)?);
        }
        Ok(match self.shared.store.commit(commit).await? {
            Outcome::Committed(receipt) => match receipt.appended[..] {
                [(_, first), (_, wake)] => CreateResult::Fresh(first, wake),
                _ => CreateResult::Found,
            },
            Outcome::Duplicate(_) => CreateResult::Repeated,
            Outcome::Rejected(Rejection::KeyReused { key }) => {
                return Err(RunError::KeyReused { key });
            }
            Outcome::Rejected(_) => CreateResult::Found,
        })
    }

    /// The answer to a start. A start that found its run records its key here: a repetition must
    /// not create the run after it was deleted.
    async fn started(
        &self,
        run: &Address,
        made: &CreateResult,
        key: Option<&RequestKey>,
    ) -> Result<StartOutcome, RunError> {
        match made {
            CreateResult::Fresh(..) => {
                return Ok(StartOutcome { created: true, status: Status::Queued });
            }
            CreateResult::Repeated => {
                return Ok(StartOutcome { created: false, status: Status::Queued });
            }
            CreateResult::Found => {}
        }
        let status = self.head(run).await?.status;
        if let Some(key) = key {
            let commit = Commit::of(record(key, run, false)?);
            if let Outcome::Rejected(Rejection::KeyReused { key }) =
                self.shared.store.commit(commit).await?
            {
                return Err(RunError::KeyReused { key });
            }
        }
        Ok(StartOutcome { created: false, status })
    }

    /// It is unknown whether the run was created. If it was, this process holds its wake-up, and no
    /// delivery will drive it.
    async fn look_for(self, run: Address, lease: Lease) {
        let (store, clock) = (&self.shared.store, &self.shared.clock);
        loop {
            clock.sleep(LOOK_AGAIN).await;
            match store.read_stream(run.id(), 2, 1).await {
                Ok(page) => {
                    if let Some(wake) = page.first().filter(|it| is_held(it, lease)) {
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

fn is_held(message: &Recorded, by: Lease) -> bool {
    matches!(message.state, Some(State::InFlight { lease, .. }) if lease == by)
}

fn own(position: Position, lease: Lease) -> WakeUp {
    WakeUp { position, lease: Some(lease), attempt: 1, delivery: None }
}
