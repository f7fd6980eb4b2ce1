//! Decides inputs: read, fold, decide, and commit input and decision together.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::{
    Address, Commit, EntityId, EntityKind, Expect, Json, Message, Outcome, Position, Recorded,
    Rejection, Remember, Store, StoreError, Version, Write,
};

use super::{
    definition::{InputError, Process, encode, translate},
    record::{self, Instance, Subscribers},
};
use crate::{
    body::read_stored,
    dispatch::{HandlerDelivery, cancelled},
};

/// Maximum attempts of a decision under concurrent changes.
const ATTEMPTS_MAX: u32 = 20;

/// Maximum schedules that the commit of a completion cancels.
const CANCELLED_MAX: usize = 5_000;

/// Maximum instances in memory.
const HELD_MAX: usize = 10_000;

/// The decision on an input. A repetition with the same key gets the same decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Decision))]
pub struct Decided {
    /// The position of the input in its stream.
    #[serde(rename = "position")]
    pub version: i64,
    /// The outputs of the decision, in order.
    pub outputs: Vec<Output>,
    /// The answer, if the process gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// Whether the input arrived after the end and was only recorded.
    pub ignored: bool,
    /// Whether it was decided before, under the same key. Only in the process.
    #[serde(skip)]
    pub repeated: bool,
}

/// One output of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DecisionOutput))]
pub struct Output {
    /// The action: reply, send, publish, schedule or complete.
    pub action: String,
    /// Its type.
    #[serde(rename = "type")]
    pub message_type: String,
    /// Its data.
    pub data: Value,
}

/// A message of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reply {
    /// Its type.
    #[serde(rename = "type")]
    pub message_type: String,
    /// Its data.
    pub data: Value,
}

impl Decided {
    fn new(version: Version, outputs: Vec<Output>, ignored: bool, repeated: bool) -> Self {
        let reply = outputs.iter().find(|it| it.action == "reply").cloned();
        let reply = reply.map(|Output { message_type, data, .. }| Reply { message_type, data });
        Self { version, outputs, reply, ignored, repeated }
    }
}

/// Runs one process on a store.
pub(super) struct Runner<P: Process> {
    pub(super) store: Arc<dyn Store>,
    /// A cache of instances. An instance is not in it while a commit of it may be in flight.
    held: Mutex<HashMap<EntityId, Instance<P>>>,
    /// Serializes decisions of instances that share a lock.
    turns: [tokio::sync::Mutex<()>; 256],
    subscribers: Subscribers,
}

impl<P: Process> Runner<P> {
    pub(super) fn new(store: Arc<dyn Store>, subscribers: Subscribers) -> Self {
        let turns = std::array::from_fn(|_| tokio::sync::Mutex::default());
        Self { store, held: Mutex::default(), turns, subscribers }
    }

    /// Decides an input, once for each key. With a delivery, the same commit settles it.
    pub(super) async fn input(
        &self,
        name: &str,
        input: &P::Input,
        key: Option<&str>,
        delivery: Option<&HandlerDelivery>,
    ) -> Result<Decided, InputError> {
        check_route::<P>(name, input)?;
        let stream = record::stream::<P>(name)?;
        // Concurrent decisions of one instance would only conflict.
        let _turn = self.turns[usize::from(stream.id().shard())].lock().await;
        let mut instance = match self.held(stream.id()) {
            Some(instance) => instance,
            None => Instance::load(&*self.store, &stream).await?,
        };
        for _ in 0..ATTEMPTS_MAX {
            let step = match self.step(&stream, instance, input, key, delivery).await {
                // An input that is refused now may have been accepted before.
                Err(InputError::Refused(refused)) => {
                    let before = self.find(&stream, input, key, delivery).await?;
                    return before.ok_or(InputError::Refused(refused));
                }
                step => step?,
            };
            // If the caller goes away or the outcome is unknown, the next input reads the stream.
            self.held.lock().remove(&stream.id());
            let outcome = match delivery {
                Some(delivery) => delivery.settle(step.commit).await?,
                None => self.store.commit(step.commit).await?,
            };
            match outcome {
                Outcome::Committed(receipt) => {
                    let version = receipt.appended[step.input].0;
                    self.hold(stream.id(), step.after);
                    return Ok(Decided::new(version, step.outputs, step.ignored, false));
                }
                Outcome::Duplicate(before) => {
                    return self.recall(before.position).await;
                }
                Outcome::Rejected(Rejection::KeyReused { key }) => {
                    return Err(InputError::KeyReused { key });
                }
                // Another commit was first: decide again on the new state.
                Outcome::Rejected(Rejection::Version { .. } | Rejection::NotPending { .. })
                    if !delivery.is_some_and(HandlerDelivery::is_lost) => {}
                Outcome::Rejected(rejection) => {
                    let reason = rejection.to_string();
                    return Err(StoreError::Unavailable { reason }.into());
                }
            }
            instance = Instance::load(&*self.store, &stream).await?;
        }
        Err(InputError::Contended { instance: name.into(), attempts: ATTEMPTS_MAX })
    }

    /// The recorded decisions on an input with this key. The commit cannot be applied: the store
    /// checks the key before the expectations.
    async fn find(
        &self,
        stream: &Address,
        input: &P::Input,
        key: Option<&str>,
        delivery: Option<&HandlerDelivery>,
    ) -> Result<Option<Decided>, InputError> {
        let Some(key) = key else { return Ok(None) };
        let key = remember(stream, key, input, delivery)?;
        let never = Expect::Version { stream: stream.id(), version: -1 };
        let probe = Commit::of(Write::Remember(key)).expect(never);
        let outcome = match delivery {
            Some(delivery) => delivery.settle(probe).await?,
            None => self.store.commit(probe).await?,
        };
        match outcome {
            Outcome::Duplicate(before) => self.recall(before.position).await.map(Some),
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(InputError::KeyReused { key }),
            Outcome::Rejected(_) | Outcome::Committed(_) => Ok(None),
        }
    }

    /// The state of an instance; `None` if it never began.
    pub(super) async fn look(&self, name: &str) -> Result<Option<Instance<P>>, InputError> {
        let instance = Instance::load(&*self.store, &record::stream::<P>(name)?).await?;
        Ok((0 < instance.version).then_some(instance))
    }

    async fn step(
        &self,
        stream: &Address,
        mut instance: Instance<P>,
        input: &P::Input,
        key: Option<&str>,
        delivery: Option<&HandlerDelivery>,
    ) -> Result<Step<P>, InputError> {
        let expected = instance.version;
        let ignored = instance.completed;
        let mut events = Vec::new();
        let messages = if ignored {
            vec![record::ignored::<P>(input)?]
        } else {
            let actions = P::decide(input, &instance.state)?;
            events = translate::<P>(expected == 0, input.clone(), actions);
            record::messages::<P>(stream, &events)?
        };
        let at = if !ignored && expected == 0 { 1 } else { 0 };
        events.iter().for_each(|event| instance.apply(event));
        instance.version += messages.len() as Version;
        instance.unkept += messages.len() as Version;
        let outputs = messages.iter().skip(at + 1).map(Message::content);
        let outputs = outputs.map(|(action, of, data)| output(action, of, data));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let mut commit = Commit::append(stream, expected, messages);
        if let Some((stream, messages)) = self.subscribers.messages::<P>(stream, &events)? {
            commit = commit.write(Write::Append { stream, messages });
        }
        if let Some(key) = key {
            commit = commit.write(Write::Remember(remember(stream, key, input, delivery)?));
        }
        if !ignored && instance.completed {
            commit = commit.write(Write::Close { stream: stream.id() });
            if instance.scheduled {
                commit = self.cancel_schedules(stream, commit, delivery).await?;
            }
        }
        // Retention may delete a completed stream, but not its outcome.
        if instance.is_long() || (!ignored && instance.completed) {
            instance.unkept = 0;
            commit.writes.extend(instance.freeze(stream).map(Write::Snapshot));
        }
        Ok(Step { commit, after: instance, outputs, input: at, ignored })
    }

    /// Schedules have no effect after completion.
    async fn cancel_schedules(
        &self,
        stream: &Address,
        mut commit: Commit,
        delivery: Option<&HandlerDelivery>,
    ) -> Result<Commit, StoreError> {
        let mine = delivery.map(|it| it.message.position);
        let mut after = 0;
        loop {
            let pending = self.store.pending(Some(stream.id()), after, 500).await?;
            let Some(last) = pending.last() else { return Ok(commit) };
            // A commit is bounded; the remaining schedules are delivered later and ignored.
            if CANCELLED_MAX < commit.writes.len() {
                return Ok(commit);
            }
            after = last.position;
            let scheduled = pending.iter().filter(|it| it.action == "schedule");
            for message in scheduled.filter(|it| Some(it.position) != mine) {
                commit = commit.write(cancelled(message.position, None, None));
            }
        }
    }

    /// The decisions of the first time.
    async fn recall(&self, first: Position) -> Result<Decided, InputError> {
        let read = async |position| {
            let missing = || StoreError::Corrupt { reason: format!("{position} is missing") };
            self.store.message(position).await?.ok_or_else(missing)
        };
        let mut message = read(first).await?;
        // The first append of an instance begins with this message.
        if message.action == "begin" {
            message = read(first + 1).await?;
        }
        let position = message.position;
        let stream = message.stream;
        let mut outputs = Vec::new();
        let mut from = message.version + 1;
        loop {
            let page = self.store.read_stream(stream, from, 100).await?;
            let caused = page.iter().take_while(|it| it.cause == Some(position));
            let found = caused.map(recorded_output).collect::<Result<Vec<_>, _>>()?;
            let whole = found.len() == 100;
            outputs.extend(found);
            if !whole {
                break;
            }
            from += 100;
        }
        let ignored = message.action == "ignore";
        Ok(Decided::new(message.version, outputs, ignored, true))
    }

    fn held(&self, id: EntityId) -> Option<Instance<P>> {
        self.held.lock().get(&id).cloned()
    }

    fn hold(&self, id: EntityId, instance: Instance<P>) {
        let mut held = self.held.lock();
        // Few inputs follow completion.
        if instance.completed {
            return;
        }
        // Instances in use are soon cached again.
        if HELD_MAX <= held.len() {
            held.clear();
        }
        held.insert(id, instance);
    }
}

/// One decision, ready to be committed.
struct Step<P: Process> {
    commit: Commit,
    after: Instance<P>,
    outputs: Vec<Output>,
    /// The index of the input in the append.
    input: usize,
    ignored: bool,
}

fn check_route<P: Process>(name: &str, input: &P::Input) -> Result<(), InputError> {
    match P::route(input) {
        Some(routed) if routed == name => Ok(()),
        Some(routed) => {
            Err(InputError::Instance { belongs: format!("`{routed}`"), given: name.into() })
        }
        None => Err(InputError::Instance { belongs: "no instance".into(), given: name.into() }),
    }
}

fn remember<I: super::Body>(
    stream: &Address,
    key: &str,
    input: &I,
    delivery: Option<&HandlerDelivery>,
) -> Result<Remember, InputError> {
    let (message_type, data) = encode(input)?;
    let request = format!("{message_type}\n{}", data.as_str());
    // Ids of deliveries and keys of callers need separate scopes: they must not collide.
    let scope = match delivery {
        Some(_) => Address::new(EntityKind::System, "delivery", &stream.id().to_string())?.id(),
        None => stream.id(),
    };
    Ok(Remember::new(scope, key, request.as_bytes()).map_err(StoreError::from)?)
}

fn recorded_output(message: &Recorded) -> Result<Output, StoreError> {
    output(&message.action, &message.message_type, &message.data)
}

fn output(action: &str, message_type: &str, data: &Json) -> Result<Output, StoreError> {
    let data = read_stored(data.as_str())?;
    Ok(Output { action: action.into(), message_type: message_type.into(), data })
}
