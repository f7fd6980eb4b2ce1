//! Limits of blobs and of uploads in parts, as S3 has them.

/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Bytes of names and values of a blob's own metadata, as S3 has it.
pub const METADATA_BYTES_MAX: usize = 2_048;

/// The largest blob there is, as in S3: 5 TiB.
pub const BLOB_BYTES_MAX: u64 = 5 << 40;

/// Parts of an upload.
pub const PARTS_MAX: u32 = 10_000;

/// Bytes of each part but the last.
pub const PART_BYTES_MIN: u64 = 5 << 20;

/// Bytes of a part.
pub const PART_BYTES_MAX: u64 = 5 << 30;
