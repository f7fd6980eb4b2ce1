//! Starting a run. If there is room it is driven at once, by the task that makes it: its wake-up is
//! held by us from the beginning, so that only the next process would deliver it.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::Value;
use steadfast_store::{
    Address, Commit, Due, Lease, Message, Outcome, Position, Recorded, RunStatus, State,
    StoreError, Write,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    OnEnd, RunError, Runs, Started, Status,
    active::Stop,
    drive::{Call, Driver, Poke, Waiter},
    journal::Journal,
    record::Entry,
    wake,
};

/// Longer than any process lives: the next one takes it over.
const AS_LONG_AS_WE_LIVE: Duration = Duration::from_hours(24 * 365);

/// If it is not known whether a run was made, it is looked for after so long.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

type Answer = oneshot::Sender<Result<Started, RunError>>;

/// The commit that makes a run, unless it is there.
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
    /// Starts a run, or finds it there.
    pub(super) async fn begin(&self, run: &Address, input: Value) -> Result<Started, RunError> {
        let Some((driver, pokes)) = self.room_for(run) else {
            let commit = starting(run, input, None, wake::AT_ONCE)?;
            return match self.shared.store.commit(commit).await? {
                Outcome::Committed(_) => Ok(Started { created: true, status: Status::Queued }),
                Outcome::Duplicate(_) | Outcome::Rejected(_) => self.found(run).await,
            };
        };
        let (answer, answered) = oneshot::channel();
        // In a task of its own, so that the run is not left alone if nobody waits for the answer.
        tokio::spawn(self.clone().make_and_drive(driver, pokes, input, answer));
        answered.await.unwrap_or(Err(StoreError::Closed.into()))
    }

    fn room_for(&self, run: &Address) -> Option<(Driver, mpsc::UnboundedReceiver<Poke>)> {
        if *self.shared.stop.borrow() != Stop::No {
            return None;
        }
        let place = self.shared.workflows.get(run.class())?.room.try_place()?;
        self.awaken(run, place).ok()
    }

    async fn make_and_drive(
        self,
        mut driver: Driver,
        pokes: mpsc::UnboundedReceiver<Poke>,
        input: Value,
        answer: Answer,
    ) {
        let number = self.shared.leases.fetch_sub(1, Ordering::Relaxed);
        let lease = Lease { holder: self.shared.store.owner().epoch, number };
        let made = self.make(&driver.run, input.clone(), lease).await;
        let answered = match made {
            Ok(Some((first, position))) => {
                driver.fresh = Some(Journal::begun(first, position, input));
                driver.calls.push(own(position, lease));
                Ok(Started { created: true, status: Status::Queued })
            }
            Ok(None) => self.found(&driver.run).await,
            Err(error) => {
                if !error.surely_unapplied() {
                    tokio::spawn(self.clone().look_for(driver.run.clone(), lease));
                }
                Err(error.into())
            }
        };
        // That nobody waits for the answer is no matter.
        let _ = answer.send(answered);
        self.keep_driving(driver, pokes).await;
    }

    /// The positions of its first message and of its wake-up; `None` if it was there.
    async fn make(
        &self,
        run: &Address,
        input: Value,
        lease: Lease,
    ) -> Result<Option<(Position, Position)>, StoreError> {
        let commit = starting(run, input, None, Due::Held(lease, AS_LONG_AS_WE_LIVE))?;
        Ok(match self.shared.store.commit(commit).await? {
            Outcome::Committed(receipt) => match receipt.appended[..] {
                [(_, first), (_, wake)] => Some((first, wake)),
                _ => None,
            },
            Outcome::Duplicate(_) | Outcome::Rejected(_) => None,
        })
    }

    async fn found(&self, run: &Address) -> Result<Started, RunError> {
        let status = self.head(run).await?.status;
        Ok(Started { created: false, status })
    }

    /// Nobody knows whether the run was made. If it was, its wake-up is held by us, and nobody else
    /// will drive it.
    async fn look_for(self, run: Address, lease: Lease) {
        let (store, clock) = (&self.shared.store, &self.shared.clock);
        loop {
            clock.sleep(LOOK_AGAIN).await;
            match store.read_stream(run.id(), 2, 1).await {
                Ok(page) => {
                    if let Some(wake) = page.first().filter(|it| is_held(it, lease)) {
                        let Some(workflow) = self.shared.workflows.get(run.class()) else { return };
                        let place = workflow.room.place(false).await;
                        self.wake(&run, Some(own(wake.position, lease)), place);
                    }
                    return;
                }
                Err(error) if error.is_over() => return,
                Err(error) => tracing::debug!(run = %run, error = %error, "run is looked for"),
            }
        }
    }

    /// Gives a wake-up back that we hold, to be delivered like any other.
    pub(super) async fn give_back(
        &self,
        position: Position,
        lease: Lease,
    ) -> Result<(), StoreError> {
        let release = Commit::of(Write::Release { position, lease });
        match self.shared.store.commit(release).await {
            // The next owner takes it over.
            Ok(_) => Ok(()),
            Err(error) if error.is_over() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The same when the store has no time for it.
    pub(super) async fn give_back_later(self, position: Position, lease: Lease) {
        let clock = &self.shared.clock;
        while let Err(error) = self.give_back(position, lease).await {
            tracing::debug!(position, error = %error, "wake-up is given back later");
            clock.sleep(LOOK_AGAIN).await;
        }
    }
}

fn is_held(message: &Recorded, by: Lease) -> bool {
    matches!(message.state, Some(State::InFlight { lease, .. }) if lease == by)
}

fn own(position: Position, lease: Lease) -> Call {
    Call { position, lease: Some(lease), attempt: 1, told: Waiter::Nobody }
}
