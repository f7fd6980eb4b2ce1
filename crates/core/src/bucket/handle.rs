//! One bucket of a running program.

use steadfast_bucket::{
    Blob, BlobKey, BlobWriter, BucketError, BucketName, Buckets, Condition, CopyOptions,
    GetOptions, ListOptions, Listing, PutOptions, Reading,
};

use super::Bucket;

/// One bucket of a running program: `runtime.bucket(UPLOADS)`. Cheap to clone.
///
/// What changes the bucket is durable when it returns, together with the event that tells of it.
#[derive(Clone, Debug)]
pub struct BucketHandle {
    buckets: Option<Buckets>,
    bucket: Bucket,
}

impl BucketHandle {
    pub(crate) fn new(buckets: Option<Buckets>, bucket: Bucket) -> Self {
        Self { buckets, bucket }
    }

    fn parts(&self) -> Result<(&Buckets, BucketName), BucketError> {
        let name = BucketName::new(self.bucket.name())?;
        let reason = || "this program has no buckets, or has stopped".to_owned();
        let buckets = self.buckets.as_ref().ok_or_else(|| BucketError::Files { reason: reason() });
        Ok((buckets?, name))
    }

    /// Puts a blob.
    pub async fn put(&self, key: &str, bytes: impl AsRef<[u8]>) -> Result<Blob, BucketError> {
        self.put_with(key, bytes, PutOptions::default()).await
    }

    /// Puts a blob, and says more about it.
    pub async fn put_with(
        &self,
        key: &str,
        bytes: impl AsRef<[u8]>,
        put: PutOptions,
    ) -> Result<Blob, BucketError> {
        let (buckets, name) = self.parts()?;
        buckets.put(&name, &BlobKey::new(key)?, bytes.as_ref(), put).await
    }

    /// Begins to write a blob piece by piece.
    pub async fn writer(&self, key: &str) -> Result<BlobWriter, BucketError> {
        let (buckets, name) = self.parts()?;
        buckets.writer(&name, &BlobKey::new(key)?).await
    }

    /// The blob under a key; `None` if there is none.
    pub async fn head(&self, key: &str) -> Result<Option<Blob>, BucketError> {
        let (buckets, name) = self.parts()?;
        found(buckets.head(&name, &BlobKey::new(key)?).await)
    }

    /// The bytes of a blob that is known to be small; `None` if there is none.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError> {
        match found(self.read(key, GetOptions::default()).await)? {
            Some(reading) => reading.bytes().await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads a blob piece by piece.
    pub async fn read(&self, key: &str, get: GetOptions) -> Result<Reading, BucketError> {
        let (buckets, name) = self.parts()?;
        buckets.get(&name, &BlobKey::new(key)?, get).await
    }

    /// Deletes a blob; the number that the deletion took, or `None` if there was none.
    pub async fn delete(&self, key: &str) -> Result<Option<i64>, BucketError> {
        let (buckets, name) = self.parts()?;
        buckets.delete(&name, &BlobKey::new(key)?, Condition::default()).await
    }

    /// Copies a blob within the bucket.
    pub async fn copy(&self, from: &str, to: &str) -> Result<Blob, BucketError> {
        let (buckets, name) = self.parts()?;
        let (from, to) = (BlobKey::new(from)?, BlobKey::new(to)?);
        buckets.copy((&name, &from), (&name, &to), CopyOptions::default()).await
    }

    /// Lists blobs.
    pub async fn list(&self, list: &ListOptions) -> Result<Listing, BucketError> {
        let (buckets, name) = self.parts()?;
        buckets.list(&name, list).await
    }
}

fn found<T>(result: Result<T, BucketError>) -> Result<Option<T>, BucketError> {
    match result {
        Ok(it) => Ok(Some(it)),
        Err(BucketError::UnknownBlob { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
