//! Rules of a bucket for pages of other origins (CORS).

pub use steadfast_bucket::CorsRule;

use super::{Deleted, blobs::seconds, rules::put_rule};
use crate::{
    Page,
    operation::{operation, requests},
};

requests! {
    /// List the CORS rules of a bucket, at most 100. The first one that fits a request counts.
    plain ListCorsRules {
        /// Bucket name
        bucket: String,
    } => Page<CorsRule>, Get "/v1/buckets/{bucket}/cors", Viewer, scope Bucket(bucket) Read,
        errors [InvalidName, BucketNotFound];
}

put_rule! {
    /// Let pages of other origins call the S3 API for a bucket. A rule with the same id is
    /// replaced. Requests still need a signature, such as that of a presigned URL.
    PutCorsRule => CorsRule, "/v1/buckets/{bucket}/cors/{id}", scope Bucket(bucket) Manage,
    errors [InvalidName, BucketNotFound, InvalidInput] {
        /// Origin of pages, such as `https://app.example`, with at most one `*`; may be repeated
        #[arg(
            long = "origin",
            env = "STEADFAST_ORIGINS",
            value_name = "ORIGIN",
            value_delimiter = ',',
            required = true
        )]
        origins: Vec<String>,
        /// Method that pages may use: GET, HEAD, PUT, POST or DELETE; may be repeated
        #[arg(
            long = "method",
            env = "STEADFAST_METHODS",
            value_name = "METHOD",
            value_delimiter = ',',
            required = true
        )]
        methods: Vec<String>,
        /// Header that pages may send, with at most one `*`; may be repeated
        #[arg(
            long = "header",
            env = "STEADFAST_HEADERS",
            value_name = "HEADER",
            value_delimiter = ','
        )]
        #[serde(default)]
        headers: Vec<String>,
        /// Header of responses that pages may read; may be repeated
        #[arg(
            long = "expose",
            env = "STEADFAST_EXPOSE_HEADERS",
            value_name = "HEADER",
            value_delimiter = ','
        )]
        #[serde(default)]
        expose_headers: Vec<String>,
        /// Time for which a browser need not ask again.
        #[arg(help = "Time for which a browser need not ask again: a number with s, m, h or d")]
        #[arg(long = "max-age", env = "STEADFAST_MAX_AGE", value_name = "TIME", value_parser = age)]
        #[serde(default)]
        max_age_seconds: Option<u32>,
    }
}

requests! {
    /// Delete a CORS rule of a bucket.
    plain DeleteCorsRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => Deleted, Delete "/v1/buckets/{bucket}/cors/{id}", Operator, scope Bucket(bucket) Manage,
        errors [InvalidName, BucketNotFound, RuleNotFound];
}

fn age(text: &str) -> Result<u32, &'static str> {
    seconds(text)?.try_into().map_err(|_| "is too long")
}
