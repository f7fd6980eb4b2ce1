//! Buckets: blobs whose bytes are in files and whose index is in a store. One commit contains the
//! change of a blob, its number in the sequence of its key, and its event.

mod blob;
mod blob_reader;
mod buckets;
mod cache;
mod change;
mod check;
mod condition;
mod configure;
mod content;
mod copy;
mod cors;
mod delete;
mod digest;
mod error;
mod event;
mod events;
mod extra_checksums;
mod file_changes;
mod files;
mod folder_sync;
mod keys;
mod lifecycle;
mod limits;
mod list;
mod memory;
mod name;
mod numbers;
mod open;
mod orphans;
mod part;
mod part_writer;
mod quota;
mod quotas;
mod readers;
mod rule;
mod session;
mod settings;
mod spend;
mod sweep;
mod upload;
mod usage;
mod writer;

pub use self::{
    blob::{Attributes, Blob},
    blob_reader::{BlobReader, ByteRange, GetOptions},
    buckets::{BucketOptions, Buckets},
    change::PutRecord,
    check::{CheckCursor, CheckRecord, Checked, PartlyRead, UnreadableBlob},
    condition::{Condition, Match},
    configure::BucketInfo,
    content::{Blobs, Content, ContentId, Draft, FileName},
    copy::CopyOptions,
    cors::CorsRule,
    digest::ExpectedContent,
    error::{BucketError, PartError, QuotaError},
    event::{BlobAction, BlobEvent, CopySource, EventObject},
    events::SentEvent,
    extra_checksums::{ExtraChecksums, ExtraHashes},
    files::FileBlobs,
    keys::{
        AccessKey, KeyInfo, Scope, create_key, delete_key, delete_older_keys, find_key, is_label,
        list_keys, note_key_use, older_keys, rotate_key, seal_keys,
    },
    limits::{
        BLOB_BYTES_MAX, KEY_BYTES_MAX, METADATA_BYTES_MAX, PART_BYTES_MAX, PART_BYTES_MIN,
        PARTS_MAX,
    },
    list::{LIST_MAX, ListOptions, Listing},
    memory::MemoryBlobs,
    name::{BlobKey, BucketName},
    open::{BucketsBuilder, account},
    part::Part,
    part_writer::PartWriter,
    quota::{Quota, QuotaInfo, QuotaUse},
    rule::{EventType, Rule},
    settings::{BucketSettings, LifecycleRule},
    sweep::SweepCounts,
    upload::{PartTag, Upload, UploadChecksum},
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
