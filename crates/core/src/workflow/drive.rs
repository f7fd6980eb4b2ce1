//! Drives one run: performs the actions of its state machine.

mod draft;
mod machine;
#[cfg(test)]
mod model;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use steadfast_store::futures::FutureExt;
use steadfast_store::{
    Address, Commit, Health, Lease, Outcome, Position, Recorded, StoreError, Write,
};
use tokio::sync::{mpsc, watch};

use self::{
    draft::Alarm,
    machine::{Action, Event, Machine},
};
use super::{
    active::{Notification, SharedRun, Stop},
    ctx::Ctx,
    definition::{Definition, RunPermit, Running},
    fold::{PAGE, RunFold},
    record::WakeUp,
    runs::Runs,
};
use crate::on_drop::on_drop;

/// Retry interval while the store is busy.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// One run that is driven by one task.
pub(super) struct Driver {
    runs: Runs,
    workflow: Arc<Definition>,
    pub(super) run: Address,
    machine: Machine,
    /// The fold of a run that was just created.
    fresh: Option<RunFold>,
    shared_run: SharedRun,
    /// Its permit, as long as it is driven.
    #[expect(dead_code, reason = "it is held, not read")]
    permit: RunPermit,
}

/// The code of a run that is being replayed. It is dropped when the run sleeps.
struct Code {
    ctx: Ctx,
    future: Option<Running>,
}

impl Drop for Code {
    fn drop(&mut self) {
        let future = self.future.take();
        // User destructors may panic.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            let (run, error) = (&self.ctx.0.run, crate::dispatch::panic_message(&*panic));
            tracing::error!(run = %run, error, "run panicked when it was dropped");
        }
    }
}

impl Driver {
    /// A run that was just created; this process holds its first wake-up.
    pub(super) fn made(&mut self, fold: RunFold, wake_up: WakeUp) {
        self.fresh = Some(fold);
        self.machine.wake_ups.push(wake_up);
    }

    /// Drives the run until it ends, sleeps, or is paused.
    async fn drive(
        &mut self,
        notifications: &mut mpsc::UnboundedReceiver<Notification>,
    ) -> Result<(), StoreError> {
        self.machine.begin();
        loop {
            let mut code = self.load().await?;
            self.shared_run.show(Some(&code.ctx));
            let is_over = self.replay(&mut code, notifications).await;
            self.shared_run.show(None);
            if is_over? {
                return Ok(());
            }
        }
    }

    /// Performs the actions of the machine. `false` if the code must be replayed from its start.
    async fn replay(
        &mut self,
        code: &mut Code,
        notifications: &mut mpsc::UnboundedReceiver<Notification>,
    ) -> Result<bool, StoreError> {
        let mut stop = self.runs.shared.stop.subscribe();
        let mut event = Event::Loaded;
        loop {
            event = match self.step(&code.ctx, event) {
                Action::Load => return Ok(false),
                Action::Poll => self.poll(code, notifications, &mut stop).await?,
                Action::Refresh => Event::Refreshed(self.read_new(&code.ctx).await?),
                Action::Commit(commit) => Event::Committed(self.commit(commit).await),
                Action::Pause(pause) => {
                    self.pause(pause, &mut stop).await?;
                    Event::Paused
                }
                Action::Sleep => {
                    self.cache(&code.ctx);
                    return Ok(true);
                }
                Action::Finish => return Ok(true),
                Action::GiveUp(error) => return Err(error),
            };
        }
    }

    fn step(&mut self, ctx: &Ctx, event: Event) -> Action {
        let is_durable = matches!(&event, Event::Committed(Ok(Outcome::Committed(_))));
        let now = ctx.clock_now();
        let mut state = ctx.state();
        let before = state.fold.head.version;
        let action = self.machine.step(&mut state, event, now);
        if is_durable && before < state.fold.head.version {
            let (id, head) = (self.run.id(), &state.fold.head);
            self.runs.shared.folds.update_head(id, head);
            self.runs.shared.watchers.notify(id, head);
        }
        drop(state);
        self.machine.settled.drain(..).for_each(WakeUp::done);
        action
    }

    /// Reads the run, and starts its code.
    async fn load(&mut self) -> Result<Code, StoreError> {
        let (store, folds) = (&*self.runs.shared.store, &self.runs.shared.folds);
        // A failed store can still be read, but nothing may begin.
        if let Health::Failed { reason } = store.health() {
            return Err(StoreError::Failed { reason });
        }
        let fold = match self.fresh.take() {
            Some(fold) => fold,
            None => folds.load(store, &self.run).await?.unwrap_or_default(),
        };
        let cut_off = self.cut_off(&fold).await?;
        let environment = self.runs.shared.environment.clone();
        let ctx = Ctx::new(self.run.clone(), environment, fold, cut_off);
        let future = Some((self.workflow.run)(ctx.clone()));
        Ok(Code { ctx, future })
    }

    /// The number of attempts that crashed since the last entry of the run. Earlier ones do not
    /// concern the current step.
    async fn cut_off(&mut self, fold: &RunFold) -> Result<u32, StoreError> {
        let mut most = 0;
        for wake_up in &mut self.machine.wake_ups {
            let before = std::mem::replace(&mut wake_up.attempt, 1) - 1;
            if 0 < before {
                let attempts = self.runs.shared.store.attempts(wake_up.position).await?;
                let since = attempts.iter().filter(|it| fold.acted_at < it.ended_at).count();
                most = most.max(before.min(u32::try_from(since).unwrap_or(before)));
            }
        }
        Ok(most)
    }

    async fn poll(
        &self,
        code: &mut Code,
        notifications: &mut mpsc::UnboundedReceiver<Notification>,
        stop: &mut watch::Receiver<Stop>,
    ) -> Result<Event, StoreError> {
        let Code { ctx, future } = code;
        let Some(future) = future else { return Err(StoreError::Closed) };
        let mut alarm = Alarm::new(&*self.runs.shared.clock);
        tokio::select! {
            biased;
            Some(notification) = notifications.recv() => Ok(Event::Notified(notification)),
            Ok(_) = stop.wait_for(|it| *it == Stop::Now) => Err(StoreError::Closed),
            polled = std::future::poll_fn(|context| {
                draft::poll(ctx, future, &mut alarm, context)
            }) => Ok(Event::Polled(polled)),
        }
    }

    /// Messages that others have appended.
    async fn read_new(&self, ctx: &Ctx) -> Result<Vec<Recorded>, StoreError> {
        // The lock is not held during the read: only this task changes the fold.
        let mut version = ctx.state().fold.head.version;
        let (store, mut new) = (&self.runs.shared.store, Vec::new());
        loop {
            let page = store.read_stream(self.run.id(), version + 1, PAGE).await?;
            let is_last = page.len() < PAGE;
            version = page.last().map_or(version, |it| it.version);
            new.extend(page);
            if is_last {
                return Ok(new);
            }
        }
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let _turn = self.shared_run.turn.lock().await;
        self.runs.shared.store.commit(commit).await
    }

    /// Waits, unless the program stops.
    async fn pause(
        &self,
        pause: Duration,
        stop: &mut watch::Receiver<Stop>,
    ) -> Result<(), StoreError> {
        tokio::select! {
            () = self.runs.shared.clock.sleep(pause) => Ok(()),
            _ = stop.wait_for(|it| *it == Stop::Now) => Err(StoreError::Closed),
        }
    }

    /// Caches the fold for the next wake-up, unless it holds entries that are not durable.
    fn cache(&self, ctx: &Ctx) {
        let mut state = ctx.state();
        if state.given == state.durable {
            let fold = std::mem::take(&mut state.fold);
            self.runs.shared.folds.insert(self.run.id(), fold);
        }
    }
}

impl Runs {
    /// Wakes a run: by its driver, or by a new task with this permit.
    pub(super) fn wake(&self, run: &Address, wake_up: WakeUp, permit: RunPermit) {
        let (mut notification, mut permit) = (Some(wake_up), permit);
        while self.shared.workflows.contains_key(run.class()) {
            match self.shared.active.notify(run.id(), notification) {
                Ok(()) => return,
                Err(back) => notification = back,
            }
            match self.awaken(run, permit) {
                Ok((mut driver, notifications)) => {
                    driver.machine.wake_ups.extend(notification);
                    tokio::spawn(self.clone().keep_driving(driver, notifications).boxed());
                    return;
                }
                Err(back) => permit = back,
            }
        }
    }

    /// A driver for a run that has none. The permit is returned if the run has one.
    pub(super) fn awaken(
        &self,
        run: &Address,
        permit: RunPermit,
    ) -> Result<(Driver, mpsc::UnboundedReceiver<Notification>), RunPermit> {
        let known = self.shared.workflows.get_key_value(run.class());
        let Some((name, workflow)) = known else { return Err(permit) };
        let Some((shared_run, notifications)) = self.shared.active.enter(run.id(), name) else {
            return Err(permit);
        };
        let machine = Machine::new(run.clone(), workflow.options);
        let (runs, workflow, run) = (self.clone(), workflow.clone(), run.clone());
        let driver = Driver { runs, workflow, run, machine, fresh: None, shared_run, permit };
        Ok((driver, notifications))
    }

    /// Drives the run until there are no more notifications.
    pub(super) async fn keep_driving(
        self,
        mut driver: Driver,
        mut notifications: mpsc::UnboundedReceiver<Notification>,
    ) {
        let run = driver.run.id();
        // User code may panic anywhere.
        let _left = on_drop(|| self.shared.active.left(run, std::thread::panicking()));
        let mut is_wanted = !driver.machine.wake_ups.is_empty();
        loop {
            if is_wanted && let Err(error) = driver.drive(&mut notifications).await {
                let name = driver.run.to_string();
                tracing::warn!(run = name, error = %error, "run did not progress; it is retried");
                self.shared.watchers.is_unknown(run);
                for wake_up in std::mem::take(&mut driver.machine.wake_ups) {
                    self.not_done(wake_up).await;
                }
            }
            let Some(notification) = self.shared.active.leave(run, &mut notifications) else {
                return;
            };
            driver.machine.wake_ups.extend(notification);
            is_wanted = true;
        }
    }

    /// The run was not driven. The delivery of the wake-up is retried when its sender is dropped; a
    /// wake-up that this process holds is released.
    async fn not_done(&self, wake_up: WakeUp) {
        if let (None, Some(lease)) = (&wake_up.delivery, wake_up.lease)
            && self.give_back(wake_up.position, lease).await.is_err()
        {
            tokio::spawn(self.clone().give_back_later(wake_up.position, lease).boxed());
        }
    }

    /// Releases a wake-up that this process holds, so that it is delivered like others.
    async fn give_back(&self, position: Position, lease: Lease) -> Result<(), StoreError> {
        let release = Commit::of(Write::Release { position, lease });
        match self.shared.store.commit(release).await {
            // The next owner takes it over.
            Ok(_) => Ok(()),
            Err(error) if error.is_over() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The same when the store is busy.
    async fn give_back_later(self, position: Position, lease: Lease) {
        while let Err(error) = self.give_back(position, lease).await {
            tracing::debug!(position, error = %error, "release of a wake-up is retried");
            self.shared.clock.sleep(LOOK_AGAIN).await;
        }
    }

    /// Stops all drivers without waiting; attempts in flight are dropped.
    pub(crate) fn let_go(&self) {
        self.shared.stop.send_replace(Stop::Now);
    }

    /// Starts nothing new, waits for attempts in flight, and drops them after `grace`.
    #[steadfast_store::boxed]
    pub async fn stop(&self, grace: Duration) {
        let clock = &self.shared.clock;
        self.shared.stop.send_replace(Stop::Soon);
        tokio::select! {
            () = self.idle() => return,
            () = clock.sleep(grace) => {}
        }
        self.shared.stop.send_replace(Stop::Now);
        self.idle().await;
    }

    /// Waits until no run is active.
    pub(crate) async fn idle(&self) {
        self.shared.active.until_asleep(None).await;
    }

    /// Whether no run is active.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.active.is_empty()
    }
}
