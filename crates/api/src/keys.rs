//! Access keys of the S3 API: create, list, rotate, revoke.

use clap::{Args, builder::FalseyValueParser};
use serde::{Deserialize, Serialize};
pub use steadfast_bucket::KeyInfo as Key;
use steadfast_bucket::{AccessKey, KeyScope};
use utoipa::ToSchema;

use crate::{
    Page,
    operation::{operation, requests},
};

/// Create an access key for the S3 API. Its secret is shown once.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CreateKey {
    /// Name of the key, for lists and the audit log
    #[arg(long, env = "STEADFAST_NAME", value_name = "NAME")]
    pub name: Option<String>,
    /// Allow only this bucket
    #[arg(long, env = "STEADFAST_BUCKET", value_name = "BUCKET")]
    pub bucket: Option<String>,
    /// Allow only blobs whose keys begin with this
    #[arg(long, env = "STEADFAST_PREFIX", value_name = "PREFIX")]
    pub prefix: Option<String>,
    /// Allow only reads
    #[arg(long, env = "STEADFAST_READ_ONLY", value_parser = FalseyValueParser::new())]
    pub read_only: bool,
    /// Organization that the key belongs to: its blobs have keys that begin with `ORG/`
    #[arg(long, env = "STEADFAST_ORGANIZATION", value_name = "ORG")]
    pub organization: Option<String>,
    /// Days until the key expires
    #[arg(long, env = "STEADFAST_EXPIRES_DAYS", value_name = "DAYS")]
    pub expires_days: Option<u32>,
    /// Idempotency key: a repetition within 24 hours creates nothing and is refused, with the id
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(CreateKey => NewKey, Post "/v1/keys" (), Admin, scope None, status 201,
    key idempotency_key,
    errors [InvalidName, InvalidInput, SealKeyMissing]);

requests! {
    /// List the access keys of the S3 API, without their secrets.
    paged ListKeys {} => Page<Key>, Get "/v1/keys", Admin, scope None, errors [];

    /// Create an access key with the scope and the expiry of another one, which ends at once, or
    /// after an overlap.
    plain RotateKey {
        /// Id of the key
        id: String,
    } with {
        /// Hours in which the old key stays valid, at most 720
        #[arg(long, env = "STEADFAST_OVERLAP_HOURS", value_name = "HOURS")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub overlap_hours: Option<u32>,
    } => NewKey, Post "/v1/keys/{id}/rotate", Admin, scope None, status 201,
        errors [KeyNotFound, InvalidInput, Conflict, SealKeyMissing];

    /// Revoke an access key at once. The S3 API refuses its signatures, presigned URLs included.
    plain RevokeKey {
        /// Id of the key
        id: String,
    } => RevokedKey, Delete "/v1/keys/{id}", Admin, scope None, errors [KeyNotFound];
}

/// A new access key. The secret cannot be read again.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// Its secret.
    pub secret_access_key: String,
}

/// An access key that was revoked.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevokedKey {
    /// Its id.
    pub access_key_id: String,
}

impl From<CreateKey> for KeyScope {
    fn from(it: CreateKey) -> Self {
        let own = it.organization.as_ref().map(|it| format!("{it}/"));
        Self {
            name: it.name,
            bucket: it.bucket,
            prefix: it.prefix.or(own),
            read_only: it.read_only,
            organization: it.organization,
            expires_at: None,
        }
    }
}

/// Without the secret.
impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey").field("key", &self.key).finish_non_exhaustive()
    }
}

impl From<AccessKey> for NewKey {
    fn from(it: AccessKey) -> Self {
        let secret_access_key = it.secret.expose().to_owned();
        Self { key: Key::of(it.id, it.scope, it.created_at), secret_access_key }
    }
}
