//! The objects of a program: their classes, those that are awake, and the doors to them.

use std::{any::type_name, collections::BTreeMap, sync::Arc};

use steadfast_store::{
    self as store, EntityKind, Entropy, SeededEntropy, Store, StoreClock, StoreError,
};
use tokio::{runtime::Handle as Tokio, sync::oneshot};

use super::{
    Address, CallError, CallList, Caller, Handle, Job, Lists, Object, ObjectOptions, PendingCall,
    Perform,
    activation::Activation,
    awake::Awake,
    calls::Methods,
    cell::{Cell, NotTaken},
    effect::Performer,
    fields::MessageView,
    held::is_in_turn,
    inspect::Desk,
    key::Key,
    live::{Door, Rooms},
    mailbox::{End, Input, Item, Reply},
    mould::Mould,
    pace::Pace,
    pages::Pages,
    pool::Pool,
    restore::{Extent, restore},
    sleep,
};
use crate::{Body, client::Way, script::Script};

/// A class whose types are forgotten.
pub(super) struct Class {
    pub(super) methods: Methods,
    /// Where connections come in.
    pub(super) door: Door,
    pub(super) migrations: &'static [&'static str],
    pub(super) pace: Pace,
    pub(super) mould: Mould,
    /// What the program serves; `None`: that is not known.
    pub(super) served: Option<Arc<Registry>>,
}

/// What a program serves, by name.
pub(super) struct Registry {
    classes: Box<[&'static str]>,
    workflows: Box<[&'static str]>,
}

impl Registry {
    pub(super) fn has_class(&self, name: &str) -> bool {
        self.classes.contains(&name)
    }

    pub(super) fn has_workflow(&self, name: &str) -> bool {
        self.workflows.contains(&name)
    }
}

/// The objects that a program serves. Cloning is cheap; the last clone ends their threads.
#[derive(Clone)]
pub struct Objects {
    pub(super) shared: Arc<Shared>,
}

/// Puts objects together.
pub struct ObjectsBuilder {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    options: ObjectOptions,
    classes: BTreeMap<&'static str, Class>,
    performers: BTreeMap<&'static str, Arc<Performer>>,
    workflows: Option<Box<[&'static str]>>,
    script: Script,
}

impl ObjectsBuilder {
    /// Serves the objects of a class.
    pub fn class<C: Object>(mut self, class: C) -> Self {
        let name = store::Address::new(EntityKind::Object, C::CLASS, "x");
        assert!(name.is_ok(), "`{}` cannot be the name of a class", C::CLASS);
        let class = Arc::new(class);
        let methods = C::Calls::methods(&class);
        let is_one_of_each = methods.len() == C::Calls::names().len();
        assert!(is_one_of_each, "two messages of `{}` have one name", C::CLASS);
        let class = Class {
            methods,
            door: Door::of(&class),
            migrations: C::MIGRATIONS,
            pace: Pace::default(),
            mould: Mould::default(),
            served: None,
        };
        let twice = self.classes.insert(C::CLASS, class);
        assert!(twice.is_none(), "class `{}` is registered twice", C::CLASS);
        self
    }

    /// Turns start runs of these workflows alone, and name objects of these classes.
    pub(crate) fn workflows(mut self, names: Box<[&'static str]>) -> Self {
        self.workflows = Some(names);
        self
    }

    /// Jobs give what the script says.
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

    /// Takes chance from here.
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
        let known = |class| Arc::new(Class { served: served.clone(), ..class });
        let classes = classes.into_iter().map(|(name, it)| (name, known(it))).collect();
        let failed = |error: std::io::Error| StoreError::Unavailable { reason: error.to_string() };
        let rooms = Rooms::new(store.owner().epoch, Tokio::current());
        let shared = Shared {
            rooms,
            clock: store.clock().clone(),
            store,
            entropy,
            options,
            classes,
            performers,
            script,
            pool: Pool::start(options.threads).map_err(failed)?,
            tokio: Tokio::current(),
            awake: Awake::default(),
            desk: Desk::default(),
        };
        let shared = Arc::new(shared);
        shared.tokio.spawn(sleep::run(Arc::downgrade(&shared)));
        Ok(Objects { shared })
    }
}

pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<StoreClock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) options: ObjectOptions,
    pub(super) classes: BTreeMap<&'static str, Arc<Class>>,
    pub(super) performers: BTreeMap<&'static str, Arc<Performer>>,
    pub(super) script: Script,
    pub(super) pool: Arc<Pool>,
    pub(super) tokio: Tokio,
    /// The lines of connections.
    pub(super) rooms: Arc<Rooms>,
    pub(super) awake: Awake,
    pub(super) desk: Desk,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.pool.stop();
    }
}

/// An object that is being read. If the task that does it ends before its time, callers hear so.
struct Loading(Option<Arc<Cell>>);

impl Loading {
    fn done(mut self) {
        self.0.take();
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            cell.loaded(Err(CallError::Store(StoreError::Closed)));
        }
    }
}

impl Shared {
    /// Reads an object, away from the threads that run turns.
    pub(super) fn load(self: &Arc<Self>, cell: Arc<Cell>) {
        let shared = self.clone();
        let unfinished = Loading(Some(cell));
        self.tokio.spawn(async move {
            let Some(cell) = unfinished.0.clone() else { return };
            let restored = restore(&*shared.store, &cell.address, Extent::Needed).await;
            let loaded = restored.map(|restored| {
                let pages = Pages::of(&shared, &cell.address, &restored);
                let me = cell.address.clone();
                Box::new(Activation::new(me, restored, pages, shared.options))
            });
            if let Err(error) = &loaded {
                let (id, now) = (cell.address.id(), shared.clock.now());
                shared.desk.failures.note(id, now, "wake up", error);
            }
            unfinished.done();
            cell.loaded(loaded);
        });
    }

    /// Gives an object something to do and waits for the reply.
    pub(super) async fn give(
        self: &Arc<Self>,
        address: &store::Address,
        input: Input,
        end: Option<End>,
    ) -> Reply {
        let replied = self.offer(address, input, end)?;
        replied.await.unwrap_or(Err(CallError::Store(StoreError::Closed)))
    }

    /// Puts something into the mailbox of an object; the reply comes from there.
    pub(super) fn offer(
        self: &Arc<Self>,
        address: &store::Address,
        input: Input,
        end: Option<End>,
    ) -> Result<oneshot::Receiver<Reply>, CallError> {
        if is_in_turn() {
            return Err(CallError::Nested { object: address.to_string() });
        }
        let class = self.class(address.class())?;
        let (reply, replied) = oneshot::channel();
        let mut item = Item { input, end, reply };
        loop {
            let (cell, used) = self.awake.cell(self, address, class);
            match cell.push(item, self.options.mailbox_max, used) {
                Ok(()) => return Ok(replied),
                Err(NotTaken::Gone(back)) => item = back,
                Err(NotTaken::Refused(error)) => return Err(error),
            }
        }
    }

    pub(super) fn class(&self, class: &str) -> Result<&Arc<Class>, CallError> {
        let found = self.classes.get(class);
        found.ok_or_else(|| CallError::UnknownClass { class: class.into() })
    }
}

impl Objects {
    /// Begins to put objects together that live in a store.
    pub fn builder(store: Arc<dyn Store>) -> ObjectsBuilder {
        ObjectsBuilder {
            store,
            entropy: Arc::new(SeededEntropy::from_system()),
            options: ObjectOptions::default(),
            classes: BTreeMap::new(),
            performers: BTreeMap::new(),
            workflows: None,
            script: Script::default(),
        }
    }

    /// Calls an object. Await it, or give it an idempotency key first.
    pub fn call<C: Handle<M>, M: Body, I>(&self, to: Address<C>, msg: M) -> PendingCall<C::Reply>
    where
        C::Calls: Lists<M, I>,
    {
        PendingCall::typed(Ok(Way::Local(self.clone())), to, msg)
    }

    /// Calls an object by names, with JSON, for callers outside of the program: the turn's
    /// [`Caller`] is anonymous. An empty body stands for a message without fields.
    pub async fn call_json(
        &self,
        class: &str,
        name: &str,
        message: &str,
        body: &str,
        key: Option<&str>,
    ) -> Result<String, CallError> {
        self.call_json_by((class, name), message, body, key, Caller::Anonymous).await
    }

    /// Calls an object by names, for a caller.
    pub(crate) async fn call_json_by(
        &self,
        (class, name): (&str, &str),
        message: &str,
        body: &str,
        key: Option<&str>,
        caller: Caller,
    ) -> Result<String, CallError> {
        self.shared.class(class)?;
        let to = store::Address::new(EntityKind::Object, class, name)?;
        self.give_call(&to, message, body, key, caller).await
    }

    pub(super) async fn give_call(
        &self,
        to: &store::Address,
        message: &str,
        body: &str,
        key: Option<&str>,
        caller: Caller,
    ) -> Reply {
        let class = self.shared.class(to.class())?;
        if !class.methods.contains_key(message) {
            let class = to.class().into();
            return Err(CallError::UnknownMessage { class, message: message.into() });
        }
        let key = key.map(|key| Key::new(key, message, body)).transpose()?;
        let input = Input::Call { message: message.into(), body: body.into(), key, caller };
        self.shared.give(to, input, None).await
    }

    /// Calls an object in whose commit the delivery of a message ends.
    pub(crate) async fn settle<C: Handle<M>, M: Body, I>(
        &self,
        to: Address<C>,
        msg: M,
        position: store::Position,
        lease: Option<store::Lease>,
    ) -> Result<(), CallError>
    where
        C::Calls: Lists<M, I>,
    {
        let body = serde_json::to_string(&msg).map_err(|error| CallError::Malformed {
            message: C::NAME.into(),
            path: ".".into(),
            detail: error.to_string(),
        })?;
        let to = to.resolve()?;
        let (message, caller) = (C::NAME.into(), Caller::Internal);
        let input = Input::Call { message, body: body.into(), key: None, caller };
        self.shared.give(&to, input, Some(End { position, lease })).await.map(drop)
    }

    /// Deletes an object; `false` if it did not exist.
    pub async fn delete(&self, class: &str, name: &str) -> Result<bool, CallError> {
        let to = store::Address::new(EntityKind::Object, class, name)?;
        let existed = self.shared.give(&to, Input::Delete, None).await? == "true";
        self.shared.desk.failures.forget(to.id());
        Ok(existed)
    }

    /// The classes, in order.
    pub fn classes(&self) -> impl Iterator<Item = &'static str> {
        self.shared.classes.keys().copied()
    }

    /// Whether jobs of this name are performed.
    pub(crate) fn performs(&self, job: &str) -> bool {
        self.shared.performers.contains_key(job)
    }

    /// Whether a message of a class may be called over HTTP.
    pub fn is_public(&self, class: &str, message: &str) -> bool {
        let class = self.shared.classes.get(class);
        class.and_then(|it| it.methods.get(message)).is_some_and(|it| it.public)
    }

    /// The messages of a class that may be called over HTTP, by name, with their fields.
    pub fn public_messages(&self, class: &str) -> Vec<MessageView> {
        let methods = self.shared.classes.get(class).into_iter().flat_map(|it| &it.methods);
        let public = methods.filter(|it| it.1.public);
        public.map(|(name, method)| MessageView { name, fields: (method.fields)() }).collect()
    }

    /// How many objects are in memory.
    pub fn awake(&self) -> usize {
        self.shared.awake.count()
    }
}
