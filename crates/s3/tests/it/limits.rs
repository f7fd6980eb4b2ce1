//! Limits, conditions, and errors with the next step.

use steadfast_bucket::{BucketName, Quota};

use crate::setup::Setup;

#[tokio::test]
async fn a_blob_that_is_too_large_is_refused_before_its_body() {
    let setup = Setup::new().await;
    let bucket = BucketName::new("photos").unwrap();
    let limit = |it: &mut steadfast_bucket::BucketSettings| {
        it.max_blob_bytes = Some(10);
        Ok(())
    };
    setup.buckets.configure(&bucket, &limit).await.unwrap();
    let answer = setup.ask("PUT", "/photos/k", "hello world").await.is(400, "EntityTooLarge");
    assert!(answer.body.contains("at most 10 bytes"), "{}", answer.body);
    setup.ask("PUT", "/photos/k", "hello worl").await.is(200, "");
}

#[tokio::test]
async fn a_quota_is_refused_with_a_code_that_clients_do_not_retry() {
    let setup = Setup::new().await;
    let quota = Quota { bytes: Some(10), objects: Some(1), spend: None };
    setup.buckets.set_quota("acme", quota).await.unwrap();
    setup.ask("PUT", "/photos/acme/k", "hello world").await.is(413, "EntityTooLarge");
    setup.ask("PUT", "/photos/acme/k", "hello").await.is(200, "");
    let answer = setup.ask("PUT", "/other/acme/k", "").await.is(507, "QuotaExceeded");
    assert!(answer.body.contains("stores 1 blobs and may store 1"), "{}", answer.body);
    // An upload takes the place of an object until it ends.
    setup.ask("POST", "/photos/acme/k?uploads", "").await.is(507, "QuotaExceeded");
    let quota = Quota { objects: Some(2), ..quota };
    setup.buckets.set_quota("acme", quota).await.unwrap();
    let begun = setup.ask("POST", "/photos/acme/k?uploads", "").await.is(200, "");
    let id = begun.body.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0.to_owned();
    let part = format!("/photos/acme/k?partNumber=1&uploadId={id}");
    setup.ask("PUT", &part, "hello!").await.is(507, "QuotaExceeded");
    setup.ask("PUT", &part, "world").await.is(200, "");
    setup.ask("PUT", "/photos/acme/k", "hello!").await.is(507, "QuotaExceeded");
    setup.ask("DELETE", &format!("/photos/acme/k?uploadId={id}"), "").await.is(204, "");
    setup.ask("PUT", "/photos/acme/k", "hello!").await.is(200, "");
    setup.ask("DELETE", "/photos/acme/k", "").await.is(204, "");
    setup.ask("PUT", "/other/acme/k", "0123456789").await.is(200, "");
}

#[tokio::test]
async fn an_upload_with_too_much_metadata_stores_nothing() {
    let setup = Setup::new().await;
    let long = "x".repeat(2_049);
    let headers = [("x-amz-meta-long", long.as_str())];
    let answer = setup.ask_as(&setup.key, ("PUT", "/photos/k"), &headers, "x").await;
    answer.is(400, "MetadataTooLarge");
    assert_eq!(setup.files(), 0);
}

#[tokio::test]
async fn oversized_keys_and_documents_are_refused() {
    let setup = Setup::new().await;
    let key = format!("/photos/{}", "k".repeat(1_025));
    setup.ask("PUT", &key, "x").await.is(400, "KeyTooLongError");
    let deep = ["<a>".repeat(50_000), "</a>".repeat(50_000)].concat();
    let large = "<Object><Key>k</Key></Object>".repeat(300_000);
    for inner in [deep, large] {
        let body = format!("<Delete>{inner}</Delete>");
        let answer = setup.ask("POST", "/photos?delete", &body).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(!answer.code().is_empty(), "{}", answer.body);
    }
    assert_eq!(setup.files(), 0);
    setup.ask("PUT", "/photos/k", "x").await.is(200, "");
}

#[tokio::test]
async fn a_browser_may_show_a_blob_and_does_not_run_it() {
    let setup = Setup::new().await;
    let html = [("content-type", "text/html")];
    setup.ask_as(&setup.key, ("PUT", "/photos/k"), &html, "<script>1</script>").await.is(200, "");
    for (path, status) in [("/photos/k", 200), ("/photos/none", 404)] {
        let answer = setup.ask("GET", path, "").await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.ends_with("; sandbox"), "{policy}");
    }
}

#[tokio::test]
async fn a_copy_checks_conditions_on_both_blobs() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a", "a").await.is(200, "");
    setup.ask("PUT", "/photos/b", "b").await.is(200, "");
    let source = ("x-amz-copy-source", "/photos/a");
    let copy = async |to: &str, header: (&str, &str)| {
        setup.ask_as(&setup.key, ("PUT", to), &[source, header], "").await
    };
    copy("/photos/b", ("if-none-match", "*")).await.is(412, "PreconditionFailed");
    copy("/photos/b", ("if-match", "\"x\"")).await.is(412, "PreconditionFailed");
    let wrong = ("x-amz-copy-source-if-match", "\"x\"");
    copy("/photos/c", wrong).await.is(412, "PreconditionFailed");
    copy("/photos/c", ("if-none-match", "*")).await.is(200, "");
    assert_eq!(setup.ask("GET", "/photos/b", "").await.body, "b");
    assert_eq!(setup.ask("GET", "/photos/c", "").await.body, "a");
}

#[tokio::test]
async fn a_response_instead_of_100_continue_closes_the_connection() {
    let setup = Setup::new().await;
    let expect = [("expect", "100-continue")];
    let empty = setup.ask_as(&setup.key, ("PUT", "/photos/k"), &expect, "").await.is(200, "");
    assert_eq!(empty.headers["connection"], "close", "nothing was to be continued");
    let whole = setup.ask_as(&setup.key, ("PUT", "/photos/k"), &expect, "x").await.is(200, "");
    assert!(!whole.headers.contains_key("connection"), "its body was asked for");
    let refused = setup.ask_as(&setup.key, ("PUT", "/nowhere/k"), &expect, "x").await;
    assert_eq!(refused.is(404, "NoSuchBucket").headers["connection"], "close");
}

#[tokio::test]
async fn a_part_of_a_blob_and_ranges_have_no_checksum_of_the_whole() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/k", "hello world").await.is(200, "");
    let mode = ("x-amz-checksum-mode", "ENABLED");
    let whole = setup.ask_as(&setup.key, ("GET", "/photos/k"), &[mode], "").await.is(200, "");
    assert!(whole.headers.contains_key("x-amz-checksum-crc32"));
    let range = [mode, ("range", "bytes=0-4")];
    let part = setup.ask_as(&setup.key, ("GET", "/photos/k"), &range, "").await.is(206, "");
    assert_eq!(
        (part.body.as_str(), &part.headers["content-length"]),
        ("hello", &"5".parse().unwrap())
    );
    assert!(!part.headers.contains_key("x-amz-checksum-crc32"));
    let behind = [("range", "bytes=11-")];
    let answer = setup.ask_as(&setup.key, ("GET", "/photos/k"), &behind, "").await;
    assert_eq!(answer.is(416, "InvalidRange").headers["content-range"], "bytes */11");
    setup.ask("GET", "/photos/k?partNumber=1", "").await.is(206, "");
    setup.ask("GET", "/photos/k?partNumber=2", "").await.is(416, "InvalidPartNumber");
}
