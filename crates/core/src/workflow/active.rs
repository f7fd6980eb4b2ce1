//! The runs that are awake: each is driven by one task.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{Address, EntityId};
use tokio::sync::mpsc;

use super::{
    Ctx, Runs,
    drive::{Call, Driver, Poke, Waiter},
    room::Place,
    state::UnderWay,
};

/// By run.
pub(super) type Active = Mutex<HashMap<EntityId, Awake>>;

/// A run that is awake.
pub(super) struct Awake {
    /// Who records something of the run has it: each in turn, so that a run that records without
    /// pause can be told something.
    turn: Arc<tokio::sync::Mutex<()>>,
    workflow: &'static str,
    pokes: mpsc::UnboundedSender<Poke>,
    seen: Seen,
}

/// A run is no longer driven, however that came.
struct Left<'a> {
    runs: &'a Runs,
    run: EntityId,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.runs.active().remove(&self.run);
        }
        self.runs.shared.asleep.notify_waiters();
    }
}

/// Whether to stop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    No,
    Soon,
    Now,
}

/// A run as it is in memory, for who looks at it.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Option<Ctx>>>);

impl Seen {
    pub(super) fn show(&self, ctx: Option<&Ctx>) {
        *self.0.lock() = ctx.cloned();
    }

    fn ctx(&self) -> Option<Ctx> {
        self.0.lock().clone()
    }
}

impl Runs {
    fn active(&self) -> MutexGuard<'_, HashMap<EntityId, Awake>> {
        self.shared.active.lock()
    }

    /// Whether it is awake, and then the attempts that are under way in it.
    pub(super) fn under_way(
        &self,
        run: &Address,
    ) -> Option<(Vec<UnderWay>, Option<super::Progress>)> {
        let seen = self.active().get(&run.id())?.seen.clone();
        let Some(ctx) = seen.ctx() else { return Some((Vec::new(), None)) };
        let state = ctx.state();
        let progress = state.progress.clone();
        Some((state.under_way.clone(), progress))
    }

    /// What one has who records something of a run that is awake.
    pub(super) fn turn(&self, run: EntityId) -> Option<Arc<tokio::sync::Mutex<()>>> {
        Some(self.active().get(&run)?.turn.clone())
    }

    /// Whether it is awake.
    pub(super) fn is_awake(&self, run: EntityId) -> bool {
        self.active().contains_key(&run)
    }

    /// The runs of a workflow that are awake.
    pub(super) fn awake(&self, workflow: &str) -> Vec<EntityId> {
        let active = self.active();
        active.iter().filter(|it| it.1.workflow == workflow).map(|it| *it.0).collect()
    }

    /// Tells the one who drives a run, if it is awake. The poke comes back if it is not.
    pub(super) fn poke(&self, run: EntityId, poke: Poke) -> Result<(), Poke> {
        match self.active().get(&run) {
            Some(awake) => awake.pokes.send(poke).map_err(|it| it.0),
            None => Err(poke),
        }
    }

    /// Has a run driven: by who drives it already, or by a new task, which has this place.
    pub(super) fn wake(&self, run: &Address, poke: Poke, place: Place) {
        let (mut poke, mut place) = (poke, place);
        while self.shared.workflows.contains_key(run.class()) {
            match self.poke(run.id(), poke) {
                Ok(()) => return,
                Err(back) => poke = back,
            }
            match self.awaken(run, place) {
                Ok((mut driver, pokes)) => {
                    driver.calls.extend(poke);
                    tokio::spawn(self.clone().keep_driving(driver, pokes));
                    return;
                }
                Err(back) => place = back,
            }
        }
    }

    /// One to drive a run that nobody drives. The place comes back if somebody does.
    pub(super) fn awaken(
        &self,
        run: &Address,
        place: Place,
    ) -> Result<(Driver, mpsc::UnboundedReceiver<Poke>), Place> {
        let mut active = self.active();
        let known = self.shared.workflows.get_key_value(run.class());
        let (Some((name, workflow)), Entry::Vacant(entry)) = (known, active.entry(run.id())) else {
            return Err(place);
        };
        let (sender, pokes) = mpsc::unbounded_channel();
        let (seen, turn) = (Seen::default(), Arc::<tokio::sync::Mutex<()>>::default());
        let (awake, shown) = (turn.clone(), seen.clone());
        entry.insert(Awake { workflow: name, pokes: sender, seen: shown, turn: awake });
        let (runs, workflow, run) = (self.clone(), workflow.clone(), run.clone());
        let (calls, fresh) = (Vec::new(), None);
        Ok((Driver { runs, workflow, run, calls, fresh, seen, turn, place }, pokes))
    }

    /// Drives until nobody wants anything of the run.
    pub(super) async fn keep_driving(
        self,
        mut driver: Driver,
        mut pokes: mpsc::UnboundedReceiver<Poke>,
    ) {
        // Code of the user's may panic where nobody expects it.
        let _left = Left { runs: &self, run: driver.run.id() };
        let mut is_wanted = !driver.calls.is_empty();
        loop {
            if is_wanted && let Err(error) = driver.drive(&mut pokes).await {
                let run = driver.run.to_string();
                tracing::warn!(run, error = %error, "run is driven again later");
                self.shared.watchers.is_unknown(driver.run.id());
                for call in std::mem::take(&mut driver.calls) {
                    self.not_done(call).await;
                }
            }
            let poke = {
                let mut active = self.active();
                match pokes.try_recv() {
                    Ok(poke) => poke,
                    Err(_) => {
                        active.remove(&driver.run.id());
                        return;
                    }
                }
            };
            driver.calls.extend(poke);
            is_wanted = true;
        }
    }

    /// A wake-up was not followed. Who waits for it hears of that and tries again; one that we hold
    /// ourselves is given back.
    async fn not_done(&self, call: Call) {
        if let (Waiter::Nobody, Some(lease)) = (&call.told, call.lease)
            && self.give_back(call.position, lease).await.is_err()
        {
            tokio::spawn(self.clone().give_back_later(call.position, lease));
        }
    }

    /// Begins nothing any more, gives up what is under way, and waits for nothing.
    pub(crate) fn let_go(&self) {
        self.shared.stop.send_replace(Stop::Now);
    }

    /// Begins nothing at once any more, waits for what is under way, and then gives it up.
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

    /// Waits until no run is awake.
    pub(crate) async fn idle(&self) {
        self.until_asleep(|active| active.is_empty()).await;
    }

    /// Waits until nobody drives a run.
    pub(super) async fn is_let_go(&self, run: EntityId) {
        self.until_asleep(|active| !active.contains_key(&run)).await;
    }

    async fn until_asleep(&self, enough: impl Fn(&HashMap<EntityId, Awake>) -> bool) {
        loop {
            let asleep = self.shared.asleep.notified();
            if enough(&self.active()) {
                return;
            }
            asleep.await;
        }
    }

    /// Whether no run is awake.
    pub(crate) fn is_idle(&self) -> bool {
        self.active().is_empty()
    }
}
