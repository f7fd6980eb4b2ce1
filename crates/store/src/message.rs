//! Messages to append.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;

use crate::{Address, InvalidInput, Position, Timestamp, limits};

/// Checked JSON text, stored as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks that `text` is one JSON value.
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(_) if limits::JSON_DEPTH_MAX < depth(text) => Err(InvalidInput::JsonDepth),
            Ok(_) => Ok(Self(text.into())),
            Err(error) => Err(InvalidInput::Json { reason: error.to_string() }),
        }
    }

    /// Takes a value that was parsed as one JSON value.
    pub fn raw(value: &RawValue) -> Result<Self, InvalidInput> {
        match limits::JSON_DEPTH_MAX < depth(value.get()) {
            true => Err(InvalidInput::JsonDepth),
            false => Ok(Self(value.get().into())),
        }
    }

    /// Writes a value as JSON.
    pub fn of(value: &impl serde::Serialize) -> Result<Self, InvalidInput> {
        Self::written(serde_json::to_string(value))
    }

    /// Takes text that a serializer has written.
    pub fn written(json: serde_json::Result<String>) -> Result<Self, InvalidInput> {
        match json {
            Ok(text) if limits::JSON_DEPTH_MAX < depth(&text) => Err(InvalidInput::JsonDepth),
            Ok(text) => Ok(Self(text.into())),
            Err(error) => Err(InvalidInput::Json { reason: error.to_string() }),
        }
    }

    /// The empty object, which most metadata is.
    pub fn empty() -> Self {
        Self("{}".into())
    }

    /// Takes text that was read from a store; it was checked when it was written.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The nesting depth of valid JSON.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth -= 1,
            _ => {}
        }
    }
    deepest
}

/// Whether a message is a command or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A request.
    Command,
    /// A fact.
    Event,
}

crate::texts! { MessageKind { Command = "C", Event = "E" } }

impl MessageKind {
    /// The stored tag.
    pub fn tag(self) -> &'static str {
        self.into()
    }
}

/// Whether a message came into its stream from outside or was decided in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From outside.
    Input,
    /// Decided in it.
    Output,
}

crate::texts! { Direction { Input = "I", Output = "O" } }

impl Direction {
    /// The stored tag.
    pub fn tag(self) -> &'static str {
        self.into()
    }
}

/// The message that caused this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A stored message.
    Position(Position),
    /// The n-th message of the same append, from 0: its position is not known yet.
    Sibling(usize),
}

/// The right to deliver one message, until its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    /// The epoch of the owner that claimed it; 0 for a consumer outside of the process. A claim
    /// ends with its epoch.
    pub holder: i64,
    /// Distinguishes the claims of one holder.
    pub number: i64,
}

/// When a message is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// This long after the commit.
    After(Duration),
    /// At a time.
    At(Timestamp),
    /// When its writer releases it: the same commit claims it, for this long.
    Held(Lease, Duration),
}

/// The delivery of a message: its target and its due time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The target. Delivery is fair between targets.
    pub target: Address,
    /// Whether it must wait for the earlier ordered ones of the same target.
    pub ordered: bool,
    /// The due time.
    pub due: Due,
}

/// A message to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) kind: MessageKind,
    pub(crate) direction: Direction,
    pub(crate) action: &'static str,
    pub(crate) message_type: Box<str>,
    pub(crate) schema: i32,
    pub(crate) data: Json,
    pub(crate) metadata: Json,
    pub(crate) cause: Option<Cause>,
    pub(crate) task: Option<Task>,
}

impl Message {
    /// An output command, the most common message; the methods below change it.
    pub fn new(message_type: &str, data: Json) -> Result<Self, InvalidInput> {
        if message_type.is_empty()
            || limits::TYPE_BYTES_MAX < message_type.len()
            || message_type.contains('\0')
        {
            return Err(InvalidInput::MessageType { len: message_type.len() });
        }
        if limits::DATA_BYTES_MAX < data.as_str().len() {
            return Err(InvalidInput::DataSize { len: data.as_str().len() });
        }
        Ok(Self {
            kind: MessageKind::Command,
            direction: Direction::Output,
            action: "send",
            message_type: message_type.into(),
            schema: 1,
            data,
            metadata: Json::empty(),
            cause: None,
            task: None,
        })
    }

    /// Its action, type and data.
    pub fn content(&self) -> (&'static str, &str, &Json) {
        (self.action, &self.message_type, &self.data)
    }

    /// Makes it an event.
    pub fn event(mut self) -> Self {
        self.kind = MessageKind::Event;
        self
    }

    /// Makes it an input.
    pub fn input(mut self) -> Self {
        self.direction = Direction::Input;
        self.action = "receive";
        self
    }

    /// Sets the action: send, publish, reply, schedule, complete, …
    pub fn action(mut self, action: &'static str) -> Self {
        self.action = action;
        self
    }

    /// Sets the schema version of its data.
    pub fn schema(mut self, schema: i32) -> Self {
        self.schema = schema;
        self
    }

    /// Whether it is for this target, with this action.
    pub fn is_for(&self, target: &Address, action: &str) -> bool {
        self.action == action && self.task.as_ref().is_some_and(|it| it.target == *target)
    }

    /// Sets the metadata.
    pub fn metadata(mut self, metadata: Json) -> Result<Self, InvalidInput> {
        if limits::METADATA_BYTES_MAX < metadata.as_str().len() {
            return Err(InvalidInput::MetadataSize { len: metadata.as_str().len() });
        }
        self.metadata = metadata;
        Ok(self)
    }

    /// Sets the cause.
    pub fn cause(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Delivers it as soon as it is committed, unordered.
    pub fn to(self, target: &Address) -> Self {
        self.task(Task { target: target.clone(), ordered: false, due: Due::After(Duration::ZERO) })
    }

    /// Delivers it.
    pub fn task(mut self, task: Task) -> Self {
        self.task = Some(task);
        self
    }

    /// Records it without a delivery.
    pub fn without_task(mut self) -> Self {
        self.task = None;
        self
    }

    /// Approximate size in the store.
    pub fn bytes(&self) -> usize {
        200 + self.message_type.len() + self.data.as_str().len() + self.metadata.as_str().len()
    }
}
