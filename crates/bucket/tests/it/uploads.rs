//! Multipart uploads: completed uploads are whole, despite concurrent changes.

use steadfast_bucket::{BlobAction, ExpectedContent};

use crate::setup::{Setup, bucket, key};

laws!(
    a_part_replaced_during_completion_is_not_missed,
    two_concurrent_completions_both_succeed_with_one_event,
    an_aborted_upload_leaves_no_file_and_no_event,
    of_complete_and_abort_one_wins,
    uploads_are_listed_after_a_key_or_an_upload,
    parts_are_numbered_replaced_selected_and_aborted,
);
laws!(also on postgres:
    a_part_replaced_during_completion_is_not_missed,
    two_concurrent_completions_both_succeed_with_one_event,
    of_complete_and_abort_one_wins,
    uploads_are_listed_after_a_key_or_an_upload,
);

async fn a_part_replaced_during_completion_is_not_missed(setup: Setup) {
    for _ in 0..20 {
        let upload = setup.begin("k").await;
        setup.part(&upload, 1, b"old").await.unwrap();
        let replace = async { setup.part(&upload, 1, b"new").await.is_ok() };
        let (blob, replaced) = tokio::join!(setup.complete(&upload, &[1]), replace);
        let blob = blob.unwrap();
        let bytes = setup.get("k").await;
        assert_eq!(blob.crc32, crc32fast::hash(&bytes));
        assert!(replaced || bytes == b"old");
    }
    setup.delete("k").await;
    assert_eq!(setup.files(), 0, "nothing is left of what was replaced");
}

async fn two_concurrent_completions_both_succeed_with_one_event(setup: Setup) {
    setup.listen().await;
    for round in 1..=10 {
        let upload = setup.begin("k").await;
        setup.part(&upload, 1, b"bytes").await.unwrap();
        let (one, two) = tokio::join!(setup.complete(&upload, &[1]), setup.complete(&upload, &[1]));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!((one.version(), one.sequence), (two.version(), round));
    }
    let events = setup.events().await;
    assert_eq!(events.len(), 10);
    assert!(events.iter().all(|it| it.action == BlobAction::CompleteMultipartUpload));
}

async fn an_aborted_upload_leaves_no_file_and_no_event(setup: Setup) {
    setup.listen().await;
    for parts in 0..=3 {
        let upload = setup.begin("big").await;
        for number in 1..=parts {
            setup.part(&upload, number, b"part").await.unwrap();
        }
        // Another part is being written, and finishes too late.
        let at = (&bucket(), &upload.key);
        let mut late = setup.buckets.part_writer(at.0, at.1, &upload.id, parts + 1).await.unwrap();
        late.write(b"la").await.unwrap();
        setup.buckets.abort_upload(at.0, at.1, &upload.id).await.unwrap();
        late.write(b"te").await.unwrap();
        let late = late.finish(ExpectedContent::default()).await;
        assert_eq!(late.unwrap_err().code(), "upload_not_found");
        assert_eq!(setup.complete(&upload, &[1]).await.unwrap_err().code(), "upload_not_found");
        assert!(setup.buckets.head(at.0, at.1).await.is_err());
        assert_eq!(setup.files(), 0, "after {parts} parts");
        assert_eq!(setup.events().await, []);
    }
}

async fn of_complete_and_abort_one_wins(setup: Setup) {
    setup.listen().await;
    let mut completed = 0;
    for _ in 0..20 {
        let upload = setup.begin("k").await;
        setup.part(&upload, 1, b"bytes").await.unwrap();
        let (bucket, at) = (bucket(), key("k"));
        let abort = setup.buckets.abort_upload(&bucket, &at, &upload.id);
        let (blob, aborted) = tokio::join!(setup.complete(&upload, &[1]), abort);
        assert_ne!(blob.is_ok(), aborted.is_ok());
        completed += usize::from(blob.is_ok());
    }
    assert_eq!(setup.events().await.len(), completed);
    setup.delete("k").await;
    assert_eq!(setup.files(), 0);
}

async fn uploads_are_listed_after_a_key_or_an_upload(setup: Setup) {
    let mut begun = Vec::new();
    for at in ["a", "a", "a\0b", "a\0b/c", "b", "b/c"] {
        begun.push((at.to_owned(), setup.begin(at).await.id));
        setup.pass(std::time::Duration::from_millis(1));
    }
    let list = async |prefix: &str, after: Option<(&str, Option<&str>)>, limit: usize| {
        let found = setup.buckets.uploads(&bucket(), prefix, after, limit).await.unwrap();
        found.into_iter().map(|it| (it.key.to_string(), it.id)).collect::<Vec<_>>()
    };
    assert_eq!(list("", None, 100).await, begun);
    assert_eq!(list("a\0", None, 100).await, begun[2..4], "not those of a");
    assert_eq!(list("", Some(("a", None)), 2).await, begun[2..4]);
    assert_eq!(list("", Some(("a", Some(&begun[0].1))), 1).await, begun[1..2]);
    assert_eq!(list("b", Some(("a", None)), 100).await, begun[4..]);
    assert_eq!(list("a", Some(("b", None)), 100).await, []);
}

async fn parts_are_numbered_replaced_selected_and_aborted(setup: Setup) {
    let upload = setup.begin("k").await;
    for number in [0, 10_001, u32::MAX] {
        assert_eq!(setup.part(&upload, number, b"x").await.unwrap_err().code(), "invalid_input");
    }
    for number in [10_000, 1, 7, 7] {
        setup.part(&upload, number, &number.to_be_bytes()).await.unwrap();
    }
    let list = async |after, limit| {
        let found = setup.buckets.parts(&bucket(), &upload, after, limit).await.unwrap();
        found.iter().map(|it| it.number).collect::<Vec<_>>()
    };
    assert_eq!((list(0, 2).await, list(7, 9).await), (vec![1, 7], vec![10_000]));
    for wrong in [&[][..], &[2], &[7, 7], &[7, 1], &[1, 7]] {
        let error = setup.complete(&upload, wrong).await.unwrap_err();
        assert_eq!(error.code(), "invalid_input", "{wrong:?}: {error}");
    }
    assert_eq!(setup.all_files().len(), 3, "what was replaced is gone, and the rest can be used");
    let gone = setup.begin("k").await;
    setup.part(&gone, 1, b"x").await.unwrap();
    setup.buckets.abort_upload(&bucket(), &key("k"), &gone.id).await.unwrap();
    assert_eq!(setup.part(&gone, 1, b"x").await.unwrap_err().code(), "upload_not_found");
    assert_eq!(setup.complete(&gone, &[1]).await.unwrap_err().code(), "upload_not_found");
    for (at, id) in [("other", upload.id.as_str()), ("k", ""), ("k", "../..")] {
        let error = setup.buckets.abort_upload(&bucket(), &key(at), id).await.unwrap_err();
        assert_eq!(error.code(), "upload_not_found");
    }
    assert_eq!(setup.complete(&upload, &[7]).await.unwrap().size, 4);
    assert_eq!((setup.all_files().len(), setup.get("k").await), (1, 7_u32.to_be_bytes().to_vec()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_of_ten_thousand_parts_is_listed_swept_and_aborted() {
    let setup = Setup::memory().await;
    let upload = setup.begin("k").await;
    for number in 1..=10_000 {
        setup.part(&upload, number, b"x").await.unwrap();
    }
    setup.pass(std::time::Duration::from_hours(2));
    assert_eq!(setup.buckets.sweep().await.unwrap(), Default::default());
    assert_eq!(setup.complete(&upload, &[10_000]).await.unwrap().size, 1);
    assert_eq!(setup.buckets.parts(&bucket(), &upload, 0, 10).await.unwrap(), []);
    assert_eq!(setup.all_files().len(), 1);
}
