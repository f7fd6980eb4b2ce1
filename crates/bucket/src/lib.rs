//! Buckets: blobs whose bytes are in files and whose index is in a store. One commit contains the
//! change of a blob, its number in the sequence of its key, and its event.

mod blob;
mod buckets;
mod cache;
mod change;
mod changes;
mod condition;
mod configure;
mod content;
mod copy;
mod delete;
mod digest;
mod error;
mod event;
mod events;
mod files;
mod folder_sync;
mod keys;
mod lifecycle;
mod limits;
mod list;
mod memory;
mod more_sums;
mod name;
mod numbers;
mod open;
mod orphans;
mod part;
mod part_writer;
mod readers;
mod reading;
mod rule;
mod session;
mod settings;
mod sweep;
mod upload;
mod writer;

pub use self::{
    blob::{Attributes, Blob},
    buckets::{BucketOptions, Buckets},
    change::PutRecord,
    condition::{Condition, Match},
    configure::BucketInfo,
    content::{Blobs, Content, ContentId, Draft, FileName},
    copy::CopyOptions,
    digest::Expected,
    error::{BucketError, PartTrouble},
    event::{BlobAction, BlobEvent, CopySource, EventObject},
    events::SentEvent,
    files::FileBlobs,
    keys::{AccessKey, Scope, create_key, delete_key, find_key, list_keys},
    limits::{
        BLOB_BYTES_MAX, KEY_BYTES_MAX, METADATA_BYTES_MAX, PART_BYTES_MAX, PART_BYTES_MIN,
        PARTS_MAX,
    },
    list::{LIST_MAX, ListOptions, Listing},
    memory::MemoryBlobs,
    more_sums::{MoreHashes, MoreSums},
    name::{BlobKey, BucketName},
    open::{BucketsBuilder, account},
    part::Part,
    part_writer::PartWriter,
    reading::{ByteRange, GetOptions, Reading},
    rule::{EventType, Rule},
    settings::{BucketSettings, LifecycleRule},
    sweep::Swept,
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
