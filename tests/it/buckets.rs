//! kill -9 of a process that changes blobs: object and event exist together or not at all.

use std::path::Path;

use steadfast_bucket::BUCKET_CRASH_POINTS;
use steadfast_core::store::{Entropy, crash::COMMIT_POINTS};

use crate::{
    killer::{chance, soak, was_killed},
    postgres,
    shots::Album,
};

async fn kill_again_and_again(place: &str, folder: &Path, kills: usize) {
    let (chance, mut album) = (chance(), Album::new(folder));
    for _ in 0..kills {
        let lines = 1 + (chance.next() % 200) as usize;
        let status = album.follow(album.victim(place, None), lines);
        assert!(was_killed(status), "{status}");
        album.check(place).await;
    }
    eprintln!("{kills} kills: {}", album.summary());
}

/// Each point once or twice: at its first time, and later.
async fn end_at_every_point(place: &str, folder: &Path, times: usize) {
    let (chance, mut album) = (chance(), Album::new(folder));
    for point in COMMIT_POINTS.iter().chain(BUCKET_CRASH_POINTS) {
        for nth in [2 + chance.next() % 20, 1].into_iter().take(times) {
            let at = format!("{point}:{nth}");
            let status = album.follow(album.victim(place, Some(&at)), usize::MAX);
            assert!(was_killed(status), "point {at} was never reached ({status})");
            album.check(place).await;
        }
    }
    eprintln!("every point: {}", album.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_killed_thirty_times_lose_neither_blob_nor_event_on_sqlite() {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("store");
        let blobs = folder.path().join("blobs");
        kill_again_and_again(place.to_str().unwrap(), &blobs, 30).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_killed_ten_times_lose_neither_blob_nor_event_on_postgres() {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        kill_again_and_again(&postgres::schema().await, &folder.path().join("blobs"), 10).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_whose_process_ends_at_every_point_have_blob_and_event_together_on_sqlite() {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("store");
        end_at_every_point(place.to_str().unwrap(), &folder.path().join("blobs"), 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_whose_process_ends_at_every_point_have_blob_and_event_together_on_postgres() {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        end_at_every_point(&postgres::schema().await, &folder.path().join("blobs"), 1).await;
    }
}
