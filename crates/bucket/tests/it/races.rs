//! Races: with a sweep, a reader, and dropped futures.

use std::{pin::pin, task::Poll, time::Duration};

use steadfast_bucket::{BucketError, Condition, CopyOptions, GetOptions, PutOptions};
use tokio::runtime::Handle;

use crate::{
    faulty_blobs::At,
    setup::{Setup, bucket, key},
};

laws!(on sqlite, postgres:
    a_sweep_keeps_the_files_of_a_slow_write,
    a_multipart_blob_is_read_to_its_end_after_a_deletion,
    a_dropped_operation_is_applied_or_not_and_leaves_no_files,
    readers_outlive_a_replacement_and_a_sweep,
    a_copy_during_a_deletion_is_complete_or_missing,
    concurrent_writers_of_a_key_take_consecutive_numbers,
);

/// Polls a future this many times, then drops it.
async fn give_up_after<T>(polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut left) = (pin!(work), polls);
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Waits until this many files are left.
async fn until_files(setup: &Setup, count: usize) {
    let mut pause = tokio::time::interval(Duration::from_millis(1));
    let waiting = async {
        while setup.all_files().len() != count {
            pause.tick().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), waiting).await;
    assert!(waited.is_ok(), "{:?} instead of {count}", setup.all_files());
}

async fn a_sweep_keeps_the_files_of_a_slow_write(setup: Setup) {
    let (setup, faulty_blobs) = setup.with_faults().await;
    let (buckets, runtime) = (setup.buckets.clone(), Handle::current());
    faulty_blobs.on(move |at, _| {
        if [At::Sealed, At::Linked].contains(&at) {
            runtime.block_on(buckets.sweep()).unwrap();
        }
        Ok(())
    });
    let mut writer = setup.buckets.writer(&bucket(), &key("slow")).await.unwrap();
    writer.write(b"bytes").await.unwrap();
    let upload = setup.begin("big").await;
    setup.pass(Duration::from_hours(2));
    writer.finish(PutOptions::default()).await.unwrap();
    assert_eq!(setup.get("slow").await, b"bytes");
    setup.part(&upload, 1, b"part").await.unwrap();
    setup.complete(&upload, &[1]).await.unwrap();
    assert_eq!(setup.get("big").await, b"part");
    let (from, to) = (key("slow"), key("copy"));
    let places = ((&bucket(), &from), (&bucket(), &to));
    setup.buckets.copy(places.0, places.1, CopyOptions::default()).await.unwrap();
    assert_eq!(setup.get("copy").await, b"bytes");
    faulty_blobs.off();
}

async fn a_multipart_blob_is_read_to_its_end_after_a_deletion(setup: Setup) {
    let first = vec![1; 5 << 20];
    let whole = [&first[..], b"end"].concat();
    for _ in 0..2 {
        let upload = setup.begin("k").await;
        setup.part(&upload, 1, &first).await.unwrap();
        setup.part(&upload, 2, b"end").await.unwrap();
        setup.complete(&upload, &[1, 2]).await.unwrap();
        let (bucket, at) = (bucket(), key("k"));
        let read = setup.buckets.get(&bucket, &at, GetOptions::default());
        let (reading, deleted) = tokio::join!(read, setup.delete("k"));
        assert!(deleted.is_some());
        match reading {
            Ok(reading) => assert_eq!(reading.bytes().await.unwrap(), whole),
            Err(error) => assert!(matches!(error, BucketError::UnknownBlob { .. }), "{error}"),
        }
        until_files(&setup, 0).await;
    }
}

async fn a_dropped_operation_is_applied_or_not_and_leaves_no_files(setup: Setup) {
    setup.listen().await;
    let (bucket, at, to) = (bucket(), key("k"), key("copy"));
    for polls in 0..12 {
        give_up_after(polls, setup.buckets.put(&bucket, &at, b"bytes", PutOptions::default()))
            .await;
        let copy = setup.buckets.copy((&bucket, &at), (&bucket, &to), CopyOptions::default());
        give_up_after(polls, copy).await;
    }
    setup.put("k", b"last").await;
    setup.put("copy", b"last").await;
    until_files(&setup, 2).await;
    for polls in 0..8 {
        give_up_after(polls, setup.buckets.delete(&bucket, &at, Condition::default())).await;
        give_up_after(polls, setup.buckets.delete(&bucket, &to, Condition::default())).await;
    }
    until_files(&setup, 0).await;
    for at in ["k", "copy"] {
        let events = setup.events().await;
        let told: Vec<i64> =
            events.iter().filter(|it| it.key() == at).map(|it| it.sequence).collect();
        let last = setup.put(at, b"").await.sequence;
        assert_eq!(told, (1..last).collect::<Vec<_>>());
    }
}

async fn readers_outlive_a_replacement_and_a_sweep(setup: Setup) {
    let bytes = vec![7; 1 << 20];
    setup.put("k", &bytes).await;
    let (bucket, at) = (bucket(), key("k"));
    let read = || setup.buckets.get(&bucket, &at, GetOptions::default());
    let (one, two) = (read().await.unwrap(), read().await.unwrap());
    setup.put("k", b"new").await;
    setup.pass(Duration::from_hours(2));
    assert_eq!(setup.buckets.sweep().await.unwrap().files, 0);
    assert_eq!(one.bytes().await.unwrap(), bytes);
    assert_eq!(two.bytes().await.unwrap(), bytes);
    until_files(&setup, 1).await;
    assert_eq!(setup.get("k").await, b"new");
}

async fn a_copy_during_a_deletion_is_complete_or_missing(setup: Setup) {
    let (bucket, from, to) = (bucket(), key("from"), key("to"));
    for _ in 0..10 {
        setup.put("from", b"bytes").await;
        let copy = setup.buckets.copy((&bucket, &from), (&bucket, &to), CopyOptions::default());
        let delete = setup.buckets.delete(&bucket, &from, Condition::default());
        let (copied, deleted) = tokio::join!(copy, delete);
        assert!(deleted.unwrap().is_some());
        match copied {
            Ok(_) => assert_eq!(setup.get("to").await, b"bytes"),
            Err(error) => assert!(matches!(error, BucketError::UnknownBlob { .. }), "{error}"),
        }
        setup.buckets.delete(&bucket, &to, Condition::default()).await.unwrap();
    }
    until_files(&setup, 0).await;
}

async fn concurrent_writers_of_a_key_take_consecutive_numbers(setup: Setup) {
    setup.listen().await;
    let writers = (0..8_u8).map(|writer| {
        let buckets = setup.buckets.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                let (bucket, at) = (bucket(), key("k"));
                buckets.put(&bucket, &at, &[writer; 9], PutOptions::default()).await.unwrap();
                buckets.delete(&bucket, &at, Condition::default()).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let events = setup.events().await;
    let numbers: Vec<i64> = events.iter().map(|it| it.sequence).collect();
    assert_eq!(numbers, (1..=events.len() as i64).collect::<Vec<_>>());
    assert_eq!(events.iter().filter(|it| !it.action.is_deletion()).count(), 40);
    until_files(&setup, 0).await;
}
