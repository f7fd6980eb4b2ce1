//! The operations of a client.

use std::{sync::Arc, time::Duration};

use steadfast_store::{Json, StoreError};

use super::{RunningProgram, Runtime};
use crate::{
    Address, Body, Bucket, BucketHandle, CallError, Client, ConnectParams, Handle, LiveSocket,
    Object, Objects, Queue, QueueError, RunEvent,
    client::{ClientTarget, Receive, RemoteProgram},
    object::{Lists, PendingCall, RemoteObjects, call_error},
    process::{Decided, InputError, Process, Refused, encoded},
    queue::DelayedQueue,
    remote::{Backend, not_remote},
    workflow::{RunAddress, RunError, StartOutcome, Workflow},
};

impl Client {
    /// The program in this process, while it runs, or the transport to another process.
    pub(crate) fn backend(
        &self,
    ) -> Result<Backend<Arc<RunningProgram>, dyn RemoteProgram>, StoreError> {
        let here = match &self.target {
            ClientTarget::Local(here) => here,
            ClientTarget::Remote(program) => return Ok(Backend::Remote(program.clone())),
        };
        let running = here.read().upgrade();
        let running = running.and_then(|it| it.downcast::<RunningProgram>().ok());
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
        let objects = self.backend().map(|it| -> Backend<Objects, dyn RemoteObjects> {
            match it {
                Backend::Local(running) => Backend::Local(running.objects.clone()),
                Backend::Remote(transport) => Backend::Remote(transport),
            }
        });
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

impl Client {
    /// A bucket of the program, which must be running.
    pub fn bucket(&self, bucket: Bucket) -> BucketHandle {
        let backend = self.backend().ok().and_then(|it| match it {
            Backend::Local(running) => running.buckets.clone().map(Backend::Local),
            Backend::Remote(transport) => Some(Backend::Remote(transport)),
        });
        BucketHandle::new(backend, bucket)
    }
}

impl<M: Body> Receive<M> for Queue<M> {
    type Error = QueueError;

    async fn receive(self, client: &Client, msg: M) -> Result<(), QueueError> {
        self.after(Duration::ZERO).receive(client, msg).await
    }
}

impl<M: Body> Receive<M> for DelayedQueue<M> {
    type Error = QueueError;

    async fn receive(self, client: &Client, msg: M) -> Result<(), QueueError> {
        let Self { queue, delay } = self;
        match client.backend()? {
            Backend::Local(running) => {
                running.queues.send_after(queue, &msg, delay).await.map(drop)
            }
            Backend::Remote(transport) => {
                let body = Json::of(&msg)?;
                Ok(transport.send(queue.name(), body.as_str(), delay).await?)
            }
        }
    }
}

impl<W: Workflow, T: Body> Receive<T> for RunEvent<W, T> {
    type Error = RunError;

    async fn receive(self, client: &Client, msg: T) -> Result<(), RunError> {
        client.run(self.run).send(self.event, msg).await
    }
}

/// A process that refuses is [`InputError::Refused`], for a local and a remote program alike.
pub(crate) fn input_error(error: StoreError) -> InputError {
    if let StoreError::Remote(problem) = &error
        && problem.refusal.is_some()
    {
        return InputError::Refused(Refused::because(&*problem.detail));
    }
    error.into()
}
