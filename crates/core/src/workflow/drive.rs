//! Drives one run: lets it go on as far as it can, records what it does, and puts it to sleep.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll},
};

use serde_json::Value;
use steadfast_store::{
    Address, Commit, Expect, Health, Lease, Outcome, Position, Rejection, SettledAs, Store,
    StoreError, Write,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    Runs,
    active::{Seen, Stop},
    alarm::Alarm,
    ctx::{Around, Ctx},
    definition::{Definition, Running},
    fold::RunFold,
    record::Report,
    room::Place,
    tail::{Tail, first},
};
use crate::{Error, Result};

/// The work that is to wake a run, and who is told when that is done.
pub(super) struct Call {
    pub(super) position: Position,
    pub(super) lease: Option<Lease>,
    /// Which attempt it is, from 1: the others ended with their process.
    pub(super) attempt: u32,
    pub(super) told: Waiter,
}

/// Who is told when a run sleeps or has ended.
pub(super) enum Waiter {
    /// The delivery.
    Delivery(oneshot::Sender<()>),
    /// We have made the run ourselves, and hold its wake-up.
    Nobody,
}

/// Something for a run that is being driven: a delivery, or the news that its record has grown.
pub(super) type Poke = Option<Call>;

pub(super) struct Driver {
    pub(super) runs: Runs,
    pub(super) workflow: Arc<Definition>,
    pub(super) run: Address,
    /// What has woken it. It stays pending until the run sleeps or ends, so that the next process
    /// wakes the run if this one ends.
    pub(super) calls: Vec<Call>,
    /// The run as it was made, if that was just now.
    pub(super) fresh: Option<RunFold>,
    pub(super) seen: Seen,
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// Its place among those that are awake, as long as it is driven.
    #[expect(dead_code, reason = "it is held, not read")]
    pub(super) place: Place,
}

/// What came of letting a run go on.
enum Went {
    /// It has ended.
    To(Result<Value>),
    /// It wants something recorded.
    Record,
    /// It waits for a time or for events, or is paused.
    Idle,
    /// A body is under way, and the time of another branch has come.
    Due,
    /// It cannot go on.
    Stuck(Report),
    /// Somebody has done something with it.
    Poked(Poke),
}

impl Driver {
    pub(super) fn store(&self) -> &dyn Store {
        &*self.runs.shared.store
    }

    /// Drives the run until it ends, sleeps, or stands still.
    pub(super) async fn drive(
        &mut self,
        pokes: &mut mpsc::UnboundedReceiver<Poke>,
    ) -> Result<(), StoreError> {
        loop {
            // Whoever has lost the store begins nothing: it can still be read.
            if let Health::Failed { reason } = self.store().health() {
                return Err(StoreError::Failed { reason });
            }
            let fold = match self.fresh.take() {
                Some(fold) => Some(fold),
                None => self.runs.shared.folds.load(self.store(), &self.run).await?,
            };
            let Some(fold) = fold else { return self.rest().await };
            let (input, generation) = (fold.input.clone(), fold.generation);
            let cut_off = self.cut_off(&fold).await?;
            let ctx = Ctx::new(self.around(), fold, cut_off);
            self.seen.show(Some(&ctx));
            let mut future = (self.workflow.run)(ctx.clone(), input);
            let is_over = self.go_on(&ctx, &mut future, generation, pokes).await;
            self.seen.show(None);
            // What the code of the user's drops may panic.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
                let text = crate::dispatch::panic_message(&*panic);
                tracing::error!(run = %self.run, error = text, "run panicked when it was dropped");
            }
            if is_over? {
                self.cache(&ctx);
                return Ok(());
            }
            // A restart of an ended run comes with a wake-up of its own.
            if ctx.state().fold.head.status.is_final() {
                return self.rest().await;
            }
        }
    }

    /// Caches the fold for the next wake-up, unless it holds entries that are not durable.
    fn cache(&self, ctx: &Ctx) {
        let mut state = ctx.state();
        if state.given == state.durable {
            let fold = std::mem::replace(&mut state.fold, RunFold::empty());
            self.runs.shared.folds.insert(self.run.id(), fold);
        }
    }

    /// How many attempts ended with their process since the run last did something. Those before
    /// are no matter of the step that comes now.
    async fn cut_off(&mut self, fold: &RunFold) -> Result<u32, StoreError> {
        let mut most = 0;
        for call in &mut self.calls {
            let before = std::mem::replace(&mut call.attempt, 1) - 1;
            if 0 < before {
                let attempts = self.runs.shared.store.attempts(call.position).await?;
                let since = attempts.iter().filter(|it| fold.acted_at < it.ended_at).count();
                most = most.max(before.min(u32::try_from(since).unwrap_or(before)));
            }
        }
        Ok(most)
    }

    fn around(&self) -> Around {
        let shared = &self.runs.shared;
        Around {
            run: self.run.clone(),
            clock: shared.clock.clone(),
            entropy: shared.entropy.clone(),
            objects: shared.objects.clone(),
            script: shared.script.clone(),
            buckets: shared.buckets.clone(),
        }
    }

    /// Lets it go on. `false` if it is to begin anew from its record.
    async fn go_on(
        &mut self,
        ctx: &Ctx,
        future: &mut Running,
        generation: u32,
        pokes: &mut mpsc::UnboundedReceiver<Poke>,
    ) -> Result<bool, StoreError> {
        let mut stop = self.runs.shared.stop.subscribe();
        let clock = self.runs.shared.clock.clone();
        let mut alarm = Alarm::new(&*clock);
        loop {
            let went = tokio::select! {
                biased;
                Some(poke) = pokes.recv() => Went::Poked(poke),
                Ok(_) = stop.wait_for(|it| *it == Stop::Now) => return Err(StoreError::Closed),
                went = std::future::poll_fn(|context| {
                    poll(ctx, future, &mut alarm, context)
                }) => went,
            };
            let is_over = match went {
                Went::Poked(poke) => {
                    self.take_call(poke).await?;
                    self.refresh(ctx).await?;
                    false
                }
                Went::Due => false,
                Went::Record => self.commit(ctx, generation, Tail::GoesOn).await?,
                Went::Idle => match Tail::idle(ctx) {
                    Some(tail) => self.commit(ctx, generation, tail).await?,
                    None => false,
                },
                Went::Stuck(report) => self.commit(ctx, generation, Tail::Stands(report)).await?,
                Went::To(result) => self.commit(ctx, generation, Tail::Ends(result)).await?,
            };
            if is_over {
                return Ok(true);
            }
            let state = ctx.state();
            if state.fold.head.status.is_final() || state.fold.generation != generation {
                return Ok(false);
            }
        }
    }

    /// One wake-up keeps the run alive; others are done when it has heard of them, so that they do
    /// not take up the places of other runs. But only while the first is pending: it may have been
    /// cancelled on its way here.
    async fn take_call(&mut self, poke: Poke) -> Result<(), StoreError> {
        let Some(call) = poke else { return Ok(()) };
        while let Some(first) = self.calls.first().map(|it| it.position) {
            let commit = Commit::of(call.settle()).expect(Expect::Pending { position: first });
            match self.store().commit(commit).await {
                Ok(Outcome::Rejected(Rejection::NotPending { position })) if position == first => {
                    self.calls.remove(0).done();
                }
                // If it is no longer pending itself, that is what was wanted.
                Ok(_) => {
                    call.done();
                    return Ok(());
                }
                Err(error) => {
                    self.calls.push(call);
                    return Err(error);
                }
            }
        }
        self.calls.push(call);
        Ok(())
    }

    /// Reads what others have recorded.
    pub(super) async fn refresh(&self, ctx: &Ctx) -> Result<(), StoreError> {
        // The lock is not held while the store is asked: only this task changes the fold.
        let version = ctx.state().fold.head.version;
        let page = self.store().read_stream(self.run.id(), version + 1, usize::MAX >> 1).await?;
        let mut state = ctx.state();
        let before = state.fold.shifted;
        for message in page {
            state.fold.take(&message)?;
        }
        let by = state.fold.shifted - before;
        state.shift_new(by);
        Ok(())
    }
}

impl Call {
    /// Tells who waits.
    pub(super) fn done(self) {
        if let Waiter::Delivery(told) = self.told {
            // That nobody waits any more is no matter.
            let _ = told.send(());
        }
    }

    pub(super) fn settle(&self) -> Write {
        let (position, lease) = (self.position, self.lease);
        Write::Settle { position, lease, as_: SettledAs::Done, error: None }
    }
}

/// Lets the run go on, once.
fn poll(
    ctx: &Ctx,
    future: &mut Running,
    alarm: &mut Alarm<'_>,
    context: &mut Context<'_>,
) -> Poll<Went> {
    {
        let mut state = ctx.state();
        state.waits.clear();
        state.wants = false;
    }
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
    let mut state = ctx.state();
    if let Some(report) = state.stuck.take() {
        return Poll::Ready(Went::Stuck(report));
    }
    let is_busy = !state.under_way.is_empty();
    Poll::Ready(match polled {
        Ok(Poll::Ready(result)) => match state.unasked() {
            Some(report) => Went::Stuck(report),
            None => Went::To(result),
        },
        // What leads to something outside, and what may be lost meanwhile, is recorded first.
        Ok(Poll::Pending) if !state.new.is_empty() && (state.wants || is_busy) => Went::Record,
        Ok(Poll::Pending) if is_busy => {
            let at = first(&state.waits).filter(|_| !state.is_paused());
            return alarm.poll(at, context).map(|()| Went::Due);
        }
        Ok(Poll::Pending) if state.waits.is_empty() && !state.is_paused() => Went::Stuck(
            Report::new("the run awaits something that is not durable; do that in a step"),
        ),
        Ok(Poll::Pending) => Went::Idle,
        Err(panic) => {
            let text = crate::dispatch::panic_message(&*panic);
            let error = Error::terminal(format!("the run panicked: {text}"));
            Went::To(Err(error.with_code("run_panicked")))
        }
    })
}
