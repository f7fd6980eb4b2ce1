//! Buckets on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use steadfast_bucket::{Blob, BlobEvent, BucketInfo, EventType, LifecycleRule, Rule};
use utoipa::ToSchema;

use super::MessageState;
use crate::api::time::rfc3339;

/// A bucket.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BucketEntry {
    /// Its name.
    pub(crate) name: String,
    /// When it was made.
    #[schema(format = DateTime)]
    pub(crate) created_at: String,
    /// The largest blob that it takes; null: 5 TiB.
    pub(crate) max_blob_bytes: Option<u64>,
    /// Which changes are sent to which queue.
    pub(crate) rules: Vec<RuleEntry>,
    /// What is deleted when it is old.
    pub(crate) lifecycle: Vec<LifecycleEntry>,
}

impl BucketEntry {
    /// Converts.
    pub(crate) fn of(it: BucketInfo) -> Self {
        Self {
            name: it.name.to_string(),
            created_at: rfc3339(it.created_at),
            max_blob_bytes: it.settings.max_blob_bytes,
            rules: it.settings.rules.into_iter().map(RuleEntry::of).collect(),
            lifecycle: it.settings.lifecycle.into_iter().map(LifecycleEntry::of).collect(),
        }
    }
}

/// What can be set for a bucket.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct BucketBody {
    /// The largest blob that it takes; null: 5 TiB. Left out, it stays as it is.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub(crate) max_blob_bytes: Option<Option<u64>>,
}

/// A null that was written is not what was left out.
fn given<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// A rule that sends changes to a queue.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RuleEntry {
    /// Its name in the bucket.
    pub(crate) id: String,
    /// object-create, object-delete or both.
    #[schema(value_type = Vec<String>)]
    pub(crate) events: Vec<EventType>,
    /// Only keys that begin with this.
    pub(crate) prefix: String,
    /// Only keys that end with this.
    pub(crate) suffix: String,
    /// Where to.
    pub(crate) queue: String,
}

impl RuleEntry {
    /// Converts.
    pub(crate) fn of(it: Rule) -> Self {
        let Rule { id, events, prefix, suffix, queue } = it;
        Self { id, events, prefix, suffix, queue }
    }
}

/// What a rule says.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleBody {
    /// object-create (put, copied, completed) and object-delete (deleted, by a lifecycle, too).
    #[schema(value_type = Vec<String>)]
    pub(crate) events: Vec<EventType>,
    /// Only keys that begin with this.
    #[serde(default)]
    pub(crate) prefix: String,
    /// Only keys that end with this.
    #[serde(default)]
    pub(crate) suffix: String,
    /// The queue, which is made by what is sent to it.
    pub(crate) queue: String,
}

/// A rule that deletes what is old.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LifecycleEntry {
    /// Its name in the bucket.
    pub(crate) id: String,
    /// Only keys that begin with this.
    pub(crate) prefix: String,
    /// Blobs are deleted so long after they were written.
    pub(crate) delete_after_ms: Option<u64>,
    /// Uploads in parts are aborted so long after they began.
    pub(crate) abort_uploads_after_ms: Option<u64>,
}

impl LifecycleEntry {
    /// Converts.
    pub(crate) fn of(it: LifecycleRule) -> Self {
        let LifecycleRule { id, prefix, delete_after_ms, abort_uploads_after_ms } = it;
        Self { id, prefix, delete_after_ms, abort_uploads_after_ms }
    }
}

/// What a rule of a lifecycle says; one of the two times at least.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LifecycleBody {
    /// Only keys that begin with this.
    #[serde(default)]
    pub(crate) prefix: String,
    /// Blobs are deleted so long after they were written.
    #[serde(default)]
    #[schema(minimum = 1000)]
    pub(crate) delete_after_ms: Option<u64>,
    /// Uploads in parts are aborted so long after they began.
    #[serde(default)]
    #[schema(minimum = 1000)]
    pub(crate) abort_uploads_after_ms: Option<u64>,
}

/// A blob.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlobEntry {
    /// Its key.
    pub(crate) key: String,
    /// How many bytes it has.
    pub(crate) size: u64,
    /// The tag of its content.
    pub(crate) etag: String,
    /// When it was written.
    #[schema(format = DateTime)]
    pub(crate) modified_at: String,
    /// Its media type, if its writer said so.
    pub(crate) content_type: Option<String>,
    /// The number of the write in the sequence of its key.
    pub(crate) sequence: i64,
    /// Names this write of the key, and no other.
    pub(crate) version: String,
    /// Its own metadata.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl BlobEntry {
    /// Converts.
    pub(crate) fn of(it: Blob) -> Self {
        Self {
            key: it.key.to_string(),
            size: it.size,
            modified_at: rfc3339(it.modified_at),
            sequence: it.sequence,
            version: it.version(),
            etag: it.etag,
            content_type: it.attributes.content_type,
            metadata: it.attributes.metadata,
        }
    }
}

/// A part of a list of blobs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct BlobList {
    /// The blobs, in the order of their keys.
    pub(crate) items: Vec<BlobEntry>,
    /// What keys have in common up to the delimiter, each once.
    pub(crate) prefixes: Vec<String>,
    /// The cursor of the next part; null at the end.
    pub(crate) next: Option<String>,
}

/// That a blob is gone.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct BlobGone {
    /// Its key.
    pub(crate) key: String,
    /// The number of the deletion in the sequence of the key.
    pub(crate) sequence: i64,
}

/// An event, and what became of it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventEntry {
    /// What happened, as it is in the queue.
    #[schema(value_type = serde_json::Value)]
    pub(crate) event: BlobEvent,
    /// Where the message is that says so: where the rule sent it, or where its dead letters go.
    pub(crate) queue: String,
    /// How far its delivery is.
    pub(crate) state: Option<MessageState>,
    /// Attempts so far.
    pub(crate) attempts: u32,
    /// Why the last attempt failed.
    pub(crate) last_error: Option<String>,
    /// The id of the message in its queue.
    pub(crate) message_id: String,
}

/// What a presigned URL is to allow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PresignBody {
    /// Which blob; to write one it need not be there.
    pub(crate) key: String,
    /// GET or PUT.
    #[serde(default)]
    pub(crate) method: PresignVerb,
    /// For how long it holds.
    #[serde(default = "an_hour")]
    #[schema(minimum = 1, maximum = 604_800, default = 3_600)]
    pub(crate) expires_seconds: u64,
}

fn an_hour() -> u64 {
    3_600
}

/// What a presigned URL allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum PresignVerb {
    /// To read a blob.
    #[default]
    Get,
    /// To write a blob.
    Put,
}

/// A presigned URL.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PresignedEntry {
    /// Who has it may do it, without a key.
    pub(crate) url: String,
    /// Until when.
    #[schema(format = DateTime)]
    pub(crate) expires_at: String,
}
