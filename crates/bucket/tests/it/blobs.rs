//! Blobs: put, get, list, copy and delete, with sequence numbers and events.

use std::time::Duration;

use steadfast_bucket::{
    Attributes, BlobAction, BucketError, ByteRange, Condition, CopyOptions, ExpectedContent,
    GetOptions, ListOptions, PartTag, PutOptions, SweepCounts,
};

use crate::setup::{Setup, bucket, key};

laws!(on sqlite, postgres:
    a_blob_is_read_whole_and_in_ranges,
    every_write_of_a_key_and_its_event_have_the_next_number,
    a_body_that_differs_from_its_declaration_stores_nothing,
    conditions_are_decided_in_the_commit,
    lists_have_prefixes_delimiters_and_pages,
    a_copy_has_its_own_number_and_version_and_outlives_its_source,
    a_multipart_upload_is_visible_whole_or_not_at_all,
    a_sweep_removes_orphaned_files_and_old_tombstones,
);

async fn a_blob_is_read_whole_and_in_ranges(setup: Setup) {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 251) as u8).collect();
    let attributes = Attributes::of_type("image/png");
    let put = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
    let blob = setup.buckets.put(&bucket(), &key("a b/../ü"), &bytes, put).await.unwrap();
    assert_eq!((blob.size, blob.sequence), (3_000_000, 1));
    let found = setup.buckets.head(&bucket(), &key("a b/../ü")).await.unwrap();
    assert_eq!((&found, &found.attributes), (&blob, &attributes));
    assert_eq!(setup.get("a b/../ü").await, bytes);
    let ranges = [ByteRange::From(2_999_999), ByteRange::Between(5, 600_000), ByteRange::Last(3)];
    for range in ranges {
        let get = GetOptions { range: Some(range), ..GetOptions::default() };
        let reading = setup.buckets.get(&bucket(), &key("a b/../ü"), get).await.unwrap();
        let wanted = reading.range.start as usize..reading.range.end as usize;
        assert_eq!(reading.bytes().await.unwrap(), bytes[wanted]);
    }
    setup.put("empty", b"").await;
    assert_eq!(setup.get("empty").await, b"");
}

async fn every_write_of_a_key_and_its_event_have_the_next_number(setup: Setup) {
    setup.put("k", b"before the rule").await;
    setup.listen().await;
    let second = setup.put("k", b"two").await;
    let deleted = setup.buckets.delete(&bucket(), &key("k"), Condition::default()).await.unwrap();
    assert_eq!(deleted, Some(3));
    let again = setup.buckets.delete(&bucket(), &key("k"), Condition::default()).await.unwrap();
    assert_eq!(again, None, "there is nothing to delete, and nothing to tell");
    let fourth = setup.put("k", b"four").await;
    let events = setup.events().await;
    let told: Vec<_> =
        events.iter().map(|it| (it.action, it.sequence, it.version.as_str())).collect();
    let (put, delete) = (BlobAction::PutObject, BlobAction::DeleteObject);
    let (two, four) = (second.version(), fourth.version());
    assert_eq!(told, [(put, 2, &*two), (delete, 3, &*two), (put, 4, &*four)]);
    assert_eq!(events[0].event_time, "2023-11-14T22:13:20.000Z");
    assert_eq!((events[0].object.size, events[1].object.size), (Some(3), None));
}

async fn a_body_that_differs_from_its_declaration_stores_nothing(setup: Setup) {
    setup.listen().await;
    let expected = [
        ExpectedContent { size: Some(3), ..ExpectedContent::default() },
        ExpectedContent { md5: Some([0; 16]), ..ExpectedContent::default() },
        ExpectedContent { crc32: Some(1), ..ExpectedContent::default() },
        ExpectedContent { sha256: Some([0; 32]), ..ExpectedContent::default() },
    ];
    for expected in expected {
        let put = PutOptions { expected, ..PutOptions::default() };
        let error = setup.buckets.put(&bucket(), &key("k"), b"four", put).await.unwrap_err();
        assert!(["bad_request", "checksum_mismatch"].contains(&error.code()), "{error}");
    }
    let mut writer = setup.buckets.writer(&bucket(), &key("k")).await.unwrap();
    writer.write(&[0; 5_000_000]).await.unwrap();
    drop(writer);
    let error = setup.buckets.head(&bucket(), &key("k")).await.unwrap_err();
    assert!(matches!(error, BucketError::UnknownBlob { .. }));
    assert_eq!((setup.events().await, setup.files()), (vec![], 0));
}

async fn conditions_are_decided_in_the_commit(setup: Setup) {
    let put = |condition| PutOptions { condition, ..PutOptions::default() };
    let (b, k) = (bucket(), key("k"));
    let only_new = || setup.buckets.put(&b, &k, b"x", put(Condition::absent()));
    let all = tokio::join!(only_new(), only_new(), only_new(), only_new());
    let all = [all.0, all.1, all.2, all.3];
    assert_eq!(all.iter().filter(|it| it.is_ok()).count(), 1);
    let first = setup.buckets.head(&bucket(), &key("k")).await.unwrap();
    let same = || put(Condition::version(&first.version()));
    setup.buckets.put(&bucket(), &key("k"), b"y", same()).await.unwrap();
    let error = setup.buckets.put(&bucket(), &key("k"), b"z", same()).await.unwrap_err();
    assert_eq!(error.code(), "precondition_failed");
    let get = GetOptions { condition: same().condition, ..GetOptions::default() };
    let error = setup.buckets.get(&bucket(), &key("k"), get).await.err().unwrap();
    assert_eq!(error.code(), "precondition_failed");
    assert_eq!(setup.get("k").await, b"y");
    if setup.is_on_disk() {
        assert_eq!(setup.files(), 1, "what was refused or replaced is gone");
    }
}

async fn lists_have_prefixes_delimiters_and_pages(setup: Setup) {
    for at in ["a", "b/1", "b/2/x", "b/2/y", "b/3", "c/", "d"] {
        setup.put(at, b"").await;
    }
    let shown = async |prefix: &str, delimiter: &str, limit: usize| {
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let list = ListOptions {
                prefix: prefix.into(),
                delimiter: delimiter.into(),
                after,
                limit: Some(limit),
            };
            let page = setup.buckets.list(&bucket(), &list).await.unwrap();
            assert!(page.blobs.len() + page.prefixes.len() <= limit);
            keys.extend(page.blobs.iter().map(|it| it.key.to_string()));
            keys.extend(page.prefixes.iter().map(|it| format!("{it}*")));
            after = page.next;
            if after.is_none() {
                keys.sort();
                return keys;
            }
        }
    };
    for limit in [1, 2, 3, 1_000] {
        assert_eq!(shown("", "/", limit).await, ["a", "b/*", "c/*", "d"]);
        assert_eq!(shown("b/", "/", limit).await, ["b/1", "b/2/*", "b/3"]);
        assert_eq!(shown("b", "", limit).await, ["b/1", "b/2/x", "b/2/y", "b/3"]);
        assert_eq!(shown("", "", limit).await.len(), 7);
    }
}

async fn a_copy_has_its_own_number_and_version_and_outlives_its_source(setup: Setup) {
    let original = setup.put("from", b"bytes").await;
    setup.listen().await;
    let (bucket, from, to) = (bucket(), key("from"), key("to"));
    let copy = |copy| setup.buckets.copy((&bucket, &from), (&bucket, &to), copy);
    let blob = copy(CopyOptions::default()).await.unwrap();
    assert_eq!((blob.etag.clone(), blob.sequence), (original.etag.clone(), 1));
    assert_ne!(blob.version(), original.version());
    let attributes = Some(Attributes::of_type("text/plain"));
    let again = copy(CopyOptions { attributes, ..CopyOptions::default() }).await.unwrap();
    assert_eq!(again.sequence, 2);
    setup.buckets.delete(&bucket, &from, Condition::default()).await.unwrap();
    assert_eq!(setup.get("to").await, b"bytes");
    let events = setup.events().await;
    let source = events[0].copy_source.as_ref().unwrap();
    assert_eq!((source.bucket.as_str(), source.object.as_str()), ("photos", "from"));
    let error = copy(CopyOptions::default()).await.unwrap_err();
    assert_eq!(error.code(), "blob_not_found");
}

async fn a_multipart_upload_is_visible_whole_or_not_at_all(setup: Setup) {
    setup.listen().await;
    let (bucket, at) = (bucket(), key("big"));
    let upload =
        setup.buckets.begin_upload(&bucket, &at, Attributes::of_type("video/mp4")).await.unwrap();
    let put = async |number: u32, byte: u8, size: usize| {
        let mut part = setup.buckets.part_writer(&bucket, &at, &upload.id, number).await.unwrap();
        part.write(&vec![byte; size]).await.unwrap();
        part.finish(ExpectedContent::default()).await.unwrap()
    };
    put(2, 0, 10).await;
    let (first, second) = (put(1, 1, 5 << 20).await, put(2, 2, 1_000).await);
    let tags = [first, second].map(|it| PartTag {
        number: it.number,
        etag: Some(it.etag),
        crc32: Some(it.crc32),
        ..PartTag::default()
    });
    assert!(setup.buckets.head(&bucket, &at).await.is_err());
    let complete = async |tags: &[PartTag]| {
        let any = Condition::default();
        setup.buckets.complete_upload(&bucket, &at, &upload.id, tags, any).await
    };
    let wrong = [tags[1].clone(), tags[0].clone()];
    assert_eq!(complete(&wrong).await.unwrap_err().code(), "invalid_input");
    let blob = complete(&tags).await.unwrap();
    assert!(blob.etag.ends_with("-2"), "{}", blob.etag);
    assert_eq!(blob.size, (5 << 20) + 1_000);
    assert_eq!(complete(&tags).await.unwrap(), blob, "a client may repeat the request");
    let (any, other) =
        (Condition::default(), ExpectedContent { crc32: Some(1), ..ExpectedContent::default() });
    let again = setup.buckets.complete_upload_as(&bucket, &at, &upload.id, &tags, any, other).await;
    assert_eq!(again.unwrap_err().code(), "checksum_mismatch", "but not for something else");
    let bytes = setup.get("big").await;
    assert_eq!(crc32fast::hash(&bytes), blob.crc32);
    assert_eq!((bytes[0], bytes[bytes.len() - 1]), (1, 2));
    let events = setup.events().await;
    assert_eq!(events[0].action, BlobAction::CompleteMultipartUpload);
    assert!(setup.buckets.abort_upload(&bucket, &at, &upload.id).await.is_err());
    let other = setup.buckets.begin_upload(&bucket, &at, Attributes::default()).await.unwrap();
    let mut part = setup.buckets.part_writer(&bucket, &at, &other.id, 1).await.unwrap();
    part.write(b"x").await.unwrap();
    part.finish(ExpectedContent::default()).await.unwrap();
    setup.buckets.abort_upload(&bucket, &at, &other.id).await.unwrap();
    assert_eq!(setup.get("big").await, bytes);
    if setup.is_on_disk() {
        assert_eq!(setup.files(), 2, "the two parts of the blob");
    }
}

async fn a_sweep_removes_orphaned_files_and_old_tombstones(setup: Setup) {
    setup.put("kept", b"1").await;
    setup.put("gone", b"2").await;
    setup.buckets.delete(&bucket(), &key("gone"), Condition::default()).await.unwrap();
    assert_eq!(setup.buckets.sweep().await.unwrap(), SweepCounts::default());
    setup.pass(Duration::from_hours(24 * 31));
    let swept = setup.buckets.sweep().await.unwrap();
    assert_eq!(swept, SweepCounts { rows: 1, ..SweepCounts::default() });
    assert_eq!(setup.get("kept").await, b"1");
    assert_eq!(setup.put("gone", b"3").await.sequence, 3, "its numbers continue");
}
