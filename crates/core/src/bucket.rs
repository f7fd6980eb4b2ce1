//! Buckets of a program: declared by name, with the queues that get their change events, where the
//! contents of blobs are stored, and one bucket of a running program.

use std::{path::PathBuf, sync::Arc};

use steadfast_bucket::{BlobWriter, BucketSettings, account};
use steadfast_store::{Entropy, Store};

use crate::{
    Ctx, Queue,
    client::RemoteProgram,
    remote::{Backend, not_remote},
};

pub use steadfast_bucket::{
    Attributes, Blob, BlobAction, BlobEvent, BlobKey, BlobReader, Blobs, BucketError, BucketName,
    BucketOptions, Buckets, ByteRange, ChecksumKind, Checksums, Condition, Content, CopyOptions,
    CopySource, Draft, EventObject, EventType, ExpectedContent, FileBlobs, FileName, GetOptions,
    Hashes, LifecycleRule, ListOptions, Listing, Match, MemoryBlobs, Part, PartTag, PartWriter,
    PutOptions, PutRecord, Quota, QuotaError, QuotaInfo, QuotaUse, Rule, Upload,
};

/// A bucket by its name: `const UPLOADS: Bucket = Bucket::named("uploads");`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    name: &'static str,
}

impl Bucket {
    /// The bucket of this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The bucket, with every change of keys that begin with `prefix` sent to a queue.
    pub fn notify(self, prefix: &str, to: Queue<BlobEvent>) -> BucketSpec {
        BucketSpec::from(self).notify(prefix, to)
    }
}

/// The declaration of a bucket. Rules and limits that operators add are kept.
#[derive(Clone, Debug)]
pub struct BucketSpec {
    pub(crate) bucket: Bucket,
    pub(crate) rules: Vec<Rule>,
    pub(crate) lifecycle: Vec<LifecycleRule>,
    pub(crate) max_blob_bytes: Option<u64>,
}

impl BucketSpec {
    /// Sends every change of keys that begin with `prefix` to a queue.
    pub fn notify(self, prefix: &str, to: Queue<BlobEvent>) -> Self {
        let events = [EventType::ObjectCreate, EventType::ObjectDelete];
        // One queue may get the events of several prefixes.
        let before = self.rules.iter().filter(|it| it.queue == to.name()).count();
        let id = match before {
            0 => to.name().to_owned(),
            count => format!("{}-{}", to.name(), count + 1),
        };
        self.rule(Rule { prefix: prefix.into(), ..Rule::new(&id, &events, to.name()) })
    }

    /// Sends changes to a queue.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Deletes old blobs.
    pub fn lifecycle(mut self, rule: LifecycleRule) -> Self {
        self.lifecycle.push(rule);
        self
    }

    /// Sets the maximum size of a blob in bytes.
    pub fn max_blob_bytes(mut self, max: u64) -> Self {
        self.max_blob_bytes = Some(max);
        self
    }
}

impl From<Bucket> for BucketSpec {
    fn from(bucket: Bucket) -> Self {
        Self { bucket, rules: Vec::new(), lifecycle: Vec::new(), max_blob_bytes: None }
    }
}

/// Where the contents of blobs are stored.
#[derive(Clone, Debug, Default)]
pub(crate) enum BlobLocation {
    /// The program has no buckets.
    #[default]
    None,
    /// In a folder.
    Folder(PathBuf),
    /// In a folder that is only read.
    ReadOnly(PathBuf),
    /// In this store of blobs.
    Given(Arc<dyn Blobs>),
}

/// The buckets that a program declares.
#[derive(Default)]
pub(crate) struct BucketDeclarations {
    pub(crate) specs: Vec<BucketSpec>,
    pub(crate) location: BlobLocation,
    pub(crate) options: BucketOptions,
}

impl BucketDeclarations {
    /// Opens the buckets.
    pub(crate) async fn open(
        self,
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Option<Buckets>, BucketError> {
        let blobs: Arc<dyn Blobs> = match self.location {
            BlobLocation::None => match self.specs.first() {
                None => return Ok(None),
                Some(spec) => {
                    let reason = format!(
                        "bucket `{}` has no place for its blobs; say where with \
                         `App::blob_folder`",
                        spec.bucket.name()
                    );
                    return Err(BucketError::Files { reason });
                }
            },
            BlobLocation::Folder(folder) => {
                let account = account(&*store, &*entropy).await?;
                let open = move || FileBlobs::open(folder, &account);
                let opened = tokio::task::spawn_blocking(open).await;
                let failed = |it: tokio::task::JoinError| it.to_string();
                Arc::new(opened.map_err(|it| BucketError::Files { reason: failed(it) })??)
            }
            BlobLocation::ReadOnly(folder) => {
                let blobs = Arc::new(FileBlobs::open_read_only(folder));
                return Ok(Some(Buckets::builder(store).open_read_only(blobs).await?));
            }
            BlobLocation::Given(blobs) => blobs,
        };
        let builder = Buckets::builder(store).entropy(entropy).options(self.options);
        Ok(Some(builder.open(blobs).await?))
    }
}

impl BucketSpec {
    /// Creates or updates the bucket as it is declared. Unchanged settings are not written again.
    #[steadfast_store::boxed]
    pub async fn declare(&self, buckets: &Buckets) -> Result<(), BucketError> {
        let name = BucketName::new(self.bucket.name())?;
        buckets.ensure(&name).await?;
        if let Some(max) = self.max_blob_bytes {
            let limit = |it: &mut BucketSettings| {
                it.max_blob_bytes = Some(max);
                Ok(())
            };
            buckets.configure(&name, &limit).await?;
        }
        for rule in &self.rules {
            buckets.put_rule(&name, rule.clone()).await?;
        }
        for rule in &self.lifecycle {
            buckets.put_lifecycle(&name, rule.clone()).await?;
        }
        Ok(())
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
    backend: Option<Backend<Buckets, dyn RemoteProgram>>,
    bucket: Bucket,
}

impl BucketHandle {
    pub(crate) fn new(
        backend: Option<Backend<Buckets, dyn RemoteProgram>>,
        bucket: Bucket,
    ) -> Self {
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

impl Ctx {
    /// A bucket of the program. Changes of it are not part of the run's record: make them in a
    /// step.
    pub fn bucket(&self, bucket: Bucket) -> BucketHandle {
        BucketHandle::new(self.buckets().cloned().map(Backend::Local), bucket)
    }
}
