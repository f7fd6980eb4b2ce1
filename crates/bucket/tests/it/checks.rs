//! Contents are checked: on full reads, and all of them from time to time.

use std::{fs, os::unix::fs::FileExt, path::PathBuf, sync::Arc, time::Duration};

use steadfast_bucket::{ByteRange, CheckCursor, Checked, FileBlobs, GetOptions, account};
use steadfast_store::{Clock, SeededEntropy};

use crate::setup::{Setup, bucket, key, open};

laws!(
    the_last_bytes_of_a_damaged_blob_are_not_returned,
    a_check_reads_every_blob_and_names_those_that_are_not_as_written,
    a_large_blob_is_checked_in_parts,
    all_blobs_are_checked_in_the_background_once_per_period,
    a_deleted_folder_is_noticed_at_the_next_start,
);

/// Changes one bit of a file.
fn flip(path: &PathBuf, at: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

async fn the_last_bytes_of_a_damaged_blob_are_not_returned(setup: Setup) {
    let bytes = vec![7; 600 << 10];
    setup.put("whole", &bytes).await;
    let upload = setup.begin("parts").await;
    setup.part(&upload, 1, &vec![1; 5 << 20]).await.unwrap();
    setup.part(&upload, 2, b"end").await.unwrap();
    setup.complete(&upload, &[1, 2]).await.unwrap();
    let full = GetOptions::default;
    let part = GetOptions { range: Some(ByteRange::From(1)), ..full() };
    for at in ["whole", "parts"] {
        let read = setup.buckets.get(&bucket(), &key(at), full()).await.unwrap();
        let expected = read.blob.size as usize;
        assert_eq!(read.bytes().await.unwrap().len(), expected, "undamaged");
    }
    setup.paths().iter().for_each(|it| flip(it, 0));
    for at in ["whole", "parts"] {
        let mut read = setup.buckets.get(&bucket(), &key(at), full()).await.unwrap();
        let mut received = 0;
        let error = loop {
            match read.next().await {
                Ok(Some(bytes)) => received += bytes.len() as u64,
                Ok(None) => panic!("a damaged blob was read to its end"),
                Err(error) => break error,
            }
        };
        assert!(received < read.blob.size);
        assert_eq!(error.code(), "blob_damaged");
        assert!(error.to_string().contains(at), "{error}");
        // A range has no checksum.
        let read = setup.buckets.get(&bucket(), &key(at), part.clone()).await.unwrap();
        assert!(read.bytes().await.is_ok());
    }
    assert_eq!(setup.buckets.check_counts(), (0, 2));
}

fn found(checked: &Checked) -> Vec<(&str, &str)> {
    assert_eq!(checked.unreadable, checked.named.len() as u64);
    assert!(checked.named.iter().all(|it| it.bucket == "photos"));
    checked.named.iter().map(|it| (it.key.as_str(), it.code.as_str())).collect()
}

/// Three good blobs, one with a flipped bit, one without its file.
async fn some_damaged(setup: &Setup) {
    let mut known = Vec::new();
    for at in ["a", "b", "c", "d", "e"] {
        setup.put(at, at.repeat(10).as_bytes()).await;
        let path = setup.paths().into_iter().find(|it| !known.contains(it)).unwrap();
        match at {
            "b" => flip(&path, 3),
            "d" => fs::remove_file(&path).unwrap(),
            _ => {}
        }
        known.push(path);
    }
}

async fn a_check_reads_every_blob_and_names_those_that_are_not_as_written(setup: Setup) {
    some_damaged(&setup).await;
    let all = setup.buckets.check(None, u64::MAX, u64::MAX).await.unwrap();
    assert_eq!((all.blobs, all.bytes, &all.next), (5, 50, &None));
    assert_eq!(found(&all), [("b", "blob_damaged"), ("d", "blob_missing")]);
    assert_eq!(setup.buckets.count_blobs().await.unwrap(), 5);
    // In pieces it finds the same.
    let (mut pieces, mut steps) = (Checked::default(), 0);
    loop {
        let part = setup.buckets.check(pieces.next.clone(), 15, u64::MAX).await.unwrap();
        assert!(part.bytes <= 20, "a part ends soon");
        pieces.add(part);
        steps += 1;
        if pieces.next.is_none() {
            break;
        }
    }
    assert_eq!((pieces, steps), (all, 3));
    // Blobs that are written again are good.
    setup.put("b", b"again").await;
    setup.delete("d").await;
    let all = setup.buckets.check(None, u64::MAX, u64::MAX).await.unwrap();
    assert_eq!((all.blobs, all.unreadable), (4, 0));
    // The place may have been deleted meanwhile, with its bucket.
    let next = CheckCursor { bucket: "aaa".into(), key: "x".into(), read: None };
    let next = Some(next);
    assert_eq!(setup.buckets.check(next, u64::MAX, u64::MAX).await.unwrap().blobs, 4);
}

async fn a_large_blob_is_checked_in_parts(setup: Setup) {
    let bytes = vec![7; 3 << 20];
    setup.put("before", b"bytes").await;
    let large = setup.paths();
    setup.put("large", &bytes).await;
    let large = setup.paths().into_iter().find(|it| !large.contains(it)).unwrap();
    let all = async || {
        let (mut all, mut parts) = (Checked::default(), 0);
        loop {
            let part = setup.buckets.check(all.next.clone(), 1 << 20, u64::MAX).await.unwrap();
            (all, parts) = (
                {
                    let mut it = all;
                    it.add(part);
                    it
                },
                parts + 1,
            );
            if all.next.is_none() {
                return (all, parts);
            }
        }
    };
    let (good, parts) = all().await;
    assert_eq!((good.blobs, good.bytes, good.unreadable), (2, (3 << 20) + 5, 0));
    assert!(3 <= parts, "{parts}");
    // A byte of its beginning, which another part read.
    flip(&large, 3);
    assert_eq!(found(&all().await.0), [("large", "blob_damaged")]);
    let named = all().await.0.named;
    assert_eq!(setup.buckets.still_unreadable(named.clone()).await.unwrap(), named);
    flip(&large, 3);
    assert_eq!(setup.buckets.still_unreadable(named.clone()).await.unwrap(), []);
    // A blob that is replaced between two parts is not damaged.
    let begun = setup.buckets.check(None, 1 << 20, u64::MAX).await.unwrap();
    setup.put("large", b"another").await;
    let rest = setup.buckets.check(begun.next, u64::MAX, u64::MAX).await.unwrap();
    assert_eq!((rest.unreadable, rest.next), (0, None));
    assert_eq!(setup.buckets.still_unreadable(named).await.unwrap(), []);
}

async fn all_blobs_are_checked_in_the_background_once_per_period(setup: Setup) {
    some_damaged(&setup).await;
    let checks = tokio::spawn(setup.buckets.clone().check_in_background());
    let (first, hour) = (setup.clock.now(), Duration::from_hours(1));
    let record = loop {
        let record = setup.buckets.check_record().await.unwrap();
        if record.ended_at.is_some() {
            break record;
        }
        setup.pass(Duration::from_mins(1));
    };
    assert_eq!(found(&record.last), [("b", "blob_damaged"), ("d", "blob_missing")]);
    assert!(first.after(Duration::from_mins(10)).0 <= record.ended_at.unwrap());
    setup.put("d", b"d again").await;
    let next = loop {
        let next = setup.buckets.check_record().await.unwrap();
        if next.ended_at != record.ended_at {
            break next;
        }
        setup.pass(hour);
    };
    assert_eq!((found(&next.last), next.last.blobs), (vec![("b", "blob_damaged")], 5));
    let between = next.ended_at.unwrap() - record.ended_at.unwrap();
    assert!(7 * 24 <= between / 3_600_000, "after a week");
    assert_eq!(setup.buckets.check_counts(), (7, 3), "good ones, and damaged ones");
    checks.abort();
}

async fn a_deleted_folder_is_noticed_at_the_next_start(setup: Setup) {
    setup.put("a", b"bytes").await;
    assert!(!setup.buckets.check_record().await.unwrap().is_emptied());
    setup.buckets.close().await;
    let folder = setup.folder.path().join("blobs");
    fs::remove_dir_all(&folder).unwrap();
    let account = account(&*setup.store, &SeededEntropy::new(1)).await.unwrap();
    let blobs = Arc::new(FileBlobs::open(&folder, &account).unwrap());
    let buckets = open(&setup.store, blobs, 5).await;
    assert!(buckets.check_record().await.unwrap().is_emptied());
    // It is checked at once.
    let checks = tokio::spawn(buckets.clone().check_in_background());
    let record = loop {
        let record = buckets.check_record().await.unwrap();
        if record.ended_at.is_some() {
            break record;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(found(&record.last), [("a", "blob_missing")]);
    assert!(!record.is_emptied(), "the blobs are named now");
    checks.abort();
}
