//! Errors of buckets, each with a stable code, and the limits of blobs and multipart uploads, as in
//! S3.

use std::io;

use steadfast_store::{AddressError, Code, InvalidInput, Json, RecordedKey, SealError, StoreError};

/// Maximum length of a key in bytes.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Maximum length of the names and values of user metadata in bytes.
pub const METADATA_BYTES_MAX: usize = 2_048;

/// Maximum size of a blob: 5 TiB.
pub const BLOB_BYTES_MAX: u64 = 5 << 40;

/// Maximum number of parts of an upload.
pub const PARTS_MAX: u32 = 10_000;

/// Minimum size in bytes of each part except the last.
pub const PART_BYTES_MIN: u64 = 5 << 20;

/// Maximum size of a part in bytes.
pub const PART_BYTES_MAX: u64 = 5 << 30;

/// An error of a bucket operation. Nothing changed, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// Invalid bucket name.
    #[error(
        "`{name}` is not the name of a bucket; write 3 to 63 lowercase letters, digits, `-` or \
         `.`, with a letter or digit at both ends"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Invalid key of a blob.
    #[error("key has {len} bytes, it must have 1 to {max}", max = KEY_BYTES_MAX)]
    Key {
        /// Length of the key in bytes.
        len: usize,
    },
    /// The bucket does not exist.
    #[error("bucket `{bucket}` does not exist; create it with `steadfast buckets create {bucket}`")]
    UnknownBucket {
        /// The bucket.
        bucket: String,
    },
    /// The bucket exists.
    #[error("bucket `{bucket}` already exists")]
    BucketExists {
        /// The bucket.
        bucket: String,
    },
    /// The bucket is not empty.
    #[error("bucket `{bucket}` is not empty; delete its blobs first")]
    NotEmpty {
        /// The bucket.
        bucket: String,
    },
    /// The blob does not exist.
    #[error("blob `{key}` does not exist in bucket `{bucket}`")]
    UnknownBlob {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
    },
    /// The multipart upload does not exist.
    #[error("upload `{upload}` does not exist: it was completed, aborted, or never begun")]
    UnknownUpload {
        /// Id of the upload.
        upload: String,
    },
    /// The rule does not exist.
    #[error("bucket `{bucket}` has no rule `{rule}`")]
    UnknownRule {
        /// The bucket.
        bucket: String,
        /// Id of the rule.
        rule: String,
    },
    /// A condition of the request is not met.
    #[error("condition of the request on `{key}` is not met: {reason}")]
    Condition {
        /// The key.
        key: String,
        /// The condition.
        reason: &'static str,
    },
    /// The blob has not changed since the caller read it.
    #[error("`{key}` has not changed")]
    NotModified {
        /// The key.
        key: String,
        /// Its ETag.
        etag: String,
    },
    /// The range begins after the end of the blob.
    #[error("the range begins after the end of the blob, which has {size} bytes")]
    Range {
        /// Size of the blob in bytes.
        size: u64,
    },
    /// The body has another length than declared.
    #[error("body has {actual} bytes, {expected} were declared; nothing was stored, send it again")]
    Length {
        /// Declared length in bytes.
        expected: u64,
        /// Received length in bytes.
        actual: u64,
    },
    /// The body ended before it was complete.
    #[error("body is incomplete: {reason}; nothing was stored, send it again")]
    Body {
        /// The cause.
        reason: String,
    },
    /// The body does not have the declared checksum.
    #[error(
        "{algorithm} of the body differs from the declared one; nothing was stored, send it again"
    )]
    Checksum {
        /// The algorithm.
        algorithm: &'static str,
    },
    /// The blob is larger than the bucket allows.
    #[error("blobs in this bucket may have at most {max} bytes")]
    TooLarge {
        /// The limit.
        max: u64,
    },
    /// The user metadata is too large.
    #[error("metadata has {len} bytes, limit is {max}")]
    Metadata {
        /// Length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The list of parts of a multipart upload is invalid.
    #[error("part {number}: {reason}")]
    Part {
        /// Number of the part.
        number: u32,
        /// The problem.
        reason: PartError,
    },
    /// An argument is invalid.
    #[error("`{field}` {rule}")]
    Argument {
        /// The field.
        field: &'static str,
        /// The rule that it breaks.
        rule: String,
    },
    /// Another rule sends the same events.
    #[error("rule `{rule}` overlaps with rule `{other}`: both send {action} for some key")]
    Overlap {
        /// The new rule.
        rule: String,
        /// The existing rule.
        other: String,
        /// The action that both send.
        action: &'static str,
    },
    /// A request with this idempotency key was applied before. Nothing changed now.
    #[error("request was applied before with this idempotency key: {answer}")]
    Repeated {
        /// The recorded reply, as JSON.
        answer: String,
    },
    /// The idempotency key was used for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// The idempotency key.
        key: String,
    },
    /// The access key ends with the overlap of its rotation, and so would another secret of it.
    #[error("access key `{id}` was replaced by `{by}`; rotate that one, or create a new key")]
    Replaced {
        /// The id of the key.
        id: String,
        /// The id of the key that replaced it.
        by: String,
    },
    /// The quota of the organization does not allow it.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The disk is full.
    #[error("disk is full: nothing was stored; free space and try again")]
    DiskFull,
    /// A file cannot be read or written.
    #[error("blob file error: {reason}")]
    Files {
        /// The cause.
        reason: String,
    },
    /// The content of a blob has other bytes than were written.
    #[error(
        "content of blob `{key}` (version {version}) is damaged: {reason}; restore its file from a \
         backup, or write the blob again"
    )]
    Damaged {
        /// The key.
        key: String,
        /// The version.
        version: String,
        /// The defect.
        reason: &'static str,
    },
    /// A file of a blob is missing.
    #[error(
        "a file of blob `{key}` (version {version}) is missing; restore it from a backup, or write \
         the blob again"
    )]
    Missing {
        /// The key.
        key: String,
        /// The version.
        version: String,
    },
    /// The store reported an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The secret of an access key cannot be sealed or opened.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// A quota that does not allow a change. Nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// The content is larger than the whole quota.
    #[error(
        "content has {size} bytes, and organization `{organization}` may store {limit} in all; \
         send less, or ask an operator to raise the quota"
    )]
    TooLarge {
        /// The organization.
        organization: String,
        /// Size of the content in bytes.
        size: u64,
        /// The quota.
        limit: u64,
    },
    /// The quota of bytes is used up.
    #[error(
        "organization `{organization}` stores {used} of {limit} bytes, and this needs {added} \
         more; delete blobs, or ask an operator to raise the quota"
    )]
    Bytes {
        /// The organization.
        organization: String,
        /// Bytes that it stores.
        used: u64,
        /// Bytes that would be added.
        added: u64,
        /// The quota.
        limit: u64,
    },
    /// The quota of blobs is used up.
    #[error(
        "organization `{organization}` stores {used} blobs and may store {limit}; delete blobs, \
         or ask an operator to raise the quota"
    )]
    Objects {
        /// The organization.
        organization: String,
        /// Blobs that it stores.
        used: u64,
        /// The quota.
        limit: u64,
    },
    /// The spend of the month has reached the quota.
    #[error(
        "organization `{organization}` has spent {} of {} US dollars this month; wait for the \
         next month, or ask an operator to raise the quota", dollars(*used), dollars(*limit)
    )]
    Spend {
        /// The organization.
        organization: String,
        /// Spend of the month in millionths of a US dollar.
        used: u64,
        /// The quota in millionths of a US dollar.
        limit: u64,
        /// Seconds until the next month begins.
        seconds: u64,
    },
}

impl QuotaError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            QuotaError::TooLarge { .. } => Code::QuotaTooLarge,
            QuotaError::Bytes { .. } => Code::QuotaBytes,
            QuotaError::Objects { .. } => Code::QuotaObjects,
            QuotaError::Spend { .. } => Code::QuotaSpend,
        }
    }
}

/// Millionths of a US dollar as dollars.
fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The problem with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The part does not exist, or has another ETag.
    #[error("was not uploaded, or has another ETag")]
    Unknown,
    /// The parts are not in order.
    #[error("is listed out of order")]
    Order,
    /// A part that is not the last one is too small.
    #[error("is smaller than 5 MiB and is not the last part")]
    Small,
    /// The number is not between 1 and 10,000.
    #[error("is not a number from 1 to 10,000")]
    Number,
    /// The list is empty.
    #[error("must be listed: an upload has at least one part")]
    None,
}

impl BucketError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            BucketError::Name { .. } => Code::InvalidName,
            BucketError::Key { .. } => Code::InvalidKey,
            BucketError::UnknownBucket { .. } => Code::BucketNotFound,
            BucketError::UnknownBlob { .. } => Code::BlobNotFound,
            BucketError::UnknownUpload { .. } => Code::UploadNotFound,
            BucketError::UnknownRule { .. } => Code::RuleNotFound,
            BucketError::BucketExists { .. }
            | BucketError::NotEmpty { .. }
            | BucketError::Overlap { .. }
            | BucketError::Replaced { .. } => Code::Conflict,
            BucketError::Condition { .. } => Code::PreconditionFailed,
            BucketError::NotModified { .. } => Code::NotModified,
            BucketError::Range { .. } => Code::RangeNotSatisfiable,
            BucketError::Length { .. } | BucketError::Body { .. } => Code::BadRequest,
            BucketError::Checksum { .. } => Code::ChecksumMismatch,
            BucketError::TooLarge { .. } | BucketError::Metadata { .. } => Code::TooLarge,
            BucketError::Part { .. } | BucketError::Argument { .. } => Code::InvalidInput,
            BucketError::Repeated { .. } | BucketError::KeyReused { .. } => Code::KeyReused,
            BucketError::Quota(error) => error.kind(),
            BucketError::DiskFull => Code::DiskFull,
            BucketError::Files { .. } => Code::StorageFailed,
            BucketError::Damaged { .. } => Code::BlobDamaged,
            BucketError::Missing { .. } => Code::BlobMissing,
            BucketError::Store(error) => error.kind(),
            BucketError::Seal(error) => error.kind(),
        }
    }

    /// The stable code as text.
    pub fn code(&self) -> &'static str {
        self.kind().tag()
    }

    /// The same error about the source of a copy: an unmet condition is never "not modified".
    pub fn of_copy_source(self) -> Self {
        let BucketError::NotModified { key, .. } = self else { return self };
        BucketError::Condition { key, reason: "it has not changed" }
    }

    pub(crate) fn repeated(before: &RecordedKey) -> Self {
        let answer = before.reply.as_ref().map_or("null", Json::as_str).into();
        BucketError::Repeated { answer }
    }

    /// Whether it certainly changed nothing. Only the outcome of a commit may be unknown.
    pub(crate) fn surely_unapplied(&self) -> bool {
        !matches!(self, BucketError::Store(_)) || self.kind().surely_unapplied()
    }
}

/// The error of an invalid argument.
pub(crate) fn wrong(field: &'static str, rule: &str) -> BucketError {
    BucketError::Argument { field, rule: rule.into() }
}

impl From<io::Error> for BucketError {
    fn from(error: io::Error) -> Self {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        if full.contains(&error.kind()) {
            return BucketError::DiskFull;
        }
        BucketError::Files { reason: error.to_string() }
    }
}

impl From<InvalidInput> for BucketError {
    fn from(error: InvalidInput) -> Self {
        BucketError::Store(error.into())
    }
}

impl From<AddressError> for BucketError {
    fn from(error: AddressError) -> Self {
        BucketError::Store(InvalidInput::from(error).into())
    }
}
