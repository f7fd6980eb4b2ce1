//! Buckets: create, configure, delete, and create again.

use steadfast_bucket::{BucketError, BucketName, PutOptions};

use crate::setup::{Setup, bucket, key};

laws!(
    a_bucket_with_uploads_and_no_blobs_is_deleted_without_a_trace,
    numbers_continue_when_a_bucket_is_created_again,
    a_put_during_the_deletion_of_its_bucket_is_stored_or_refused,
    settings_are_visible_to_all_later_callers,
    a_blob_larger_than_the_bucket_allows_is_always_refused,
);
laws!(also on postgres:
    numbers_continue_when_a_bucket_is_created_again,
    a_put_during_the_deletion_of_its_bucket_is_stored_or_refused,
);

async fn a_bucket_with_uploads_and_no_blobs_is_deleted_without_a_trace(setup: Setup) {
    deleted_without_a_trace(setup, 3).await;
}

#[tokio::test]
async fn a_bucket_with_more_uploads_than_a_page_is_deleted_without_a_trace() {
    deleted_without_a_trace(Setup::memory().await, 1_010).await;
}

async fn deleted_without_a_trace(setup: Setup, uploads: usize) {
    for _ in 0..uploads {
        setup.begin("k").await;
    }
    let upload = setup.begin("parts").await;
    setup.part(&upload, 1, b"part").await.unwrap();
    setup.buckets.delete_bucket(&bucket()).await.unwrap();
    assert_eq!(setup.all_files(), []);
    setup.buckets.sweep().await.unwrap();
    for space in ["upload/photos", "part/photos"] {
        let range = steadfast_store::EntryRange::prefix(b"");
        assert_eq!(setup.store.entries(space, range, 10).await.unwrap(), []);
    }
    let error = setup.buckets.list(&bucket(), &Default::default()).await.unwrap_err();
    assert!(matches!(error, BucketError::UnknownBucket { .. }));
}

async fn numbers_continue_when_a_bucket_is_created_again(setup: Setup) {
    assert_eq!(setup.put("k", b"1").await.sequence, 1);
    let error = setup.buckets.delete_bucket(&bucket()).await.unwrap_err();
    assert!(matches!(error, BucketError::NotEmpty { .. }));
    setup.delete("k").await;
    setup.listen().await;
    setup.buckets.delete_bucket(&bucket()).await.unwrap();
    let put = setup.buckets.put(&bucket(), &key("k"), b"", PutOptions::default()).await;
    assert!(matches!(put.unwrap_err(), BucketError::UnknownBucket { .. }));
    assert_eq!(setup.buckets.buckets(None, 10).await.unwrap(), []);
    let made = setup.buckets.create(&bucket()).await.unwrap();
    assert_eq!((made.rules, made.lifecycle), (vec![], vec![]), "its rules went with it");
    let again = setup.buckets.create(&bucket()).await.unwrap_err();
    assert!(matches!(again, BucketError::BucketExists { .. }));
    assert_eq!(setup.put("k", b"3").await.sequence, 3);
    assert_eq!(setup.events().await, []);
}

async fn a_put_during_the_deletion_of_its_bucket_is_stored_or_refused(setup: Setup) {
    for _ in 0..10 {
        let (bucket, at) = (bucket(), key("k"));
        let put = setup.buckets.put(&bucket, &at, b"bytes", PutOptions::default());
        let (put, deleted) = tokio::join!(put, setup.buckets.delete_bucket(&bucket));
        match (put, deleted) {
            (Ok(_), Err(BucketError::NotEmpty { .. })) => {
                assert_eq!(setup.get("k").await, b"bytes");
                setup.delete("k").await;
            }
            (Err(BucketError::UnknownBucket { .. }), Ok(())) => {
                setup.buckets.create(&bucket).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(setup.all_files(), []);
    }
}

async fn settings_are_visible_to_all_later_callers(setup: Setup) {
    for size in 1..=20 {
        let readers = (0..4).map(|_| {
            let buckets = setup.buckets.clone();
            tokio::spawn(async move { buckets.bucket(&bucket()).await.map(drop) })
        });
        let readers: Vec<_> = readers.collect();
        let set = |it: &mut steadfast_bucket::BucketSettings| {
            it.max_blob_bytes = Some(size);
            Ok(())
        };
        setup.buckets.configure(&bucket(), &set).await.unwrap();
        for reader in readers {
            reader.await.unwrap().unwrap();
        }
        let found = setup.buckets.bucket(&bucket()).await.unwrap();
        assert_eq!(found.max_blob_bytes, Some(size));
    }
}

async fn a_blob_larger_than_the_bucket_allows_is_always_refused(setup: Setup) {
    let limit = async |size| {
        let set = |it: &mut steadfast_bucket::BucketSettings| {
            it.max_blob_bytes = Some(size);
            Ok(())
        };
        setup.buckets.configure(&bucket(), &set).await
    };
    setup.put("before", b"123456").await;
    let mut writer = setup.buckets.writer(&bucket(), &key("k")).await.unwrap();
    writer.write(b"123456").await.unwrap();
    let upload = setup.begin("k").await;
    setup.part(&upload, 1, b"123456").await.unwrap();
    limit(5).await.unwrap();
    let late = writer.finish(PutOptions::default()).await;
    let large = setup.buckets.put(&bucket(), &key("k"), b"123456", PutOptions::default()).await;
    let (from, to) = (key("before"), key("k"));
    let places = ((&bucket(), &from), (&bucket(), &to));
    let copied = setup.buckets.copy(places.0, places.1, Default::default()).await;
    for refused in [late, large, copied, setup.complete(&upload, &[1]).await] {
        assert!(matches!(refused, Err(BucketError::TooLarge { max: 5 })), "{refused:?}");
    }
    let mut writer = setup.buckets.writer(&bucket(), &key("k")).await.unwrap();
    writer.write(b"1234").await.unwrap();
    assert!(writer.write(b"56").await.is_err());
    assert!(writer.finish(PutOptions::default()).await.is_err(), "half of it is not a blob");
    assert_eq!(setup.all_files().len(), 2, "the one from before, and the part");
    assert!(limit(0).await.is_err());
    let other = BucketName::new("other").unwrap();
    setup.buckets.create(&other).await.unwrap();
    let moved = setup.buckets.copy(places.0, (&other, &to), Default::default()).await.unwrap();
    assert_eq!((moved.size, moved.sequence), (6, 1), "each bucket has a limit of its own");
}
