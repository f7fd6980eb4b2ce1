//! Permissions of access keys.

use std::time::Duration;

use steadfast_bucket::{BlobKey, BucketName, delete_key};
use steadfast_s3::{PresignMethod, S3Api, presign};
use steadfast_store::{Clock, SystemClock};

use crate::setup::{SEAL, Setup};

#[tokio::test]
async fn a_key_cannot_leave_its_scope() {
    let setup = Setup::new().await;
    for target in ["/photos/a/1", "/photos/b/1", "/other/a/1"] {
        setup.ask("PUT", target, "x").await.is(200, "");
    }
    let key = setup.key("photos", Some("a/"), false).await;
    let ask =
        async |method: &str, target: &str| setup.ask_as(&key, (method, target), &[], "").await;
    ask("GET", "/photos/a/1").await.is(200, "");
    ask("PUT", "/photos/a/2").await.is(200, "");
    ask("GET", "/photos?list-type=2&prefix=a%2F").await.is(200, "");
    for (method, target) in [
        ("GET", "/photos/b/1"),
        ("PUT", "/photos/b/2"),
        ("DELETE", "/photos/b/1"),
        ("GET", "/other/a/1"),
        ("GET", "/photos?list-type=2"),
        ("GET", "/photos?list-type=2&prefix=b%2F"),
        ("GET", "/photos?uploads"),
        ("POST", "/photos/b/1?uploads"),
        ("PUT", "/fresh"),
        ("DELETE", "/photos"),
        ("HEAD", "/other"),
    ] {
        let answer = ask(method, target).await;
        assert_eq!(answer.status, 403, "{method} {target}: {}", answer.body);
    }
    for (source, status) in [("photos/a/1", 200), ("photos/b/1", 403), ("other/a/1", 403)] {
        let headers = [("x-amz-copy-source", source)];
        let answer = setup.ask_as(&key, ("PUT", "/photos/a/copy"), &headers, "").await;
        assert_eq!(answer.status, status, "{source}: {}", answer.body);
    }
    let listed = ask("GET", "/").await.is(200, "").body;
    assert!(listed.contains("photos") && !listed.contains("other"), "{listed}");
}

#[tokio::test]
async fn each_of_several_keys_is_deleted_or_denied_separately() {
    let setup = Setup::new().await;
    for target in ["/photos/a/1", "/photos/b/1"] {
        setup.ask("PUT", target, "x").await.is(200, "");
    }
    let key = setup.key("photos", Some("a/"), false).await;
    let body = "<Delete><Object><Key>a/1</Key></Object><Object><Key>b/1</Key></Object></Delete>";
    let answer = setup.ask_as(&key, ("POST", "/photos?delete"), &[], body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("<Deleted><Key>a/1</Key></Deleted>"), "{}", answer.body);
    assert!(answer.body.contains("<Code>AccessDenied</Code>"), "{}", answer.body);
    setup.ask("HEAD", "/photos/a/1", "").await.is(404, "NoSuchKey");
    setup.ask("HEAD", "/photos/b/1", "").await.is(200, "");
}

#[tokio::test]
async fn a_read_only_key_only_reads() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a", "x").await.is(200, "");
    let key = setup.key("photos", None, true).await;
    let ask =
        async |method: &str, target: &str| setup.ask_as(&key, (method, target), &[], "").await;
    ask("GET", "/photos/a").await.is(200, "");
    for (method, target) in [
        ("PUT", "/photos/b"),
        ("DELETE", "/photos/a"),
        ("POST", "/photos/a?uploads"),
        ("POST", "/photos?delete"),
        ("PUT", "/fresh"),
    ] {
        ask(method, target).await.is(403, "AccessDenied");
    }
    setup.ask("HEAD", "/photos/b", "").await.is(404, "NoSuchKey");
}

#[tokio::test]
async fn a_revoked_key_and_its_urls_stop_working_at_once() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a", "hello").await.is(200, "");
    let key = setup.key("photos", None, false).await;
    let place = (&BucketName::new("photos").unwrap(), &BlobKey::new("a").unwrap());
    let (hour, now) = (Duration::from_hours(1), SystemClock.now());
    let url = presign("http://localhost", &key, PresignMethod::Get, place, hour, now).unwrap();
    let target = url.strip_prefix("http://localhost").unwrap();
    let host = [("host".into(), "localhost".into())];
    let answer = setup.send("GET", target, &host, Vec::new()).await.is(200, "");
    assert_eq!(answer.body, "hello");
    setup.ask_as(&key, ("GET", "/photos/a"), &[], "").await.is(200, "");
    assert!(delete_key(&*setup.store, &key.id).await.unwrap());
    let id = "InvalidAccessKeyId";
    setup.ask_as(&key, ("GET", "/photos/a"), &[], "").await.is(403, id);
    setup.send("GET", target, &host, Vec::new()).await.is(403, id);
}

#[tokio::test]
async fn without_the_seal_key_the_answer_says_so_and_reveals_nothing_of_the_server() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a", "hello").await.is(200, "");
    let wrong = steadfast_store::Seal::of_key([2; 32]);
    let api = S3Api::new(setup.buckets.clone(), setup.store.clone(), wrong);
    let mut setup = setup;
    setup.api = api;
    let answer = setup.ask("GET", "/photos/a", "").await.is(503, "ServiceUnavailable");
    assert!(answer.body.contains("seal_key_missing"), "{}", answer.body);
    let key = SEAL.fingerprint().unwrap();
    assert!(!answer.body.contains(&key), "{}", answer.body);
}

#[tokio::test]
async fn a_presigned_put_allows_only_the_signed_request() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/other/secret", "secret").await.is(200, "");
    let place = (&BucketName::new("photos").unwrap(), &BlobKey::new("ü b").unwrap());
    let (minute, now) = (Duration::from_mins(1), SystemClock.now());
    let put = PresignMethod::Put;
    let url = presign("http://localhost", &setup.key, put, place, minute, now).unwrap();
    let target = url.strip_prefix("http://localhost").unwrap();
    let host = ("host".to_owned(), "localhost".to_owned());
    let length = |len: usize| ("content-length".to_owned(), len.to_string());
    let bytes = || vec![Ok(bytes::Bytes::from_static(b"sent"))];
    let copy = ("x-amz-copy-source".into(), "/other/secret".into());
    setup
        .send("PUT", target, &[host.clone(), length(0), copy], Vec::new())
        .await
        .is(403, "AccessDenied");
    setup
        .send("DELETE", target, std::slice::from_ref(&host), Vec::new())
        .await
        .is(403, "SignatureDoesNotMatch");
    setup
        .send("PUT", target, std::slice::from_ref(&host), bytes())
        .await
        .is(411, "MissingContentLength");
    setup.send("PUT", target, &[host.clone(), length(4)], bytes()).await.is(200, "");
    let found = setup.ask("GET", "/photos/%C3%BC%20b", "").await.is(200, "");
    assert_eq!(found.body, "sent");
    let past = steadfast_store::Timestamp(now.0 - 120_000);
    let url = presign("http://localhost", &setup.key, put, place, minute, past).unwrap();
    let target = url.strip_prefix("http://localhost").unwrap();
    setup.send("PUT", target, &[host, length(4)], bytes()).await.is(403, "AccessDenied");
}

#[tokio::test]
async fn unsigned_and_unsupported_requests_are_refused() {
    let setup = Setup::new().await;
    let host = [("host".into(), "localhost".into())];
    setup.send("GET", "/photos/a", &host, Vec::new()).await.is(403, "AccessDenied");
    setup.ask("PUT", "/photos?policy", "{}").await.is(501, "NotImplemented");
    let headers = [("x-amz-server-side-encryption", "AES256")];
    let answer = setup.ask_as(&setup.key, ("PUT", "/photos/a"), &headers, "x").await;
    answer.is(501, "NotImplemented");
    assert_eq!(setup.files(), 0);
}
