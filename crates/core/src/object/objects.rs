//! The objects of a program: their classes, and the entry points to them.

use std::{any::type_name, sync::Arc};

use steadfast_store::{
    self as store, EntityKind, Entropy, OpaqueArc, SeededEntropy, Store, StoreClock, StoreError,
};
use tokio::sync::oneshot;

use super::{
    CallError, ObjectOptions,
    api::{Object, class_of},
    effect::{Job, Perform, Performer},
    fields::MessageView,
    request::{Reply, Request, Settle},
    scheduler::{Scheduler, ServedClass},
    transaction::{Class, Registry},
};
use crate::{name_map::NameMap, places::Places, script::Script};

/// Objects that are inspected at the same time: each may take 256 MiB.
pub(super) const INSPECTED_MAX: usize = 4;

/// The objects that a program serves. Cloning is cheap; the last clone ends their threads.
#[derive(Clone)]
pub struct Objects {
    pub(super) program: Arc<Program>,
    pub(super) scheduler: OpaqueArc<Scheduler>,
}

/// The registrations of a program.
pub(super) struct Program {
    pub(super) classes: NameMap<Arc<ServedClass>>,
    pub(super) performers: NameMap<Arc<Performer>>,
    pub(super) script: Script,
    pub(super) inspection: InspectionLimits,
}

/// Bounds the memory that inspection takes.
pub(super) struct InspectionLimits {
    pub(super) reads: Places,
    /// Statements that users write have places of their own: pages do not wait for them.
    pub(super) queries: Places,
    /// Objects that are held while clients download them, however slowly.
    pub(super) exports: Places,
}

/// Builds [`Objects`].
pub struct ObjectsBuilder {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    options: ObjectOptions,
    classes: NameMap<Class>,
    performers: NameMap<Arc<Performer>>,
    workflows: Option<Box<[&'static str]>>,
    script: Script,
}

impl ObjectsBuilder {
    /// Serves the objects of a class.
    pub fn class<C: Object>(mut self, class: C) -> Self {
        let name = store::Address::new(EntityKind::Object, C::CLASS, "x");
        assert!(name.is_ok(), "`{}` cannot be the name of a class", C::CLASS);
        let twice = self.classes.insert(C::CLASS, class_of(class));
        assert!(twice.is_none(), "class `{}` is registered twice", C::CLASS);
        self
    }

    /// Turns can start runs of only these workflows, and name objects of only these classes.
    pub(crate) fn workflows(mut self, names: Box<[&'static str]>) -> Self {
        self.workflows = Some(names);
        self
    }

    /// Jobs return the scripted results.
    pub(crate) fn scripted(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    /// Performs the jobs of a kind.
    pub fn perform<J: Job>(mut self, performer: impl Perform<J>) -> Self {
        let performer = Arc::new(Performer::new::<J>(performer));
        let twice = self.performers.insert(J::NAME, performer);
        assert!(twice.is_none(), "job `{}` of {} is registered twice", J::NAME, type_name::<J>());
        self
    }

    /// Sets the source of randomness.
    pub fn entropy(self, entropy: impl Entropy) -> Self {
        self.shared_entropy(Arc::new(entropy))
    }

    pub(crate) fn shared_entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets the options.
    pub fn options(mut self, options: ObjectOptions) -> Self {
        self.options = options;
        self
    }

    /// Starts the threads. Objects are read when they are called, on the async runtime that this is
    /// called in.
    pub fn start(self) -> Result<Objects, StoreError> {
        let Self { store, entropy, options, classes, performers, workflows, script } = self;
        let names: Box<[_]> = classes.keys().copied().collect();
        let served = workflows.map(|workflows| Arc::new(Registry { classes: names, workflows }));
        let known = |class| Arc::new(ServedClass::new(Class { served: served.clone(), ..class }));
        let classes = classes.into_iter().map(|(name, it)| (name, known(it))).collect();
        let limit = || Places::new(INSPECTED_MAX);
        let inspection = InspectionLimits { reads: limit(), queries: limit(), exports: limit() };
        let program = Program { classes, performers, script, inspection };
        let scheduler = Scheduler::start(store, entropy, options)?;
        Ok(Objects { program: Arc::new(program), scheduler })
    }
}

impl Objects {
    /// Builds the objects of a store.
    pub fn builder(store: Arc<dyn Store>) -> ObjectsBuilder {
        ObjectsBuilder {
            store,
            entropy: Arc::new(SeededEntropy::from_system()),
            options: ObjectOptions::default(),
            classes: NameMap::default(),
            performers: NameMap::default(),
            workflows: None,
            script: Script::default(),
        }
    }

    pub(super) fn class(&self, class: &str) -> Result<&Arc<ServedClass>, CallError> {
        let found = self.program.classes.get(class);
        found.ok_or_else(|| CallError::UnknownClass { class: class.into() })
    }

    /// Makes a request of an object and waits for the reply.
    pub(super) async fn request(
        &self,
        to: &store::Address,
        request: Request,
        settle: Option<Settle>,
    ) -> Reply {
        let class = self.class(to.class())?;
        Scheduler::call(&self.scheduler, to, class, request, settle).await
    }

    /// Puts a request into the mailbox of an object; the reply comes through the channel.
    pub(super) fn post(
        &self,
        to: &store::Address,
        request: Request,
        settle: Option<Settle>,
    ) -> Result<oneshot::Receiver<Reply>, CallError> {
        Scheduler::request(&self.scheduler, to, self.class(to.class())?, request, settle)
    }

    /// Deletes an object; `false` if it did not exist.
    #[steadfast_store::boxed]
    pub async fn delete(&self, class: &str, name: &str) -> Result<bool, CallError> {
        let to = store::Address::new(EntityKind::Object, class, name)?;
        let existed = self.request(&to, Request::Delete, None).await? == "true";
        self.scheduler.failures.forget(to.id());
        Ok(existed)
    }

    /// The classes, in order.
    pub fn classes(&self) -> impl Iterator<Item = &'static str> {
        self.program.classes.keys().copied()
    }

    /// Whether jobs of this name are performed.
    pub(crate) fn performs(&self, job: &str) -> bool {
        self.program.performers.contains_key(job)
    }

    /// Whether a message of a class may be called over HTTP.
    pub fn is_public(&self, class: &str, message: &str) -> bool {
        let class = self.program.classes.get(class);
        class.and_then(|it| it.class.methods.get(message)).is_some_and(|it| it.public)
    }

    /// The messages of a class that may be called over HTTP, by name, with their fields.
    pub fn public_messages(&self, class: &str) -> Vec<MessageView> {
        let methods = self.program.classes.get(class).into_iter().flat_map(|it| &it.class.methods);
        let public = methods.filter(|it| it.1.public);
        public.map(|(name, method)| MessageView { name, fields: (method.fields)() }).collect()
    }

    /// The clock of the store, for jobs that wait.
    pub fn clock(&self) -> &StoreClock {
        &self.scheduler.clock
    }

    /// The number of objects in memory.
    pub fn awake(&self) -> usize {
        self.scheduler.table.count()
    }
}
