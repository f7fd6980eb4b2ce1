//! Buckets: blobs put with their events, against plain durable file writes.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use steadfast_core::{
    App, BlobEvent, Bucket, BucketHandle, Queue,
    store::{SqliteOptions, SqliteStore, Store, SystemClock},
};

use crate::measure::{now, rate, say};

const BLOBS: Bucket = Bucket::named("blobs");
const EVENTS: Queue<BlobEvent> = Queue::named("events");
/// Concurrent writers.
const WRITERS: usize = 16;
const COUNT: usize = 4_000;
const SIZE: usize = 64 << 10;

pub(crate) async fn run() {
    say("Buckets, 64 KiB puts with events, 16 at once");
    let folder = tempfile::tempdir().expect("temporary folder");
    let plain_folder = folder.path().join("plain");
    fs::create_dir(&plain_folder).expect("folder is made");
    let options = SqliteOptions::new(folder.path().join("store"), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
    let app = App::new("test")
        .bucket(BLOBS.notify("", EVENTS))
        .blob_folder(folder.path().join("blobs"))
        .start(store.clone())
        .await
        .expect("starts");
    // Twice, alternating: the speed of a disk varies.
    for round in 1..=2 {
        let folder = plain_folder.join(round.to_string());
        fs::create_dir(&folder).expect("folder is made");
        let plain = tokio::task::spawn_blocking(move || plain(&folder)).await.expect("ends");
        say(&format!("  plain durable files                {plain:>9.0}/s"));
        let puts = puts(&app.bucket(BLOBS), round).await;
        say(&format!(
            "  puts with events                   {puts:>9.0}/s {:>6.2} x plain",
            puts / plain
        ));
    }
    app.stop().await;
    store.close().await;
}

/// Write, fsync, rename, fsync of the folder.
fn plain(folder: &Path) -> f64 {
    let (bytes, next) = (vec![7; SIZE], AtomicUsize::new(0));
    let began = now();
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while let number @ 0..COUNT = next.fetch_add(1, Ordering::Relaxed) {
                    let temporary = folder.join(format!("{number}.tmp"));
                    let mut file = File::create_new(&temporary).expect("file is made");
                    file.write_all(&bytes).expect("file is written");
                    file.sync_all().expect("file is flushed");
                    fs::rename(&temporary, folder.join(number.to_string())).expect("renamed");
                    let folder = File::open(folder).expect("folder is opened");
                    folder.sync_all().expect("folder is flushed");
                }
            });
        }
    });
    rate(COUNT, began.elapsed())
}

async fn puts(bucket: &BucketHandle, round: usize) -> f64 {
    let next = Arc::new(AtomicUsize::new(0));
    let bytes: Arc<[u8]> = vec![7; SIZE].into();
    let began = now();
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (bucket, next, bytes) = (bucket.clone(), next.clone(), bytes.clone());
        writers.spawn(async move {
            while let number @ 0..COUNT = next.fetch_add(1, Ordering::Relaxed) {
                bucket.put(&format!("{round}/{number}"), &bytes).await.expect("put");
            }
        });
    }
    writers.join_all().await;
    rate(COUNT, began.elapsed())
}
