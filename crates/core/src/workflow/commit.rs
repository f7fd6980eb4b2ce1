//! How what a run has done becomes durable, and what happens when others were first.

use std::time::Duration;

use steadfast_store::{Commit, Outcome, Position, Rejection, StoreError, Timestamp, Version};

use super::{
    Status,
    active::Stop,
    ctx::Ctx,
    drive::{Call, Driver},
    record::Report,
    tail::{Draft, Tail},
};

/// What came of a draft.
enum Sent {
    Durable { at: Timestamp, timer: Option<Position> },
    Rejected(Rejection),
}

/// A store that has no time gets some.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl Driver {
    /// Records what is new, and how the run goes on. `true` if it is over for now. If somebody else
    /// has recorded something first, it is looked at again whether to sleep.
    pub(super) async fn commit(
        &mut self,
        ctx: &Ctx,
        generation: u32,
        tail: Tail,
    ) -> Result<bool, StoreError> {
        let mut pause = PAUSE;
        loop {
            let draft = self.draft(ctx, &tail);
            let version = draft.as_ref().map_or(0, |it| it.version);
            let (is_whole, sent) = match draft {
                Ok(draft) => {
                    let (is_whole, is_empty) = (draft.is_whole, draft.commit.writes.is_empty());
                    if is_empty {
                        return Ok(is_whole && tail.is_last());
                    }
                    (is_whole, self.send(ctx, draft).await)
                }
                Err(error) => (false, Err(error)),
            };
            match sent {
                Ok(Sent::Durable { at, timer }) if is_whole => {
                    let is_over = tail.is_last();
                    tail.fold(&mut ctx.state(), at, timer);
                    self.announce(ctx, is_over);
                    return Ok(is_over);
                }
                Ok(Sent::Durable { .. }) => {}
                Ok(Sent::Rejected(rejection)) => {
                    if self.look_again(ctx, generation, version, rejection).await?
                        || tail.is_asked_again()
                    {
                        return Ok(false);
                    }
                }
                // What was done is not done again because the store has no time.
                Err(error) if error.is_retryable() => {
                    tracing::warn!(run = %self.run, error = %error, "commit is tried again");
                    self.wait(pause).await?;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(StoreError::Invalid(error)) if !matches!(tail, Tail::Stands(_)) => {
                    ctx.state().new.clear();
                    let report = Report::new(&format!("what it does cannot be recorded: {error}"));
                    let stands = self.commit(ctx, generation, Tail::Stands(report));
                    return Box::pin(stands).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One attempt to make a draft durable.
    async fn send(&self, ctx: &Ctx, draft: Draft) -> Result<Sent, StoreError> {
        let Draft { commit, taken, is_whole, timer, told, .. } = draft;
        let turn = self.turn.lock().await;
        let outcome = self.store().commit(commit).await;
        drop(turn);
        match outcome? {
            Outcome::Committed(receipt) => {
                let timer = timer.and_then(|it| receipt.appended.get(it)).map(|it| it.1);
                let mut state = ctx.state();
                state.is_durable(taken, &receipt);
                if is_whole {
                    state.fold.progress = told.or(state.fold.progress.take());
                }
                Ok(Sent::Durable { at: receipt.at, timer })
            }
            Outcome::Rejected(rejection) => Ok(Sent::Rejected(rejection)),
            Outcome::Duplicate(_) => {
                Err(StoreError::Corrupt { reason: "a run has no keys".into() })
            }
        }
    }

    /// Why a commit was rejected. `true` if the run is no longer what it was.
    async fn look_again(
        &mut self,
        ctx: &Ctx,
        generation: u32,
        version: Version,
        rejection: Rejection,
    ) -> Result<bool, StoreError> {
        match rejection {
            Rejection::Version { actual, .. } if actual < version => {
                // It was erased.
                ctx.state().fold.head.status = Status::Terminated;
                Ok(true)
            }
            Rejection::Version { .. } => {
                self.refresh(ctx).await?;
                let state = ctx.state();
                let fold = &state.fold;
                Ok(fold.head.status.is_final() || fold.generation != generation)
            }
            Rejection::NotPending { position } | Rejection::LeaseLost { position } => {
                // Somebody else has ended that delivery.
                self.calls.retain(|it| it.position != position);
                ctx.state().fold.head.timer.take_if(|it| *it == position);
                Ok(false)
            }
            rejection @ (Rejection::KeyReused { .. }
            | Rejection::NotDue { .. }
            | Rejection::NotSettled { .. }
            | Rejection::Head { .. }
            | Rejection::Part { .. }
            | Rejection::HasWork { .. }
            | Rejection::JustWritten { .. }
            | Rejection::Revision { .. }
            | Rejection::NotVacant { .. }) => {
                Err(StoreError::Corrupt { reason: rejection.to_string() })
            }
        }
    }

    /// Waits, unless we stop.
    async fn wait(&self, pause: Duration) -> Result<(), StoreError> {
        let shared = &self.runs.shared;
        let mut stop = shared.stop.subscribe();
        tokio::select! {
            () = shared.clock.sleep(pause) => Ok(()),
            _ = stop.wait_for(|it| *it == Stop::Now) => Err(StoreError::Closed),
        }
    }

    /// Tells who waits what has become of it.
    fn announce(&mut self, ctx: &Ctx, is_over: bool) {
        let head = ctx.state().fold.head.clone();
        self.runs.shared.folds.update_head(self.run.id(), &head);
        self.runs.shared.watchers.tell(self.run.id(), head.version, Some(head.status));
        if is_over {
            self.calls.drain(..).for_each(Call::done);
        }
    }

    /// Ends what has woken it: there is nothing to do.
    pub(super) async fn rest(&mut self) -> Result<(), StoreError> {
        while let Some(call) = self.calls.last() {
            // If it is no longer pending, that is what was wanted.
            self.store().commit(Commit::of(call.settle())).await?;
            self.calls.pop().into_iter().for_each(Call::done);
        }
        Ok(())
    }
}
