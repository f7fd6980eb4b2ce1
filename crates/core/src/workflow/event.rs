//! Events of runs, by name and type.

use std::marker::PhantomData;

use steadfast_store::{InvalidInput, Json};

use super::{
    ctx::Ctx,
    definition::{RunAddress, Workflow},
};
use crate::{
    Body, Result,
    object::{Destination, Sending},
};

/// Names an event that runs wait for, with the type of its payload.
/// ```
/// use steadfast::Event;
///
/// const PAYMENT: Event<u64> = Event::named("payment");
/// ```
pub struct Event<T> {
    name: &'static str,
    payload: PhantomData<fn() -> T>,
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Event<T> {}

impl<T> Event<T> {
    /// An event of this name. It is stored: it may never change.
    pub const fn named(name: &'static str) -> Self {
        Self { name, payload: PhantomData }
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// An event of one run: a destination for messages.
pub struct RunEvent<W, T> {
    pub(crate) run: RunAddress<W>,
    pub(crate) event: Event<T>,
}

impl<W: Workflow> RunAddress<W> {
    /// An event of this run. A message that is sent there is kept until the run waits for it.
    pub fn event<T>(self, event: Event<T>) -> RunEvent<W, T> {
        RunEvent { run: self, event }
    }
}

impl<W: Workflow, T: Body> Destination<T, ()> for RunEvent<W, T> {
    fn sending(self, msg: T) -> Result<Sending, InvalidInput> {
        let target = self
            .run
            .resolve()
            .map_err(|_| InvalidInput::NotARun { address: format!("{:?}", self.run).into() })?;
        let sending = Sending::to(target, "event", self.event.name, Json::of(&msg)?)?;
        // Behind the message that starts the run.
        Ok(Sending { ordered: true, ..sending })
    }
}

impl Ctx {
    /// The next event of this kind, in the order of arrival, each taken once. An event that arrived
    /// earlier is returned immediately.
    #[track_caller]
    pub fn wait_for<T: Body>(&self, event: Event<T>) -> impl Future<Output = Result<T>> + Send {
        self.event(event.name)
    }
}
