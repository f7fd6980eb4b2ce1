//! Conditions of requests.

use std::time::Duration;

use steadfast_bucket::{
    BucketError, BucketName, Condition, CopyOptions, GetOptions, Match, PutOptions,
};

use crate::setup::{START, Setup, bucket, key};

laws!(on sqlite, postgres:
    reads_check_their_conditions,
    writes_check_their_conditions,
    a_copy_between_buckets_checks_both_conditions,
);

fn etag(etag: &str) -> Option<Match> {
    Some(Match::Etag(vec!["other".into(), etag.into()]))
}

async fn reads_check_their_conditions(setup: Setup) {
    setup.pass(Duration::from_millis(500));
    let blob = setup.put("k", b"bytes").await;
    let read = async |condition: Condition| {
        let get = GetOptions { condition, ..GetOptions::default() };
        setup.buckets.get(&bucket(), &key("k"), get).await.map(drop).map_err(|it| it.code())
    };
    let (none, second) = (Condition::default(), Duration::from_secs(1));
    let (before, after) = (steadfast_store::Timestamp(START.0 - 1), START.after(second));
    let failed = Err("precondition_failed");
    for (condition, expected) in [
        (Condition { if_match: etag(&blob.etag), ..none.clone() }, Ok(())),
        (Condition { if_match: etag("x"), ..none.clone() }, failed),
        (Condition { if_match: Some(Match::Any), ..none.clone() }, Ok(())),
        (Condition { if_none_match: etag(&blob.etag), ..none.clone() }, Err("not_modified")),
        (Condition { if_none_match: etag("x"), ..none.clone() }, Ok(())),
        (Condition { if_none_match: Some(Match::Any), ..none.clone() }, Err("not_modified")),
        // Times have whole seconds.
        (Condition { if_modified_since: Some(START), ..none.clone() }, Err("not_modified")),
        (Condition { if_modified_since: Some(before), ..none.clone() }, Ok(())),
        (Condition { if_unmodified_since: Some(START), ..none.clone() }, Ok(())),
        (Condition { if_unmodified_since: Some(before), ..none.clone() }, failed),
        // An ETag takes precedence over a time.
        (
            Condition {
                if_match: etag(&blob.etag),
                if_unmodified_since: Some(before),
                ..none.clone()
            },
            Ok(()),
        ),
        (
            Condition { if_none_match: etag("x"), if_modified_since: Some(after), ..none.clone() },
            Ok(()),
        ),
    ] {
        assert_eq!(read(condition.clone()).await, expected, "{condition:?}");
    }
}

async fn writes_check_their_conditions(setup: Setup) {
    let put = async |condition: Condition| {
        let put = PutOptions { condition, ..PutOptions::default() };
        setup.buckets.put(&bucket(), &key("k"), b"bytes", put).await
    };
    let delete = async |condition| setup.buckets.delete(&bucket(), &key("k"), condition).await;
    let is = |it: &str| Condition { if_match: etag(it), ..Condition::default() };
    let is_not = |it: &str| Condition { if_none_match: etag(it), ..Condition::default() };
    assert!(matches!(put(is("x")).await, Err(BucketError::UnknownBlob { .. })));
    assert!(matches!(delete(is("x")).await, Err(BucketError::UnknownBlob { .. })));
    let blob = put(Condition::absent()).await.unwrap();
    for refused in [is("x"), is_not(&blob.etag), Condition::absent(), Condition::version("x")] {
        let error = put(refused.clone()).await.unwrap_err();
        assert_eq!(error.code(), "precondition_failed", "{refused:?}");
        let error = delete(refused).await.unwrap_err();
        assert_eq!(error.code(), "precondition_failed");
    }
    assert_eq!(put(is(&blob.etag)).await.unwrap().sequence, 2);
    assert_eq!(put(is_not("x")).await.unwrap().sequence, 3);
    assert_eq!(delete(is(&blob.etag)).await.unwrap(), Some(4));
    assert_eq!(put(Condition::absent()).await.unwrap().sequence, 5, "what is deleted is absent");
    assert_eq!(setup.all_files().len(), 1);
}

async fn a_copy_between_buckets_checks_both_conditions(setup: Setup) {
    let (here, there) = (bucket(), BucketName::new("there").unwrap());
    let (from, to) = (key("from"), key("to"));
    let blob = setup.put("from", b"bytes").await;
    let copy = async |copy: CopyOptions| {
        setup.buckets.copy((&here, &from), (&there, &to), copy).await.map_err(|it| it.code())
    };
    assert_eq!(copy(CopyOptions::default()).await.unwrap_err(), "bucket_not_found");
    setup.buckets.create(&there).await.unwrap();
    let is = |it: &str| Condition { if_match: etag(it), ..Condition::default() };
    let is_not = |it: &str| Condition { if_none_match: etag(it), ..Condition::default() };
    for source in [is("x"), is_not(&blob.etag)] {
        let refused = copy(CopyOptions { source, ..CopyOptions::default() }).await;
        assert_eq!(refused.unwrap_err(), "precondition_failed");
    }
    let absent = || CopyOptions { condition: Condition::absent(), ..CopyOptions::default() };
    assert_eq!(copy(absent()).await.unwrap().sequence, 1);
    assert_eq!(copy(absent()).await.unwrap_err(), "precondition_failed");
    assert_eq!(setup.all_files().len(), 2);
    let onto_itself = setup.buckets.copy((&here, &from), (&here, &from), CopyOptions::default());
    assert_eq!(onto_itself.await.unwrap().sequence, 2);
    assert_eq!(setup.get("from").await, b"bytes");
    setup.delete("from").await;
    let error = setup.buckets.delete_bucket(&there).await.unwrap_err();
    assert!(matches!(error, BucketError::NotEmpty { .. }));
    let reading = setup.buckets.get(&there, &to, GetOptions::default()).await.unwrap();
    assert_eq!(reading.bytes().await.unwrap(), b"bytes");
}
