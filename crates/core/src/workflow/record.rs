//! What is recorded of a run: the messages of its stream, each as JSON.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use steadfast_store::{InvalidInput, Json, Message, Recorded, StoreError};

use crate::Error;

/// Bytes of what a step may give.
pub(super) const RESULT_BYTES_MAX: usize = 1_000_000;

/// One entry. The type of the message is its tag.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "camelCase")]
pub(super) enum Entry {
    /// It began with this, and its end is told there.
    #[serde(rename_all = "camelCase")]
    Started {
        input: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_end: Option<OnEnd>,
    },
    /// Something gave a value; a step says which attempt, and when that began.
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
    /// An attempt of a step failed; the next one is due then.
    #[serde(rename_all = "camelCase")]
    Tried {
        key: Key,
        error: Error,
        attempt: Attempt,
        retry_at: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<StepInput>,
    },
    /// Something waits until then.
    #[serde(rename_all = "camelCase")]
    Timer { key: Key, due_at: i64 },
    /// An event came.
    Event { name: String, payload: Value },
    /// The event at this version was taken.
    Took { key: Key, event: i64 },
    /// It stands still, and why.
    Paused { report: Option<Report> },
    /// It goes on, with timers so much later.
    #[serde(rename_all = "camelCase")]
    Resumed { shift_ms: i64 },
    /// Steps that wait for their next attempt are tried now.
    Retried,
    /// It was ended from outside.
    Terminated,
    /// It begins anew, or from a step on.
    Restarted { from: Option<Key> },
    /// It ended with this.
    Completed { output: Value },
    /// It failed with this.
    Errored { error: Error },
    /// The store wakes it: at the first of the times that it waits for, or at once if it waits for
    /// nothing.
    Wake {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waits: Vec<Wait>,
    },
    /// It waits for events alone.
    Waits { waits: Vec<Wait> },
    /// It says how far it is.
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
        // It stands two levels deep in its entry.
        let message = message.filter(|it| Json::of(&[[it]]).is_ok());
        Self { to, message, bytes: body.len() }
    }
}

/// A null that is there is a value.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// What a run waits for: a sleep, an event, or the next attempt of a step or call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wait {
    pub(super) key: Key,
    /// Until when; for an event, until it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<i64>,
}

/// How far a run is, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What it is doing.
    pub message: String,
    /// From 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
}

/// Names one thing that a run does: where in its branches, what, and which one of that name.
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

/// Why a run stands still that nobody has paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What is wrong, and what to do.
    pub reason: String,
    /// Which thing of its branch it is, from 1.
    #[serde(default)]
    pub position: Option<usize>,
    /// What the record has there.
    pub expected: Option<String>,
    /// What the code did instead.
    pub found: Option<String>,
    /// Where in the code.
    pub line: Option<String>,
}

impl Report {
    pub(super) fn new(reason: &str) -> Self {
        let (position, expected, found, line) = (None, None, None, None);
        Self { reason: reason.into(), position, expected, found, line }
    }
}

impl Key {
    /// For what the run itself gives.
    pub(super) fn of_the_run() -> Self {
        Self { scope: String::new(), kind: "the run".into(), name: String::new(), count: 1 }
    }
}

impl Entry {
    /// The entry that a message of a run is; `None` for what the run has sent.
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

    /// Whether it says what the code of the run did.
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

/// A value as JSON, not larger than may be recorded.
pub(super) fn encode(what: &Key, value: &impl Serialize) -> Result<Value, Error> {
    let unserializable = |error: &dyn std::fmt::Display| {
        Error::terminal(format!("{what} gave what cannot be kept as JSON: {error}"))
            .with_code("unserializable_result")
    };
    let value = serde_json::to_value(value).map_err(|error| unserializable(&error))?;
    let len = Json::of(&[&value]).map_err(|error| unserializable(&error))?.as_str().len();
    if RESULT_BYTES_MAX < len {
        let text = format!(
            "{what} gave {len} bytes, limit is {RESULT_BYTES_MAX}; keep it elsewhere, give its key"
        );
        return Err(Error::terminal(text).with_code("result_too_large"));
    }
    Ok(value)
}
