//! One bucket of a running program.

use steadfast_bucket::{
    Blob, BlobKey, BlobReader, BlobWriter, BucketError, BucketName, Buckets, Condition,
    CopyOptions, GetOptions, ListOptions, Listing, PutOptions,
};

use super::Bucket;
use crate::{
    Client,
    remote::{Backend, RemoteProgram, not_remote},
};

impl Client {
    /// A bucket of the program, which must be running.
    pub fn bucket(&self, bucket: Bucket) -> BucketHandle {
        let backend = self.backend().ok().and_then(|it| match it {
            Backend::Local(running) => running.buckets.clone().map(Backend::Local),
            Backend::Remote(transport) => Some(Backend::Remote(transport)),
        });
        BucketHandle::new(backend, bucket)
    }
}

impl Bucket {
    /// The bucket among these.
    pub fn of(self, buckets: &Buckets) -> BucketHandle {
        BucketHandle::new(Some(Backend::Local(buckets.clone())), self)
    }
}

/// One bucket of a running program: `runtime.bucket(UPLOADS)`. Cheap to clone.
///
/// A change of the bucket and its event are durable when the method returns. `writer`, `read` and
/// `copy` are not available for a program in another process: use its S3 API.
#[derive(Clone)]
pub struct BucketHandle {
    backend: Option<Backend<Buckets>>,
    bucket: Bucket,
}

impl BucketHandle {
    pub(crate) fn new(backend: Option<Backend<Buckets>>, bucket: Bucket) -> Self {
        Self { backend, bucket }
    }

    /// The transport, if the program runs in another process.
    fn transport(&self) -> Option<&dyn RemoteProgram> {
        match &self.backend {
            Some(Backend::Remote(transport)) => Some(&**transport),
            Some(Backend::Local(_)) | None => None,
        }
    }

    fn parts(&self) -> Result<(&Buckets, BucketName), BucketError> {
        let name = BucketName::new(self.bucket.name())?;
        match &self.backend {
            Some(Backend::Local(buckets)) => Ok((buckets, name)),
            Some(Backend::Remote(_)) => {
                Err(not_remote("stream and copy blobs by its S3 API").into())
            }
            None => {
                let reason = "this program has no buckets, or has stopped".into();
                Err(BucketError::Files { reason })
            }
        }
    }

    /// Puts a blob.
    pub async fn put(&self, key: &str, bytes: impl AsRef<[u8]>) -> Result<Blob, BucketError> {
        self.put_with(key, bytes, PutOptions::default()).await
    }

    /// Puts a blob with options.
    pub async fn put_with(
        &self,
        key: &str,
        bytes: impl AsRef<[u8]>,
        put: PutOptions,
    ) -> Result<Blob, BucketError> {
        if let Some(transport) = self.transport() {
            return Ok(transport.put_blob((self.bucket.name(), key), bytes.as_ref(), put).await?);
        }
        let (buckets, name) = self.parts()?;
        buckets.put(&name, &BlobKey::new(key)?, bytes.as_ref(), put).await
    }

    /// Begins to write a blob piece by piece.
    #[steadfast_store::boxed]
    pub async fn writer(&self, key: &str) -> Result<BlobWriter, BucketError> {
        let (buckets, name) = self.parts()?;
        buckets.writer(&name, &BlobKey::new(key)?).await
    }

    /// Adds an expense of an organization to its spend of this month, in millionths of a US dollar.
    /// An id counts once within 35 days: a repetition returns `false`.
    #[steadfast_store::boxed]
    pub async fn spend(
        &self,
        organization: &str,
        id: &str,
        micros: u64,
    ) -> Result<bool, BucketError> {
        self.parts()?.0.spend(organization, id, micros).await
    }

    /// Refuses if the organization has spent what its quota allows in this month.
    #[steadfast_store::boxed]
    pub async fn check_spend(&self, organization: &str) -> Result<(), BucketError> {
        self.parts()?.0.check_spend(organization).await
    }

    /// The blob under a key; `None` if there is none.
    #[steadfast_store::boxed]
    pub async fn head(&self, key: &str) -> Result<Option<Blob>, BucketError> {
        if let Some(transport) = self.transport() {
            let prefix = key.to_owned();
            let only = ListOptions { prefix, limit: Some(1), ..ListOptions::default() };
            let listing = transport.list_blobs(self.bucket.name(), &only).await?;
            return Ok(listing.blobs.into_iter().find(|it| it.key.as_str() == key));
        }
        let (buckets, name) = self.parts()?;
        found(buckets.head(&name, &BlobKey::new(key)?).await)
    }

    /// The bytes of a blob that is known to be small; `None` if there is none.
    #[steadfast_store::boxed]
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError> {
        if let Some(transport) = self.transport() {
            return Ok(transport.get_blob((self.bucket.name(), key)).await?);
        }
        match found(self.read(key, GetOptions::default()).await)? {
            Some(reading) => reading.bytes().await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads a blob piece by piece.
    #[steadfast_store::boxed]
    pub async fn read(&self, key: &str, get: GetOptions) -> Result<BlobReader, BucketError> {
        let (buckets, name) = self.parts()?;
        buckets.get(&name, &BlobKey::new(key)?, get).await
    }

    /// Deletes a blob. Returns the sequence number of the deletion, or `None` if there was no blob.
    #[steadfast_store::boxed]
    pub async fn delete(&self, key: &str) -> Result<Option<i64>, BucketError> {
        if let Some(transport) = self.transport() {
            return Ok(transport.delete_blob((self.bucket.name(), key)).await?);
        }
        let (buckets, name) = self.parts()?;
        buckets.delete(&name, &BlobKey::new(key)?, Condition::default()).await
    }

    /// Copies a blob within the bucket.
    #[steadfast_store::boxed]
    pub async fn copy(&self, from: &str, to: &str) -> Result<Blob, BucketError> {
        let (buckets, name) = self.parts()?;
        let (from, to) = (BlobKey::new(from)?, BlobKey::new(to)?);
        buckets.copy((&name, &from), (&name, &to), CopyOptions::default()).await
    }

    /// Lists blobs.
    #[steadfast_store::boxed]
    pub async fn list(&self, list: &ListOptions) -> Result<Listing, BucketError> {
        if let Some(transport) = self.transport() {
            return Ok(transport.list_blobs(self.bucket.name(), list).await?);
        }
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
