//! Errors of buckets, each with a stable code.

use std::io;

use steadfast_store::{AddressError, InvalidInput, Json, RecordedKey, StoreError};

use crate::KEY_BYTES_MAX;

/// Why something was not done. Nothing changed, unless it says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// Not the name of a bucket.
    #[error(
        "`{name}` is not the name of a bucket; write 3 to 63 lowercase letters, digits, `-` or \
         `.`, with a letter or digit at both ends"
    )]
    Name {
        /// The text that was given.
        name: String,
    },
    /// Not the key of a blob.
    #[error("key has {len} bytes, it must have 1 to {max}", max = KEY_BYTES_MAX)]
    Key {
        /// How long it was.
        len: usize,
    },
    /// No such bucket.
    #[error("bucket `{bucket}` does not exist; make it with `steadfast buckets create {bucket}`")]
    UnknownBucket {
        /// Which one.
        bucket: String,
    },
    /// There is a bucket of this name.
    #[error("bucket `{bucket}` is there already")]
    BucketExists {
        /// Which one.
        bucket: String,
    },
    /// Only an empty bucket can be deleted.
    #[error("bucket `{bucket}` is not empty; delete what is in it first")]
    NotEmpty {
        /// Which one.
        bucket: String,
    },
    /// No such blob.
    #[error("there is no `{key}` in bucket `{bucket}`")]
    UnknownBlob {
        /// Which bucket.
        bucket: String,
        /// Which key.
        key: String,
    },
    /// No such upload in parts.
    #[error("upload `{upload}` does not exist: it was completed, aborted, or never begun")]
    UnknownUpload {
        /// Which one.
        upload: String,
    },
    /// No such rule.
    #[error("bucket `{bucket}` has no rule `{rule}`")]
    UnknownRule {
        /// Which bucket.
        bucket: String,
        /// Which rule.
        rule: String,
    },
    /// A condition of the request does not hold.
    #[error("`{key}` is not as the request expects it: {reason}")]
    Condition {
        /// Which key.
        key: String,
        /// Which condition.
        reason: &'static str,
    },
    /// The blob is the one that the caller has.
    #[error("`{key}` has not changed")]
    NotModified {
        /// Which key.
        key: String,
        /// Its tag.
        etag: String,
    },
    /// The range begins behind the end.
    #[error("the range begins behind the end of the blob, which has {size} bytes")]
    Range {
        /// How large the blob is.
        size: u64,
    },
    /// The body has another length than was announced.
    #[error("{expected} bytes were announced and {actual} came; nothing was stored, send it again")]
    Length {
        /// The length that was announced.
        expected: u64,
        /// The length that came.
        actual: u64,
    },
    /// The body did not come to its end.
    #[error("the body broke off: {reason}; nothing was stored, send it again")]
    Body {
        /// Why.
        reason: String,
    },
    /// The body is not what the checksum says.
    #[error("the {algorithm} of what came differs from the one that was sent; nothing was stored")]
    Checksum {
        /// Which one.
        algorithm: &'static str,
    },
    /// Larger than the bucket allows.
    #[error("a blob in this bucket may have {max} bytes at most")]
    TooLarge {
        /// The limit.
        max: u64,
    },
    /// Too much of its own metadata.
    #[error("metadata has {len} bytes, limit is {max}")]
    Metadata {
        /// How much it was.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The list of parts of an upload is not right.
    #[error("part {number}: {reason}")]
    Part {
        /// Which one.
        number: u32,
        /// The problem.
        reason: PartTrouble,
    },
    /// Something that was given does not fit.
    #[error("`{field}` {rule}")]
    Argument {
        /// Which field.
        field: &'static str,
        /// The rule that it breaks.
        rule: String,
    },
    /// Another rule would send the same events.
    #[error("rule `{rule}` overlaps with rule `{other}`: both would send {action} of some key")]
    Overlap {
        /// The new rule.
        rule: String,
        /// The one that is there.
        other: String,
        /// For which action.
        action: &'static str,
    },
    /// The request was carried out before with this idempotency key. Nothing changed now.
    #[error("the request was carried out before with this idempotency key: {answer}")]
    Repeated {
        /// The answer that was recorded, as JSON.
        answer: String,
    },
    /// The idempotency key stands for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// Which key.
        key: String,
    },
    /// No room for files.
    #[error("disk is full: nothing was stored; free space and try again")]
    DiskFull,
    /// The files cannot be read or written.
    #[error("files of blobs: {reason}")]
    Files {
        /// Why.
        reason: String,
    },
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The problem with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartTrouble {
    /// It is not there, or not as listed.
    #[error("was not uploaded, or with another tag")]
    Unknown,
    /// Parts must be listed in order.
    #[error("is listed out of order")]
    Order,
    /// All but the last must have a certain size.
    #[error("is smaller than 5 MiB and not the last")]
    Small,
    /// Out of 1 to 10,000.
    #[error("is not a number from 1 to 10,000")]
    Number,
    /// An upload has one part at least.
    #[error("must be listed: an upload has one part at least")]
    None,
}

impl BucketError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            BucketError::Name { .. } => "invalid_name",
            BucketError::Key { .. } => "invalid_key",
            BucketError::UnknownBucket { .. } => "bucket_not_found",
            BucketError::BucketExists { .. } => "conflict",
            BucketError::NotEmpty { .. } => "conflict",
            BucketError::UnknownBlob { .. } => "blob_not_found",
            BucketError::UnknownUpload { .. } => "upload_not_found",
            BucketError::UnknownRule { .. } => "rule_not_found",
            BucketError::Condition { .. } => "precondition_failed",
            BucketError::NotModified { .. } => "not_modified",
            BucketError::Range { .. } => "range_not_satisfiable",
            BucketError::Length { .. } | BucketError::Body { .. } => "bad_request",
            BucketError::Checksum { .. } => "checksum_mismatch",
            BucketError::TooLarge { .. } => "too_large",
            BucketError::Metadata { .. } => "too_large",
            BucketError::Part { .. } => "invalid_input",
            BucketError::Argument { .. } => "invalid_input",
            BucketError::Overlap { .. } => "conflict",
            BucketError::Repeated { .. } | BucketError::KeyReused { .. } => "key_reused",
            BucketError::DiskFull => "disk_full",
            BucketError::Files { .. } => "storage_failed",
            BucketError::Store(error) => error.code(),
        }
    }
}

impl BucketError {
    pub(crate) fn repeated(before: &RecordedKey) -> Self {
        let answer = before.reply.as_ref().map_or("null", Json::as_str).into();
        BucketError::Repeated { answer }
    }

    /// Whether it is sure that nothing was committed.
    pub(crate) fn is_certain(&self) -> bool {
        let BucketError::Store(error) = self else { return true };
        match error {
            StoreError::Remote(problem) => problem.is_surely_not_applied,
            StoreError::Invalid(_)
            | StoreError::Busy { .. }
            | StoreError::DiskFull
            | StoreError::Unavailable { .. } => true,
            StoreError::Unknown { .. }
            | StoreError::Fenced { .. }
            | StoreError::CommitsLost { .. }
            | StoreError::Failed { .. }
            | StoreError::Corrupt { .. }
            | StoreError::ReadOnly
            | StoreError::Closed => false,
        }
    }
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

#[cfg(test)]
mod tests {
    use steadfast_store::CommitsLost;

    use super::*;

    const LOST: CommitsLost = CommitsLost { batches: (1, 2), positions: (3, 4) };

    #[test]
    fn files_go_only_when_the_commit_has_surely_failed() {
        let reason = String::new;
        for (error, expected) in [
            (StoreError::Invalid(InvalidInput::Space { len: 0 }), true),
            (StoreError::Busy { waiting: 1 }, true),
            (StoreError::DiskFull, true),
            (StoreError::Unavailable { reason: reason() }, true),
            (StoreError::Unknown { reason: reason() }, false),
            (StoreError::Fenced { epoch: 1 }, false),
            (StoreError::CommitsLost { lost: LOST }, false),
            (StoreError::Failed { reason: reason() }, false),
            (StoreError::Corrupt { reason: reason() }, false),
            (StoreError::Closed, false),
        ] {
            assert_eq!(BucketError::from(error).is_certain(), expected);
        }
        assert!(BucketError::TooLarge { max: 1 }.is_certain());
    }
}
