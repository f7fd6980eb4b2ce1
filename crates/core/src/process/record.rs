//! Records of a process as messages of a stream, and back.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::{Address, Cause, Due, EntityKind, Json, Message, Recorded, Task};

use super::{
    CodecError, Event, EventOf, InputError, Process,
    codec::{decode, encode},
};

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
    pub(super) after_ms: Option<u64>,
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
