//! `App`: a program as a value.

mod start;

use std::{
    collections::BTreeMap,
    fmt,
    panic::Location,
    path::{Path, PathBuf},
    sync::Arc,
};

use steadfast_store::{Address, EntityKind, Entropy, Seal, SealFile, SeededEntropy, queue_address};

use crate::{
    BatchConsumer, BucketSpec, Client, ConsumeOptions, Consumer, DispatcherOptions, Extension, Job,
    Object, ObjectOptions, Perform, Queue, QueueSpec, Result, RetentionSettings, Runtime,
    StartError, Unknown,
    bucket::{self, Blobs, BucketName, BucketOptions},
    object::{CallList, ObjectsBuilder},
    process::{Execute, Process, Processes, Published},
    queue::{BatchAdapter, QueueDeclarations, SingleAdapter},
    runtime::{BeforeWork, Extensions, check_all},
    script::Script,
    workflow::{Runs, Workflow},
};

type AddObject = Box<dyn FnOnce(ObjectsBuilder) -> ObjectsBuilder + Send + Sync>;
type AddWorkflow = Box<dyn FnOnce(Runs) -> Runs + Send + Sync>;
type OnOpen = Box<dyn FnOnce(&Runtime) + Send + Sync>;
type AddProcess = Box<dyn FnOnce(Processes) -> Processes + Send + Sync>;

/// Where the key that seals secrets comes from.
pub(crate) enum SealSource {
    /// The data folder of the program, if it has one.
    Unset,
    /// A file.
    File(SealFile),
    /// Made by the caller.
    Given(Seal),
}

/// The application that declared something, and the line of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The name of the application.
    pub app: String,
    /// The file and the line.
    pub line: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.app, self.line)
    }
}

/// Declares a program: its objects, workflows, processes, queues and buckets. A program is a value;
/// nothing is global.
///
/// Declaring never fails. [`App::open`] reports every problem of a program that cannot start.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// use steadfast::{App, Consumer, Delivery, Queue, Result, Settled};
///
/// #[derive(Serialize, Deserialize)]
/// struct Letter {
///     text: String,
/// }
/// const MAIL: Queue<Letter> = Queue::named("mail");
///
/// struct Postman;
/// impl Consumer for Postman {
///     type Message = Letter;
///     async fn deliver(&self, delivery: Delivery<Letter>) -> Result<Settled> {
///         println!("{}", delivery.message.text);
///         Ok(delivery.done())
///     }
/// }
///
/// fn app() -> App {
///     App::new("post").queue(MAIL).consume(MAIL, Postman)
/// }
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let program = app().open("./data").await?;
/// program.send(MAIL, Letter { text: "Hello".into() }).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an App does nothing until it is opened"]
pub struct App {
    pub(crate) name: String,
    names: BTreeMap<(&'static str, String), Owner>,
    problems: Vec<String>,
    pub(crate) extensions: Extensions,
    /// One for each application that was merged.
    pub(crate) clients: Vec<Client>,
    pub(crate) objects: Vec<AddObject>,
    pub(crate) processes: Vec<AddProcess>,
    pub(crate) workflows: Vec<(&'static str, AddWorkflow)>,
    pub(crate) on_open: Vec<OnOpen>,
    pub(crate) before_work: Vec<BeforeWork>,
    pub(crate) queues: QueueDeclarations,
    pub(crate) buckets: bucket::BucketDeclarations,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) object_options: ObjectOptions,
    pub(crate) dispatcher_options: DispatcherOptions,
    pub(crate) script: Script,
    pub(crate) retention: RetentionSettings,
    pub(crate) adopts: bool,
    pub(crate) sessions_in_memory: bool,
    pub(crate) seal: SealSource,
    /// Processes that a subscription needs, with the subscriber.
    expected: Vec<(&'static str, Owner)>,
}

impl App {
    /// A program of this name, which serves nothing yet. A store records the name of the first
    /// program that opens it.
    pub fn new(name: impl Into<String>) -> Self {
        // The store may hold messages for handlers that are declared later.
        let dispatcher_options =
            DispatcherOptions { unknown: Unknown::Waits, ..DispatcherOptions::default() };
        Self {
            name: name.into(),
            names: BTreeMap::new(),
            problems: Vec::new(),
            extensions: Extensions::default(),
            clients: vec![Client::default()],
            objects: Vec::new(),
            processes: Vec::new(),
            workflows: Vec::new(),
            on_open: Vec::new(),
            before_work: Vec::new(),
            queues: QueueDeclarations::default(),
            buckets: bucket::BucketDeclarations::default(),
            entropy: Arc::new(SeededEntropy::from_system()),
            object_options: ObjectOptions::default(),
            dispatcher_options,
            script: Script::default(),
            retention: RetentionSettings::default(),
            adopts: false,
            sessions_in_memory: false,
            seal: SealSource::Unset,
            expected: Vec::new(),
        }
    }

    /// The name of the program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client of the program while it runs. A performer, executor or consumer that calls objects
    /// or starts runs keeps one.
    pub fn client(&self) -> Client {
        self.clients[0].clone()
    }

    /// Serves the objects of a class.
    #[track_caller]
    pub fn object<C: Object>(mut self, class: C) -> Self {
        let owner = self.claim("object class", C::CLASS);
        self.check_name(Address::new(EntityKind::Object, C::CLASS, "x"), C::CLASS, &owner);
        let mut names: Vec<_> = C::Calls::names();
        names.sort_unstable();
        for twice in names.windows(2).filter(|it| it[0] == it[1]) {
            let (class, name) = (C::CLASS, twice[0]);
            self.reject(format!("object class `{class}` of {owner} has two messages `{name}`"));
        }
        self.objects.push(Box::new(|it| it.class(class)));
        self
    }

    /// Performs the jobs of a kind that objects ask for.
    #[track_caller]
    pub fn perform<J: Job>(mut self, performer: impl Perform<J>) -> Self {
        let owner = self.claim("job", J::NAME);
        self.check_name(Address::new(EntityKind::System, "effect", J::NAME), J::NAME, &owner);
        self.objects.push(Box::new(|it| it.perform::<J>(performer)));
        self
    }

    /// Runs a process; `executor` executes its commands.
    #[track_caller]
    pub fn process<P: Process>(mut self, executor: impl Execute<P>) -> Self {
        let owner = self.claim("process", P::NAME);
        self.check_name(Address::new(EntityKind::Process, P::NAME, "x"), P::NAME, &owner);
        self.processes.push(Box::new(|it| it.with::<P>(executor)));
        self
    }

    /// Puts everything that a process publishes into a queue, in the commit of the decision.
    #[track_caller]
    pub fn subscribe<P: Process>(mut self, queue: Queue<Published>) -> Self {
        let owner = self.claim("subscription", &format!("{} to {}", P::NAME, queue.name()));
        self.check_name(queue_address(queue.name()), queue.name(), &owner);
        self.expected.push((P::NAME, owner));
        self.processes.push(Box::new(move |it| it.subscribe::<P>(queue)));
        self
    }

    /// Gives process `Q` one input for each output that process `P` publishes.
    #[track_caller]
    pub fn follow<P: Process, Q: Process>(
        mut self,
        input: impl Fn(P::Output) -> Option<Q::Input> + Send + Sync + 'static,
    ) -> Self {
        let owner = self.claim("subscription", &format!("{} to process {}", P::NAME, Q::NAME));
        self.expected.extend([(P::NAME, owner.clone()), (Q::NAME, owner)]);
        self.processes.push(Box::new(|it| it.follow::<P, Q>(input)));
        self
    }

    /// Runs a workflow.
    #[track_caller]
    pub fn workflow<W: Workflow>(mut self, workflow: W) -> Self {
        let owner = self.claim("workflow", W::NAME);
        self.check_name(Address::new(EntityKind::Run, W::NAME, "x"), W::NAME, &owner);
        self.workflows.push((W::NAME, Box::new(|it| it.with(workflow))));
        self
    }

    /// Declares a queue with its delivery settings. An operator can override them.
    #[track_caller]
    pub fn queue<T>(mut self, queue: impl Into<QueueSpec<T>>) -> Self {
        let QueueSpec { queue, settings } = queue.into();
        let owner = self.claim("queue", queue.name());
        self.check_name(queue_address(queue.name()), queue.name(), &owner);
        match settings.check(queue.name()) {
            Ok(()) => self.queues.queue(queue.name(), settings),
            Err(error) => self.reject(format!("{error}, at {owner}")),
        }
        self
    }

    /// Consumes a queue, message by message.
    #[track_caller]
    pub fn consume<C: Consumer>(self, queue: Queue<C::Message>, consumer: C) -> Self {
        self.consume_with(queue, consumer, ConsumeOptions::default())
    }

    /// Consumes a queue, with options.
    #[track_caller]
    pub fn consume_with<C: Consumer>(
        mut self,
        queue: Queue<C::Message>,
        consumer: C,
        options: ConsumeOptions,
    ) -> Self {
        if self.claim_consumer(queue.name(), options) {
            self.queues.consume(queue.name(), Arc::new(SingleAdapter(consumer)), options);
        }
        self
    }

    /// Consumes a queue in batches, two at a time.
    #[track_caller]
    pub fn consume_batches<C: BatchConsumer>(self, queue: Queue<C::Message>, consumer: C) -> Self {
        let options = ConsumeOptions { concurrency: 2, ..ConsumeOptions::default() };
        self.consume_batches_with(queue, consumer, options)
    }

    /// Consumes a queue in batches, with options.
    #[track_caller]
    pub fn consume_batches_with<C: BatchConsumer>(
        mut self,
        queue: Queue<C::Message>,
        consumer: C,
        options: ConsumeOptions,
    ) -> Self {
        if self.claim_consumer(queue.name(), options) {
            self.queues.consume(queue.name(), Arc::new(BatchAdapter(consumer)), options);
        }
        self
    }

    #[track_caller]
    fn claim_consumer(&mut self, queue: &'static str, options: ConsumeOptions) -> bool {
        let owner = self.claim("consumer of queue", queue);
        let known = self.problems.len();
        self.check_name(queue_address(queue), queue, &owner);
        if options.concurrency == 0 {
            self.reject(format!("queue `{queue}` needs a concurrency of 1 at least, at {owner}"));
        }
        self.problems.len() == known
    }

    /// Declares a bucket with its rules. Opening the program creates the bucket if it does not
    /// exist.
    #[track_caller]
    pub fn bucket(mut self, bucket: impl Into<BucketSpec>) -> Self {
        let spec = bucket.into();
        let owner = self.claim("bucket", spec.bucket.name());
        self.check_name(BucketName::new(spec.bucket.name()), spec.bucket.name(), &owner);
        self.buckets.specs.push(spec);
        self
    }

    /// Stores the contents of blobs in this folder; the program locks it. A program that is opened
    /// on a data folder uses that folder.
    pub fn blob_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.buckets.location = bucket::BlobLocation::Folder(folder.into());
        self
    }

    /// Reads the contents of blobs from this folder, for a program on a read-only store. The folder
    /// does not change, and the buckets refuse changes.
    pub fn blob_folder_read_only(mut self, folder: impl Into<PathBuf>) -> Self {
        self.buckets.location = bucket::BlobLocation::ReadOnly(folder.into());
        self
    }

    /// Stores the contents of blobs in `blobs`.
    pub fn blobs(mut self, blobs: Arc<dyn Blobs>) -> Self {
        self.buckets.location = bucket::BlobLocation::Given(blobs);
        self
    }

    /// Sets the retention of tombstones, unfinished uploads and orphaned files.
    pub fn bucket_options(mut self, options: BucketOptions) -> Self {
        self.buckets.options = options;
        self
    }

    /// Reads the key that seals secrets from this file. Without it, a program that is opened on a
    /// data folder uses the file `seal.key` there.
    pub fn seal_key_file(mut self, file: SealFile) -> Self {
        self.seal = SealSource::File(file);
        self
    }

    /// Uses the file `seal.key` of a data folder, unless another file is named.
    pub fn seal_key_folder(mut self, folder: &Path) -> Self {
        if let SealSource::Unset = self.seal {
            self.seal = SealSource::File(SealFile::in_folder(folder));
        }
        self
    }

    /// Replaces a lost key: secrets that it sealed stay unreadable.
    pub fn replace_seal_key(mut self) -> Self {
        if let SealSource::File(file) = self.seal {
            self.seal = SealSource::File(file.replacing());
        }
        self
    }

    /// Seals secrets with this.
    pub fn seal(mut self, seal: Seal) -> Self {
        self.seal = SealSource::Given(seal);
        self
    }

    /// Takes over a store that belongs to another program. Without this [`App::open`] refuses it.
    pub fn adopt(mut self) -> Self {
        self.adopts = true;
        self
    }

    /// Keeps sessions and login links of browsers in memory, for a program on a read-only store.
    pub fn sessions_in_memory(mut self) -> Self {
        self.sessions_in_memory = true;
        self
    }

    /// Sets the default retention.
    pub fn retention(mut self, retention: RetentionSettings) -> Self {
        self.retention = retention;
        self
    }

    /// Calls `hook` when the program is built on its store, before the first delivery. A hook that
    /// keeps the [`Runtime`] keeps the program alive; a [`Client`] does not.
    pub fn on_open(mut self, hook: impl FnOnce(&Runtime) + Send + Sync + 'static) -> Self {
        self.on_open.push(Box::new(hook));
        self
    }

    /// Checks a precondition, for example a secret or a model, before the first delivery. If the
    /// check fails, the program delivers nothing; it can still be opened for reads.
    pub fn before_work(mut self, check: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        self.before_work.push(Box::new(check));
        self
    }

    /// Sets the source of randomness.
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

    /// Adds the declarations of another application. The options of this one apply.
    pub fn merge(mut self, other: App) -> Self {
        self.problems.extend(other.problems);
        for ((kind, name), owner) in other.names {
            self.take(kind, &name, owner);
        }
        self.extensions.merge(other.extensions);
        self.clients.extend(other.clients);
        self.objects.extend(other.objects);
        self.processes.extend(other.processes);
        self.expected.extend(other.expected);
        self.workflows.extend(other.workflows);
        self.on_open.extend(other.on_open);
        self.before_work.extend(other.before_work);
        self.queues.merge(other.queues);
        self.buckets.specs.extend(other.buckets.specs);
        self
    }

    /// For extensions: claims a name of a kind for this application. A second claim of the name is
    /// a problem that names both owners.
    #[track_caller]
    pub fn claim(&mut self, kind: &'static str, name: &str) -> Owner {
        let owner = self.owner();
        self.take(kind, name, owner.clone());
        owner
    }

    /// For extensions: this application, and the line that declares something now.
    #[track_caller]
    pub fn owner(&self) -> Owner {
        let at = Location::caller();
        Owner { app: self.name.clone(), line: format!("{}:{}", at.file(), at.line()) }
    }

    fn take(&mut self, kind: &'static str, name: &str, owner: Owner) {
        match self.names.get(&(kind, name.to_owned())) {
            None => drop(self.names.insert((kind, name.into()), owner)),
            Some(first) => {
                let problem = format!("{kind} `{name}` is declared by {first} and by {owner}");
                self.problems.push(problem);
            }
        }
    }

    fn check_name<T, E: fmt::Display>(&mut self, named: Result<T, E>, name: &str, owner: &Owner) {
        if let Err(error) = named {
            self.reject(format!("`{name}` cannot be a name: {error}; it is declared by {owner}"));
        }
    }

    /// For extensions: adds a reason why this program cannot start.
    pub fn reject(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// For extensions: the part of this type. The first call creates it.
    pub fn extension_mut<E: Extension>(&mut self) -> &mut E {
        self.extensions.get_mut()
    }

    /// For extensions: the part of this type, if the program has one.
    pub fn extension<E: Extension>(&self) -> Option<&E> {
        self.extensions.get()
    }

    /// Every reason why this program cannot start.
    pub fn problems(&self) -> Vec<String> {
        let is_missing =
            |it: &&(&'static str, Owner)| !self.names.contains_key(&("process", it.0.to_owned()));
        let missing = self.expected.iter().filter(is_missing).map(|(process, owner)| {
            format!("process `{process}` is not declared, and {owner} subscribes to it")
        });
        let problems = self.problems.iter().cloned().chain(self.queues.cycles());
        problems.chain(missing).chain(self.extensions.problems()).collect()
    }

    /// Fails with every problem of the declaration.
    fn check_declared(&self) -> Result<(), StartError> {
        let problems = self.problems();
        if problems.is_empty() { Ok(()) } else { Err(StartError::Program { problems }) }
    }

    /// Fails with every problem of the declaration and every failed check, for callers that open
    /// the store themselves.
    pub fn check(&self) -> Result<(), StartError> {
        self.check_declared()?;
        check_all(&self.before_work)
    }
}
