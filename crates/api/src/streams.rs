//! Streams and messages: recorded, pending, dead.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::value::RawValue;
use steadfast_store::{
    Address, Attempt, Direction, EntityId, MessageKind, Position, Recorded, SettledAs, State,
    Store, StoreError, StreamSummary,
};
use utoipa::ToSchema;

use crate::{
    DeliveryState, JsonText, Page,
    operation::{operation, requests},
    rfc3339,
};

requests! {
    /// List the streams in the order of kind, class and name.
    paged ListStreams {} => Page<Stream>, Get "/v1/streams", Viewer, scope None, errors [];

    /// Show the messages of a stream.
    paged ShowStream {
        /// Stream: its id (32 hexadecimal digits) or its address (kind/class/name)
        id: String,
    } => StreamDetail, Get "/v1/streams/{*id}", Viewer, scope Stream(id) Read,
        errors [StreamNotFound];

    /// List messages that are not delivered yet, oldest first.
    paged ListPending {} with {
        /// Filter by stream (id or address)
        #[arg(long, env = "STEADFAST_STREAM", value_name = "ID")]
        pub stream: Option<String>,
    } => Page<Message>, Get "/v1/streams/pending", Viewer, scope None, errors [];

    /// List dead messages with their last error, oldest first.
    paged ListDead {} => Page<Message>, Get "/v1/streams/dead", Viewer, scope None, errors [];

    /// Show a message and its failed attempts.
    plain ShowMessage {
        /// Message: its `globalPosition`
        message: Position,
    } => MessageDetail, Get "/v1/messages/{message}", Viewer, scope None, errors [MessageNotFound];

    /// Make a dead or cancelled message pending again, with new attempts.
    keyed ReviveMessage {
        /// Message: the number in the first column of `show`, `pending` and `dead`
        message: Position,
    } => Message, Post "/v1/messages/{message}/revive", Operator, scope None,
        errors [MessageNotFound, WrongStatus, Contended, InvalidInput];
}

/// A stream in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stream {
    /// 32 hexadecimal digits, computed from the address.
    pub id: String,
    /// `kind/class/name`.
    pub address: String,
    /// stream, process, object, run, queue, bucket or system.
    pub kind: String,
    /// The class within the kind.
    pub class: String,
    /// The name within the class.
    pub name: String,
    /// The number of its last message.
    pub version: i64,
    /// When it began.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When its last message was committed.
    #[schema(format = DateTime)]
    pub updated_at: String,
}

impl From<&StreamSummary> for Stream {
    fn from(summary: &StreamSummary) -> Self {
        let address = &summary.address;
        Self {
            id: address.id().to_string(),
            address: address.to_string(),
            kind: address.kind().tag().into(),
            class: address.class().into(),
            name: address.name().into(),
            version: summary.version,
            created_at: rfc3339(summary.created_at),
            updated_at: rfc3339(summary.updated_at),
        }
    }
}

/// A stream with a page of its messages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StreamDetail {
    /// 32 hexadecimal digits.
    pub id: String,
    /// `kind/class/name`.
    pub address: String,
    /// The number of its last message.
    pub version: i64,
    /// The messages, oldest first.
    pub items: Vec<Message>,
    /// The cursor of the next page; null at the end.
    pub next: Option<String>,
}

/// A message and the state of its delivery.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Position in its stream, from 1.
    pub position: i64,
    /// Position in the whole store; identifies it in `/v1/messages/{position}`.
    pub global_position: i64,
    /// The id for handlers and receivers, the same at every delivery.
    pub id: String,
    /// The address of its stream.
    pub stream: String,
    /// command or event.
    pub kind: String,
    /// input or output.
    pub direction: String,
    /// The action: receive, send, publish, …
    pub action: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The version of its type.
    pub schema: i32,
    /// Its data, unchanged.
    pub data: JsonText,
    /// Its metadata.
    pub metadata: JsonText,
    /// The receiver: an address, or an id whose address is unknown.
    pub target: Option<String>,
    /// Whether it waits for earlier ordered messages of its target.
    pub ordered: bool,
    /// The position of the message that caused it.
    pub cause: Option<i64>,
    /// When it was committed.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Whether it was handled; null if it has no receiver.
    pub processed: Option<bool>,
    /// When it was handled.
    #[schema(format = DateTime)]
    pub processed_at: Option<String>,
    /// The state of its delivery; null if it has no receiver.
    pub state: Option<DeliveryState>,
    /// When it is due, or its lease ends; null if it is settled or due at once.
    #[schema(format = DateTime)]
    pub due_at: Option<String>,
    /// Attempts so far; null if it has no receiver.
    pub attempts: Option<u32>,
    /// The error of the last attempt.
    pub error: Option<String>,
}

impl Message {
    /// The id of its stream.
    pub fn stream_id(&self) -> &str {
        Recorded::stream_of(&self.id)
    }

    /// The message, with the addresses of its stream and target.
    pub fn of(it: &Recorded, addresses: &Addresses) -> Self {
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
            data: (&it.data).into(),
            metadata: (&it.metadata).into(),
            target: it.target.map(|target| addresses.of(target)),
            ordered: it.ordered,
            cause: it.cause,
            created_at: rfc3339(it.created_at),
            processed: it.processed(),
            processed_at,
            state: it.state.as_ref().map(DeliveryState::from),
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

/// A message with its failed attempts.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageDetail {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// The failed attempts, oldest first.
    pub attempt_log: Vec<AttemptEntry>,
}

/// `flatten` cannot parse raw JSON, so the message is parsed by itself.
impl<'de> Deserialize<'de> for MessageDetail {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Log {
            attempt_log: Vec<AttemptEntry>,
        }
        let text = Box::<RawValue>::deserialize(from)?;
        let message = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let Log { attempt_log } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self { message, attempt_log })
    }
}

/// One failed attempt.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptEntry {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// When it began.
    #[schema(format = DateTime)]
    pub started_at: String,
    /// When it failed.
    #[schema(format = DateTime)]
    pub ended_at: String,
    /// The error.
    pub error: String,
}

impl From<&Attempt> for AttemptEntry {
    fn from(attempt: &Attempt) -> Self {
        Self {
            number: attempt.number,
            started_at: rfc3339(attempt.started_at),
            ended_at: rfc3339(attempt.ended_at),
            error: attempt.error.clone(),
        }
    }
}

/// Addresses by id.
#[derive(Debug, Default)]
pub struct Addresses(HashMap<EntityId, Address>);

impl Addresses {
    /// Reads the addresses of the streams and targets of `messages`.
    pub async fn read(store: &dyn Store, messages: &[Recorded]) -> Result<Self, StoreError> {
        let named = messages.iter().flat_map(|it| [Some(it.stream), it.target]);
        let ids: BTreeSet<EntityId> = named.flatten().collect();
        let ids: Vec<EntityId> = ids.into_iter().collect();
        Ok(Self(store.addresses(&ids).await?))
    }

    /// The address, or the id if the address is unknown.
    pub fn of(&self, id: EntityId) -> String {
        self.0.get(&id).map_or_else(|| id.to_string(), Address::to_string)
    }
}
