//! The permissions that operations need.

/// The permission that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Any key; the response is filtered by its scope.
    Key,
    /// A key without limits. Such operations change buckets.
    Everything,
    /// Access to the bucket.
    Bucket,
    /// Access to the listed prefix, which is checked when it is known.
    List,
    /// Write access to the bucket; each key is checked separately.
    BucketWrite,
    /// Read access to the blob.
    Read,
    /// Write access to the blob.
    Write,
    /// The same, and read access to the source, which is checked when it is known.
    Copy,
}

impl Permission {
    /// Whether a key that only reads lacks it.
    pub fn is_write(self) -> bool {
        match self {
            Self::Everything | Self::BucketWrite | Self::Write | Self::Copy => true,
            Self::Key | Self::Bucket | Self::List | Self::Read => false,
        }
    }
}

/// An operation of the S3 API that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The name, as in the reference of S3.
    pub name: &'static str,
    /// The permission that it needs.
    pub needs: Permission,
}
