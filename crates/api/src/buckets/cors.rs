//! Rules of a bucket for pages of other origins (CORS).

use clap::Args;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Deleted, blobs::seconds};
use crate::{
    Page,
    operation::{operation, requests},
};

requests! {
    /// List the CORS rules of a bucket, at most 100. The first one that fits a request counts.
    plain ListCorsRules {
        /// Bucket name
        bucket: String,
    } => Page<CorsRule>, Get "/v1/buckets/{bucket}/cors", Viewer,
        errors [InvalidName, BucketNotFound];
}

/// Let pages of other origins call the S3 API for a bucket. A rule with the same id is replaced.
/// Requests still need a signature, such as that of a presigned URL.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutCorsRule {
    /// Bucket name
    #[serde(skip)]
    pub bucket: String,
    /// Id of the rule: 1 to 64 letters, digits, `-`, `_` or `.`
    #[serde(skip)]
    pub id: String,
    /// Origin of pages, such as `https://app.example`, with at most one `*`; may be repeated
    #[arg(
        long = "origin",
        env = "STEADFAST_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ',',
        required = true
    )]
    pub origins: Vec<String>,
    /// Method that pages may use: GET, HEAD, PUT, POST or DELETE; may be repeated
    #[arg(
        long = "method",
        env = "STEADFAST_METHODS",
        value_name = "METHOD",
        value_delimiter = ',',
        required = true
    )]
    pub methods: Vec<String>,
    /// Header that pages may send, with at most one `*`; may be repeated
    #[arg(
        long = "header",
        env = "STEADFAST_HEADERS",
        value_name = "HEADER",
        value_delimiter = ','
    )]
    #[serde(default)]
    pub headers: Vec<String>,
    /// Header of responses that pages may read; may be repeated
    #[arg(
        long = "expose",
        env = "STEADFAST_EXPOSE_HEADERS",
        value_name = "HEADER",
        value_delimiter = ','
    )]
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// Time for which a browser need not ask again.
    #[arg(help = "Time for which a browser need not ask again: a number with s, m, h or d")]
    #[arg(long = "max-age", env = "STEADFAST_MAX_AGE", value_name = "TIME", value_parser = age)]
    #[serde(default)]
    pub max_age_seconds: Option<u32>,
}
operation!(PutCorsRule => CorsRule, Put "/v1/buckets/{bucket}/cors/{id}" (bucket, id), Operator,
    errors [InvalidName, BucketNotFound, InvalidInput]);

requests! {
    /// Delete a CORS rule of a bucket.
    plain DeleteCorsRule {
        /// Bucket name
        bucket: String,
        /// Id of the rule
        id: String,
    } => Deleted, Delete "/v1/buckets/{bucket}/cors/{id}", Operator,
        errors [InvalidName, BucketNotFound, RuleNotFound];
}

fn age(text: &str) -> Result<u32, &'static str> {
    seconds(text)?.try_into().map_err(|_| "is too long")
}

/// A rule that lets pages of other origins call the S3 API.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CorsRule {
    /// Its id in the bucket.
    pub id: String,
    /// Origins of pages, each with at most one `*`.
    pub origins: Vec<String>,
    /// Methods that pages may use.
    pub methods: Vec<String>,
    /// Headers that pages may send, each with at most one `*`.
    pub headers: Vec<String>,
    /// Headers of responses that pages may read.
    pub expose_headers: Vec<String>,
    /// Time for which a browser need not ask again, in seconds.
    pub max_age_seconds: Option<u32>,
}

impl From<steadfast_bucket::CorsRule> for CorsRule {
    fn from(it: steadfast_bucket::CorsRule) -> Self {
        let steadfast_bucket::CorsRule { id, origins, methods, headers, expose_headers, .. } = it;
        Self { id, origins, methods, headers, expose_headers, max_age_seconds: it.max_age_seconds }
    }
}

impl From<PutCorsRule> for steadfast_bucket::CorsRule {
    fn from(it: PutCorsRule) -> Self {
        let PutCorsRule { id, origins, methods, headers, expose_headers, max_age_seconds, .. } = it;
        Self { id, origins, methods, headers, expose_headers, max_age_seconds }
    }
}
