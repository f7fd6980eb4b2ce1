//! Drives one run: lets it go on as far as it can, records what it does, and puts it to sleep.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_store::{
    Address, Clock, Commit, Due, EntityKind, Entropy, Expect, InvalidInput, Json, Lease, Message,
    Outcome, Position, Rejection, SettledAs, Store, StoreError, Task, Timestamp, Write,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    ctx::{Around, Ctx},
    erased::{Erased, Running},
    journal::{Journal, Status},
    record::{Entry, Report, Wait},
};
use crate::{Error, Objects, Result};

/// The work that is to wake a run, and who is told when that is done.
pub(super) struct Call {
    pub(super) position: Position,
    pub(super) lease: Option<Lease>,
    pub(super) told: oneshot::Sender<()>,
}

/// Something for a run that is being driven: a delivery, or the news that its record has grown.
pub(super) type Poke = Option<Call>;

pub(super) struct Driver {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) objects: Objects,
    pub(super) workflow: Erased,
    pub(super) run: Address,
    pub(super) calls: Vec<Call>,
}

/// What came of letting a run go on.
enum Went {
    /// It has ended.
    To(Result<Value>),
    /// It wants something recorded.
    Record,
    /// It waits for a time or for events.
    Idle,
    /// It cannot go on.
    Stuck(Report),
    /// Somebody has done something with it.
    Poked(Poke),
}

impl Driver {
    /// Drives the run until it ends, sleeps, or stands still.
    pub(super) async fn drive(
        &mut self,
        pokes: &mut mpsc::UnboundedReceiver<Poke>,
    ) -> Result<(), StoreError> {
        loop {
            let Some(journal) = Journal::load(&*self.store, &self.run).await? else {
                return self.rest().await;
            };
            if journal.status.is_final() || matches!(journal.status, Status::Paused(_)) {
                return self.rest().await;
            }
            let (input, generation) = (journal.input.clone(), journal.generation);
            let around = Around {
                run: self.run.clone(),
                clock: self.clock.clone(),
                entropy: self.entropy.clone(),
                objects: self.objects.clone(),
            };
            let ctx = Ctx::new(around, journal);
            let future = (self.workflow)(ctx.clone(), input);
            if self.go_on(&ctx, future, generation, pokes).await? {
                return Ok(());
            }
        }
    }

    /// Lets it go on. `false` if it is to begin anew from its record.
    async fn go_on(
        &mut self,
        ctx: &Ctx,
        mut future: Running,
        generation: u32,
        pokes: &mut mpsc::UnboundedReceiver<Poke>,
    ) -> Result<bool, StoreError> {
        loop {
            let went = tokio::select! {
                biased;
                Some(poke) = pokes.recv() => Went::Poked(poke),
                went = std::future::poll_fn(|context| poll(ctx, &mut future, context)) => went,
            };
            let ended = match went {
                Went::Poked(poke) => {
                    self.calls.extend(poke);
                    self.refresh(ctx).await?;
                    false
                }
                Went::Record => {
                    let entries = std::mem::take(&mut ctx.state().new);
                    let count = entries.len() as u64;
                    self.append(ctx, generation, entries, None, false).await?;
                    ctx.state().durable += count;
                    false
                }
                Went::Idle => self.sleep(ctx, generation).await?,
                Went::Stuck(report) => {
                    let paused = Entry::Paused { report: Some(report) };
                    self.append(ctx, generation, vec![paused], None, true).await?
                }
                Went::To(result) => {
                    let mut entries = std::mem::take(&mut ctx.state().new);
                    entries.push(match result {
                        Ok(output) => Entry::Completed { output },
                        Err(error) => Entry::Errored { error },
                    });
                    self.append(ctx, generation, entries, None, true).await?
                }
            };
            if ended {
                return Ok(true);
            }
            let state = ctx.state();
            let stands = state.journal.status.is_final()
                || matches!(state.journal.status, Status::Paused(_));
            if stands || state.journal.generation != generation {
                return Ok(false);
            }
        }
    }

    /// Puts it to sleep until the first of the times that it waits for. `false` if it has to be
    /// looked at again first.
    async fn sleep(&mut self, ctx: &Ctx, generation: u32) -> Result<bool, StoreError> {
        let waits = ctx.state().waits.clone();
        let next = waits.iter().filter_map(|it| it.until).min().map(Timestamp);
        if next.is_some_and(|it| it <= self.clock.now()) {
            return Ok(false);
        }
        // A run that waits for a time is found by its wake-up; for events alone, by this.
        let is_known = matches!(ctx.state().journal.status, Status::Waiting);
        if next.is_none() {
            let waits = if is_known { Vec::new() } else { vec![Entry::Waits { waits }] };
            return self.append(ctx, generation, waits, None, true).await;
        }
        let wake = next.map(|at| (at, waits));
        self.append(ctx, generation, Vec::new(), wake, true).await
    }

    async fn refresh(&self, ctx: &Ctx) -> Result<(), StoreError> {
        // The lock is not held while the store is asked: only this task changes the journal.
        let version = ctx.state().journal.version;
        let page = self.store.read_stream(self.run.id(), version + 1, usize::MAX >> 1).await?;
        let mut state = ctx.state();
        let before = state.journal.shifted;
        for message in page {
            state.journal.take(&message)?;
        }
        let by = state.journal.shifted - before;
        state.new.iter_mut().for_each(|it| it.shift(by));
        Ok(())
    }

    /// Records entries, with the wake-up and, at the end, with what has woken it. If somebody else
    /// was first it is decided anew: `false`, unless the entries are wanted all the same.
    async fn append(
        &mut self,
        ctx: &Ctx,
        generation: u32,
        mut entries: Vec<Entry>,
        wake: Option<(Timestamp, Vec<Wait>)>,
        ends: bool,
    ) -> Result<bool, StoreError> {
        loop {
            let version = ctx.state().journal.version;
            let mut messages = Vec::with_capacity(entries.len() + 1);
            for entry in &entries {
                messages.push(entry.message()?);
            }
            if let Some((due_at, waits)) = &wake {
                messages.push(wake_up(&self.run, Due::At(*due_at), waits.clone())?);
            }
            let count = messages.len();
            let stream = self.run.id();
            let mut commit = Commit::default().expect(Expect::Version { stream, version });
            if 0 < count {
                commit = commit.write(Write::Append { stream: self.run.clone(), messages });
            }
            let calls = if ends { std::mem::take(&mut self.calls) } else { Vec::new() };
            commit = calls.iter().fold(commit, |it, call| it.write(call.settle()));
            if commit.writes.is_empty() {
                return Ok(true);
            }
            match self.store.commit(commit).await? {
                Outcome::Committed(_) | Outcome::Duplicate(_) => {
                    let now = self.clock.now();
                    let mut state = ctx.state();
                    for (number, entry) in (version + 1..).zip(entries) {
                        state.journal.fold(number, now, entry);
                    }
                    state.journal.version = version + count as i64;
                    if wake.is_some() {
                        state.journal.waits();
                    }
                    drop(state);
                    calls.into_iter().for_each(|it| _ = it.told.send(()));
                    return Ok(ends);
                }
                Outcome::Rejected(Rejection::Version { .. }) => {
                    self.calls.extend(calls);
                    let before = ctx.state().journal.shifted;
                    self.refresh(ctx).await?;
                    let state = ctx.state();
                    let by = state.journal.shifted - before;
                    entries.iter_mut().for_each(|it| it.shift(by));
                    let gone = matches!(state.journal.status, Status::Terminated)
                        || state.journal.generation != generation;
                    // What was done is recorded, also while it is paused; but whether it may sleep
                    // or stand still is asked again.
                    let waits = matches!(entries[..], [] | [Entry::Waits { .. }]);
                    if gone || (ends && waits) {
                        return Ok(false);
                    }
                }
                Outcome::Rejected(
                    Rejection::NotPending { position } | Rejection::LeaseLost { position },
                ) => {
                    // Somebody else has ended that delivery.
                    self.calls.extend(calls.into_iter().filter(|it| it.position != position));
                }
                Outcome::Rejected(rejection) => {
                    return Err(StoreError::Corrupt { reason: rejection.to_string() });
                }
            }
        }
    }

    /// Ends what has woken it: there is nothing to do.
    async fn rest(&mut self) -> Result<(), StoreError> {
        for call in std::mem::take(&mut self.calls) {
            // If it is no longer pending, that is what was wanted.
            self.store.commit(Commit::of(call.settle())).await?;
            let _ = call.told.send(());
        }
        Ok(())
    }
}

impl Call {
    fn settle(&self) -> Write {
        let (position, lease) = (self.position, self.lease);
        Write::Settle { position, lease, as_: SettledAs::Done, error: None }
    }
}

/// Lets the run go on, once.
fn poll(ctx: &Ctx, future: &mut Running, context: &mut Context<'_>) -> Poll<Went> {
    {
        let mut state = ctx.state();
        state.waits.clear();
    }
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
    let mut state = ctx.state();
    if let Some(report) = state.stuck.take() {
        return Poll::Ready(Went::Stuck(report));
    }
    match polled {
        Ok(Poll::Ready(result)) => match state.unasked() {
            Some(key) => {
                let reason = "the code ended before what is recorded; deploy code that fits the \
                     record, then resume the run"
                    .into();
                let expected = Some(key.to_string());
                let found = Some("the end".into());
                Poll::Ready(Went::Stuck(Report {
                    reason,
                    position: None,
                    expected,
                    found,
                    line: None,
                }))
            }
            None => Poll::Ready(Went::To(result)),
        },
        Ok(Poll::Pending) if !state.new.is_empty() => Poll::Ready(Went::Record),
        Ok(Poll::Pending) if 0 < state.busy => Poll::Pending,
        Ok(Poll::Pending) if state.waits.is_empty() => {
            let reason = "the run awaits something that is not durable; do that in a step".into();
            let report = Report { reason, position: None, expected: None, found: None, line: None };
            Poll::Ready(Went::Stuck(report))
        }
        Ok(Poll::Pending) => Poll::Ready(Went::Idle),
        Err(panic) => {
            let text = crate::dispatch::panic_message(&*panic);
            let error = Error::terminal(format!("the run panicked: {text}"));
            Poll::Ready(Went::To(Err(error.with_code("run_panicked"))))
        }
    }
}

/// The message by which the store wakes a run. All runs of a workflow are one target, so that many
/// of them do not hold up others.
pub(super) fn wake_up(run: &Address, due: Due, waits: Vec<Wait>) -> Result<Message, InvalidInput> {
    let target = Address::new(EntityKind::System, "workflow", run.class())
        .map_err(|_| InvalidInput::Key { len: 0 })?;
    let metadata = Json::of(&json!({ "to": run.to_string() }))?;
    let wake = Json::of(&Entry::Wake { waits })?;
    let message = Message::new("wake", wake)?.action("run").metadata(metadata)?;
    Ok(message.task(Task { target, ordered: false, due }))
}

/// Now.
pub(super) const AT_ONCE: Due = Due::After(Duration::ZERO);
