//! The processes of a program, by name: the entry point for HTTP, the command line and the
//! dispatcher.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use steadfast_store::{Recorded, Store, Version};

use super::{
    Decided, Execute, InputError, Process, codec,
    handlers::{CommandHandler, ScheduleHandler},
    publish::{Published, Subscribers},
    record::{Metadata, encoded},
    runner::Runner,
};
use crate::{Handler, Queue, Router, name_map::NameMap};

/// The processes that a program runs.
#[derive(Clone)]
pub struct Processes {
    store: Arc<dyn Store>,
    by_name: NameMap<Arc<dyn AnyProcess>>,
    subscribers: Subscribers,
}

/// An instance, for views.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceView {
    /// Its state, as JSON.
    pub state: Value,
    /// The last version of its stream.
    pub version: Version,
    /// Whether it has ended.
    pub completed: bool,
}

impl Processes {
    /// No processes yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, by_name: NameMap::default(), subscribers: Subscribers::default() }
    }

    /// Adds a process with its executor.
    pub fn with<P: Process>(mut self, executor: impl Execute<P>) -> Self {
        let runner = Arc::new(Runner::<P>::new(self.store.clone(), self.subscribers.clone()));
        let sent =
            Arc::new(CommandHandler { runner: runner.clone(), executor: Arc::new(executor) });
        let scheduled = Arc::new(ScheduleHandler { runner: runner.clone() });
        self.by_name.insert(P::NAME, Arc::new(RegisteredProcess { runner, sent, scheduled }));
        self
    }

    /// Puts everything that a process publishes into a queue.
    pub fn subscribe<P: Process>(self, queue: Queue<Published>) -> Self {
        self.subscribers.add_queue::<P>(queue.name());
        self
    }

    /// Gives a process an input for outputs that another one publishes.
    pub fn follow<P: Process, Q: Process>(
        self,
        input: impl Fn(P::Output) -> Option<Q::Input> + Send + Sync + 'static,
    ) -> Self {
        self.subscribers.add_process::<P, Q>(input);
        self
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.by_name.keys().copied()
    }

    /// Whether there is such a process.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Gives an input to its instance.
    pub async fn input<P: Process>(
        &self,
        input: &P::Input,
        key: Option<&str>,
    ) -> Result<Decided, InputError> {
        let (name, message_type, data) = encoded::<P>(input)?;
        self.input_json(P::NAME, &name, &message_type, data, key).await
    }

    /// Gives an input by names, with JSON.
    #[steadfast_store::boxed]
    pub async fn input_json(
        &self,
        process: &str,
        instance: &str,
        message_type: &str,
        data: Value,
        key: Option<&str>,
    ) -> Result<Decided, InputError> {
        self.get(process)?.input(instance, message_type, data, key).await
    }

    /// Describes an instance; `None` if it never began.
    #[steadfast_store::boxed]
    pub async fn look(
        &self,
        process: &str,
        instance: &str,
    ) -> Result<Option<InstanceView>, InputError> {
        self.get(process)?.look(instance).await
    }

    fn get(&self, process: &str) -> Result<&Arc<dyn AnyProcess>, InputError> {
        self.by_name.get(process).ok_or_else(|| InputError::Process { name: process.into() })
    }
}

impl Router for Processes {
    fn route(&self, message: &Recorded) -> Option<Arc<dyn Handler>> {
        let process = Metadata::of(message)?.process;
        self.by_name.get(&process)?.handler(&message.action)
    }
}

/// A type-erased process.
#[async_trait]
trait AnyProcess: Send + Sync {
    async fn input(
        &self,
        instance: &str,
        message_type: &str,
        data: Value,
        key: Option<&str>,
    ) -> Result<Decided, InputError>;

    async fn look(&self, instance: &str) -> Result<Option<InstanceView>, InputError>;

    fn handler(&self, action: &str) -> Option<Arc<dyn Handler>>;
}

struct RegisteredProcess<P: Process> {
    runner: Arc<Runner<P>>,
    sent: Arc<CommandHandler<P>>,
    scheduled: Arc<ScheduleHandler<P>>,
}

#[async_trait]
impl<P: Process> AnyProcess for RegisteredProcess<P> {
    async fn input(
        &self,
        instance: &str,
        message_type: &str,
        data: Value,
        key: Option<&str>,
    ) -> Result<Decided, InputError> {
        let input: P::Input = codec::decode(message_type, data)?;
        self.runner.input(instance, &input, key, None).await
    }

    async fn look(&self, instance: &str) -> Result<Option<InstanceView>, InputError> {
        let Some(found) = self.runner.look(instance).await? else { return Ok(None) };
        let (version, completed) = (found.version, found.completed);
        Ok(Some(InstanceView { state: found.shown()?, version, completed }))
    }

    fn handler(&self, action: &str) -> Option<Arc<dyn Handler>> {
        match action {
            "send" => Some(self.sent.clone()),
            "schedule" => Some(self.scheduled.clone()),
            _ => None,
        }
    }
}
