//! Buckets in a program: declared by name, with the queues that hear of their changes.

mod handle;
mod name;
mod place;

pub use steadfast_bucket::{
    Attributes, Blob, BlobAction, BlobEvent, BlobKey, Blobs, BucketError, BucketName,
    BucketOptions, Buckets, ByteRange, Condition, CopyOptions, CopySource, EventObject, EventType,
    Expected, FileBlobs, GetOptions, LifecycleRule, ListOptions, Listing, Match, MemoryBlobs,
    PutOptions, Reading, Rule,
};

pub(crate) use self::place::{Declared, Place};
pub use self::{
    handle::BucketHandle,
    name::{Bucket, BucketSpec},
};
