//! Buckets: settings, rules, lifecycle, blobs, events, presigned URLs.

use std::{collections::BTreeMap, str::FromStr};

use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steadfast_bucket::{Attributes, BlobEvent, BlobKey, BucketInfo, EventType, Rule, SentEvent};
use steadfast_store::{Recorded, State};
use utoipa::ToSchema;

pub use crate::objects::Deleted;
use crate::{
    DeliveryState, Limit, Page, escaped,
    operation::{operation, requests},
    read_time, rfc3339,
};

requests! {
    /// List the buckets by name.
    paged ListBuckets {} => Page<Bucket>, Get "/v1/buckets", Viewer, errors [BucketNotFound];

    /// Show a bucket with its settings and rules.
    plain ShowBucket {
        /// Bucket name
        bucket: String,
    } => Bucket, Get "/v1/buckets/{bucket}", Viewer, errors [InvalidName, BucketNotFound];
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
    } => Deleted, Delete "/v1/buckets/{bucket}", Operator,
        errors [InvalidName, BucketNotFound, Conflict];

    /// List the rules of a bucket by id, at most 100.
    plain ListBucketRules {
        /// Bucket name
        bucket: String,
    } => Page<BucketRule>, Get "/v1/buckets/{bucket}/rules", Viewer,
        errors [InvalidName, BucketNotFound];

    /// Show a rule of a bucket.
    plain ShowBucketRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => BucketRule, Get "/v1/buckets/{bucket}/rules/{id}", Viewer,
        errors [InvalidName, BucketNotFound, RuleNotFound];
}

/// Send events of a bucket to a queue. A rule with the same id is replaced; a rule that overlaps
/// with another one is refused.
#[derive(Clone, Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutBucketRule {
    /// Bucket name
    #[serde(skip)]
    pub bucket: String,
    /// Id of the rule: 1 to 64 letters, digits, `-`, `_` or `.`
    #[serde(skip)]
    pub id: String,
    /// Target queue; the first event creates it
    #[arg(long, env = "STEADFAST_QUEUE")]
    pub queue: String,
    /// Type of events; may be repeated
    #[arg(
        long = "event",
        env = "STEADFAST_EVENT",
        value_name = "EVENT",
        value_delimiter = ',',
        default_value = "object-create",
        value_parser = event_type()
    )]
    #[schema(value_type = Vec<String>)]
    pub events: Vec<EventType>,
    /// Only keys that begin with this
    #[arg(long, env = "STEADFAST_PREFIX", default_value = "", hide_default_value = true)]
    #[serde(default)]
    pub prefix: String,
    /// Only keys that end with this
    #[arg(long, env = "STEADFAST_SUFFIX", default_value = "", hide_default_value = true)]
    #[serde(default)]
    pub suffix: String,
}
operation!(PutBucketRule => BucketRule, Put "/v1/buckets/{bucket}/rules/{id}" (bucket, id),
    Operator,
    errors [InvalidName, BucketNotFound, InvalidInput, Conflict]);

fn event_type() -> impl TypedValueParser {
    let all = [EventType::ObjectCreate, EventType::ObjectDelete];
    PossibleValuesParser::new(all.map(EventType::name)).try_map(move |name| {
        all.into_iter().find(|it| it.name() == name).ok_or("not a type of events")
    })
}

requests! {
    /// Delete a rule of a bucket. Events that it sent stay in their queue.
    plain DeleteBucketRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => Deleted, Delete "/v1/buckets/{bucket}/rules/{id}", Operator,
        errors [InvalidName, BucketNotFound, RuleNotFound];

    /// List the lifecycle rules of a bucket by id, at most 100.
    plain ListLifecycleRules {
        /// Bucket name
        bucket: String,
    } => Page<LifecycleRule>, Get "/v1/buckets/{bucket}/lifecycle", Viewer,
        errors [InvalidName, BucketNotFound];

    /// Show a lifecycle rule of a bucket.
    plain ShowLifecycleRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => LifecycleRule, Get "/v1/buckets/{bucket}/lifecycle/{id}", Viewer,
        errors [InvalidName, BucketNotFound, RuleNotFound];
}

/// Delete old blobs and uploads of a bucket. A rule with the same id is replaced. Rules are applied
/// once an hour.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PutLifecycleRule {
    /// Bucket name
    #[serde(skip)]
    pub bucket: String,
    /// Id of the rule: 1 to 64 letters, digits, `-`, `_` or `.`
    #[serde(skip)]
    pub id: String,
    /// Only keys that begin with this
    #[arg(long, env = "STEADFAST_PREFIX", default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Age at which blobs are deleted.
    #[arg(help = "Delete blobs of this age: a number with s, m, h or d")]
    #[arg(long = "delete-after", env = "STEADFAST_DELETE_AFTER", value_name = "TIME",
        value_parser = milliseconds)]
    #[schema(minimum = 1000)]
    pub delete_after_ms: Option<u64>,
    /// Age at which multipart uploads are aborted.
    #[arg(help = "Abort multipart uploads of this age: a number with s, m, h or d")]
    #[arg(long = "abort-uploads-after", env = "STEADFAST_ABORT_UPLOADS_AFTER",
        value_name = "TIME", value_parser = milliseconds)]
    #[schema(minimum = 1000)]
    pub abort_uploads_after_ms: Option<u64>,
}
operation!(PutLifecycleRule => LifecycleRule, Put "/v1/buckets/{bucket}/lifecycle/{id}" (bucket,
    id), Operator,
    errors [InvalidName, BucketNotFound, InvalidInput, Conflict]);

requests! {
    /// Delete a lifecycle rule of a bucket.
    plain DeleteLifecycleRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => Deleted, Delete "/v1/buckets/{bucket}/lifecycle/{id}", Operator,
        errors [InvalidName, BucketNotFound, RuleNotFound];
}

/// List the blobs of a bucket in the byte order of their keys; the command line lists one level.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListBlobs {
    /// Bucket, and the beginning of the keys
    #[arg(value_name = "BUCKET[/PREFIX]", value_parser = BlobPath::read_prefix)]
    #[serde(rename = "prefix")]
    #[schema(value_type = String)]
    pub place: BlobPath,
    /// Group keys that contain this after the prefix, up to it: `/` for one level
    #[arg(skip = "/")]
    pub delimiter: String,
    /// Maximum number of rows, prefixes included
    #[arg(long, env = "STEADFAST_LIMIT", default_value_t)]
    pub limit: Limit,
    /// Continue after the page with this `next`
    #[arg(long, env = "STEADFAST_CURSOR")]
    pub cursor: Option<String>,
}
operation!(ListBlobs => BlobPage, Get "/v1/buckets/{bucket}/objects" (place.bucket), Viewer,
    errors [InvalidName, BucketNotFound]);

/// Delete a blob.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteBlob {
    /// The blob
    #[arg(value_name = "BUCKET/KEY")]
    #[serde(skip)]
    pub blob: BlobPath,
}
operation!(DeleteBlob => DeletedBlob, Delete "/v1/buckets/{bucket}/objects/{*key}" (blob.bucket,
    blob.key), Operator,
    errors [InvalidName, BucketNotFound, InvalidKey, BlobNotFound, PreconditionFailed]);

/// Create a URL that reads or writes one blob without a key until it expires. The server signs it
/// with an access key that it creates for this purpose; revoking that key revokes all such URLs.
#[derive(Clone, Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PresignBlob {
    /// The blob; it need not exist to be written
    #[arg(value_name = "BUCKET/KEY")]
    #[serde(rename = "key")]
    #[schema(value_type = String)]
    pub blob: BlobPath,
    /// Operation that the URL allows
    #[arg(long, env = "STEADFAST_METHOD", default_value = "get")]
    #[serde(default)]
    pub method: PresignMethod,
    /// Lifetime, at most 7 days.
    #[arg(help = "Lifetime, at most 7d: a number with s, m, h or d")]
    #[arg(long = "expires", env = "STEADFAST_EXPIRES", default_value = "1h",
        value_name = "TIME", value_parser = seconds)]
    #[serde(default = "an_hour")]
    #[schema(minimum = 1, maximum = 604_800, default = 3_600)]
    pub expires_seconds: u64,
}
operation!(PresignBlob => PresignedUrl, Post "/v1/buckets/{bucket}/presign" (blob.bucket), Member,
    errors [InvalidName, BucketNotFound, InvalidKey, InvalidInput, BlobNotFound, Conflict]);

fn an_hour() -> u64 {
    3_600
}

/// The operation that a presigned URL allows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "each would take a line of the help")]
pub enum PresignMethod {
    #[default]
    Get,
    Put,
}

requests! {
    /// List the recent events of a bucket, newest first, with the state of their delivery.
    /// Delivered events are kept as long as other messages.
    paged ListBucketEvents {
        /// Bucket name
        bucket: String,
    } => Page<BucketEvent>, Get "/v1/buckets/{bucket}/events", Viewer,
        errors [InvalidName, BucketNotFound];
}

/// A blob, written `BUCKET/KEY`. A query or a body has only the key: the bucket is in the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobPath {
    /// Bucket name.
    pub bucket: String,
    /// Key of the blob, or a prefix of keys.
    pub key: String,
}

impl BlobPath {
    /// The path of its bytes in the API.
    pub fn path(&self) -> String {
        format!("/v1/buckets/{}/objects/{}", escaped(&self.bucket), escaped(&self.key))
    }

    /// Parses `BUCKET` or `BUCKET/PREFIX`.
    fn read_prefix(text: &str) -> Result<Self, String> {
        let (bucket, key) = text.split_once('/').unwrap_or((text, ""));
        Ok(Self { bucket: bucket.into(), key: key.into() })
    }
}

impl FromStr for BlobPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Self { bucket: bucket.into(), key: key.into() })
            }
            Some(_) | None => Err(format!("`{text}` names no blob; write BUCKET/KEY")),
        }
    }
}

impl Serialize for BlobPath {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.key.serialize(to)
    }
}

impl<'de> Deserialize<'de> for BlobPath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|key| Self { bucket: String::new(), key })
    }
}

/// Parses a duration: a number with a unit.
fn seconds(text: &str) -> Result<u64, &'static str> {
    let wrong = "write a number with s, m, h or d, for example 30d";
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(wrong)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong),
    };
    let number: u64 = number.parse().map_err(|_| wrong)?;
    number.checked_mul(unit).ok_or("is too long")
}

fn milliseconds(text: &str) -> Result<u64, &'static str> {
    seconds(text)?.checked_mul(1_000).ok_or("is too long")
}

/// A bucket.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// When it was created.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Maximum bytes of a blob; null: 5 TiB.
    pub max_blob_bytes: Option<u64>,
    /// Rules that send its events to queues.
    pub rules: Vec<BucketRule>,
    /// Rules that delete old blobs.
    pub lifecycle: Vec<LifecycleRule>,
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

/// A rule that sends events to a queue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BucketRule {
    /// Its id in the bucket.
    pub id: String,
    /// object-create (put, copy, completed upload), object-delete (deletions, including those by a
    /// lifecycle rule).
    #[schema(value_type = Vec<String>)]
    pub events: Vec<EventType>,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only keys that end with this.
    pub suffix: String,
    /// The target queue.
    pub queue: String,
}

/// A rule that deletes old blobs and uploads.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleRule {
    /// Its id in the bucket.
    pub id: String,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Age at which blobs are deleted.
    pub delete_after_ms: Option<u64>,
    /// Age at which multipart uploads are aborted.
    pub abort_uploads_after_ms: Option<u64>,
}

/// A blob.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    /// Its key.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// The ETag of its content.
    pub etag: String,
    /// When it was written.
    #[schema(format = DateTime)]
    pub modified_at: String,
    /// Its media type, if the writer sent one.
    pub content_type: Option<String>,
    /// The number of the write in the sequence of its key.
    pub sequence: i64,
    /// Identifies this write of the key.
    pub version: String,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
    /// The CRC-32 of its bytes, 8 hexadecimal digits.
    pub crc32: String,
    /// The SHA-256 of its bytes, 64 hexadecimal digits; null if it was not computed.
    pub sha256: Option<String>,
}

/// The path of a blob in the HTTP API.
pub fn blob_uri(bucket: &str, key: &str) -> String {
    format!("/v1/buckets/{}/objects/{}", escaped(bucket), escaped(key))
}

/// One page of a list of blobs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BlobPage {
    /// The blobs, in the order of their keys.
    pub items: Vec<Blob>,
    /// Common prefixes of keys up to the delimiter, each once.
    pub prefixes: Vec<String>,
    /// The `cursor` of the next page; null at the end.
    pub next: Option<String>,
}

/// A blob that was deleted.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeletedBlob {
    /// Its key.
    pub key: String,
    /// The number of the deletion in the sequence of the key.
    pub sequence: i64,
}

/// An event and the state of its delivery.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BucketEvent {
    /// The event, as it is in the queue.
    #[schema(value_type = serde_json::Value)]
    pub event: BlobEvent,
    /// The id of the rule that sent it; null for an event of a version that did not record it.
    pub rule: Option<String>,
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

/// A presigned URL.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PresignedUrl {
    /// The URL. Its holder needs no key.
    pub url: String,
    /// When it expires.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

impl From<BucketInfo> for Bucket {
    fn from(it: BucketInfo) -> Self {
        Self {
            name: it.name.to_string(),
            created_at: rfc3339(it.created_at),
            max_blob_bytes: it.settings.max_blob_bytes,
            rules: it.settings.rules.into_iter().map(BucketRule::from).collect(),
            lifecycle: it.settings.lifecycle.into_iter().map(LifecycleRule::from).collect(),
        }
    }
}

impl From<Rule> for BucketRule {
    fn from(it: Rule) -> Self {
        let Rule { id, events, prefix, suffix, queue } = it;
        Self { id, events, prefix, suffix, queue }
    }
}

impl From<PutBucketRule> for Rule {
    fn from(it: PutBucketRule) -> Self {
        let PutBucketRule { bucket: _, id, queue, events, prefix, suffix } = it;
        Self { id, events, prefix, suffix, queue }
    }
}

impl From<steadfast_bucket::LifecycleRule> for LifecycleRule {
    fn from(it: steadfast_bucket::LifecycleRule) -> Self {
        Self {
            id: it.id,
            prefix: it.prefix,
            delete_after_ms: it.delete_after_ms,
            abort_uploads_after_ms: it.abort_uploads_after_ms,
        }
    }
}

impl From<PutLifecycleRule> for steadfast_bucket::LifecycleRule {
    fn from(it: PutLifecycleRule) -> Self {
        let PutLifecycleRule { bucket: _, id, prefix, delete_after_ms, abort_uploads_after_ms } =
            it;
        Self { id, prefix, delete_after_ms, abort_uploads_after_ms }
    }
}

impl From<steadfast_bucket::Blob> for Blob {
    fn from(it: steadfast_bucket::Blob) -> Self {
        Self {
            key: it.key.to_string(),
            size: it.size,
            modified_at: rfc3339(it.modified_at),
            sequence: it.sequence,
            version: it.version(),
            etag: it.etag,
            content_type: it.attributes.content_type,
            metadata: it.attributes.metadata,
            crc32: format!("{:08x}", it.crc32),
            sha256: it.sha256.map(|it| it.map(|byte| format!("{byte:02x}")).concat()),
        }
    }
}

/// Fails with the name of the field that cannot be parsed.
impl TryFrom<Blob> for steadfast_bucket::Blob {
    type Error = String;

    fn try_from(it: Blob) -> Result<Self, String> {
        let wrong =
            |field: &str, value: &str| format!("`{value}` is not a valid {field} of a blob");
        let key = BlobKey::new(&it.key).map_err(|error| error.to_string())?;
        let at = read_time(&it.modified_at).ok_or_else(|| wrong("modifiedAt", &it.modified_at))?;
        let crc32 = u32::from_str_radix(&it.crc32, 16).map_err(|_| wrong("crc32", &it.crc32))?;
        let sha256 = it.sha256.map(|text| sha256(&text).ok_or_else(|| wrong("sha256", &text)));
        let attributes = Attributes {
            content_type: it.content_type,
            metadata: it.metadata,
            ..Attributes::default()
        };
        let (numbers, sums) = ((it.size, it.sequence, at), (crc32, sha256.transpose()?));
        let blob = Self::from_remote(key, numbers, (it.etag, &it.version), attributes, sums);
        blob.ok_or_else(|| wrong("version", &it.version))
    }
}

fn sha256(text: &str) -> Option<[u8; 32]> {
    let digits = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    let bytes = digits.map(|it| u8::from_str_radix(it?, 16).ok()).collect::<Option<Vec<u8>>>()?;
    bytes.try_into().ok()
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

    use super::*;
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
        assert_eq!(list.uri().unwrap(), uri);
        let delete: DeleteBlob = parsed(&["photos/a/../b"]);
        assert_eq!(delete.uri().unwrap(), "/v1/buckets/photos/objects/a%2F..%2Fb");
        let presign: PresignBlob = parsed(&["photos/a/b", "--method", "put", "--expires", "2m"]);
        assert_eq!(presign.uri().unwrap(), "/v1/buckets/photos/presign");
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
