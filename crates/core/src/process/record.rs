//! Records of a process as messages of a stream, and back: an instance is its folded stream.
//! Outputs that a process publishes go to its subscribers in the commit of the decision.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::Value;
use steadfast_store::{
    Address, Cause, Due, ENQUEUE, EntityKind, Json, Message, Recorded, Snapshot, Store, StoreError,
    Task, Version, limits, queue_address,
};

use super::definition::{CodecError, Event, EventOf, InputError, Process, decode, encode};
use crate::body::{read_stored, to_value};

/// The stream of an instance.
pub(super) fn stream<P: Process>(instance: &str) -> Result<Address, InputError> {
    Ok(Address::new(EntityKind::Process, P::NAME, instance)?)
}

/// The instance that an input belongs to, its type and its data.
pub(crate) fn encoded<P: Process>(input: &P::Input) -> Result<(String, String, Value), InputError> {
    let name = P::route(input).ok_or_else(|| InputError::Instance {
        belongs: "no instance".into(),
        given: P::NAME.into(),
    })?;
    let (message_type, data) = encode(input)?;
    let data = serde_json::from_str(data.as_str()).unwrap_or_default();
    Ok((name, message_type, data))
}

/// The metadata of a message of a process.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    /// The process that the message belongs to, so that the dispatcher finds its handler.
    pub(super) process: String,
    /// The delay of a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_ms: Option<u64>,
}

impl Metadata {
    pub(super) fn of(message: &Recorded) -> Option<Self> {
        serde_json::from_str(message.metadata.as_str()).ok()
    }
}

/// Writes the events of one input as messages; all are caused by the input.
pub(super) fn messages<P: Process>(
    stream: &Address,
    events: &[EventOf<P>],
) -> Result<Vec<Message>, CodecError> {
    let is_input =
        |event: &Event<_, _>| matches!(event, Event::InitiatedBy(_) | Event::Received(_));
    let input = events.iter().position(is_input).unwrap_or(0);
    let ends = events.contains(&Event::Completed);
    let each = events.iter().enumerate().map(|(index, event)| {
        let mut message = message::<P>(stream, event)?;
        // The end of the instance would cancel a schedule of the same decision.
        if ends && matches!(event, Event::Scheduled(..)) {
            message = message.without_task();
        }
        Ok(if input < index { message.cause(Cause::Sibling(input)) } else { message })
    });
    each.collect()
}

/// An input after completion.
pub(super) fn ignored<P: Process>(input: &P::Input) -> Result<Message, CodecError> {
    Ok(incoming::<P>(input)?.action("ignore"))
}

fn message<P: Process>(stream: &Address, event: &EventOf<P>) -> Result<Message, CodecError> {
    let work = |message: Message, after: Duration, after_ms: Option<u64>| {
        let metadata = Metadata { process: P::NAME.into(), after_ms };
        // A schedule must not block the commands behind it.
        let ordered = P::ORDERED && after_ms.is_none();
        let task = Task { target: stream.clone(), ordered, due: Due::After(after) };
        Ok::<Message, CodecError>(message.metadata(Json::of(&metadata)?)?.task(task))
    };
    Ok(match event {
        Event::Began => plain("Began")?.event().action("begin"),
        Event::InitiatedBy(input) => incoming::<P>(input)?.action("initiate"),
        Event::Received(input) => incoming::<P>(input)?,
        Event::Replied(output) => outgoing::<P>(output)?.event().action("reply"),
        Event::Sent(output) => work(outgoing::<P>(output)?, Duration::ZERO, None)?,
        Event::Published(output) => outgoing::<P>(output)?.event().action("publish"),
        Event::Scheduled(after, input) => {
            let (message_type, data) = encode(input)?;
            let message = Message::new(&message_type, data)?.schema(P::SCHEMA).action("schedule");
            let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            work(message, *after, Some(after_ms))?
        }
        Event::Completed => plain("Completed")?.event().action("complete"),
    })
}

fn plain(message_type: &str) -> Result<Message, CodecError> {
    Ok(Message::new(message_type, Json::of(&Value::Null)?)?)
}

fn incoming<P: Process>(input: &P::Input) -> Result<Message, CodecError> {
    let (message_type, data) = encode(input)?;
    let message = Message::new(&message_type, data)?.schema(P::SCHEMA).input();
    Ok(if P::is_command(input) { message } else { message.event() })
}

fn outgoing<P: Process>(output: &P::Output) -> Result<Message, CodecError> {
    let (message_type, data) = encode(output)?;
    Ok(Message::new(&message_type, data)?.schema(P::SCHEMA))
}

/// Reads a message of a stream; `None` for an ignored input.
pub(super) fn event<P: Process>(message: &Recorded) -> Result<Option<EventOf<P>>, CodecError> {
    Ok(Some(match message.action.as_str() {
        "begin" => Event::Began,
        "initiate" => Event::InitiatedBy(body::<P, _>(message)?),
        "receive" => Event::Received(body::<P, _>(message)?),
        "reply" => Event::Replied(body::<P, _>(message)?),
        "send" => Event::Sent(body::<P, _>(message)?),
        "publish" => Event::Published(body::<P, _>(message)?),
        "schedule" => {
            let after = Metadata::of(message).and_then(|it| it.after_ms).unwrap_or(0);
            Event::Scheduled(Duration::from_millis(after), body::<P, _>(message)?)
        }
        "complete" => Event::Completed,
        "ignore" => return Ok(None),
        other => {
            let reason = format!("it is stored with the action `{other}`");
            return Err(CodecError::Unknown { message_type: message.message_type.clone(), reason });
        }
    }))
}

/// Reads the body of a message, converted to the current schema.
pub(super) fn body<P: Process, T: super::Body>(message: &Recorded) -> Result<T, CodecError> {
    let unknown =
        |reason: String| CodecError::Unknown { message_type: message.message_type.clone(), reason };
    let data: Value =
        serde_json::from_str(message.data.as_str()).map_err(|error| unknown(error.to_string()))?;
    if P::SCHEMA <= message.schema {
        return decode(&message.message_type, data);
    }
    let (message_type, data) =
        P::upcast(&message.message_type, message.schema, data).map_err(unknown)?;
    decode(&message_type, data)
}

/// An instance, folded from its stream.
pub(super) struct Instance<P: Process> {
    pub(super) state: P::State,
    pub(super) version: Version,
    pub(super) completed: bool,
    /// Whether it has ever scheduled an input, so that there may be one to cancel.
    pub(super) scheduled: bool,
    /// Messages since its last snapshot.
    pub(super) unkept: Version,
}

impl<P: Process> Clone for Instance<P> {
    fn clone(&self) -> Self {
        Self {
            state: self.state.clone(),
            version: self.version,
            completed: self.completed,
            scheduled: self.scheduled,
            unkept: self.unkept,
        }
    }
}

/// Messages of one page while a stream is read.
const PAGE: usize = 500;

/// Messages after which a snapshot is written, so that long streams need not be read whole.
const KEEP_AFTER: Version = 200;

impl<P: Process> Instance<P> {
    fn new() -> Self {
        let state = P::State::default();
        Self { state, version: 0, completed: false, scheduled: false, unkept: 0 }
    }

    /// Reads the last snapshot of this code, and the stream behind it.
    pub(super) async fn load(store: &dyn Store, stream: &Address) -> Result<Self, InputError> {
        let snapshot = store.snapshot(stream.id()).await?;
        let mut instance = snapshot.as_ref().and_then(Self::thaw).unwrap_or_else(Self::new);
        // A completed instance stays completed, for other code as well and after retention has
        // deleted its stream.
        instance.completed |= snapshot.as_ref().is_some_and(is_of_the_end);
        loop {
            let page = store.read_stream(stream.id(), instance.version + 1, PAGE).await?;
            for message in &page {
                // It was readable when it was written: an unreadable stream is a defect of this
                // program.
                let event = event::<P>(message).map_err(|error| {
                    let reason = format!("message {}: {error}", message.position);
                    StoreError::Corrupt { reason }
                });
                if let Some(event) = event? {
                    instance.apply(&event);
                }
                instance.version = message.version;
                instance.unkept += 1;
            }
            if page.len() < PAGE {
                return Ok(instance);
            }
        }
    }

    pub(super) fn apply(&mut self, event: &EventOf<P>) {
        self.completed |= *event == Event::Completed;
        self.scheduled |= matches!(event, Event::Scheduled(..));
        self.state = P::evolve(std::mem::take(&mut self.state), event);
    }

    /// Whether enough messages were recorded since the last snapshot.
    pub(super) fn is_long(&self) -> bool {
        KEEP_AFTER <= self.unkept
    }

    /// A snapshot; `None` if the state cannot be serialized, which is no reason to stop: the stream
    /// is still there.
    pub(super) fn freeze(&self, stream: &Address) -> Option<Snapshot> {
        let frozen = Json::of(&(&self.state, self.completed, self.scheduled)).ok();
        let frozen = frozen.filter(|it| it.as_str().len() <= limits::DATA_BYTES_MAX);
        // The completion must be recorded in any case, under a version that no code has.
        let (state, code) = match frozen {
            Some(state) => (state, P::VERSION),
            None if self.completed => (Json::of(&((), true, self.scheduled)).ok()?, i32::MIN),
            None => return None,
        };
        Some(Snapshot { stream: stream.id(), version: self.version, code, state })
    }

    /// A snapshot of other code, or one that cannot be read, is ignored.
    fn thaw(snapshot: &Snapshot) -> Option<Self> {
        if snapshot.code != P::VERSION {
            return None;
        }
        let (state, completed, scheduled) = serde_json::from_str(snapshot.state.as_str()).ok()?;
        Some(Self { state, version: snapshot.version, completed, scheduled, unkept: 0 })
    }

    /// The state as JSON, for views.
    pub(super) fn shown(&self) -> Result<Value, StoreError> {
        to_value(&self.state).map_err(|error| StoreError::Corrupt { reason: error.to_string() })
    }
}

/// Whether the instance had completed when the snapshot was made.
fn is_of_the_end(snapshot: &Snapshot) -> bool {
    let frozen = serde_json::from_str::<(IgnoredAny, bool, bool)>(snapshot.state.as_str());
    frozen.is_ok_and(|(_, completed, _)| completed)
}

/// An output that a process published, as a message of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The process.
    pub process: String,
    /// The instance.
    pub instance: String,
    /// The type of the output.
    #[serde(rename = "type")]
    pub message_type: String,
    /// Its data.
    pub data: Value,
}

impl Published {
    /// The output of the process.
    pub fn output<P: Process>(&self) -> Result<P::Output, CodecError> {
        decode(&self.message_type, self.data.clone())
    }
}

/// Makes the message for a subscriber; `None` if the subscriber ignores this output.
type Subscriber =
    Arc<dyn Fn(&Published) -> Result<Option<Message>, InputError> + Send + Sync + 'static>;

/// The subscribers of processes, by the name of the process.
#[derive(Clone, Default)]
pub(crate) struct Subscribers(Arc<RwLock<BTreeMap<&'static str, Vec<Subscriber>>>>);

impl Subscribers {
    fn add(&self, process: &'static str, subscriber: Subscriber) {
        let mut all = self.0.write();
        all.entry(process).or_default().push(subscriber);
    }

    /// Puts everything that a process publishes into a queue.
    pub(crate) fn add_queue<P: Process>(&self, queue: &'static str) {
        self.add(
            P::NAME,
            Arc::new(move |published| Ok(Some(letter(published)?.to(&queue_address(queue)?)))),
        );
    }

    /// Gives another process an input for outputs that this one publishes.
    pub(super) fn add_process<P: Process, Q: Process>(
        &self,
        input: impl Fn(P::Output) -> Option<Q::Input> + Send + Sync + 'static,
    ) {
        self.add(
            P::NAME,
            Arc::new(move |published| {
                let Some(input) = input(published.output::<P>()?) else { return Ok(None) };
                let Some(instance) = Q::route(&input) else { return Ok(None) };
                let (target, due) = (stream::<Q>(&instance)?, Due::After(Duration::ZERO));
                let task = Task { target, ordered: Q::ORDERED, due };
                Ok(Some(input_for::<Q>(&input)?.task(task)))
            }),
        );
    }

    /// The messages for all subscribers, and the stream that they are appended to.
    pub(super) fn messages<P: Process>(
        &self,
        instance: &Address,
        events: &[EventOf<P>],
    ) -> Result<Option<(Address, Vec<Message>)>, InputError> {
        let subscribers = {
            let all = self.0.read();
            all.get(P::NAME).cloned().unwrap_or_default()
        };
        let mut messages = Vec::new();
        for event in events {
            let Event::Published(output) = event else { continue };
            if subscribers.is_empty() {
                break;
            }
            let (message_type, data) = encode(output)?;
            let published = Published {
                process: P::NAME.into(),
                instance: instance.name().to_owned(),
                message_type,
                data: read_stored(data.as_str())?,
            };
            for subscriber in &subscribers {
                messages.extend(subscriber(&published)?);
            }
        }
        if messages.is_empty() {
            return Ok(None);
        }
        let published = Address::new(EntityKind::Stream, "published", P::NAME)?;
        Ok(Some((published, messages)))
    }
}

fn letter(published: &Published) -> Result<Message, CodecError> {
    Ok(Message::new(&published.message_type, Json::of(published)?)?.action(ENQUEUE))
}

/// It is delivered like an input that the other process has scheduled.
fn input_for<Q: Process>(input: &Q::Input) -> Result<Message, CodecError> {
    let (message_type, data) = encode(input)?;
    let metadata = Json::of(&Metadata { process: Q::NAME.into(), after_ms: None })?;
    let message = Message::new(&message_type, data)?.schema(Q::SCHEMA);
    Ok(message.action("schedule").metadata(metadata)?)
}
