//! Buckets of a program: declared by name, with the queues that get their change events.

mod handle;
mod location;
mod name;

pub use steadfast_bucket::{
    Attributes, Blob, BlobAction, BlobEvent, BlobKey, BlobReader, Blobs, BucketError, BucketName,
    BucketOptions, Buckets, ByteRange, Condition, Content, CopyOptions, CopySource, Draft,
    EventObject, EventType, ExpectedContent, FileBlobs, FileName, GetOptions, LifecycleRule,
    ListOptions, Listing, Match, MemoryBlobs, Part, PartTag, PartWriter, PutOptions, PutRecord,
    Quota, QuotaError, QuotaInfo, QuotaUse, Rule, Upload,
};

pub(crate) use self::location::{BlobLocation, BucketDeclarations};
pub use self::{
    handle::BucketHandle,
    name::{Bucket, BucketSpec},
};
