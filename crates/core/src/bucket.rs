//! Buckets in a program: declared by name, with the queues that hear of their changes.

mod handle;
mod name;
mod place;

pub use steadfast_bucket::{
    Attributes, Blob, BlobAction, BlobEvent, BlobKey, BlobReader, Blobs, BucketError, BucketName,
    BucketOptions, Buckets, ByteRange, Condition, Content, CopyOptions, CopySource, Draft,
    EventObject, EventType, ExpectedContent, FileBlobs, FileName, GetOptions, LifecycleRule,
    ListOptions, Listing, Match, MemoryBlobs, Part, PartTag, PartWriter, PutOptions, PutRecord,
    Rule, Upload,
};

pub(crate) use self::place::{Declared, Place};
pub use self::{
    handle::BucketHandle,
    name::{Bucket, BucketSpec},
};
