//! `Client`: the operations of a running program.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use steadfast_store::StoreError;

use super::{Running, Runtime};
use crate::{
    Address, Body, CallError, ConnectParams, Handle, LiveSocket, Object,
    door::{RemoteDoor, Way, call_error, elsewhere, input_error},
    object::{Caller, Lists, PendingCall},
    process::{Decided, InputError, Process, encoded},
    workflow::{RunAddress, RunError, StartOutcome, Workflow},
};

/// A client of a running program. Cheap to clone, and no clone keeps the program running: a
/// performer, an executor or a consumer may hold one. [`App::client`](crate::App::client) returns
/// one before the program has started; [`Runtime`] derefs to one. `steadfast::connect` returns one
/// for a program in another process.
#[derive(Clone)]
pub struct Client {
    reach: Reach,
    caller: Caller,
}

#[derive(Clone)]
enum Reach {
    Local(Arc<RwLock<Weak<Running>>>),
    Remote(Arc<dyn RemoteDoor>),
}

impl Default for Client {
    fn default() -> Self {
        Self { reach: Reach::Local(Arc::default()), caller: Caller::default() }
    }
}

/// A destination for messages from outside of the program: a queue, or an event of a run.
pub trait Receive<M> {
    /// Why a message was not accepted.
    type Error;

    #[doc(hidden)]
    fn receive(
        self,
        client: &Client,
        msg: M,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl Client {
    pub(crate) fn attach(&self, running: &Arc<Running>) {
        if let Reach::Local(here) = &self.reach {
            *here.write() = Arc::downgrade(running);
        }
    }

    /// A client of a program in another process.
    pub fn remote(door: Arc<dyn RemoteDoor>) -> Self {
        Self { reach: Reach::Remote(door), caller: Caller::default() }
    }

    /// A client that calls objects for this caller: see [`Turn::caller`](crate::Turn::caller). A
    /// program in another process determines its callers itself.
    pub fn by(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }

    /// The program in this process, while it runs, or the transport to another process.
    pub(crate) fn way(&self) -> Result<Way<Arc<Running>>, StoreError> {
        let here = match &self.reach {
            Reach::Local(here) => here,
            Reach::Remote(door) => return Ok(Way::Remote(door.clone())),
        };
        let running = here.read().upgrade();
        let running = running.filter(|it| !it.has_ended()).ok_or(StoreError::Closed)?;
        Ok(Way::Local(running))
    }

    /// The program, while it runs in this process.
    pub fn runtime(&self) -> Option<Runtime> {
        match self.way().ok()? {
            Way::Local(running) => Some(Runtime::of(running)),
            Way::Remote(_) => None,
        }
    }

    /// Calls an object. The reply comes when the turn is durable.
    pub fn call<C: Handle<M>, M: Body, I>(&self, to: Address<C>, msg: M) -> PendingCall<C::Reply>
    where
        C::Calls: Lists<M, I>,
    {
        let objects = self.way().map(|it| it.map(|it| it.objects.clone()));
        PendingCall::typed(objects, to, msg).by(self.caller)
    }

    /// Calls an object by names, with JSON.
    pub async fn call_json(
        &self,
        class: &str,
        name: &str,
        message: &str,
        body: &str,
    ) -> Result<String, CallError> {
        match self.way()? {
            Way::Local(running) => {
                let (objects, object) = (&running.objects, (class, name));
                objects.call_json_by(object, message, body, None, self.caller).await
            }
            Way::Remote(door) => {
                door.call((class, name), message, body, None).await.map_err(call_error)
            }
        }
    }

    /// Connects to an object. It returns when the turn that accepted the connection is durable. A
    /// program in another process takes connections as WebSockets only.
    pub async fn connect<C: Object>(
        &self,
        to: Address<C>,
        params: ConnectParams,
    ) -> Result<LiveSocket, CallError> {
        match self.way()? {
            Way::Local(running) => running.objects.connect(C::CLASS, to.name(), params).await,
            Way::Remote(_) => Err(elsewhere("connect to the object with a WebSocket").into()),
        }
    }

    /// Deletes an object; `false` if it did not exist.
    pub async fn delete<C: Object>(&self, object: Address<C>) -> Result<bool, CallError> {
        match self.way()? {
            Way::Local(running) => running.objects.delete(C::CLASS, object.name()).await,
            Way::Remote(door) => Ok(door.delete_object((C::CLASS, object.name())).await?),
        }
    }

    /// Sends a message to a queue, immediately or [after](Queue::after) a delay, or an
    /// [event](RunAddress::event) to a run. It is durable when this returns. To send to an object
    /// from outside, [call](Self::call) it.
    pub async fn send<M: Body, D: Receive<M>>(&self, to: D, msg: M) -> Result<(), D::Error> {
        to.receive(self, msg).await
    }

    /// Starts a run of a workflow, or finds it: starting it again is harmless.
    pub async fn start<W: Workflow>(
        &self,
        run: RunAddress<W>,
        input: W::Input,
    ) -> Result<StartOutcome, RunError> {
        match self.way()? {
            Way::Local(running) => running.runs.start(run, input).await,
            Way::Remote(door) => {
                let input = RunError::json("the input of the run", &input)?;
                Ok(door.start((W::NAME, run.id()), &input).await?)
            }
        }
    }

    /// Gives an input to a process.
    pub async fn input<P: Process>(&self, input: P::Input) -> Result<Decided, InputError> {
        match self.way()? {
            Way::Local(running) => running.processes.input::<P>(&input, None).await,
            Way::Remote(door) => {
                let (name, message_type, data) = encoded::<P>(&input)?;
                let decided = door.input((P::NAME, &name), &message_type, data).await;
                decided.map_err(input_error)
            }
        }
    }
}
