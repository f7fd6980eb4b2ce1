//! Buckets: settings, rules, lifecycle, blobs, events, presigned URLs.

mod blobs;
mod cors;
mod rules;

use clap::Args;
use serde::{Deserialize, Deserializer, Serialize};
pub use steadfast_bucket::BucketInfo as Bucket;
use steadfast_bucket::{BlobEvent, SentEvent};
use steadfast_store::{Recorded, State};
use utoipa::ToSchema;

pub use self::{blobs::*, cors::*, rules::*};
pub use crate::objects::Deleted;
use crate::{
    DeliveryState, Page,
    operation::{operation, requests},
};

requests! {
    /// List the buckets by name.
    paged ListBuckets {} => Page<Bucket>, Get "/v1/buckets", Viewer, scope None,
        errors [BucketNotFound];

    /// Show a bucket with its settings and rules.
    plain ShowBucket {
        /// Bucket name
        bucket: String,
    } => Bucket, Get "/v1/buckets/{bucket}", Viewer, scope Bucket(bucket) Read,
        errors [InvalidName, BucketNotFound];
}

/// Create a bucket, or change its settings. A setting that is left out stays as it is; null resets
/// it.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PutBucket {
    /// Bucket name: 3 to 63 lowercase letters, digits, `-` or `.`
    #[serde(skip)]
    pub bucket: String,
    /// Maximum bytes of a blob; 5 TiB without this limit
    #[arg(long, env = "STEADFAST_MAX_BLOB_BYTES", value_name = "BYTES", value_parser = bytes)]
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub max_blob_bytes: Option<BytesOrNull>,
}
operation!(PutBucket => SavedBucket, Put "/v1/buckets/{bucket}" (bucket), Operator,
    scope Bucket(bucket) Manage,
    errors [InvalidName, BucketNotFound, InvalidInput]);

/// A number of bytes, or null.
pub type BytesOrNull = Option<u64>;

/// Distinguishes null from a field that is left out.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BytesOrNull>, D::Error> {
    BytesOrNull::deserialize(from).map(Some)
}

fn bytes(text: &str) -> Result<BytesOrNull, std::num::ParseIntError> {
    text.parse().map(Some)
}

requests! {
    /// Delete an empty bucket with its rules. Multipart uploads in progress are aborted.
    plain DeleteBucket {
        /// Bucket name
        bucket: String,
    } => Deleted, Delete "/v1/buckets/{bucket}", Operator, scope Bucket(bucket) Manage,
        errors [InvalidName, BucketNotFound, Conflict];
}

requests! {
    /// List the recent events of a bucket, newest first, with the state of their delivery.
    /// Delivered events are kept as long as other messages.
    paged ListBucketEvents {
        /// Bucket name
        bucket: String,
    } => Page<BucketEvent>, Get "/v1/buckets/{bucket}/events", Viewer, scope Bucket(bucket) Read,
        errors [InvalidName, BucketNotFound];
}

/// A bucket that was created or changed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SavedBucket {
    /// The bucket.
    #[serde(flatten)]
    pub bucket: Bucket,
    /// Whether this request created it.
    pub created: bool,
}

/// An event and the state of its delivery.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BucketEvent {
    /// The event, as it is in the queue.
    #[schema(value_type = serde_json::Value)]
    pub event: BlobEvent,
    /// The id of the rule that sent it.
    pub rule: String,
    /// The queue that holds the message: the target of the rule, or its dead-letter queue.
    pub queue: String,
    /// The state of its delivery.
    pub state: Option<DeliveryState>,
    /// Attempts so far.
    pub attempts: u32,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// The id of the message in its queue.
    pub message_id: String,
}

impl BucketEvent {
    /// Converts an event whose message is in this queue.
    pub fn new(SentEvent { event, rule, message }: SentEvent, queue: String) -> Self {
        let Recorded { state, last_error, position, .. } = message;
        let attempts = match &state {
            None => 0,
            Some(State::Pending { attempts, .. } | State::InFlight { attempts, .. }) => *attempts,
            Some(State::Settled(settled)) => settled.attempts,
        };
        let delivery = state.as_ref().map(DeliveryState::from);
        let last_error = match state {
            Some(State::Settled(settled)) => settled.error.or(last_error),
            Some(State::Pending { .. } | State::InFlight { .. }) | None => last_error,
        };
        let message_id = position.to_string();
        Self { event, rule, queue, state: delivery, attempts, last_error, message_id }
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use steadfast_bucket::EventType;

    use super::{blobs::seconds, rules::milliseconds, *};
    use crate::Operation;

    fn parsed<O: Operation + Args>(line: &[&str]) -> O {
        let command = O::augment_args(Command::new("verb").no_binary_name(true));
        let matches = command.try_get_matches_from(line).expect("the line can be read");
        O::from_arg_matches(&matches).expect("the arguments can be read")
    }

    #[test]
    fn a_time_is_a_number_with_its_unit() {
        for (text, expected) in [("30d", 2_592_000), ("12h", 43_200), ("5m", 300), ("90s", 90)] {
            assert_eq!(seconds(text), Ok(expected));
        }
        for bad in ["", "d", "30", "3w", "-1d", "1.5h", "ü", "99999999999999999999d"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert!(milliseconds("9999999999999999s").is_ok());
        assert!(milliseconds("99999999999999999s").is_err());
    }

    #[test]
    fn a_bucket_and_a_key_are_one_argument_and_two_fields() {
        let list: ListBlobs = parsed(&["photos/2026/ä"]);
        let uri = "/v1/buckets/photos/objects?prefix=2026%2F%C3%A4&delimiter=%2F&limit=50";
        assert_eq!(list.write().unwrap().uri, uri);
        let delete: DeleteBlob = parsed(&["photos/a/../b"]);
        assert_eq!(delete.write().unwrap().uri, "/v1/buckets/photos/objects/a%2F..%2Fb");
        let presign: PresignBlob = parsed(&["photos/a/b", "--method", "put", "--expires", "2m"]);
        assert_eq!(presign.write().unwrap().uri, "/v1/buckets/photos/presign");
        let body = r#"{"key":"a/b","method":"PUT","expiresSeconds":120}"#;
        assert_eq!(serde_json::to_string(&presign).unwrap(), body);
        assert!("photos".parse::<BlobPath>().is_err() && "photos/".parse::<BlobPath>().is_err());
    }

    #[test]
    fn a_missing_setting_is_not_null() {
        let put: PutBucket = parsed(&["photos"]);
        assert_eq!(serde_json::to_string(&put).unwrap(), "{}");
        let put: PutBucket = parsed(&["photos", "--max-blob-bytes", "5"]);
        assert_eq!(serde_json::to_string(&put).unwrap(), r#"{"maxBlobBytes":5}"#);
        let put: PutBucket = serde_json::from_str(r#"{"maxBlobBytes": null}"#).unwrap();
        assert_eq!(put.max_blob_bytes, Some(None));
    }

    #[test]
    fn a_rule_has_the_events_that_were_named() {
        let rule: PutBucketRule = parsed(&["photos", "all", "--queue", "q"]);
        assert_eq!(rule.events, [EventType::ObjectCreate]);
        let both = ["photos", "all", "--queue", "q", "--event", "object-create,object-delete"];
        let rule: PutBucketRule = parsed(&both);
        assert_eq!(rule.events, [EventType::ObjectCreate, EventType::ObjectDelete]);
    }
}
