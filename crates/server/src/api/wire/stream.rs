//! Streams on the wire.

use serde::{Deserialize, Serialize};
use steadfast_store::StreamSummary;
use utoipa::ToSchema;

use super::Message;
use crate::api::time::rfc3339;

/// A stream in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stream {
    /// 32 hexadecimal digits, computed from the address.
    pub(crate) id: String,
    /// `kind/class/name`.
    pub(crate) address: String,
    /// stream, process, object, run, queue, bucket or system.
    pub(crate) kind: String,
    /// The class within the kind.
    pub(crate) class: String,
    /// The name within the class.
    pub(crate) name: String,
    /// The number of its last message.
    pub(crate) version: i64,
    /// When it began.
    #[schema(format = DateTime)]
    pub(crate) created_at: String,
    /// When its last message was committed.
    #[schema(format = DateTime)]
    pub(crate) updated_at: String,
}

impl Stream {
    /// The wire form.
    pub(crate) fn of(summary: &StreamSummary) -> Self {
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

/// A stream with a part of its messages.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct StreamDetail {
    /// 32 hexadecimal digits.
    pub(crate) id: String,
    /// `kind/class/name`.
    pub(crate) address: String,
    /// The number of its last message.
    pub(crate) version: i64,
    /// The messages, oldest first.
    pub(crate) items: Vec<Message>,
    /// The cursor of the next part; null at the end.
    pub(crate) next: Option<String>,
}
