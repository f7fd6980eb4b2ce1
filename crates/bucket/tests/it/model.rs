//! Random changes of a bucket, with full disks and crashes in between, compared with a model: the
//! state found is always one that some moment of the last step left.

mod bucket_state;
mod steps;

use std::{collections::BTreeMap, sync::Arc};

use steadfast_bucket::{Blobs, BucketError, Buckets, FileBlobs, LifecycleRule, MemoryBlobs, Quota};
use steadfast_store::{
    Clock, Entropy, ManualClock, MemoryStore, Moment, PostgresOptions, PostgresStore,
    SeededEntropy, Store, Timestamp,
};

use self::bucket_state::{BucketState, DAY};
use crate::{
    crashing_store::CrashingStore,
    faulty_blobs::FaultyBlobs,
    setup::{self, START, bucket},
};

/// The kind of store, and how it is reopened.
enum Ground {
    Memory(Arc<MemoryStore>, MemoryBlobs),
    Sqlite(tempfile::TempDir),
    Postgres(String, tempfile::TempDir),
}

struct World {
    ground: Ground,
    store: Arc<CrashingStore>,
    buckets: Option<Buckets>,
    files: Arc<dyn Blobs>,
    faulty_blobs: FaultyBlobs,
    clock: ManualClock,
    chance: SeededEntropy,
    model: BucketState,
    /// When each upload began, and by which step.
    begun: BTreeMap<String, (Timestamp, String)>,
    begun_by: String,
    /// The sizes of parts, by their CRC-32.
    sizes: BTreeMap<u32, u64>,
    steps: u64,
    /// A sweep has just run after every retention period.
    is_swept: bool,
    /// Number of crashes in the middle of a step.
    crashes: usize,
}

async fn open_store(ground: &Ground, clock: &ManualClock) -> Arc<CrashingStore> {
    CrashingStore::new(match ground {
        Ground::Memory(store, _) => Arc::new(store.restart()),
        Ground::Sqlite(folder) => setup::open_sqlite(folder.path(), clock),
        Ground::Postgres(url, _) => {
            let mut options = PostgresOptions::new(url.clone(), Arc::new(clock.clone()));
            options.lease = setup::LEASE;
            Arc::new(PostgresStore::open(options).await.unwrap())
        }
    })
}

async fn open_files(ground: &Ground, store: &dyn Store) -> Arc<dyn Blobs> {
    let folder = match ground {
        Ground::Memory(_, files) => return Arc::new(files.clone()),
        Ground::Sqlite(folder) | Ground::Postgres(_, folder) => folder.path().join("blobs"),
    };
    let name = steadfast_bucket::account(store, &SeededEntropy::new(5)).await.unwrap();
    Arc::new(FileBlobs::open(folder, &name).unwrap())
}

async fn open_buckets(store: &Arc<CrashingStore>, files: &FaultyBlobs, seed: u64) -> Buckets {
    let store: Arc<dyn Store> = store.clone();
    setup::open(&store, Arc::new(files.clone()), seed).await
}

impl World {
    async fn new(ground: Ground, clock: ManualClock, seed: u64) -> Self {
        let store = open_store(&ground, &clock).await;
        let files = open_files(&ground, &*store).await;
        let faulty_blobs = FaultyBlobs::new(files.clone());
        let buckets = open_buckets(&store, &faulty_blobs, seed).await;
        buckets.create(&bucket()).await.unwrap();
        let (id, prefix) = ("old".into(), "old/".into());
        let delete_after_ms = Some(DAY.as_millis() as u64);
        let rule = LifecycleRule { id, prefix, delete_after_ms, ..LifecycleRule::default() };
        buckets.put_lifecycle(&bucket(), rule).await.unwrap();
        buckets.set_quota("old", Quota::default()).await.unwrap();
        buckets.count_usage().await.unwrap();
        Self {
            ground,
            store,
            buckets: Some(buckets),
            files,
            faulty_blobs,
            clock,
            chance: SeededEntropy::new(seed),
            model: BucketState::default(),
            begun: BTreeMap::new(),
            begun_by: String::new(),
            sizes: BTreeMap::new(),
            steps: 0,
            is_swept: false,
            crashes: 0,
        }
    }

    fn below(&self, limit: u64) -> u64 {
        self.chance.next() % limit
    }

    fn buckets(&self) -> &Buckets {
        self.buckets.as_ref().unwrap()
    }

    async fn found(&self) -> BucketState {
        BucketState::read(&*self.store, self.buckets()).await
    }

    fn crash_soon(&self) {
        let moment = if self.below(2) == 0 { Moment::Before } else { Moment::After };
        self.store.crash_at(1 + self.below(3) as usize, moment);
    }

    /// Ends the process at any point, and starts the next one.
    async fn restart(&mut self) {
        self.faulty_blobs.off();
        self.store.crash().await;
        drop(self.buckets.take());
        let nothing = Arc::new(MemoryBlobs::default());
        (self.faulty_blobs, self.files) = (FaultyBlobs::new(nothing.clone()), nothing);
        self.store = open_store(&self.ground, &self.clock).await;
        self.files = open_files(&self.ground, &*self.store).await;
        self.faulty_blobs = FaultyBlobs::new(self.files.clone());
        let seed = self.chance.next();
        self.buckets = Some(open_buckets(&self.store, &self.faulty_blobs, seed).await);
    }

    /// Runs a step, and checks the state after it.
    async fn go(&mut self) {
        self.steps += 1;
        self.is_swept = false;
        if self.below(5) == 0 {
            self.crash_soon();
        }
        let (states, answer) = self.step().await;
        self.faulty_blobs.off();
        let mut possible = vec![self.model.clone()];
        if self.store.has_crashed() {
            // Any moment of the step may have been the last one.
            possible.extend(states);
            self.crashes += 1;
            self.restart().await;
        } else if answer.is_ok() {
            possible = states.into_iter().next_back().into_iter().collect();
            possible.extend(possible.is_empty().then(|| self.model.clone()));
        } else {
            let codes = ["disk_full", "precondition_failed", "blob_not_found"];
            let code = answer.as_ref().map_err(BucketError::code).unwrap_err();
            assert!(codes.contains(&code), "{answer:?}");
        }
        if self.below(12) == 0 {
            self.restart().await;
        }
        self.compare(possible).await;
    }

    async fn compare(&mut self, possible: Vec<BucketState>) {
        let found = self.found().await;
        for id in found.uploads.keys() {
            let began = || (self.clock.now(), self.begun_by.clone());
            self.begun.entry(id.clone()).or_insert_with(began);
        }
        let fits = possible.into_iter().map(|it| named(it, &found)).collect::<Vec<_>>();
        if !fits.contains(&found) {
            panic!("step {}: found is\n{found:#?}\nand not one of\n{fits:#?}", self.steps);
        }
        self.model = found;
        if self.is_swept {
            let mut files: BTreeMap<String, usize> = BTreeMap::new();
            for (subfolder, _) in self.files.subfolders().unwrap() {
                for file in self.files.files_in(&subfolder).unwrap() {
                    *files.entry(file.content.to_string()).or_default() += 1;
                }
            }
            assert_eq!(files, self.model.files(self.buckets()).await, "step {}", self.steps);
        }
    }
}

/// A new upload gets the id under which it is found.
fn named(mut bucket_state: BucketState, found: &BucketState) -> BucketState {
    if let Some(upload) = bucket_state.uploads.remove("") {
        let id = found.uploads.keys().find(|it| !bucket_state.uploads.contains_key(*it));
        bucket_state.uploads.insert(id.cloned().unwrap_or_default(), upload);
    }
    bucket_state
}

/// The seed is in the message of a failure.
async fn play(ground: Ground, clock: ManualClock, seed: u64, steps: usize) {
    let played = tokio::spawn(async move {
        let mut world = World::new(ground, clock, seed).await;
        for _ in 0..steps {
            world.go().await;
        }
        world.restart().await;
        world.compare(vec![world.model.clone()]).await;
        world.crashes
    });
    let crashes = played.await.unwrap_or_else(|_| panic!("seed {seed}: see above"));
    assert!(0 < crashes, "seed {seed}: no step was cut short");
}

/// `STEADFAST_SOAK=20 ./test` plays twenty times as often.
fn soak() -> u64 {
    std::env::var("STEADFAST_SOAK").ok().and_then(|it| it.parse().ok()).unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_and_events_match_the_model_on_memory() {
    for seed in 0..40 * soak() {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let ground = Ground::Memory(store, MemoryBlobs::default());
        play(ground, clock, seed, 60).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_and_events_match_the_model_on_sqlite() {
    for seed in 100_000..100_000 + 3 * soak() {
        let ground = Ground::Sqlite(tempfile::tempdir().unwrap());
        play(ground, ManualClock::at(START), seed, 60).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_and_events_match_the_model_on_postgres() {
    let ground = Ground::Postgres(setup::database().await, tempfile::tempdir().unwrap());
    play(ground, ManualClock::at(START), 200_000, 60).await;
}
