//! Buckets: create, configure, delete, and create again.

use steadfast_bucket::{BucketError, BucketName, PutOptions};

use crate::lab::{Lab, bucket, key};

crate::lab::laws!(
    a_bucket_with_uploads_and_no_blobs_is_deleted_without_a_trace,
    numbers_continue_when_a_bucket_is_created_again,
    a_put_during_the_deletion_of_its_bucket_is_stored_or_refused,
    settings_are_visible_to_all_later_callers,
    a_blob_larger_than_the_bucket_allows_is_always_refused,
);

async fn a_bucket_with_uploads_and_no_blobs_is_deleted_without_a_trace(lab: Lab) {
    deleted_without_a_trace(lab, 3).await;
}

#[tokio::test]
async fn a_bucket_with_more_uploads_than_a_page_is_deleted_without_a_trace() {
    deleted_without_a_trace(Lab::memory().await, 1_010).await;
}

async fn deleted_without_a_trace(lab: Lab, uploads: usize) {
    for _ in 0..uploads {
        lab.begin("k").await;
    }
    let upload = lab.begin("parts").await;
    lab.part(&upload, 1, b"part").await.unwrap();
    lab.buckets.delete_bucket(&bucket()).await.unwrap();
    assert_eq!(lab.all_files(), []);
    lab.buckets.sweep().await.unwrap();
    for space in ["upload/photos", "part/photos"] {
        let range = steadfast_store::EntryRange::prefix(b"");
        assert_eq!(lab.store.entries(space, range, 10).await.unwrap(), []);
    }
    let error = lab.buckets.list(&bucket(), &Default::default()).await.unwrap_err();
    assert!(matches!(error, BucketError::UnknownBucket { .. }));
}

async fn numbers_continue_when_a_bucket_is_created_again(lab: Lab) {
    assert_eq!(lab.put("k", b"1").await.sequence, 1);
    let error = lab.buckets.delete_bucket(&bucket()).await.unwrap_err();
    assert!(matches!(error, BucketError::NotEmpty { .. }));
    lab.delete("k").await;
    lab.listen().await;
    lab.buckets.delete_bucket(&bucket()).await.unwrap();
    let put = lab.buckets.put(&bucket(), &key("k"), b"", PutOptions::default()).await;
    assert!(matches!(put.unwrap_err(), BucketError::UnknownBucket { .. }));
    assert_eq!(lab.buckets.buckets(None, 10).await.unwrap(), []);
    let made = lab.buckets.create(&bucket()).await.unwrap();
    assert_eq!(made.settings, Default::default(), "its rules went with it");
    let again = lab.buckets.create(&bucket()).await.unwrap_err();
    assert!(matches!(again, BucketError::BucketExists { .. }));
    assert_eq!(lab.put("k", b"3").await.sequence, 3);
    assert_eq!(lab.events().await, []);
}

async fn a_put_during_the_deletion_of_its_bucket_is_stored_or_refused(lab: Lab) {
    for _ in 0..10 {
        let (bucket, at) = (bucket(), key("k"));
        let put = lab.buckets.put(&bucket, &at, b"bytes", PutOptions::default());
        let (put, deleted) = tokio::join!(put, lab.buckets.delete_bucket(&bucket));
        match (put, deleted) {
            (Ok(_), Err(BucketError::NotEmpty { .. })) => {
                assert_eq!(lab.get("k").await, b"bytes");
                lab.delete("k").await;
            }
            (Err(BucketError::UnknownBucket { .. }), Ok(())) => {
                lab.buckets.create(&bucket).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(lab.all_files(), []);
    }
}

async fn settings_are_visible_to_all_later_callers(lab: Lab) {
    for size in 1..=20 {
        let readers = (0..4).map(|_| {
            let buckets = lab.buckets.clone();
            tokio::spawn(async move { buckets.bucket(&bucket()).await.map(drop) })
        });
        let readers: Vec<_> = readers.collect();
        let set = |it: &mut steadfast_bucket::BucketSettings| {
            it.max_blob_bytes = Some(size);
            Ok(())
        };
        lab.buckets.configure(&bucket(), set).await.unwrap();
        for reader in readers {
            reader.await.unwrap().unwrap();
        }
        let found = lab.buckets.bucket(&bucket()).await.unwrap();
        assert_eq!(found.settings.max_blob_bytes, Some(size));
    }
}

async fn a_blob_larger_than_the_bucket_allows_is_always_refused(lab: Lab) {
    let limit = async |size| {
        let set = |it: &mut steadfast_bucket::BucketSettings| {
            it.max_blob_bytes = Some(size);
            Ok(())
        };
        lab.buckets.configure(&bucket(), set).await
    };
    lab.put("before", b"123456").await;
    let mut writer = lab.buckets.writer(&bucket(), &key("k")).await.unwrap();
    writer.write(b"123456").await.unwrap();
    let upload = lab.begin("k").await;
    lab.part(&upload, 1, b"123456").await.unwrap();
    limit(5).await.unwrap();
    let late = writer.finish(PutOptions::default()).await;
    let large = lab.buckets.put(&bucket(), &key("k"), b"123456", PutOptions::default()).await;
    let (from, to) = (key("before"), key("k"));
    let places = ((&bucket(), &from), (&bucket(), &to));
    let copied = lab.buckets.copy(places.0, places.1, Default::default()).await;
    for refused in [late, large, copied, lab.complete(&upload, &[1]).await] {
        assert!(matches!(refused, Err(BucketError::TooLarge { max: 5 })), "{refused:?}");
    }
    let mut writer = lab.buckets.writer(&bucket(), &key("k")).await.unwrap();
    writer.write(b"1234").await.unwrap();
    assert!(writer.write(b"56").await.is_err());
    assert!(writer.finish(PutOptions::default()).await.is_err(), "half of it is not a blob");
    assert_eq!(lab.all_files().len(), 2, "the one from before, and the part");
    assert!(limit(0).await.is_err());
    let other = BucketName::new("other").unwrap();
    lab.buckets.create(&other).await.unwrap();
    let moved = lab.buckets.copy(places.0, (&other, &to), Default::default()).await.unwrap();
    assert_eq!((moved.size, moved.sequence), (6, 1), "each bucket has a limit of its own");
}
