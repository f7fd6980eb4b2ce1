//! `Client`: the operations of a running program.

use std::sync::Arc;

use parking_lot::RwLock;
use steadfast_store::{OpaqueArc, OpaqueWeak, StoreError};

use super::{RunningProgram, Runtime};
use crate::{
    Address, Body, CallError, ConnectParams, Handle, LiveSocket, Object,
    object::{Caller, Lists, PendingCall},
    process::{Decided, InputError, Process, encoded},
    remote::{Backend, RemoteProgram, call_error, input_error, not_remote},
    workflow::{RunAddress, RunError, StartOutcome, Workflow},
};

/// A client of a running program. Cheap to clone, and no clone keeps the program running: a
/// performer, an executor or a consumer may hold one. [`App::client`](crate::App::client) returns
/// one before the program has started; [`Runtime`] derefs to one. `steadfast::connect` returns one
/// for a program in another process.
#[derive(Clone)]
pub struct Client {
    target: ClientTarget,
    caller: Caller,
}

#[derive(Clone)]
enum ClientTarget {
    Local(Arc<RwLock<OpaqueWeak<RunningProgram>>>),
    Remote(Arc<dyn RemoteProgram>),
}

impl Default for Client {
    fn default() -> Self {
        Self { target: ClientTarget::Local(Arc::default()), caller: Caller::default() }
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
    pub(crate) fn attach(&self, running: &OpaqueArc<RunningProgram>) {
        if let ClientTarget::Local(here) = &self.target {
            *here.write() = running.downgrade();
        }
    }

    /// A client of a program in another process.
    pub fn remote(program: Arc<dyn RemoteProgram>) -> Self {
        Self { target: ClientTarget::Remote(program), caller: Caller::default() }
    }

    /// A client that calls objects for this caller: see [`Turn::caller`](crate::Turn::caller). A
    /// program in another process determines its callers itself.
    pub fn by(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }

    /// The program in this process, while it runs, or the transport to another process.
    pub(crate) fn backend(&self) -> Result<Backend<OpaqueArc<RunningProgram>>, StoreError> {
        let here = match &self.target {
            ClientTarget::Local(here) => here,
            ClientTarget::Remote(program) => return Ok(Backend::Remote(program.clone())),
        };
        let running = here.read().upgrade();
        let running = running.filter(|it| !it.has_ended()).ok_or(StoreError::Closed)?;
        Ok(Backend::Local(running))
    }

    /// The program, while it runs in this process.
    pub fn runtime(&self) -> Option<Runtime> {
        match self.backend().ok()? {
            Backend::Local(running) => Some(Runtime::of(running)),
            Backend::Remote(_) => None,
        }
    }

    /// Calls an object. The reply comes when the turn is durable.
    pub fn call<C: Handle<M>, M: Body, I>(&self, to: Address<C>, msg: M) -> PendingCall<C::Reply>
    where
        C::Calls: Lists<M, I>,
    {
        let objects = self.backend().map(|it| it.map(|it| it.objects.clone()));
        PendingCall::typed(objects, to, msg).by(self.caller.clone())
    }

    /// Calls an object by names, with JSON.
    #[steadfast_store::boxed]
    pub async fn call_json(
        &self,
        class: &str,
        name: &str,
        message: &str,
        body: &str,
    ) -> Result<String, CallError> {
        match self.backend()? {
            Backend::Local(running) => {
                let (objects, object) = (&running.objects, (class, name));
                objects.call_json_by(object, message, body, None, self.caller.clone()).await
            }
            Backend::Remote(transport) => {
                transport.call((class, name), message, body, None).await.map_err(call_error)
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
        match self.backend()? {
            Backend::Local(running) => running.objects.connect(C::CLASS, to.name(), params).await,
            Backend::Remote(_) => Err(not_remote("connect to the object with a WebSocket").into()),
        }
    }

    /// Deletes an object; `false` if it did not exist.
    pub async fn delete<C: Object>(&self, object: Address<C>) -> Result<bool, CallError> {
        match self.backend()? {
            Backend::Local(running) => running.objects.delete(C::CLASS, object.name()).await,
            Backend::Remote(transport) => {
                Ok(transport.delete_object((C::CLASS, object.name())).await?)
            }
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
        match self.backend()? {
            Backend::Local(running) => running.runs.start(run, input).await,
            Backend::Remote(transport) => {
                let input = RunError::json("the input of the run", &input)?;
                Ok(transport.start((W::NAME, run.id()), &input).await?)
            }
        }
    }

    /// Gives an input to a process.
    pub async fn input<P: Process>(&self, input: P::Input) -> Result<Decided, InputError> {
        match self.backend()? {
            Backend::Local(running) => running.processes.input::<P>(&input, None).await,
            Backend::Remote(transport) => {
                let (name, message_type, data) = encoded::<P>(&input)?;
                let decided = transport.input((P::NAME, &name), &message_type, data).await;
                decided.map_err(input_error)
            }
        }
    }
}
