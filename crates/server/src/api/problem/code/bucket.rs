//! The codes of buckets.

use steadfast_bucket::BucketError;

use super::Code;

/// What clients of buckets may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketCode {
    InvalidBucketName,
    InvalidBlobKey,
    UnknownBucket,
    BucketExists,
    BucketNotEmpty,
    UnknownBlob,
    UnknownUpload,
    UnknownRule,
    RuleOverlap,
    PreconditionFailed,
    NotModified,
    RangeNotSatisfiable,
    IncompleteBody,
    ChecksumMismatch,
    BlobTooLarge,
    MetadataTooLarge,
    InvalidPart,
    InvalidArgument,
    FilesFailed,
    /// Nothing listens there.
    NoS3Port,
}

impl BucketCode {
    pub(super) fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            BucketCode::InvalidBucketName => {
                ("invalid_bucket_name", 400, "Invalid name of a bucket")
            }
            BucketCode::InvalidBlobKey => ("invalid_key", 400, "Invalid key"),
            BucketCode::UnknownBucket => ("unknown_bucket", 404, "Unknown bucket"),
            BucketCode::BucketExists => ("bucket_exists", 409, "Bucket exists"),
            BucketCode::BucketNotEmpty => ("bucket_not_empty", 409, "Bucket not empty"),
            BucketCode::UnknownBlob => ("unknown_blob", 404, "Unknown key"),
            BucketCode::UnknownUpload => ("unknown_upload", 404, "Unknown upload"),
            BucketCode::UnknownRule => ("unknown_rule", 404, "Unknown rule"),
            BucketCode::RuleOverlap => ("rule_overlap", 409, "Rules overlap"),
            BucketCode::PreconditionFailed => ("precondition_failed", 412, "Not as expected"),
            BucketCode::NotModified => ("not_modified", 304, "Not modified"),
            BucketCode::RangeNotSatisfiable => {
                ("range_not_satisfiable", 416, "Range behind the end")
            }
            BucketCode::IncompleteBody => ("incomplete_body", 400, "Body broke off"),
            BucketCode::ChecksumMismatch => ("checksum_mismatch", 400, "Checksum differs"),
            BucketCode::BlobTooLarge => ("blob_too_large", 413, "Too large for this bucket"),
            BucketCode::MetadataTooLarge => ("metadata_too_large", 400, "Metadata too large"),
            BucketCode::InvalidPart => ("invalid_part", 400, "Invalid part"),
            BucketCode::InvalidArgument => ("invalid_argument", 400, "Invalid argument"),
            BucketCode::FilesFailed => ("files_failed", 500, "Files cannot be read or written"),
            BucketCode::NoS3Port => ("no_s3_port", 409, "No S3 port"),
        }
    }
}

impl Code {
    /// The code of what could not be done with a bucket.
    pub(crate) fn of_bucket(error: &BucketError) -> Self {
        let code = match error {
            BucketError::Name { .. } => BucketCode::InvalidBucketName,
            BucketError::Key { .. } => BucketCode::InvalidBlobKey,
            BucketError::UnknownBucket { .. } => BucketCode::UnknownBucket,
            BucketError::BucketExists { .. } => BucketCode::BucketExists,
            BucketError::NotEmpty { .. } => BucketCode::BucketNotEmpty,
            BucketError::UnknownBlob { .. } => BucketCode::UnknownBlob,
            BucketError::UnknownUpload { .. } => BucketCode::UnknownUpload,
            BucketError::UnknownRule { .. } => BucketCode::UnknownRule,
            BucketError::Condition { .. } => BucketCode::PreconditionFailed,
            BucketError::NotModified { .. } => BucketCode::NotModified,
            BucketError::Range { .. } => BucketCode::RangeNotSatisfiable,
            BucketError::Length { .. } | BucketError::Body { .. } => BucketCode::IncompleteBody,
            BucketError::Checksum { .. } => BucketCode::ChecksumMismatch,
            BucketError::TooLarge { .. } => BucketCode::BlobTooLarge,
            BucketError::Metadata { .. } => BucketCode::MetadataTooLarge,
            BucketError::Part { .. } => BucketCode::InvalidPart,
            BucketError::Argument { .. } => BucketCode::InvalidArgument,
            BucketError::Overlap { .. } => BucketCode::RuleOverlap,
            BucketError::DiskFull => return Code::DiskFull,
            BucketError::Files { .. } => BucketCode::FilesFailed,
            BucketError::Store(error) => return Code::of_store(error),
        };
        Code::Bucket(code)
    }
}

#[cfg(test)]
mod tests {
    use steadfast_bucket::PartTrouble;
    use steadfast_store::StoreError;

    use super::*;

    #[test]
    fn every_error_of_a_bucket_keeps_its_code() {
        let check = |error: BucketError, status: u16| {
            let code = Code::of_bucket(&error);
            assert_eq!((code.tag(), code.http_status()), (error.code(), status));
        };
        let text = || String::from("x");
        check(BucketError::Name { name: text() }, 400);
        check(BucketError::Key { len: 0 }, 400);
        check(BucketError::UnknownBucket { bucket: text() }, 404);
        check(BucketError::BucketExists { bucket: text() }, 409);
        check(BucketError::NotEmpty { bucket: text() }, 409);
        check(BucketError::UnknownBlob { bucket: text(), key: text() }, 404);
        check(BucketError::UnknownUpload { upload: text() }, 404);
        check(BucketError::UnknownRule { bucket: text(), rule: text() }, 404);
        check(BucketError::Condition { key: text(), reason: "x" }, 412);
        check(BucketError::NotModified { key: text(), etag: text() }, 304);
        check(BucketError::Range { size: 1 }, 416);
        check(BucketError::Length { expected: 1, actual: 2 }, 400);
        check(BucketError::Body { reason: text() }, 400);
        check(BucketError::Checksum { algorithm: "MD5" }, 400);
        check(BucketError::TooLarge { max: 1 }, 413);
        check(BucketError::Metadata { len: 2, max: 1 }, 400);
        check(BucketError::Part { number: 1, reason: PartTrouble::Small }, 400);
        check(BucketError::Argument { field: "x", rule: text() }, 400);
        check(BucketError::Overlap { rule: text(), other: text(), action: "x" }, 409);
        check(BucketError::DiskFull, 507);
        check(BucketError::Files { reason: text() }, 500);
        check(BucketError::Store(StoreError::Closed), 503);
    }
}
