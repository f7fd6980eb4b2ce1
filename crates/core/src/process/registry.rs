//! The processes of a program, by name: the entry point for HTTP, the command line and the
//! dispatcher. Delivered commands are executed, and schedules become inputs.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use steadfast_store::{Commit, Recorded, Store, StoreError, Version};

use super::{
    definition::{AnyExecutor, Execute, InputError, Process, decode},
    record::{self, Metadata, Subscribers, encoded},
    runner::{Decided, Runner},
};
use crate::{
    Failure, Handler, Router,
    dispatch::{HandlerDelivery, PermitPool},
    name_map::NameMap,
};

/// The processes that a program runs.
#[derive(Clone)]
pub struct Processes {
    store: Arc<dyn Store>,
    by_name: NameMap<Arc<dyn AnyProcess>>,
    pub(crate) subscribers: Subscribers,
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
        let input: P::Input = decode(message_type, data)?;
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

/// Executes a command, and gives the process the returned input.
pub(super) struct CommandHandler<P: Process> {
    pub(super) runner: Arc<Runner<P>>,
    pub(super) executor: Arc<dyn AnyExecutor<P>>,
}

#[async_trait]
impl<P: Process> Handler for CommandHandler<P> {
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
        let output: P::Output = record::body::<P, _>(&delivery.message).map_err(fatal)?;
        let key = delivery.id();
        let Some(input) = self.executor.execute_boxed(output, &key).await? else {
            return Ok(Commit::default());
        };
        // The returned input may be for another instance.
        let Some(name) = P::route(&input) else { return Ok(Commit::default()) };
        feed(&self.runner, &name, &input, &delivery).await
    }

    fn pool(&self) -> PermitPool {
        PermitPool::Of { kind: "commands", name: P::NAME, max: None }
    }
}

/// Gives a process the input that it scheduled.
pub(super) struct ScheduleHandler<P: Process> {
    pub(super) runner: Arc<Runner<P>>,
}

#[async_trait]
impl<P: Process> Handler for ScheduleHandler<P> {
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
        let input: P::Input = record::body::<P, _>(&delivery.message).map_err(fatal)?;
        let Some(name) = P::route(&input) else {
            return Err(Failure::fatal("the scheduled input belongs to no instance"));
        };
        feed(&self.runner, &name, &input, &delivery).await
    }

    fn leaves_the_process(&self) -> bool {
        false
    }

    fn pool(&self) -> PermitPool {
        PermitPool::Of { kind: "inputs", name: P::NAME, max: None }
    }
}

/// The input is decided in the commit that settles the delivery, so it is decided exactly once.
async fn feed<P: Process>(
    runner: &Runner<P>,
    name: &str,
    input: &P::Input,
    delivery: &HandlerDelivery,
) -> Result<Commit, Failure> {
    let key = delivery.id();
    match runner.input(name, input, Some(&key), Some(delivery)).await {
        Ok(_) => Ok(Commit::default()),
        Err(InputError::Store(StoreError::Invalid(error))) => Err(fatal(StoreError::from(error))),
        // The outcome is unknown, or this code cannot read the stream: retry.
        Err(error @ (InputError::Store(_) | InputError::Contended { .. })) => {
            Err(Failure::retry(error.to_string()))
        }
        Err(error) => Err(fatal(error)),
    }
}

fn fatal(error: impl Into<InputError>) -> Failure {
    Failure::fatal(error.into().to_string())
}
