//! Blobs of a bucket: list, delete, presigned URLs.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
pub use steadfast_bucket::Blob;
use utoipa::ToSchema;

use crate::{Limit, escaped, operation::operation};

/// List the blobs of a bucket in the byte order of their keys; the command line lists one level.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListBlobs {
    /// Bucket, and optionally a prefix of keys
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
    scope Bucket(bucket) Read,
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
    blob.key), Operator, scope Bucket(bucket, key) Delete,
    errors [InvalidName, BucketNotFound, InvalidKey, BlobNotFound, PreconditionFailed]);

/// Create a URL that reads or writes one blob without a key until it expires. It also ends when the
/// token that made it is revoked, rotated or expires.
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
    /// Lifetime, at most 7 days; for role member, 24 hours.
    #[arg(help = "Lifetime, at most 7d, for role member 24h: a number with s, m, h or d")]
    #[arg(long = "expires", env = "STEADFAST_EXPIRES", default_value = "1h",
        value_name = "TIME", value_parser = seconds)]
    #[serde(default = "an_hour")]
    #[schema(minimum = 1, maximum = 604_800, default = 3_600)]
    pub expires_seconds: u64,
}
operation!(PresignBlob => PresignedUrl, Post "/v1/buckets/{bucket}/presign" (blob.bucket), Member,
    scope None,
    errors [InvalidName, BucketNotFound, InvalidKey, InvalidInput, BlobNotFound, Conflict,
        SealKeyMissing]);

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
pub(super) fn seconds(text: &str) -> Result<u64, &'static str> {
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
