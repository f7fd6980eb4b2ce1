//! Buckets: blobs whose bytes are in files and whose index is in a store. One commit contains the
//! change of a blob, its number in the sequence of its key, and its event.

mod blob;
mod blob_reader;
mod buckets;
mod change;
mod check;
mod configure;
mod content;
mod digest;
mod error;
mod event;
mod files;
mod folder_sync;
mod keys;
mod list;
mod name;
mod numbers;
mod open;
mod orphans;
mod part_writer;
mod quota;
mod quotas;
mod session;
mod settings;
mod sweep;
mod upload;
mod usage;
mod writer;

pub use self::{
    blob::{Attributes, Blob, Condition, Match, Part},
    blob_reader::{BlobReader, ByteRange, GetOptions},
    buckets::{BucketOptions, Buckets},
    change::{CopyOptions, PutRecord, SentEvent},
    check::{CheckCursor, CheckRecord, Checked, PartlyRead, UnreadableBlob},
    configure::BucketInfo,
    content::{Blobs, Content, ContentId, Draft, FileName, MemoryBlobs},
    digest::{ChecksumKind, Checksums, ExpectedContent, Hashes},
    error::{
        BLOB_BYTES_MAX, BucketError, KEY_BYTES_MAX, METADATA_BYTES_MAX, PART_BYTES_MAX,
        PART_BYTES_MIN, PARTS_MAX, PartError, QuotaError,
    },
    event::{BlobAction, BlobEvent, CopySource, EventObject},
    files::FileBlobs,
    keys::{
        AccessKey, KeyInfo, KeyScope, create_key, delete_key, delete_older_keys, find_key,
        is_label, list_keys, note_key_use, older_keys, rotate_key, seal_keys,
    },
    list::{LIST_MAX, ListOptions, Listing},
    name::{BlobKey, BucketName},
    open::{BucketsBuilder, account},
    part_writer::PartWriter,
    quota::{Quota, QuotaInfo, QuotaUse},
    settings::{BucketSettings, CorsRule, EventType, LifecycleRule, Rule},
    sweep::SweepCounts,
    upload::{PartTag, Upload},
    writer::{BlobWriter, PutOptions},
};

/// Points at which a test may kill the process.
pub const BUCKET_CRASH_POINTS: &[&str] = &[
    "blob.named",
    "blob.written",
    "blob.flushed",
    "blob.placed",
    "blob.linked",
    "blob.prepared",
    "blob.committed",
    "part.prepared",
    "part.committed",
    "upload.begun",
    "upload.completed",
    "upload.aborted",
    "lifecycle.deleted",
];
