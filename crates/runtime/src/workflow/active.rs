//! The runs that are awake: each is driven by one task.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use steadfast_store::{Address, EntityId};
use tokio::sync::mpsc;

use super::{
    Ctx, Runs,
    drive::{Driver, Poke},
    state::UnderWay,
};

/// By run.
pub(super) type Active = Mutex<HashMap<EntityId, Awake>>;

/// A run that is awake.
pub(super) struct Awake {
    pokes: mpsc::UnboundedSender<Poke>,
    seen: Seen,
}

/// A run as it is in memory, for who looks at it.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Option<Ctx>>>);

impl Seen {
    pub(super) fn show(&self, ctx: Option<&Ctx>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ctx.cloned();
    }

    fn ctx(&self) -> Option<Ctx> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Runs {
    fn active(&self) -> MutexGuard<'_, HashMap<EntityId, Awake>> {
        self.shared.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is awake, and then the attempts that are under way in it.
    pub(super) fn under_way(
        &self,
        run: &Address,
    ) -> Option<(Vec<UnderWay>, Option<super::Progress>)> {
        let seen = self.active().get(&run.id())?.seen.clone();
        let Some(ctx) = seen.ctx() else { return Some((Vec::new(), None)) };
        let state = ctx.state();
        let progress = state.progress.as_ref().map(|it| it.0.clone());
        Some((state.under_way.clone(), progress))
    }

    /// Whether it is awake.
    pub(super) fn is_awake(&self, run: EntityId) -> bool {
        self.active().contains_key(&run)
    }

    /// The ids of the runs of a workflow that are awake.
    pub(super) fn awake(&self) -> Vec<EntityId> {
        self.active().keys().copied().collect()
    }

    /// Tells the one who drives a run, if it is awake. The poke comes back if it is not.
    pub(super) fn poke(&self, run: EntityId, poke: Poke) -> Result<(), Poke> {
        match self.active().get(&run) {
            Some(awake) => awake.pokes.send(poke).map_err(|it| it.0),
            None => Err(poke),
        }
    }

    /// Has a run driven: by who drives it already, or by a new task.
    pub(super) fn wake(&self, run: &Address, poke: Poke) {
        let Some(workflow) = self.shared.workflows.get(run.class()) else { return };
        let mut active = self.active();
        let poke = match active.get(&run.id()) {
            Some(awake) => match awake.pokes.send(poke) {
                Ok(()) => return,
                Err(back) => back.0,
            },
            None => poke,
        };
        let (sender, pokes) = mpsc::unbounded_channel();
        let seen = Seen::default();
        active.insert(run.id(), Awake { pokes: sender, seen: seen.clone() });
        let (runs, workflow, run) = (self.clone(), workflow.clone(), run.clone());
        let driver = Driver { runs, workflow, run, calls: Vec::from_iter(poke), seen };
        tokio::spawn(self.clone().keep_driving(driver, pokes));
    }

    /// Drives until nobody wants anything of the run.
    async fn keep_driving(self, mut driver: Driver, mut pokes: mpsc::UnboundedReceiver<Poke>) {
        loop {
            if let Err(error) = driver.drive(&mut pokes).await {
                let run = driver.run.to_string();
                tracing::warn!(run, error = %error, "run is driven again later");
                // Who waits for it hears that it was not done, and tries again.
                driver.calls.clear();
            }
            let mut active = self.active();
            match pokes.try_recv() {
                Ok(poke) => driver.calls.extend(poke),
                Err(_) => {
                    active.remove(&driver.run.id());
                    return;
                }
            }
        }
    }
}
