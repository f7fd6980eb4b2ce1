//! Event and lifecycle rules of a bucket.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use steadfast_bucket::EventType;
pub use steadfast_bucket::{LifecycleRule, Rule as BucketRule};

use super::{Deleted, blobs::seconds};
use crate::{
    Page,
    operation::{operation, requests},
};

/// Declares the request that sets a rule of a bucket. Its fields are those of the rule, except for
/// the id.
macro_rules! put_rule {
    (
        $(#[$meta:meta])*
        $name:ident => $rule:ident, $path:literal, scope $scope:ident
            $(($($part:ident),+) $verb:ident)?, errors $errors:tt {
            $($(#[$about:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        #[derive(Clone, Debug, Default, clap::Args, serde::Serialize, serde::Deserialize)]
        #[derive(utoipa::ToSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        $(#[$meta])*
        pub struct $name {
            /// Bucket name
            #[serde(skip)]
            pub bucket: String,
            /// Id of the rule: 1 to 64 letters, digits, `-`, `_` or `.`
            #[serde(skip)]
            pub id: String,
            $($(#[$about])* pub $field: $type,)*
        }
        operation!($name => $rule, Put $path (bucket, id), Operator, scope $scope
            $(($($part),+) $verb)?, errors $errors);

        impl From<$name> for $rule {
            fn from(it: $name) -> Self {
                Self { id: it.id, $($field: it.$field),* }
            }
        }
    };
}
pub(super) use put_rule;

requests! {
    /// List the rules of a bucket by id, at most 100.
    plain ListBucketRules {
        /// Bucket name
        bucket: String,
    } => Page<BucketRule>, Get "/v1/buckets/{bucket}/rules", Viewer, scope Bucket(bucket) Read,
        errors [InvalidName, BucketNotFound];

    /// Show a rule of a bucket.
    plain ShowBucketRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => BucketRule, Get "/v1/buckets/{bucket}/rules/{id}", Viewer, scope Bucket(bucket) Read,
        errors [InvalidName, BucketNotFound, RuleNotFound];
}

put_rule! {
    /// Send events of a bucket to a queue. A rule with the same id is replaced; a rule that
    /// overlaps with another one is refused.
    PutBucketRule => BucketRule, "/v1/buckets/{bucket}/rules/{id}", scope None,
    errors [InvalidName, BucketNotFound, InvalidInput, Conflict] {
        /// Target queue; the first event creates it
        #[arg(long, env = "STEADFAST_QUEUE")]
        queue: String,
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
        events: Vec<EventType>,
        /// Only keys that begin with this
        #[arg(long, env = "STEADFAST_PREFIX", default_value = "", hide_default_value = true)]
        #[serde(default)]
        prefix: String,
        /// Only keys that end with this
        #[arg(long, env = "STEADFAST_SUFFIX", default_value = "", hide_default_value = true)]
        #[serde(default)]
        suffix: String,
    }
}

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
    } => Deleted, Delete "/v1/buckets/{bucket}/rules/{id}", Operator, scope Bucket(bucket) Manage,
        errors [InvalidName, BucketNotFound, RuleNotFound];

    /// List the lifecycle rules of a bucket by id, at most 100.
    plain ListLifecycleRules {
        /// Bucket name
        bucket: String,
    } => Page<LifecycleRule>, Get "/v1/buckets/{bucket}/lifecycle", Viewer,
        scope Bucket(bucket) Read,
        errors [InvalidName, BucketNotFound];

    /// Show a lifecycle rule of a bucket.
    plain ShowLifecycleRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => LifecycleRule, Get "/v1/buckets/{bucket}/lifecycle/{id}", Viewer,
        scope Bucket(bucket) Read,
        errors [InvalidName, BucketNotFound, RuleNotFound];
}

put_rule! {
    /// Delete old blobs and uploads of a bucket. A rule with the same id is replaced. Rules are
    /// applied once an hour.
    #[serde(default)]
    PutLifecycleRule => LifecycleRule, "/v1/buckets/{bucket}/lifecycle/{id}",
    scope Bucket(bucket) Manage,
    errors [InvalidName, BucketNotFound, InvalidInput, Conflict] {
        /// Only keys that begin with this
        #[arg(long, env = "STEADFAST_PREFIX", default_value = "", hide_default_value = true)]
        prefix: String,
        /// Age at which blobs are deleted.
        #[arg(help = "Delete blobs of this age: a number with s, m, h or d")]
        #[arg(long = "delete-after", env = "STEADFAST_DELETE_AFTER", value_name = "TIME",
            value_parser = milliseconds)]
        #[schema(minimum = 1000)]
        delete_after_ms: Option<u64>,
        /// Age at which multipart uploads are aborted.
        #[arg(help = "Abort multipart uploads of this age: a number with s, m, h or d")]
        #[arg(long = "abort-uploads-after", env = "STEADFAST_ABORT_UPLOADS_AFTER",
            value_name = "TIME", value_parser = milliseconds)]
        #[schema(minimum = 1000)]
        abort_uploads_after_ms: Option<u64>,
    }
}

requests! {
    /// Delete a lifecycle rule of a bucket.
    plain DeleteLifecycleRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => Deleted, Delete "/v1/buckets/{bucket}/lifecycle/{id}", Operator,
        scope Bucket(bucket) Manage,
        errors [InvalidName, BucketNotFound, RuleNotFound];
}

pub(super) fn milliseconds(text: &str) -> Result<u64, &'static str> {
    seconds(text)?.checked_mul(1_000).ok_or("is too long")
}
