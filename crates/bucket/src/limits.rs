//! Limits of blobs and multipart uploads, as in S3.

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
