//! Event and lifecycle rules of a bucket.

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde::{Deserialize, Serialize};
use steadfast_bucket::{EventType, Rule};
use utoipa::ToSchema;

use super::{Deleted, blobs::seconds};
use crate::{
    Page,
    operation::{operation, requests},
};

requests! {
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

pub(super) fn milliseconds(text: &str) -> Result<u64, &'static str> {
    seconds(text)?.checked_mul(1_000).ok_or("is too long")
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
