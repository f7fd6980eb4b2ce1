//! Operations on a run from outside: events, pause, resume, retry, terminate, restart. Runs that
//! have ended are deleted when their retention is over, or on request.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Address, Commit, Expect, InvalidInput, Outcome, Position, Rejection, RunStatus, StoreError,
    Timestamp, Version, Write,
    futures::{FutureExt, try_join_all},
};

use super::{
    definition::{RunOptions, address},
    error::RunError,
    fold::RunFold,
    record::{Entry, Key, cancel_wake_up, wake_at_once},
    runs::{Runs, to_json},
    status::{RunHead, Status},
};
use crate::{commit::to_end, dispatch::HandlerDelivery, object::sweep_run_replies};

/// Maximum events that a run has not taken: each wake-up without a cached fold reads them.
const EVENTS_MAX: usize = 10_000;

/// The record of a change under a key: the length of the record of the run after it.
#[derive(Serialize, Deserialize)]
pub(super) struct ChangedRecord {
    /// The position of the first message of the run: no other run of this id has it.
    pub(super) first: Position,
    pub(super) version: Version,
    pub(super) at: i64,
}

/// The entry of a change, the new row in the table of runs, and whether the run must wake.
#[derive(Clone)]
struct Change {
    entry: Entry,
    row: Option<(RunStatus, Option<Duration>)>,
    wakes: bool,
}

impl Change {
    fn to(entry: Entry, status: RunStatus) -> Self {
        Self { entry, row: Some((status, None)), wakes: false }
    }

    /// The run continues.
    fn on(entry: Entry) -> Self {
        Self { wakes: true, ..Self::to(entry, RunStatus::Queued) }
    }

    fn commit(&self, run: &Address, head: &RunHead) -> Result<Commit, InvalidInput> {
        let mut messages = Vec::new();
        // The end is the last entry of a record.
        if let Some(on_end) = &head.on_end {
            messages.extend(on_end.message(run, &self.entry)?);
        }
        messages.push(self.entry.message()?);
        if self.wakes {
            messages.push(wake_at_once(run)?);
        }
        let mut commit = Commit::append(run, head.version, messages);
        if let (Entry::Terminated, Some(timer)) = (&self.entry, head.timer) {
            commit = commit.write(cancel_wake_up(timer));
        }
        Ok(match self.row {
            Some((status, expires)) => {
                commit.write(Write::Run { run: run.clone(), status, expires })
            }
            None => commit,
        })
    }
}

/// Why a run that has ended is not changed.
const HAS_ENDED: &str = "it has ended";

/// Decides which entry a change appends to the record of a run, or why it is refused.
type Decide = dyn Fn(&RunHead, Timestamp) -> Result<Option<Change>, &'static str> + Send + Sync;

impl Runs {
    /// Sends an event to a run. It is kept until the run waits for one of this name.
    pub async fn send_event(
        &self,
        workflow: &str,
        id: &str,
        name: &str,
        payload: &impl Serialize,
    ) -> Result<(), RunError> {
        let payload = to_json("the event", payload)?;
        let event = Entry::Event { name: name.into(), payload };
        self.change(workflow, id, move |head, _| event_change(head, &event)).await
    }

    /// Delivers an event that was sent to a run. The same commit settles the delivery.
    pub(super) async fn deliver_event(
        &self,
        run: &Address,
        event: Entry,
        delivery: &HandlerDelivery,
    ) -> Result<(), RunError> {
        self.change_now(run, &move |head, _| event_change(head, &event), Some(delivery)).await
    }

    /// Pauses a run: attempts in flight end and are recorded, nothing new begins.
    #[steadfast_store::boxed]
    pub async fn pause(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        self.change(workflow, id, move |head, _| {
            let paused = || Change::to(Entry::Paused { report: None }, RunStatus::Paused);
            if head.status.is_final() {
                Err(HAS_ENDED)
            } else {
                Ok(head.can_continue().then(paused))
            }
        })
        .await
    }

    /// Resumes a paused run. Its timers are shifted by the duration of the pause.
    #[steadfast_store::boxed]
    pub async fn resume(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        self.change(workflow, id, move |head, now| {
            let resumed = || Change::on(Entry::Resumed { shift_ms: head.paused_for(now) });
            let is_paused = head.status.is_paused();
            if head.status.is_final() { Err(HAS_ENDED) } else { Ok(is_paused.then(resumed)) }
        })
        .await
    }

    /// Retries the steps of a run that wait for their next attempt now. Later attempts wait as
    /// before; sleeps and waits for events do not change.
    #[steadfast_store::boxed]
    pub async fn retry(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        self.check(workflow)?;
        if self.changed_before().await?.is_some() {
            return Ok(());
        }
        let waits_for_none = self.load(&run).await?.steps.iter().all(|it| it.retry_at.is_none());
        self.change(workflow, id, move |head, _| match &head.status {
            Status::Complete(_) | Status::Errored(_) | Status::Terminated => Err(HAS_ENDED),
            Status::Paused(_) => Err("resume it first"),
            Status::Queued | Status::Running | Status::Waiting if waits_for_none => {
                Err("none of its steps waits for its next attempt")
            }
            Status::Queued | Status::Running => {
                Ok(Some(Change { row: None, ..Change::on(Entry::Retried) }))
            }
            Status::Waiting => Ok(Some(Change::on(Entry::Retried))),
        })
        .await
    }

    /// Terminates a run. Attempts in flight are dropped.
    #[steadfast_store::boxed]
    pub async fn terminate(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        let options = self.shared.workflows.get(workflow).map(|it| it.options);
        let keep = options.unwrap_or(RunOptions::DEFAULT).keep_terminated;
        self.change(workflow, id, move |head, _| match head.status.is_final() {
            true => Err(HAS_ENDED),
            false => Ok(Some(Change {
                row: Some((RunStatus::Terminated, Some(keep))),
                ..Change::to(Entry::Terminated, RunStatus::Terminated)
            })),
        })
        .await
    }

    /// Restarts a run that has ended or is paused; with `from`, after the results that it recorded
    /// before that step.
    #[steadfast_store::boxed]
    pub async fn restart(
        &self,
        workflow: &str,
        id: &str,
        from: Option<&str>,
    ) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        self.check(workflow)?;
        if self.changed_before().await?.is_some() {
            return Ok(());
        }
        let fold = self.load(&run).await?;
        let from = from.map(|step| find(&fold, step, &run)).transpose()?;
        self.change(workflow, id, move |head, _| match head.can_continue() {
            true => Err("terminate or pause it first"),
            false => Ok(Some(Change::on(Entry::Restarted { from: from.clone() }))),
        })
        .await
    }

    /// Appends an entry that is decided on the current state of the run.
    async fn change(
        &self,
        workflow: &str,
        id: &str,
        decide: impl Fn(&RunHead, Timestamp) -> Result<Option<Change>, &'static str>
        + Send
        + Sync
        + 'static,
    ) -> Result<(), RunError> {
        let (runs, run) = (self.clone(), address(workflow, id)?);
        // In a task of its own: a step of the run itself may call this, and continue only when the
        // run does.
        let decide: Box<Decide> = Box::new(decide);
        let changed =
            tokio::spawn(async move { runs.change_now(&run, &*decide, None).await }.boxed());
        changed.await.unwrap_or(Err(StoreError::Closed.into()))
    }

    /// The record of the key of this handle, if there is one.
    pub(super) async fn changed_before(&self) -> Result<Option<ChangedRecord>, RunError> {
        match &self.key {
            Some(key) => Ok(key.answer(&*self.shared.store).await?),
            None => Ok(None),
        }
    }

    async fn change_now(
        &self,
        run: &Address,
        decide: &Decide,
        delivery: Option<&HandlerDelivery>,
    ) -> Result<(), RunError> {
        // A repetition finds the run as the first request left it, or later.
        if self.changed_before().await?.is_some() {
            return Ok(());
        }
        let head = loop {
            let turn = self.shared.active.turn(run.id());
            let _turn = match &turn {
                Some(turn) => Some(turn.lock().await),
                None => None,
            };
            let mut head = self.head(run).await?;
            let now = self.shared.clock.now();
            let change = match decide(&head, now) {
                Ok(change) => change,
                // Another request with this key may have been first.
                Err(_) if self.changed_before().await?.is_some() => return Ok(()),
                Err(why) => {
                    let (run, status) = (run.to_string(), head.status.tag());
                    return Err(RunError::WrongStatus { run, status, why });
                }
            };
            if change.is_none() && self.key.is_none() {
                return Ok(());
            }
            let commit = self.change_commit(run, change.as_ref(), &head, now)?;
            let outcome = match delivery {
                Some(delivery) => delivery.settle(commit).await,
                None => self.shared.store.commit(commit).await,
            };
            let outcome = outcome.inspect_err(|_| {
                // It may be recorded all the same.
                let _ = self.shared.active.notify(run.id(), None);
                self.shared.watchers.is_unknown(run.id());
            });
            match outcome? {
                Outcome::Committed(receipt) => {
                    let Some(change) = change else { return Ok(()) };
                    head.fold(now, &change.entry);
                    head.version = receipt.appended.last().map_or(head.version, |it| it.0);
                    break head;
                }
                // The delivery was settled before.
                Outcome::Rejected(
                    Rejection::NotPending { position } | Rejection::LeaseLost { position },
                ) if delivery.is_some_and(|it| it.message.position == position) => return Ok(()),
                // Another commit was first, or a timer is due: read again.
                Outcome::Rejected(Rejection::Version { .. } | Rejection::NotPending { .. }) => {}
                Outcome::Duplicate(_) => return Ok(()),
                Outcome::Rejected(Rejection::KeyReused { key }) => {
                    return Err(RunError::KeyReused { key });
                }
                Outcome::Rejected(rejection) => {
                    return Err(StoreError::Corrupt { reason: rejection.to_string() }.into());
                }
            }
        };
        // If it is not active, the wake-up will be delivered.
        let _ = self.shared.active.notify(run.id(), None);
        self.shared.watchers.notify(run.id(), &head);
        Ok(())
    }

    /// The commit of a change with the key of this handle. Without a change it records the key
    /// alone: a repetition must not change the run after another request did.
    fn change_commit(
        &self,
        run: &Address,
        change: Option<&Change>,
        head: &RunHead,
        now: Timestamp,
    ) -> Result<Commit, StoreError> {
        let commit = match change {
            Some(change) => change.commit(run, head)?,
            None => {
                let (stream, version) = (run.id(), head.version);
                Commit::default().expect(Expect::Version { stream, version })
            }
        };
        let Some(key) = &self.key else { return Ok(commit) };
        let more: usize = commit.writes.iter().map(appended).sum();
        let version = head.version + i64::try_from(more).unwrap_or(i64::MAX);
        let record = ChangedRecord { first: head.first, version, at: now.0 };
        Ok(commit.write(key.write_answer(&record)?))
    }
}

/// The number of messages that a write appends.
fn appended(write: &Write) -> usize {
    if let Write::Append { messages, .. } = write { messages.len() } else { 0 }
}

/// The change of a run by an event.
fn event_change(head: &RunHead, event: &Entry) -> Result<Option<Change>, &'static str> {
    if head.status.is_final() {
        return Err("it takes no events any more");
    }
    if EVENTS_MAX <= head.events {
        return Err("it has 10,000 events that it has not taken; wait until it takes some");
    }
    // A paused run need not wake, and an active one or one with a pending wake-up is queued.
    Ok(Some(Change {
        entry: event.clone(),
        row: matches!(head.status, Status::Waiting).then_some((RunStatus::Queued, None)),
        wakes: !head.status.is_paused(),
    }))
}

/// The first recorded step of this name.
fn find(fold: &RunFold, step: &str, run: &Address) -> Result<Key, RunError> {
    let named = || fold.branch("").map(|it| &it.key).filter(|it| it.name == step);
    let found = named().find(|it| it.kind == "step").or_else(|| named().next());
    let missing = || RunError::UnknownStep { run: run.to_string(), step: step.into() };
    found.cloned().ok_or_else(missing)
}

/// Runs and messages read together.
const PAGE: usize = 8;

/// Maximum wait for the code of a run that has ended. Code that blocks its thread may never return.
const CODE_WAIT: Duration = Duration::from_secs(10);

/// When a run that cannot be deleted yet is checked again.
const AGAIN: Duration = Duration::from_hours(24);

impl Runs {
    /// Deletes a run that has ended; its id can be used again. Dead letters of the run are deleted
    /// with it.
    #[steadfast_store::boxed]
    pub async fn delete(&self, workflow: &str, id: &str) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        loop {
            let Some((version, status)) = self.row(&run).await? else {
                return Err(RunError::UnknownRun { run: run.to_string() });
            };
            let wrong = |why| {
                let (run, status) = (run.to_string(), status.tag());
                RunError::WrongStatus { run, status, why }
            };
            if !status.is_final() {
                return Err(wrong("terminate it first"));
            }
            if !self.falls_asleep(&run).await {
                return Err(wrong("its code is still running; wait until it returns"));
            }
            match self.erase(&run, version, Timestamp::MAX).await? {
                Ok(()) => return Ok(()),
                Err(Rejection::HasWork { .. }) => {
                    return Err(wrong("messages that it sent are still to be delivered"));
                }
                // Another commit has changed it: read again.
                Err(_) => {}
            }
        }
    }

    /// Deletes the runs whose retention is over, and returns their number: none while the clock is
    /// not reliable. A run with a dead letter is kept for as long as that message. Also deletes the
    /// stored replies to calls of ended runs.
    #[steadfast_store::boxed]
    pub async fn sweep(&self, keep_dead: Duration) -> Result<usize, StoreError> {
        sweep_run_replies(&*self.shared.store).await?;
        let Some(now) = self.shared.clock.deletion_time() else { return Ok(0) };
        let (mut erased, mut before) = (0, Vec::new());
        loop {
            let due = self.shared.store.expired_runs(now, PAGE).await?;
            // Runs that stay are not read again, unless their rows are damaged.
            if due.is_empty() || due == before {
                return Ok(erased);
            }
            let gone = due.iter().map(|run| self.erase_old(run, now.before(keep_dead)));
            erased += try_join_all(gone).await?.into_iter().filter(|it| *it).count();
            before = due;
        }
    }

    async fn erase_old(&self, run: &Address, dead_until: Timestamp) -> Result<bool, StoreError> {
        // It may have been restarted.
        let Some((version, _)) = self.row(run).await?.filter(|(_, it)| it.is_final()) else {
            return Ok(false);
        };
        if self.falls_asleep(run).await && self.erase(run, version, dead_until).await?.is_ok() {
            return Ok(true);
        }
        // It still has pending work, or its code is still running: check later, so that others come
        // first. A run that was restarted meanwhile has a retention of its own.
        let later = Commit::of(Write::KeepRun { run: run.id(), keep: AGAIN });
        let unchanged = Expect::Version { stream: run.id(), version };
        self.shared.store.commit(later.expect(unchanged)).await?;
        Ok(false)
    }

    /// Version and status of a run. The version is read first: if the status changes after that,
    /// so does the version, and a commit at this version is rejected.
    async fn row(&self, run: &Address) -> Result<Option<(Version, RunStatus)>, StoreError> {
        let version = self.shared.store.version(run.id()).await?;
        Ok(self.shared.store.run(run.id()).await?.map(|it| (version, it.status)))
    }

    /// Waits for the driver of a run that has ended: it may not have processed the end yet, and
    /// must not drive another run of this id. `false` if it takes too long.
    async fn falls_asleep(&self, run: &Address) -> bool {
        tokio::select! {
            biased;
            () = self.shared.active.until_asleep(Some(run.id())) => true,
            () = self.shared.clock.sleep(CODE_WAIT) => false,
        }
    }

    /// Deletes a run that nothing drives.
    async fn erase(
        &self,
        run: &Address,
        version: Version,
        dead_until: Timestamp,
    ) -> Result<Result<(), Rejection>, StoreError> {
        let (store, stream) = (&self.shared.store, run.id());
        let unchanged = || Commit::default().expect(Expect::Version { stream, version });
        // Wake-ups that are not needed any more, unless it has just been restarted.
        for message in store.pending(Some(run.id()), 0, 200).await? {
            if message.action == "run" {
                store.commit(unchanged().write(cancel_wake_up(message.position))).await?;
            }
        }
        let erase = unchanged().write(Write::EraseRun { run: stream, dead_until });
        let shared = self.shared.clone();
        to_end(async move {
            Ok(match shared.store.commit(erase).await? {
                Outcome::Committed(_) | Outcome::Duplicate(_) => {
                    shared.folds.remove(stream);
                    shared.watchers.start_over(stream);
                    Ok(())
                }
                Outcome::Rejected(rejection) => Err(rejection),
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_run_has_at_most_10_000_events_that_it_has_not_taken() {
        let event = Entry::Event { name: "paid".into(), payload: Value::Null };
        let mut head = RunHead::begun(1, 2);
        for _ in 0..10_000 {
            assert!(event_change(&head, &event).is_ok());
            head.fold(Timestamp(1), &event);
        }
        assert!(event_change(&head, &event).is_err());
        let (scope, kind, name) = (String::new(), "event".to_owned(), "paid".to_owned());
        let key = Key { scope, kind, name, count: 1 };
        head.fold(Timestamp(2), &Entry::Took { key, event: 3 });
        assert!(event_change(&head, &event).is_ok());
    }
}
