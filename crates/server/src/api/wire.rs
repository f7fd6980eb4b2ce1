//! What goes over the wire. Fields are camelCase, times RFC 3339, ids in full.

mod bucket;
mod message;
mod object;
mod process;
mod queue;
mod stream;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) use self::{
    bucket::{
        BlobEntry, BlobGone, BlobList, BucketBody, BucketEntry, EventEntry, LifecycleBody,
        LifecycleEntry, PresignBody, PresignVerb, PresignedEntry, RuleBody, RuleEntry,
    },
    message::{Addresses, AttemptEntry, Message, MessageDetail, MessageState},
    object::{
        AlarmEntry, ConnectionEntry, Deleted, FailureEntry, ObjectClass, ObjectDetail, ObjectEntry,
        RowEntry, SqlBody, SqlRows, TableEntry, TurnDetail, TurnEntry,
    },
    process::{Decision, InputBody, Instance, InstanceDetail, Process, Status},
    queue::{
        AckedEntry, PulledEntry, PulledList, QueueEntry, QueueList, QueueMessage, RedrivenEntry,
        SampleEntry, written,
    },
    stream::{Stream, StreamDetail},
};

/// A part of a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct List<T> {
    /// The rows.
    pub(crate) items: Vec<T>,
    /// The cursor of the next part; null at the end.
    pub(crate) next: Option<String>,
}
