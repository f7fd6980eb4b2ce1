//! Messages on the wire.

mod addresses;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use steadfast_store::{Attempt, Direction, Json, MessageKind, Recorded, SettledAs, State};
use utoipa::ToSchema;

pub(crate) use self::addresses::Addresses;
use crate::api::time::rfc3339;

/// A message and how far its delivery is.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    /// Its place in its stream, from 1.
    pub(crate) position: i64,
    /// Its place in the whole store; names it in `/v1/messages/{position}`.
    pub(crate) global_position: i64,
    /// What handlers and receivers know it by, the same at every delivery.
    pub(crate) id: String,
    /// The address of its stream.
    pub(crate) stream: String,
    /// command or event.
    pub(crate) kind: String,
    /// input or output.
    pub(crate) direction: String,
    /// What is done with it: receive, send, publish, …
    pub(crate) action: String,
    /// Its stable type.
    #[serde(rename = "type")]
    pub(crate) type_: String,
    /// The version of its type.
    pub(crate) schema: i32,
    /// What it says, as it was written.
    #[schema(value_type = serde_json::Value)]
    pub(crate) data: Box<RawValue>,
    /// What is known beside.
    #[schema(value_type = serde_json::Value)]
    pub(crate) metadata: Box<RawValue>,
    /// Who it is for: an address, or the id of one that is not known here.
    pub(crate) target: Option<String>,
    /// Whether it waits for the earlier ordered ones of its target.
    pub(crate) ordered: bool,
    /// The position of what caused it.
    pub(crate) cause: Option<i64>,
    /// When it was committed.
    #[schema(format = DateTime)]
    pub(crate) created_at: String,
    /// Whether it was handled; null if it is not to be delivered.
    pub(crate) processed: Option<bool>,
    /// When it was handled.
    #[schema(format = DateTime)]
    pub(crate) processed_at: Option<String>,
    /// How far its delivery is; null if it is not to be delivered.
    pub(crate) state: Option<MessageState>,
    /// When it is due, or its lease ends; null if it is settled or due at once.
    #[schema(format = DateTime)]
    pub(crate) due_at: Option<String>,
    /// Attempts so far; null if it is not to be delivered.
    pub(crate) attempts: Option<u32>,
    /// Why the last attempt failed.
    pub(crate) error: Option<String>,
}

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageState {
    /// To be delivered.
    Pending,
    /// Claimed by somebody who has not answered yet.
    #[serde(rename = "in flight")]
    InFlight,
    /// Handled.
    Done,
    /// Given up.
    Dead,
    /// Called back.
    Cancelled,
}

impl MessageState {
    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            MessageState::Pending => "pending",
            MessageState::InFlight => "in flight",
            MessageState::Done => "done",
            MessageState::Dead => "dead",
            MessageState::Cancelled => "cancelled",
        }
    }

    /// Converts.
    pub(crate) fn of(state: &State) -> Self {
        match state {
            State::Pending { .. } => MessageState::Pending,
            State::InFlight { .. } => MessageState::InFlight,
            State::Settled(settled) => match settled.as_ {
                SettledAs::Done => MessageState::Done,
                SettledAs::Dead => MessageState::Dead,
                SettledAs::Cancelled => MessageState::Cancelled,
            },
        }
    }
}

impl Message {
    /// The wire form.
    pub(crate) fn of(it: &Recorded, addresses: &Addresses) -> Self {
        let (due_at, processed_at, attempts, error) = match &it.state {
            None => (None, None, None, None),
            Some(State::Pending { due_at, attempts }) => {
                (Some(rfc3339(*due_at)), None, Some(*attempts), None)
            }
            Some(State::InFlight { until, attempts, .. }) => {
                (Some(rfc3339(*until)), None, Some(*attempts), None)
            }
            Some(State::Settled(settled)) => {
                let done = settled.as_ == SettledAs::Done;
                let at = done.then(|| rfc3339(settled.at));
                (None, at, Some(settled.attempts), settled.error.clone())
            }
        };
        Self {
            position: it.version,
            global_position: it.position,
            id: it.id(),
            stream: addresses.of(it.stream),
            kind: kind(it.kind).into(),
            direction: direction(it.direction).into(),
            action: it.action.clone(),
            type_: it.message_type.clone(),
            schema: it.schema,
            data: raw(&it.data),
            metadata: raw(&it.metadata),
            target: it.target.map(|target| addresses.of(target)),
            ordered: it.ordered,
            cause: it.cause,
            created_at: rfc3339(it.created_at),
            processed: it.processed(),
            processed_at,
            state: it.state.as_ref().map(MessageState::of),
            due_at,
            attempts,
            error: error.or_else(|| it.last_error.clone()),
        }
    }
}

fn kind(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Command => "command",
        MessageKind::Event => "event",
    }
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Input => "input",
        Direction::Output => "output",
    }
}

/// Embeds JSON as it was written. What the store gives was checked when it went in; if it is not
/// JSON any more, it is shown as text.
pub(super) fn raw(json: &Json) -> Box<RawValue> {
    let text = json.as_str();
    RawValue::from_string(text.to_owned())
        .or_else(|_| serde_json::value::to_raw_value(text))
        .unwrap_or_default()
}

/// A message with its failed attempts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageDetail {
    /// The message.
    #[serde(flatten)]
    pub(crate) message: Message,
    /// The failed attempts, oldest first.
    pub(crate) attempt_log: Vec<AttemptEntry>,
}

/// One failed attempt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttemptEntry {
    /// Which attempt, from 1.
    pub(crate) number: u32,
    /// When it began.
    #[schema(format = DateTime)]
    pub(crate) started_at: String,
    /// When it failed.
    #[schema(format = DateTime)]
    pub(crate) ended_at: String,
    /// Why.
    pub(crate) error: String,
}

impl AttemptEntry {
    /// The wire form.
    pub(crate) fn of(attempt: &Attempt) -> Self {
        Self {
            number: attempt.number,
            started_at: rfc3339(attempt.started_at),
            ended_at: rfc3339(attempt.ended_at),
            error: attempt.error.clone(),
        }
    }
}
