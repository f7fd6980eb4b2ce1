//! `Client`: what may be asked of a running program.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use steadfast_store::StoreError;
use tokio::sync::watch;

use crate::{
    Address, Arrival, Body, Bucket, BucketHandle, CallError, Handle, LiveSocket, Object, Objects,
    Queues, Runtime,
    object::{Lists, PendingCall},
    process::{Decided, InputError, Process},
    runtime::Running,
    workflow::{RunAddress, RunError, RunHandle, Runs, Started, Workflow},
};

/// Reaches a program while it runs. Cheap to clone, and no clone keeps the program running: a
/// performer, an executor or a consumer may hold one. [`App::client`](crate::App::client) gives it
/// before the program has started; [`Runtime`] is one itself.
#[derive(Clone, Default)]
pub struct Client(Arc<RwLock<Weak<Running>>>);

/// Takes messages from outside of the program: a queue, or an event of a run.
pub trait Receive<M> {
    /// Why a message was not taken.
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
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(running);
    }

    fn parts(&self) -> Result<Arc<Running>, StoreError> {
        let running = self.0.read().unwrap_or_else(PoisonError::into_inner).upgrade();
        running.filter(|it| !it.has_ended()).ok_or(StoreError::Closed)
    }

    pub(crate) fn queues(&self) -> Result<Queues, StoreError> {
        Ok(self.parts()?.queues.clone())
    }

    /// The program, while it runs.
    pub fn runtime(&self) -> Option<Runtime> {
        self.parts().ok().map(Runtime::of)
    }

    fn objects(&self) -> Result<Objects, CallError> {
        Ok(self.parts()?.objects.clone())
    }

    /// Calls an object. The reply comes when the turn is durable.
    pub fn call<C: Handle<M>, M: Body, I>(&self, to: Address<C>, msg: M) -> PendingCall<C::Reply>
    where
        C::Calls: Lists<M, I>,
    {
        PendingCall::typed(self.objects(), to, msg)
    }

    /// Calls an object by names, with JSON.
    pub async fn call_json(
        &self,
        class: &str,
        name: &str,
        message: &str,
        body: &str,
    ) -> Result<String, CallError> {
        self.objects()?.call_json(class, name, message, body, None).await
    }

    /// Connects to an object. The connection is there when the turn that accepted it is durable.
    pub async fn connect<C: Object>(
        &self,
        to: Address<C>,
        arrival: Arrival,
    ) -> Result<LiveSocket, CallError> {
        self.objects()?.connect(C::CLASS, to.name(), arrival).await
    }

    /// Deletes an object; `false` if it did not exist.
    pub async fn delete<C: Object>(&self, object: Address<C>) -> Result<bool, CallError> {
        self.objects()?.delete(C::CLASS, object.name()).await
    }

    /// Sends a message to a queue, at once or [after](Queue::after) a delay, or an
    /// [event](RunAddress::event) to a run. It is durable when this returns. To reach an object
    /// from outside, [call](Self::call) it.
    pub async fn send<M: Body, D: Receive<M>>(&self, to: D, msg: M) -> Result<(), D::Error> {
        to.receive(self, msg).await
    }

    /// Starts a run of a workflow, or finds it there: what may be executed twice may do this.
    pub async fn start<W: Workflow>(
        &self,
        run: RunAddress<W>,
        input: W::Input,
    ) -> Result<Started, RunError> {
        self.parts()?.runs.start(run, input).await
    }

    /// A run of a workflow, with its types.
    pub fn run<W: Workflow>(&self, run: RunAddress<W>) -> RunHandle<W> {
        RunHandle::new(self.clone(), run)
    }

    /// The runs, and what tells of the end of the program.
    pub(crate) fn runs(&self) -> Result<(Runs, watch::Receiver<bool>), RunError> {
        let parts = self.parts()?;
        Ok((parts.runs.clone(), parts.ended.subscribe()))
    }

    /// Gives an input to a process.
    pub async fn input<P: Process>(&self, input: P::Input) -> Result<Decided, InputError> {
        self.parts()?.processes.input::<P>(&input, None).await
    }

    /// A bucket of the program, which must run already.
    pub fn bucket(&self, bucket: Bucket) -> BucketHandle {
        BucketHandle::new(self.parts().ok().and_then(|it| it.buckets.clone()), bucket)
    }
}
