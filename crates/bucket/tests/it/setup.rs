//! Test setup: a store, a folder of files, and a manual clock.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use steadfast_bucket::{
    Attributes, Blob, BlobEvent, BlobKey, Blobs, BucketError, BucketName, BucketOptions, Buckets,
    Condition, EventType, ExpectedContent, FileBlobs, FileName, MemoryBlobs, Part, PartTag,
    PutOptions, Rule, Upload, account,
};
use steadfast_store::{
    DueCursor, ManualClock, MemoryStore, PostgresOptions, PostgresStore, SeededEntropy,
    SqliteOptions, SqliteStore, Store, Timestamp, queue_address,
};

use crate::faulty_blobs::FaultyBlobs;

pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);

/// The lease of a store in PostgreSQL: the machine may pause for some seconds.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) struct Setup {
    pub(crate) buckets: Buckets,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: ManualClock,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) blobs: Arc<dyn Blobs>,
}

impl Setup {
    pub(crate) async fn memory() -> Self {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let blobs = Arc::new(MemoryBlobs::default());
        Self::with(store, clock, tempfile::tempdir().unwrap(), Some(blobs)).await
    }

    /// A store in memory whose files are in a folder.
    pub(crate) async fn memory_with_files(folder: &Path) -> Self {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let account = account(&*store, &SeededEntropy::new(1)).await.unwrap();
        let blobs = Arc::new(FileBlobs::open(folder, &account).unwrap());
        Self::with(store, clock, tempfile::tempdir().unwrap(), Some(blobs)).await
    }

    pub(crate) async fn sqlite() -> Self {
        let clock = ManualClock::at(START);
        let folder = tempfile::tempdir().unwrap();
        let store = open_sqlite(folder.path(), &clock);
        Self::with(store, clock, folder, None).await
    }

    pub(crate) async fn postgres() -> Self {
        let clock = ManualClock::at(START);
        let mut options = PostgresOptions::new(database().await, Arc::new(clock.clone()));
        options.lease = LEASE;
        let store = Arc::new(PostgresStore::open(options).await.unwrap());
        Self::with(store, clock, tempfile::tempdir().unwrap(), None).await
    }

    async fn with(
        store: Arc<dyn Store>,
        clock: ManualClock,
        folder: tempfile::TempDir,
        blobs: Option<Arc<dyn Blobs>>,
    ) -> Self {
        let entropy = SeededEntropy::new(1);
        let blobs = match blobs {
            Some(blobs) => blobs,
            None => {
                let account = account(&*store, &entropy).await.unwrap();
                Arc::new(FileBlobs::open(folder.path().join("blobs"), &account).unwrap())
            }
        };
        let buckets = open(&store, blobs.clone(), 2).await;
        buckets.create(&bucket()).await.unwrap();
        Self { buckets, store, clock, folder, blobs }
    }

    /// The same setup, with files that can be made to fail.
    pub(crate) async fn with_faults(self) -> (Self, FaultyBlobs) {
        let faulty_blobs = FaultyBlobs::new(self.blobs.clone());
        let blobs = Arc::new(faulty_blobs.clone());
        let buckets = open(&self.store, blobs.clone(), 3).await;
        (Self { buckets, blobs, ..self }, faulty_blobs)
    }

    pub(crate) async fn put(&self, at: &str, bytes: &[u8]) -> Blob {
        self.buckets.put(&bucket(), &key(at), bytes, PutOptions::default()).await.unwrap()
    }

    pub(crate) async fn get(&self, at: &str) -> Vec<u8> {
        let reading = self.buckets.get(&bucket(), &key(at), Default::default()).await.unwrap();
        reading.bytes().await.unwrap()
    }

    pub(crate) async fn delete(&self, at: &str) -> Option<i64> {
        self.buckets.delete(&bucket(), &key(at), Condition::default()).await.unwrap()
    }

    pub(crate) async fn begin(&self, at: &str) -> Upload {
        self.buckets.begin_upload(&bucket(), &key(at), Attributes::default()).await.unwrap()
    }

    pub(crate) async fn part(
        &self,
        upload: &Upload,
        number: u32,
        bytes: &[u8],
    ) -> Result<Part, BucketError> {
        let writer = self.buckets.part_writer(&bucket(), &upload.key, &upload.id, number).await;
        let mut writer = writer?;
        writer.write(bytes).await?;
        writer.finish(ExpectedContent::default()).await
    }

    pub(crate) async fn complete(
        &self,
        upload: &Upload,
        numbers: &[u32],
    ) -> Result<Blob, BucketError> {
        let tag = |it: &u32| PartTag { number: *it, ..PartTag::default() };
        let tags: Vec<PartTag> = numbers.iter().map(tag).collect();
        let (at, any) = (&upload.key, Condition::default());
        self.buckets.complete_upload(&bucket(), at, &upload.id, &tags, any).await
    }

    /// Sends all changes to the queue `events`.
    pub(crate) async fn listen(&self) {
        let events = [EventType::ObjectCreate, EventType::ObjectDelete];
        self.buckets.put_rule(&bucket(), Rule::new("all", &events, "events")).await.unwrap();
    }

    /// The messages in the queue `events`.
    pub(crate) async fn events(&self) -> Vec<BlobEvent> {
        let queue = queue_address("events").unwrap().id();
        let until = Timestamp::MAX;
        let found = self.store.queue_messages(queue, DueCursor::START, until, 1_000).await.unwrap();
        let mut found: Vec<_> = found.into_iter().map(|it| it.message).collect();
        found.sort_by_key(|it| it.position);
        found.iter().map(|it| serde_json::from_str(it.data.as_str()).unwrap()).collect()
    }

    /// Every file under its final name.
    pub(crate) fn all_files(&self) -> Vec<FileName> {
        let subfolders = self.blobs.subfolders().unwrap();
        subfolders.iter().flat_map(|it| self.blobs.files_in(&it.0).unwrap()).collect()
    }

    /// Paths of the blob files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else if !["lock", "store", "session"].iter().any(|it| path.ends_with(it)) {
                    found.push(path);
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.folder.path().join("blobs"), &mut found);
        found
    }

    /// Number of files on the disk, under any name.
    pub(crate) fn files(&self) -> usize {
        self.paths().len()
    }

    pub(crate) fn is_on_disk(&self) -> bool {
        self.folder.path().join("blobs").is_dir()
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

pub(crate) async fn open(store: &Arc<dyn Store>, blobs: Arc<dyn Blobs>, seed: u64) -> Buckets {
    let options = BucketOptions { keep_unknown_files: Duration::ZERO, ..BucketOptions::default() };
    let builder = Buckets::builder(store.clone()).entropy(Arc::new(SeededEntropy::new(seed)));
    builder.options(options).open(blobs).await.unwrap()
}

pub(crate) fn bucket() -> BucketName {
    BucketName::new("photos").unwrap()
}

pub(crate) fn key(key: &str) -> BlobKey {
    BlobKey::new(key).unwrap()
}

pub(crate) fn open_sqlite(folder: &Path, clock: &ManualClock) -> Arc<dyn Store> {
    let options = SqliteOptions::new(folder.join("store"), Arc::new(clock.clone()));
    Arc::new(SqliteStore::open(options).unwrap())
}

/// A new database on the server that `./test` started.
pub(crate) async fn database() -> String {
    let server = std::env::var("STEADFAST_TEST_POSTGRES")
        .expect("STEADFAST_TEST_POSTGRES names a server; `./test` starts one");
    let (client, connection) =
        tokio_postgres::connect(&server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let unique = tempfile::tempdir().unwrap();
    let unique = unique.path().file_name().unwrap().to_str().unwrap().to_lowercase();
    let name: String = unique.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = format!("bucket_{name}_{}", std::process::id());
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    server.replacen("/postgres?", &format!("/{name}?"), 1)
}
