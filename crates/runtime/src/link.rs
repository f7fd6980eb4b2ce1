//! The way from code that a program is made of, an executor or a consumer say, back to the program:
//! it is given to both before there is one.

use std::sync::{Arc, PoisonError, RwLock};

use steadfast_store::StoreError;

use crate::{
    Address, Body, Bucket, BucketHandle, Buckets, CallError, Handle, Objects, Queue, QueueError,
    Queues,
    object::Lists,
    workflow::{RunAddress, RunError, Runs, Started, Workflow},
};

/// Reaches a running program from its own parts. Cheap to clone.
///
/// ```
/// # use steadfast::{Link, Runtime};
/// let link = Link::default();
/// // An executor, performer or consumer keeps a clone of it.
/// let program = Runtime::builder().link(&link);
/// ```
#[derive(Clone, Default)]
pub struct Link(Arc<RwLock<Option<Linked>>>);

#[derive(Clone)]
struct Linked {
    objects: Objects,
    runs: Runs,
    queues: Option<Queues>,
    buckets: Option<Buckets>,
}

impl Link {
    /// Starts a run of a workflow, or finds it there: what may be executed twice may do this.
    pub async fn start<W: Workflow>(
        &self,
        run: &RunAddress<W>,
        input: &W::Input,
    ) -> Result<Started, RunError> {
        self.linked().ok_or(StoreError::Closed)?.runs.start(run, input).await
    }

    /// Calls an object; the same key is one turn.
    pub async fn call<C: Handle<M>, M: Body, I>(
        &self,
        to: Address<C>,
        msg: M,
        key: &str,
    ) -> Result<C::Reply, CallError>
    where
        C::Calls: Lists<M, I>,
    {
        let linked = self.linked().ok_or(CallError::Store(StoreError::Closed))?;
        linked.objects.call(to, msg).key(key).await
    }

    /// Sends a message to a queue.
    pub async fn send<T: Body>(&self, to: Queue<T>, msg: &T) -> Result<(), QueueError> {
        let queues = self.linked().and_then(|it| it.queues);
        queues.ok_or(StoreError::Closed)?.send(to, msg).await.map(drop)
    }

    /// The objects of the program, while it runs.
    pub fn objects(&self) -> Option<Objects> {
        self.linked().map(|it| it.objects)
    }

    /// The runs of the program, while it runs.
    pub fn runs(&self) -> Option<Runs> {
        self.linked().map(|it| it.runs)
    }

    /// A bucket of the program.
    pub fn bucket(&self, bucket: Bucket) -> BucketHandle {
        BucketHandle::new(self.linked().and_then(|it| it.buckets), bucket)
    }

    pub(crate) fn tie(&self, objects: &Objects, runs: &Runs) {
        let (objects, buckets) = (objects.clone(), runs.buckets());
        let linked = Linked { objects, runs: runs.clone(), queues: None, buckets };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(linked);
    }

    pub(crate) fn tie_queues(&self, queues: &Queues) {
        let mut linked = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(linked) = &mut *linked {
            linked.queues = Some(queues.clone());
        }
    }

    /// The program has ended. Without this the two would keep each other alive.
    pub(crate) fn untie(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn linked(&self) -> Option<Linked> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
