//! A whole program: what it serves, on one store.

use std::{path::PathBuf, sync::Arc, time::Duration};

use steadfast_store::{Entropy, Position, SeededEntropy, Store, StoreError};
use tokio::task::JoinSet;

use crate::{
    Address, Arrival, BatchConsumer, Body, Bucket, BucketHandle, BucketSpec, Buckets, CallError,
    ConsumeOptions, Consumer, Dispatcher, DispatcherOptions, Handle, Job, Keep, Link, Live,
    LiveSocket, Object, ObjectOptions, Objects, Perform, Queue, QueueSpec, Queues, StartError,
    Sweeper, Unknown,
    bucket::{self, Blobs, BucketOptions},
    object::{Lists, ObjectsBuilder, PendingCall},
    process::{Decided, Execute, InputError, Process, Processes, Published},
    queue::Declared,
    workflow::{RunAddress, RunError, Runs, Script, Started, Workflow},
};

type AddObject = Box<dyn FnOnce(ObjectsBuilder) -> ObjectsBuilder + Send>;
type AddWorkflow = Box<dyn FnOnce(Runs) -> Runs + Send>;
type AddProcess = Box<dyn FnOnce(Processes) -> Processes + Send>;

/// Declares what a program serves. Everything is given as a value; nothing is global.
pub struct Builder {
    objects: Vec<AddObject>,
    processes: Vec<AddProcess>,
    workflows: Vec<AddWorkflow>,
    declared: Declared,
    pub(crate) buckets: bucket::Declared,
    pub(crate) entropy: Arc<dyn Entropy>,
    object_options: ObjectOptions,
    dispatcher_options: DispatcherOptions,
    pub(crate) script: Script,
    links: Vec<Link>,
    keep: Keep,
}

impl Builder {
    /// Serves the objects of a class.
    pub fn object<C: Object>(mut self, class: C) -> Self {
        self.objects.push(Box::new(|it| it.class(class)));
        self
    }

    /// Serves the objects of a class that take connections.
    pub fn live_object<C: Live>(mut self, class: C) -> Self {
        self.objects.push(Box::new(|it| it.live_class(class)));
        self
    }

    /// Performs the jobs of a kind that objects ask for.
    pub fn perform<J: Job>(mut self, performer: impl Perform<J>) -> Self {
        self.objects.push(Box::new(|it| it.perform::<J>(performer)));
        self
    }

    /// Runs a process, and has its commands executed.
    pub fn process<P: Process>(mut self, executor: impl Execute<P>) -> Self {
        self.processes.push(Box::new(|it| it.with::<P>(executor)));
        self
    }

    /// Puts everything that a process publishes into a queue, in the commit of the decision.
    pub fn subscribe<P: Process>(mut self, queue: Queue<Published>) -> Self {
        self.processes.push(Box::new(move |it| it.subscribe::<P>(queue)));
        self
    }

    /// Gives process `Q` an input for what process `P` publishes, once for each.
    pub fn follow<P: Process, Q: Process>(
        mut self,
        input: impl Fn(P::Output) -> Option<Q::Input> + Send + Sync + 'static,
    ) -> Self {
        self.processes.push(Box::new(|it| it.follow::<P, Q>(input)));
        self
    }

    /// Runs a workflow.
    pub fn workflow<W: Workflow>(mut self, workflow: W) -> Self {
        self.workflows.push(Box::new(|it| it.with(workflow)));
        self
    }

    /// Declares a queue: how its messages are delivered, unless an operator says otherwise.
    pub fn queue<T>(mut self, queue: impl Into<QueueSpec<T>>) -> Self {
        let QueueSpec { queue, settings } = queue.into();
        self.declared.queue(queue.name(), settings);
        self
    }

    /// Consumes a queue, message by message.
    pub fn consume<C: Consumer>(self, queue: Queue<C::Message>, consumer: C) -> Self {
        self.consume_with(queue, consumer, ConsumeOptions::default())
    }

    /// Consumes a queue, with options.
    pub fn consume_with<C: Consumer>(
        mut self,
        queue: Queue<C::Message>,
        consumer: C,
        options: ConsumeOptions,
    ) -> Self {
        self.declared.consume(queue.name(), consumer, options);
        self
    }

    /// Consumes a queue in batches, two at a time.
    pub fn consume_batches<C: BatchConsumer>(self, queue: Queue<C::Message>, consumer: C) -> Self {
        let options = ConsumeOptions { concurrency: 2, ..ConsumeOptions::default() };
        self.consume_batches_with(queue, consumer, options)
    }

    /// Consumes a queue in batches, with options.
    pub fn consume_batches_with<C: BatchConsumer>(
        mut self,
        queue: Queue<C::Message>,
        consumer: C,
        options: ConsumeOptions,
    ) -> Self {
        self.declared.consume_batches(queue.name(), consumer, options);
        self
    }

    /// Declares a bucket: it is made if it is not there, with its rules.
    pub fn bucket(mut self, bucket: impl Into<BucketSpec>) -> Self {
        self.buckets.specs.push(bucket.into());
        self
    }

    /// Keeps the contents of blobs in this folder, which the program holds alone.
    pub fn blob_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.buckets.place = bucket::Place::Folder(folder.into());
        self
    }

    /// Keeps the contents of blobs there.
    pub fn blobs(mut self, blobs: Arc<dyn Blobs>) -> Self {
        self.buckets.place = bucket::Place::Given(blobs);
        self
    }

    /// Sets how long buckets keep what nobody asked to keep.
    pub fn bucket_options(mut self, options: BucketOptions) -> Self {
        self.buckets.options = options;
        self
    }

    /// Sets how long things are kept that nobody said it of.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Lets parts of the program reach it by this link while it runs.
    pub fn link(mut self, link: &Link) -> Self {
        self.links.push(link.clone());
        self
    }

    /// Takes chance from here.
    pub fn entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }

    /// Sets the options of objects.
    pub fn object_options(mut self, options: ObjectOptions) -> Self {
        self.object_options = options;
        self
    }

    /// Sets the options of the dispatcher.
    pub fn dispatcher_options(mut self, options: DispatcherOptions) -> Self {
        self.dispatcher_options = options;
        self
    }

    /// Starts to serve on a store.
    pub async fn start(self, store: Arc<dyn Store>) -> Result<Runtime, StartError> {
        let Self {
            objects,
            processes,
            workflows,
            entropy,
            script,
            mut links,
            declared,
            buckets,
            keep,
            ..
        } = self;
        let (object_options, dispatcher_options) = (self.object_options, self.dispatcher_options);
        let builder =
            Objects::builder(store.clone()).shared_entropy(entropy.clone()).options(object_options);
        let buckets = buckets.open(store.clone(), entropy.clone()).await?;
        let objects = objects.into_iter().fold(builder, |it, add| add(it)).start()?;
        let processes =
            processes.into_iter().fold(Processes::new(store.clone()), |it, add| add(it));
        let runs = Runs::new(store.clone(), entropy.clone(), objects.clone());
        let runs = runs.with_buckets(buckets);
        let runs = workflows.into_iter().fold(runs.scripted(script), |it, add| add(it));
        let grace = dispatcher_options.grace;
        // Consumers have a link of their own.
        let link = Link::default();
        links.push(link.clone());
        links.iter().for_each(|it| it.tie(&objects, &runs));
        let (its_store, chance) = (store.clone(), entropy.clone());
        let queues = Queues::new(declared, its_store, chance, objects.clone(), link);
        links.iter().for_each(|it| it.tie_queues(&queues));
        queues.begin(grace).await?;
        let dispatcher = Dispatcher::builder(store.clone())
            .shared_entropy(entropy)
            .options(dispatcher_options)
            .route(processes.clone())
            .route(objects.clone())
            .route(runs.clone())
            .queues(queues.clone())
            .start()
            .await?;
        let sweeper = Sweeper {
            store: store.clone(),
            runs: runs.clone(),
            queues: queues.clone(),
            buckets: runs.buckets(),
            keep,
        };
        let mut sweeping = JoinSet::new();
        sweeping.spawn(sweeper.clone().run());
        Ok(Runtime { objects, processes, dispatcher, grace, links, sweeper, sweeping })
    }
}

/// A running program.
pub struct Runtime {
    objects: Objects,
    processes: Processes,
    pub(crate) dispatcher: Dispatcher,
    grace: Duration,
    links: Vec<Link>,
    sweeper: Sweeper,
    /// Ends with the program.
    sweeping: JoinSet<()>,
}

impl Runtime {
    /// Begins to declare a program.
    pub fn builder() -> Builder {
        // Messages may be for parts of the program that are not there yet.
        let dispatcher_options =
            DispatcherOptions { unknown: Unknown::Waits, ..DispatcherOptions::default() };
        Builder {
            objects: Vec::new(),
            processes: Vec::new(),
            workflows: Vec::new(),
            declared: Declared::default(),
            buckets: bucket::Declared::default(),
            entropy: Arc::new(SeededEntropy::from_system()),
            object_options: ObjectOptions::default(),
            dispatcher_options,
            script: Script::default(),
            links: Vec::new(),
            keep: Keep::default(),
        }
    }

    /// Looks for pending work that nothing will ever wake; there must be none.
    pub async fn forgotten(&self) -> Result<Vec<Position>, StoreError> {
        self.dispatcher.forgotten().await
    }

    /// Calls an object. The reply comes when the turn is durable.
    pub fn call<C: Handle<M>, M: Body, I>(
        &self,
        to: Address<C>,
        msg: M,
    ) -> PendingCall<'_, C::Reply>
    where
        C::Calls: Lists<M, I>,
    {
        self.objects.call(to, msg)
    }

    /// Calls an object by names, with JSON.
    pub async fn call_json(
        &self,
        class: &str,
        name: &str,
        message: &str,
        body: &str,
    ) -> Result<String, CallError> {
        self.objects.call_json(class, name, message, body, None).await
    }

    /// Connects to an object. The connection is there when the turn that accepted it is durable.
    pub async fn connect<C: Live>(
        &self,
        to: Address<C>,
        arrival: Arrival,
    ) -> Result<LiveSocket, CallError> {
        self.objects.connect(C::CLASS, to.name(), arrival).await
    }

    /// Deletes an object; `false` if it did not exist.
    pub async fn delete<C: Object>(&self, object: Address<C>) -> Result<bool, CallError> {
        self.objects.delete(C::CLASS, object.name()).await
    }

    /// Gives an input to a process.
    pub async fn input<P: Process>(&self, input: &P::Input) -> Result<Decided, InputError> {
        self.processes.input::<P>(input, None).await
    }

    /// The objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The processes.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Starts a run of a workflow, or finds it there.
    pub async fn start<W: Workflow>(
        &self,
        run: &RunAddress<W>,
        input: &W::Input,
    ) -> Result<Started, RunError> {
        self.runs().start(run, input).await
    }

    /// The runs of workflows.
    pub fn runs(&self) -> &Runs {
        &self.sweeper.runs
    }

    /// A bucket of the program.
    pub fn bucket(&self, bucket: Bucket) -> BucketHandle {
        BucketHandle::new(self.buckets(), bucket)
    }

    /// All buckets, if the program has any.
    pub fn buckets(&self) -> Option<Buckets> {
        self.sweeper.buckets.clone()
    }

    /// The queues.
    pub fn queues(&self) -> &Queues {
        &self.sweeper.queues
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.sweeper.store
    }

    /// Forgets at once what is old, as the program does every hour by itself.
    pub async fn sweep(&self) {
        self.sweeper.sweep().await;
    }

    /// Finishes what is under way and takes nothing new: connections end in order, and the buckets
    /// of the program are closed. The store stays open.
    pub async fn stop(mut self) {
        self.sweeping.shutdown().await;
        self.objects.hang_up().await;
        let Sweeper { runs, queues, buckets, .. } = &self.sweeper;
        tokio::join!(self.dispatcher.stop(), runs.stop(self.grace), queues.stop());
        if let Some(buckets) = buckets {
            buckets.close().await;
        }
        self.links.iter().for_each(Link::untie);
    }
}
