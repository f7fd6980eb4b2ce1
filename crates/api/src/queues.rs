//! Queues: list, settings, pause, send, pull, dead letters.

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde::{Deserialize, Serialize};
pub use steadfast_core::queue::{
    PeekState as MessageState, QueueMessageView as QueueMessage, QueueView as Queue,
    Sample as QueueSample,
};
use steadfast_core::{
    QueueSettings,
    queue::{AckResult, LeasedMessage, RedriveResult as Moved},
};
use steadfast_store::Position;
use utoipa::ToSchema;

use crate::{
    JsonText, Page,
    json::json_text,
    operation::{like, operation, requests},
    rfc3339,
};

requests! {
    /// List the queues: all that were declared, created or ever sent to.
    paged ListQueues {} => Page<Queue>, Get "/v1/queues", Viewer, scope None, errors [];

    /// Show a queue with its settings, depth, age and rates.
    plain ShowQueue {
        /// Queue name
        queue: String,
    } => Queue, Get "/v1/queues/{queue}", Viewer, scope Queue(queue) Read,
        errors [InvalidName, QueueNotFound];
}

/// Create a queue, or replace its settings. A setting that is left out gets its default.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigureQueue {
    /// Queue name
    #[serde(skip)]
    pub queue: String,
    /// The settings
    pub settings: QueueSettings,
}
operation!(ConfigureQueue => Queue, Put "/v1/queues/{queue}" (queue), Operator, scope None,
    errors [InvalidName, InvalidInput]);
like!(ConfigureQueue, QueueSettings, "Create a queue, or replace its settings.");

requests! {
    /// Pause a queue: no more messages are delivered. Deliveries in flight finish.
    keyed PauseQueue {
        /// Queue name
        queue: String,
    } => Queue, Post "/v1/queues/{queue}/pause", Operator, scope Queue(queue) Manage,
        errors [InvalidName, QueueNotFound];

    /// Resume a paused queue.
    keyed ResumeQueue {
        /// Queue name
        queue: String,
    } => Queue, Post "/v1/queues/{queue}/resume", Operator, scope Queue(queue) Manage,
        errors [InvalidName, QueueNotFound];

    /// List messages without consuming them: in due order, dead letters in the order in which they
    /// were sent.
    paged PeekQueue {
        /// Queue name
        queue: String,
    } with {
        /// Filter by state
        #[arg(long, env = "STEADFAST_STATE", value_parser = states(), default_value = "pending")]
        pub state: MessageState,
    } => Page<QueueMessage>, Get "/v1/queues/{queue}/messages", Viewer, scope Queue(queue) Read,
        errors [InvalidName, QueueNotFound];
}

/// The states of a message, for the command line.
fn states() -> impl TypedValueParser<Value = MessageState> {
    let names = PossibleValuesParser::new(MessageState::ALL.map(MessageState::name));
    names.try_map(|it| it.parse::<MessageState>())
}

/// Send one message, or up to 1,000 in one commit. They are durable when the response arrives. The
/// first message creates the queue.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SendMessages {
    /// Queue name
    #[serde(skip)]
    pub queue: String,
    /// Message body: JSON, or @FILE
    #[arg(long, env = "STEADFAST_BODY", value_name = "JSON", required = true,
        value_parser = json_text)]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub body: Option<JsonText>,
    /// Delay before the message may be delivered, at most a year
    #[arg(long, env = "STEADFAST_DELAY_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Several messages instead of one
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<NewMessage>>,
    /// Idempotency key: a repetition within 24 hours sends nothing more and gets the same ids
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(SendMessages => Sent, Post "/v1/queues/{queue}/messages" (queue), Member,
    scope Queue(queue) Send, status 201,
    key idempotency_key,
    errors [InvalidName, InvalidInput, QueueFull]);

/// One of several messages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMessage {
    /// Any JSON.
    pub body: JsonText,
    /// Delay before it may be delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}

/// Distinguishes a body of `null` from a missing one.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<JsonText>, D::Error> {
    JsonText::deserialize(from).map(Some)
}

/// Take messages that are due, each under a lease. A message whose lease ends without an
/// acknowledgement is delivered again; each pull is one attempt.
#[derive(Clone, Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PullMessages {
    /// Queue name
    #[serde(skip)]
    pub queue: String,
    /// Maximum number of messages
    #[arg(long, env = "STEADFAST_BATCH_SIZE", default_value_t = 5)]
    #[schema(minimum = 1, maximum = 1000, default = 5)]
    pub batch_size: usize,
    /// Lease duration
    #[arg(long, env = "STEADFAST_LEASE_MS", value_name = "MS", default_value_t = 30_000)]
    #[schema(minimum = 1, maximum = 86_400_000, default = 30_000)]
    pub lease_ms: u64,
    /// Idempotency key: a repetition within 24 hours gets the same messages and leases
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(PullMessages => PulledMessages, Post "/v1/queues/{queue}/messages/pull" (queue),
    Member, scope Queue(queue) Pull, key idempotency_key,
    errors [InvalidName, QueueNotFound, InvalidInput]);

impl Default for PullMessages {
    fn default() -> Self {
        Self { queue: String::new(), batch_size: 5, lease_ms: 30_000, idempotency_key: None }
    }
}

requests! {
    /// Settle pulled messages. A late acknowledgement counts unless the message was delivered
    /// again; then its lease is in `lost`, and the others of the request count.
    keyed AckMessages {
        /// Queue name
        queue: String,
    } with {
        /// Messages that are done
        #[arg(skip)]
        pub acks: Vec<Ack>,
        /// Messages to deliver again
        #[arg(skip)]
        pub retries: Vec<Retry>,
    } => AckedMessages, Post "/v1/queues/{queue}/messages/ack", Member, scope Queue(queue) Pull,
        errors [InvalidName, QueueNotFound, InvalidInput];
}

/// A message that is done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ack {
    /// The lease that came with the message.
    pub lease_id: String,
}

/// A message to deliver again.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// The lease that came with the message.
    pub lease_id: String,
    /// Delay before the next attempt; the queue's setting if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}

requests! {
    /// Remove messages that no consumer holds. Their records are kept as long as other records.
    keyed PurgeQueue {
        /// Queue name
        queue: String,
    } with {
        /// Filter by state: pending or dead
        #[arg(long, env = "STEADFAST_STATE", value_parser = states())]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub state: Option<MessageState>,
        /// Only the message with this id; may be repeated
        #[arg(long = "id", env = "STEADFAST_ID", value_name = "ID")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ids: Option<Vec<String>>,
    } => Purged, Post "/v1/queues/{queue}/purge", Operator, scope Queue(queue) Manage,
        errors [InvalidName, QueueNotFound, InvalidInput];

    /// Move messages of a dead-letter queue back to the queues that they were sent to, with new
    /// attempts.
    keyed RedriveQueue {
        /// Queue name, usually of a dead-letter queue
        queue: String,
    } with {
        /// Target queue, instead of the one that each message was sent to
        #[arg(long, env = "STEADFAST_TO", value_name = "QUEUE")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub to: Option<String>,
        /// Filter of the messages; all if it is left out
        #[command(flatten)]
        pub filter: RedriveFilter,
        /// Messages that become due per second; all at once if it is left out
        #[arg(long = "rate", env = "STEADFAST_RATE", value_name = "PER_SECOND")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rate_per_second: Option<f64>,
        /// Move nothing; report what would be moved
        #[arg(long, env = "STEADFAST_DRY_RUN",
            value_parser = clap::builder::FalseyValueParser::new())]
        pub dry_run: bool,
    } => Redriven, Post "/v1/queues/{queue}/redrive", Operator, scope None,
        errors [InvalidName, QueueNotFound, InvalidInput];
}

/// Selects messages.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RedriveFilter {
    /// Only the message with this id; may be repeated
    #[arg(long = "id", env = "STEADFAST_ID", value_name = "ID")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// Only messages whose last error contains this text
    #[arg(long, env = "STEADFAST_ERROR_CONTAINS", value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_contains: Option<String>,
}

/// Replace a message that no consumer holds by one with another body, which is delivered as new.
#[derive(Clone, Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditMessage {
    /// Queue name
    #[serde(skip)]
    pub queue: String,
    /// Message id
    #[serde(skip)]
    pub id: Position,
    /// New message body: JSON, or @FILE
    #[arg(long, env = "STEADFAST_BODY", value_name = "JSON", value_parser = json_text)]
    pub body: JsonText,
    /// Target queue, instead of the one that the message was sent to
    #[arg(long, env = "STEADFAST_TO", value_name = "QUEUE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Idempotency key: a repetition within 24 hours changes nothing and gets the first answer
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(EditMessage => Edited, Post "/v1/queues/{queue}/messages/{id}/edit" (queue, id),
    Operator, scope None, key idempotency_key,
    errors [InvalidName, QueueNotFound, InvalidInput, MessageNotFound]);

/// The ids of messages that were sent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Sent {
    /// In the order of the request.
    pub ids: Vec<String>,
}

/// A message that was pulled.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PulledMessage {
    /// Its id, the same at every delivery.
    pub id: String,
    /// The body.
    pub body: JsonText,
    /// The number of this attempt, from 1.
    pub attempts: u32,
    /// When it was sent.
    #[schema(format = DateTime)]
    pub enqueued_at: String,
    /// The lease, for the acknowledgement.
    pub lease_id: String,
    /// When the lease ends.
    #[schema(format = DateTime)]
    pub lease_until: String,
}

/// Messages that were pulled.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PulledMessages {
    /// The messages; none if nothing is due.
    pub items: Vec<PulledMessage>,
    /// Whether the list is empty because the queue is paused.
    pub paused: bool,
}

/// The result of acknowledgements.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AckedMessages {
    /// Messages that are done.
    pub acked: usize,
    /// Messages that are delivered again, or are dead letters now.
    pub retried: usize,
    /// Leases that had ended: the message was delivered again or settled.
    pub lost: Vec<String>,
}

/// The result of a purge.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Purged {
    /// Messages that were removed.
    pub purged: u64,
}

/// The result of a redrive.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Redriven {
    /// Messages that match the filter.
    pub matched: u64,
    /// Messages that were moved.
    pub moved: u64,
    /// Time until the last of them is due.
    pub lasts_ms: u64,
    /// The first ids, at most 20.
    pub first: Vec<String>,
}

/// The message that replaced another.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Edited {
    /// The id of the new message.
    pub id: String,
}

impl From<&LeasedMessage> for PulledMessage {
    fn from(it: &LeasedMessage) -> Self {
        let message = &it.queued.message;
        Self {
            id: message.position.to_string(),
            body: (&message.data).into(),
            attempts: it.attempt,
            enqueued_at: rfc3339(message.created_at),
            lease_id: it.lease.to_string(),
            lease_until: rfc3339(it.until),
        }
    }
}

impl From<AckResult> for AckedMessages {
    fn from(it: AckResult) -> Self {
        let lost = it.lost.iter().map(ToString::to_string).collect();
        Self { acked: it.acked, retried: it.retried, lost }
    }
}

impl From<Moved> for Redriven {
    fn from(it: Moved) -> Self {
        let lasts_ms = crate::time::millis(it.lasts);
        Self { matched: it.matched, moved: it.moved, lasts_ms, first: texts(&it.first) }
    }
}

impl From<Vec<Position>> for Sent {
    fn from(ids: Vec<Position>) -> Self {
        Self { ids: texts(&ids) }
    }
}

fn texts(ids: &[Position]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}
