//! The record of a run: the messages of its stream, each as JSON, and the messages that wake it.
//! The runs of a workflow share two targets, one for new runs and one for the others.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use steadfast_store::{
    Address, AddressError, Due, EntityKind, InvalidInput, Json, Lease, Message, Position, Recorded,
    StoreError, Task, Write,
};
use tokio::sync::oneshot;

use crate::{
    Error,
    dispatch::{cancelled, done},
};

/// Maximum bytes of the result of a step.
const RESULT_BYTES_MAX: usize = 1_000_000;

/// One entry. The type of the message is its tag.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "camelCase")]
pub(super) enum Entry {
    /// It began with this input; this object is notified of its end.
    #[serde(rename_all = "camelCase")]
    Started {
        input: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_end: Option<OnEnd>,
    },
    /// An operation returned a value; a step has its attempt, and when that began.
    Done {
        key: Key,
        value: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        /// Of a call, recorded with its first attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<StepInput>,
    },
    /// A step failed for good.
    Failed {
        key: Key,
        error: Error,
        attempt: Attempt,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<StepInput>,
    },
    /// An attempt of a step failed; the next one is due at this time.
    #[serde(rename_all = "camelCase")]
    Tried {
        key: Key,
        error: Error,
        attempt: Attempt,
        retry_at: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<StepInput>,
    },
    /// A timer until this time.
    #[serde(rename_all = "camelCase")]
    Timer { key: Key, due_at: i64 },
    /// An event arrived.
    Event { name: String, payload: Value },
    /// The event at this version was taken.
    Took { key: Key, event: i64 },
    /// It is paused; the report is the reason, if it paused itself.
    Paused { report: Option<Report> },
    /// It was resumed; timers are shifted by this time.
    #[serde(rename_all = "camelCase")]
    Resumed { shift_ms: i64 },
    /// Steps that wait for their next attempt are retried now.
    Retried,
    /// It was terminated.
    Terminated,
    /// It was restarted, from its start or from a step on.
    Restarted { from: Option<Key> },
    /// It completed with this output.
    Completed { output: Value },
    /// It failed with this error.
    Errored { error: Error },
    /// The store wakes it: at the first of the times that it waits for, or immediately if it waits
    /// for nothing.
    Wake {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waits: Vec<Wait>,
    },
    /// It waits for events alone.
    Waits { waits: Vec<Wait> },
    /// It reported progress.
    Progress(Progress),
}

/// The object to notify, recorded with the start of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OnEnd {
    /// The address of the object.
    pub(crate) to: String,
    /// The message that it gets.
    pub(crate) message: String,
}

/// One attempt of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempt {
    /// From 1.
    pub(super) number: u32,
    pub(super) began_at: i64,
}

/// Bytes of a message that is recorded as the input of a call. A larger one is left out.
pub(super) const INPUT_BYTES_MAX: usize = 16_000;

/// The input of a call or a send: the receiver, and the message for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepInput {
    /// The address of the receiver, for example `object/counter/a`.
    pub to: String,
    /// The message. The record of a run leaves out that of a call if it has more than 16,000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "present")]
    pub message: Option<Value>,
    /// Bytes of the message as JSON.
    pub bytes: usize,
}

impl StepInput {
    /// The message is left out if it is large, or so deep that an entry with it is refused.
    pub(super) fn new(to: String, body: &str) -> Self {
        let is_small = body.len() <= INPUT_BYTES_MAX;
        let message: Option<Value> = if is_small { serde_json::from_str(body).ok() } else { None };
        // It is nested two levels deep in its entry.
        let message = message.filter(|it| Json::of(&[[it]]).is_ok());
        Self { to, message, bytes: body.len() }
    }
}

/// An explicit null is a value.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A wait of a run: a sleep, an event, or the next attempt of a step or call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wait {
    pub(super) key: Key,
    /// The time; without one, until the event arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<i64>,
}

/// The progress of a run, as its code reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The current activity.
    pub message: String,
    /// From 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
}

/// Identifies one operation of a run: its branch, kind and name, and its number among those of the
/// same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Key {
    /// The branch; empty outside of all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) scope: String,
    pub(super) kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    /// From 1.
    pub(super) count: u32,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scope, kind, name, count } = self;
        write!(f, "{scope}{kind}")?;
        if !name.is_empty() {
            write!(f, " `{name}`")?;
        }
        if *count == 1 { Ok(()) } else { write!(f, " ({count})") }
    }
}

/// Why a run has paused itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The reason, and the next step.
    pub reason: String,
    /// The number of the operation in its branch, from 1.
    pub position: Option<usize>,
    /// The operation in the record.
    pub expected: Option<String>,
    /// The operation of the code.
    pub found: Option<String>,
    /// The source line.
    pub line: Option<String>,
}

impl Report {
    pub(super) fn new(reason: &str) -> Self {
        let (position, expected, found, line) = (None, None, None, None);
        Self { reason: reason.into(), position, expected, found, line }
    }
}

impl Key {
    /// The key of the output of the run itself.
    pub(super) fn of_the_run() -> Self {
        Self { scope: String::new(), kind: "the run".into(), name: String::new(), count: 1 }
    }
}

impl Entry {
    /// The entry of a message of a run; `None` for a message that the run has sent.
    pub(super) fn of(message: &Recorded) -> Result<Option<Self>, StoreError> {
        if message.target.is_some() && message.action != "run" {
            return Ok(None);
        }
        let entry = serde_json::from_str(message.data.as_str()).map_err(|error| {
            let position = message.position;
            StoreError::Corrupt { reason: format!("message {position} of a run: {error}") }
        })?;
        Ok(Some(entry))
    }

    /// The input of a step, if this entry records it.
    pub(super) fn input(&self) -> Option<(&Key, &StepInput)> {
        let (Entry::Done { key, input, .. }
        | Entry::Failed { key, input, .. }
        | Entry::Tried { key, input, .. }) = self
        else {
            return None;
        };
        Some((key, input.as_ref()?))
    }

    /// Whether it records an operation of the run's code.
    pub(super) fn is_act(&self) -> bool {
        use Entry::{Done, Failed, Timer, Took, Tried};
        matches!(self, Done { .. } | Failed { .. } | Tried { .. } | Timer { .. } | Took { .. })
    }

    fn tag(&self) -> &'static str {
        match self {
            Entry::Started { .. } => "started",
            Entry::Done { .. } => "done",
            Entry::Failed { .. } => "failed",
            Entry::Tried { .. } => "tried",
            Entry::Timer { .. } => "timer",
            Entry::Event { .. } => "event",
            Entry::Took { .. } => "took",
            Entry::Paused { .. } => "paused",
            Entry::Resumed { .. } => "resumed",
            Entry::Retried => "retried",
            Entry::Terminated => "terminated",
            Entry::Restarted { .. } => "restarted",
            Entry::Completed { .. } => "completed",
            Entry::Errored { .. } => "errored",
            Entry::Wake { .. } => "wake",
            Entry::Waits { .. } => "waits",
            Entry::Progress(_) => "progress",
        }
    }

    pub(super) fn message(&self) -> Result<Message, InvalidInput> {
        Ok(Message::new(self.tag(), Json::of(self)?)?.event())
    }
}

/// A value as JSON, within the limit of a record.
pub(super) fn encode(what: &Key, value: &impl Serialize) -> Result<Value, Error> {
    encode_text(what, serde_json::to_string(value))
}

/// A value that was written as JSON, within the limit of a record.
pub(super) fn encode_text(what: &Key, json: serde_json::Result<String>) -> Result<Value, Error> {
    let unserializable = |error: &dyn std::fmt::Display| {
        Error::terminal(format!("the result of {what} cannot be stored as JSON: {error}"))
            .with_code("unserializable_result")
    };
    let value = json.and_then(|it| serde_json::from_str::<Value>(&it));
    let value = value.map_err(|error| unserializable(&error))?;
    let len = Json::of(&[&value]).map_err(|error| unserializable(&error))?.as_str().len();
    if RESULT_BYTES_MAX < len {
        let text = format!(
            "{what} returned {len} bytes, limit is {RESULT_BYTES_MAX}; put the data into a \
             bucket and return its key"
        );
        return Err(Error::terminal(text).with_code("result_too_large"));
    }
    Ok(value)
}

/// Now.
pub(super) const AT_ONCE: Due = Due::After(Duration::ZERO);

/// The target of the wake-ups of new runs, and that of resumed ones.
pub(super) fn wake_target(workflow: &str, begins: bool) -> Result<Address, AddressError> {
    let class = if begins { "workflow-start" } else { "workflow" };
    Address::new(EntityKind::System, class, workflow)
}

/// The wake-up of a new run.
pub(super) fn first_wake_up(run: &Address, due: Due) -> Result<Message, InvalidInput> {
    wake_message(run, due, Vec::new(), true)
}

/// A wake-up that is due immediately.
pub(super) fn wake_at_once(run: &Address) -> Result<Message, InvalidInput> {
    wake_message(run, AT_ONCE, Vec::new(), false)
}

/// A wake-up at the first of the times that a run waits for.
pub(super) fn wake_up(run: &Address, due: Due, waits: Vec<Wait>) -> Result<Message, InvalidInput> {
    wake_message(run, due, waits, false)
}

fn wake_message(
    run: &Address,
    due: Due,
    waits: Vec<Wait>,
    begins: bool,
) -> Result<Message, InvalidInput> {
    let target = wake_target(run.class(), begins).map_err(|_| InvalidInput::Key { len: 0 })?;
    let metadata = Json::of(&json!({ "to": run.to_string() }))?;
    let wake = Json::of(&Entry::Wake { waits })?;
    let message = Message::new("wake", wake)?.action("run").metadata(metadata)?;
    Ok(message.task(Task { target, ordered: false, due }))
}

/// A wake-up that a driver holds.
pub(super) struct WakeUp {
    pub(super) position: Position,
    pub(super) lease: Option<Lease>,
    /// From 1. Earlier attempts ended with their process.
    pub(super) attempt: u32,
    /// The delivery that waits until the wake-up is settled. `None` if this process created the run
    /// and holds its first wake-up.
    pub(super) delivery: Option<oneshot::Sender<()>>,
}

impl WakeUp {
    /// Notifies the delivery that the wake-up is settled.
    pub(super) fn done(self) {
        if let Some(delivery) = self.delivery {
            // Ignore a delivery that was cancelled.
            let _ = delivery.send(());
        }
    }

    pub(super) fn settle(&self) -> Write {
        done(self.position, self.lease)
    }
}

/// Cancels a wake-up that its run no longer needs.
pub(super) fn cancel_wake_up(position: Position) -> Write {
    cancelled(position, None, None)
}
