//! Every served operation with every kind of access key, and presigned URLs, on both stores.

use std::time::Duration;

use steadfast_bucket::{AccessKey, BlobKey, BucketName, KeyScope, create_key, delete_key};
use steadfast_s3::{OPERATIONS, Permission, PresignMethod, ServedOperation, presign};
use steadfast_store::{Clock, SystemClock, Timestamp};

use crate::setup::{Answer, SEAL, Setup};

/// The codes of refused requests.
const REFUSALS: [&str; 3] = ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"];

/// A request of an operation, about the blobs of `acme` in the bucket `photos`.
struct Ask {
    method: &'static str,
    target: String,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
}

const COPY: (&str, &str) = ("x-amz-copy-source", "photos/acme/a");
const CORS: &str = "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin>\
                    <AllowedMethod>PUT</AllowedMethod></CORSRule></CORSConfiguration>";
const DELETE: &str = "<Delete><Object><Key>acme/gone</Key></Object></Delete>";
const COMPLETE: &str = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag>\
                        </Part></CompleteMultipartUpload>";

/// The method, the target, and the body of an operation; `UPLOAD` stands for the id of an upload.
/// The test fails for an operation of the table without a line here.
fn line_of(operation: &str) -> (&'static str, &'static str, &'static str) {
    match operation {
        "ListBuckets" => ("GET", "/", ""),
        "CreateBucket" => ("PUT", "/fresh", ""),
        "HeadBucket" => ("HEAD", "/photos", ""),
        "DeleteBucket" => ("DELETE", "/photos", ""),
        "PutBucketAcl" => ("PUT", "/photos?acl", ""),
        "ListObjects" => ("GET", "/photos?prefix=acme%2F", ""),
        "ListObjectsV2" => ("GET", "/photos?list-type=2&prefix=acme%2F", ""),
        "ListObjectVersions" => ("GET", "/photos?versions&prefix=acme%2F", ""),
        "ListMultipartUploads" => ("GET", "/photos?uploads&prefix=acme%2F", ""),
        "PutObject" => ("PUT", "/photos/acme/b", "x"),
        "GetObject" => ("GET", "/photos/acme/a", ""),
        "HeadObject" => ("HEAD", "/photos/acme/a", ""),
        "DeleteObject" => ("DELETE", "/photos/acme/gone", ""),
        "DeleteObjects" => ("POST", "/photos?delete", DELETE),
        "CopyObject" => ("PUT", "/photos/acme/copy", ""),
        "CreateMultipartUpload" => ("POST", "/photos/acme/m?uploads", ""),
        "CompleteMultipartUpload" => ("POST", "/photos/acme/m?uploadId=UPLOAD", COMPLETE),
        "AbortMultipartUpload" => ("DELETE", "/photos/acme/m?uploadId=UPLOAD", ""),
        "UploadPart" => ("PUT", "/photos/acme/m?partNumber=1&uploadId=UPLOAD", "x"),
        "UploadPartCopy" => ("PUT", "/photos/acme/m?partNumber=1&uploadId=UPLOAD", ""),
        "ListParts" => ("GET", "/photos/acme/m?uploadId=UPLOAD", ""),
        "GetObjectAcl" => ("GET", "/photos/acme/a?acl", ""),
        "PutObjectAcl" => ("PUT", "/photos/acme/a?acl", ""),
        "GetObjectTagging" => ("GET", "/photos/acme/a?tagging", ""),
        "GetObjectRetention" => ("GET", "/photos/acme/a?retention", ""),
        "GetObjectLegalHold" => ("GET", "/photos/acme/a?legal-hold", ""),
        "GetBucketAccelerateConfiguration" => ("GET", "/photos?accelerate", ""),
        "GetBucketAcl" => ("GET", "/photos?acl", ""),
        "GetBucketAnalyticsConfiguration" => ("GET", "/photos?analytics&id=x", ""),
        "GetBucketCors" => ("GET", "/photos?cors", ""),
        "GetBucketEncryption" => ("GET", "/photos?encryption", ""),
        "GetBucketIntelligentTieringConfiguration" => {
            ("GET", "/photos?id=x&intelligent-tiering", "")
        }
        "GetBucketInventoryConfiguration" => ("GET", "/photos?id=x&inventory", ""),
        "GetBucketLifecycleConfiguration" => ("GET", "/photos?lifecycle", ""),
        "GetBucketLocation" => ("GET", "/photos?location", ""),
        "GetBucketLogging" => ("GET", "/photos?logging", ""),
        "GetBucketMetricsConfiguration" => ("GET", "/photos?id=x&metrics", ""),
        "GetBucketNotificationConfiguration" => ("GET", "/photos?notification", ""),
        "GetBucketOwnershipControls" => ("GET", "/photos?ownershipControls", ""),
        "GetBucketPolicy" => ("GET", "/photos?policy", ""),
        "GetBucketPolicyStatus" => ("GET", "/photos?policyStatus", ""),
        "GetBucketReplication" => ("GET", "/photos?replication", ""),
        "GetBucketRequestPayment" => ("GET", "/photos?requestPayment", ""),
        "GetBucketTagging" => ("GET", "/photos?tagging", ""),
        "GetBucketVersioning" => ("GET", "/photos?versioning", ""),
        "GetBucketWebsite" => ("GET", "/photos?website", ""),
        "GetObjectLockConfiguration" => ("GET", "/photos?object-lock", ""),
        "GetPublicAccessBlock" => ("GET", "/photos?publicAccessBlock", ""),
        "ListBucketAnalyticsConfigurations" => ("GET", "/photos?analytics", ""),
        "ListBucketIntelligentTieringConfigurations" => ("GET", "/photos?intelligent-tiering", ""),
        "ListBucketInventoryConfigurations" => ("GET", "/photos?inventory", ""),
        "ListBucketMetricsConfigurations" => ("GET", "/photos?metrics", ""),
        "PutBucketCors" => ("PUT", "/photos?cors", CORS),
        "DeleteBucketLifecycle" => ("DELETE", "/photos?lifecycle", ""),
        // A deletion has the target of the operation that shows the same.
        other => match other.strip_prefix("Delete") {
            Some(shown) => ("DELETE", line_of(&format!("Get{shown}")).1, ""),
            None => panic!("{other} is served without a line in this test"),
        },
    }
}

impl Ask {
    fn of(operation: &ServedOperation, upload: &str) -> Self {
        let (method, target, body) = line_of(operation.name);
        let headers = match (operation.needs, operation.name) {
            (Permission::Copy, _) => vec![COPY],
            (_, "PutBucketAcl" | "PutObjectAcl") => vec![("x-amz-acl", "private")],
            _ => Vec::new(),
        };
        Self { method, target: target.replace("UPLOAD", upload), headers, body }
    }

    async fn by(&self, setup: &Setup, key: &AccessKey) -> Answer {
        setup.ask_as(key, (self.method, &self.target), &self.headers, self.body).await
    }
}

/// One key of each kind.
struct Keys {
    /// Keys that are no credential, each with the code of the refusal.
    invalid: Vec<(&'static str, AccessKey, &'static str)>,
    reader: AccessKey,
    other_bucket: AccessKey,
    other_prefix: AccessKey,
    other_organization: AccessKey,
    acme: AccessKey,
}

fn scope(bucket: &str, prefix: Option<&str>, organization: Option<&str>) -> KeyScope {
    let (bucket, prefix) = (Some(bucket.to_owned()), prefix.map(str::to_owned));
    KeyScope {
        bucket,
        prefix,
        organization: organization.map(str::to_owned),
        ..KeyScope::default()
    }
}

impl Keys {
    async fn create(setup: &Setup) -> Self {
        let create = async |scope: KeyScope| create_key(&*setup.store, &SEAL, scope, None).await;
        let all = KeyScope::default;
        let unknown = AccessKey { id: "SFAAAAAAAAAAAAAAAAAA".into(), ..setup.key.clone() };
        let other = create(all()).await.unwrap();
        let wrong = AccessKey { secret: other.secret.clone(), ..setup.key.clone() };
        let past = Some(SystemClock.now().0 - 1);
        let expired = create(KeyScope { expires_at: past, ..all() }).await.unwrap();
        let deleted = create(all()).await.unwrap();
        assert!(delete_key(&*setup.store, &deleted.id).await.unwrap());
        Self {
            invalid: vec![
                ("unknown", unknown, "InvalidAccessKeyId"),
                ("wrong secret", wrong, "SignatureDoesNotMatch"),
                ("expired", expired, "InvalidAccessKeyId"),
                ("deleted", deleted, "InvalidAccessKeyId"),
            ],
            reader: create(KeyScope { read_only: true, ..all() }).await.unwrap(),
            other_bucket: create(scope("other", None, None)).await.unwrap(),
            other_prefix: create(scope("photos", Some("b/"), None)).await.unwrap(),
            other_organization: create(scope("photos", Some("beta/"), Some("beta"))).await.unwrap(),
            acme: create(scope("photos", Some("acme/"), Some("acme"))).await.unwrap(),
        }
    }
}

/// The expected response of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Served,
    Denied,
    /// The response has an error for the key in the body of the request.
    DeniedPerKey,
}

#[track_caller]
fn check(answer: &Answer, expected: Expected, operation: &ServedOperation, cell: &str) {
    let at = format!("{} with {cell}: {} {}", operation.name, answer.status, answer.body);
    let used = answer.used.as_ref().expect("the signature is right");
    assert_eq!(used.operation, operation, "{at}");
    let is_denied = (answer.status.as_u16(), answer.code()) == (403, "AccessDenied");
    match expected {
        Expected::Served => assert!(!REFUSALS.contains(&answer.code()) && !used.is_refused, "{at}"),
        Expected::Denied => assert!(is_denied && used.is_refused, "{at}"),
        Expected::DeniedPerKey => {
            assert!(answer.status == 200 && answer.code() == "AccessDenied", "{at}");
            assert!(used.is_refused && !answer.body.contains("<Deleted>"), "{at}");
        }
    }
}

/// The cells of one operation.
async fn check_operation(setup: &Setup, keys: &Keys, operation: &ServedOperation, upload: &str) {
    let (ask, name) = (Ask::of(operation, upload), operation.name);
    let host = [("host".to_owned(), "localhost".to_owned())];
    let unsigned = setup.send(ask.method, &ask.target, &host, Vec::new()).await;
    assert_eq!((unsigned.status.as_u16(), unsigned.code()), (403, "AccessDenied"), "{name}");
    assert_eq!(unsigned.used, None, "{name}");
    for (cell, key, code) in &keys.invalid {
        let refused = ask.by(setup, key).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (403, *code), "{name} with {cell}");
        assert_eq!(refused.used, None, "{name} with {cell}");
    }
    let denied_if = |is_denied| if is_denied { Expected::Denied } else { Expected::Served };
    let (outside, foreign, limited) = match operation.needs {
        Permission::Key => (Expected::Served, Expected::Served, Expected::Served),
        Permission::Everything => (Expected::Denied, Expected::Denied, Expected::Denied),
        // Settings of a bucket have no prefix.
        Permission::Bucket => (Expected::Denied, Expected::Served, Expected::Served),
        Permission::BucketWrite => (Expected::Denied, Expected::DeniedPerKey, Expected::Served),
        Permission::List | Permission::Read | Permission::Write | Permission::Copy => {
            (Expected::Denied, Expected::Denied, Expected::Served)
        }
    };
    for (cell, key, expected) in [
        ("a key that only reads", &keys.reader, denied_if(operation.needs.is_write())),
        ("a key of another bucket", &keys.other_bucket, outside),
        ("a key of another prefix", &keys.other_prefix, foreign),
        ("a key of another organization", &keys.other_organization, foreign),
        ("a key of the organization", &keys.acme, limited),
        ("a key without limits", &setup.key, Expected::Served),
    ] {
        check(&ask.by(setup, key).await, expected, operation, cell);
    }
    if operation.needs == Permission::Copy {
        for source in ["photos/beta/a", "other/acme/a"] {
            let headers = [("x-amz-copy-source", source)];
            let target = (ask.method, ask.target.as_str());
            let copied = setup.ask_as(&keys.acme, target, &headers, "").await;
            check(&copied, Expected::Denied, operation, "a foreign source");
        }
    }
}

async fn matrix(setup: Setup) {
    for target in ["/photos/acme/a", "/photos/beta/a", "/other/acme/a"] {
        setup.ask("PUT", target, "hello").await.is(200, "");
    }
    let keys = Keys::create(&setup).await;
    assert!(40 < OPERATIONS.len());
    for operation in OPERATIONS {
        let begun = setup.ask("POST", "/photos/acme/m?uploads", "").await.is(200, "").body;
        let upload = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0;
        check_operation(&setup, &keys, operation, upload).await;
    }
    check_single_cells(&setup, &keys).await;
    check_presigned(&setup, &keys).await;
}

async fn check_single_cells(setup: &Setup, keys: &Keys) {
    let by = async |key: &AccessKey, method: &str, target: &str, body: &str| {
        setup.ask_as(key, (method, target), &[], body).await
    };
    let listed = by(&keys.acme, "GET", "/", "").await.is(200, "").body;
    assert!(listed.contains("photos") && !listed.contains("other"), "{listed}");
    // A longer name of an organization is another one; a list without a prefix is of all.
    by(&keys.acme, "GET", "/photos/acme2/a", "").await.is(403, "AccessDenied");
    for prefix in ["", "&prefix=acm", "&prefix=acme", "&prefix=beta%2F"] {
        let target = format!("/photos?list-type=2{prefix}");
        by(&keys.acme, "GET", &target, "").await.is(403, "AccessDenied");
    }
    // The upload of another organization is not found under an own key, and denied under its own.
    let begun = setup.ask("POST", "/photos/beta/m?uploads", "").await.is(200, "").body;
    let upload = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0.to_owned();
    let part = format!("?partNumber=1&uploadId={upload}");
    let own = format!("/photos/acme/m{part}");
    by(&keys.acme, "PUT", &own, "x").await.is(404, "NoSuchUpload");
    let foreign = format!("/photos/beta/m{part}");
    by(&keys.acme, "PUT", &foreign, "x").await.is(403, "AccessDenied");
    // Operations that are not in the table.
    for (method, target) in [
        ("PUT", "/photos?policy"),
        ("PUT", "/photos?website"),
        ("PUT", "/photos?lifecycle"),
        ("PUT", "/photos?notification"),
        ("DELETE", "/photos?metadataTable"),
        ("PUT", "/photos/acme/a?tagging"),
        ("POST", "/photos/acme/a?restore"),
    ] {
        let refused = by(&setup.key, method, target, "").await;
        assert_eq!(refused.status, 501, "{method} {target}: {}", refused.body);
        assert_eq!(refused.used, None, "{method} {target}");
    }
    let host = ("host".to_owned(), "localhost".to_owned());
    let form = ("content-type".to_owned(), "multipart/form-data; boundary=x".to_owned());
    let posted = setup.send("POST", "/photos", &[host.clone(), form], Vec::new()).await;
    posted.is(501, "NotImplemented");
    // The bucket has no rules for other origins any more, so no preflight fits one.
    let origin = ("origin".to_owned(), "https://other.example".to_owned());
    let asked = ("access-control-request-method".to_owned(), "PUT".to_owned());
    let asked = setup.send("OPTIONS", "/photos/acme/a", &[host, origin, asked], Vec::new()).await;
    let asked = asked.is(403, "AccessForbidden");
    assert!(!asked.headers.contains_key("access-control-allow-origin"), "{:?}", asked.headers);
}

/// The same URL with another last digit of its signature.
fn with_other_end(url: &str) -> String {
    let (start, last) = url.split_at(url.len() - 1);
    format!("{start}{}", if last == "0" { "1" } else { "0" })
}

async fn check_presigned(setup: &Setup, keys: &Keys) {
    let (now, hour) = (SystemClock.now(), Duration::from_hours(1));
    let ago = Timestamp(now.0 - 7_200_000);
    let blob = (&BucketName::new("photos").unwrap(), &BlobKey::new("acme/a").unwrap());
    let host = ("host".to_owned(), "localhost".to_owned());
    let length = ("content-length".to_owned(), "4".to_owned());
    let url = |key: &AccessKey, method, at| {
        let url = presign("http://localhost", key, method, blob, hour, at).unwrap();
        url.strip_prefix("http://localhost").unwrap().to_owned()
    };
    let send = async |method: &str, target: &str| match method {
        "PUT" => {
            let bytes = vec![Ok(bytes::Bytes::from_static(b"sent"))];
            setup.send(method, target, &[host.clone(), length.clone()], bytes).await
        }
        _ => setup.send(method, target, std::slice::from_ref(&host), Vec::new()).await,
    };
    for (method, name, other) in
        [(PresignMethod::Get, "GET", "PUT"), (PresignMethod::Put, "PUT", "GET")]
    {
        let right = url(&keys.acme, method, now);
        let used = send(name, &right).await.is(200, "").used.unwrap();
        assert_eq!((used.key, used.is_refused), (keys.acme.id.clone(), false));
        send(name, &url(&keys.acme, method, ago)).await.is(403, "AccessDenied");
        let changed = "SignatureDoesNotMatch";
        for tampered in [
            right.replace("/acme/a", "/acme/b"),
            right.replace("/photos/", "/other/"),
            right.replace("Expires=3600", "Expires=604800"),
            with_other_end(&right),
            right.replace(&keys.acme.id, &setup.key.id),
        ] {
            assert_ne!(tampered, right);
            send(name, &tampered).await.is(403, changed);
        }
        for wrong in [other, "DELETE"] {
            send(wrong, &right).await.is(403, changed);
        }
        for (_, key, code) in &keys.invalid {
            send(name, &url(key, method, now)).await.is(403, code);
        }
        for key in [&keys.other_bucket, &keys.other_prefix, &keys.other_organization] {
            send(name, &url(key, method, now)).await.is(403, "AccessDenied");
        }
        let read = send(name, &url(&keys.reader, method, now)).await;
        let code = if method == PresignMethod::Put { "AccessDenied" } else { "" };
        assert_eq!(read.code(), code, "{}", read.body);
    }
}

#[tokio::test]
async fn every_operation_has_an_expected_refusal_for_every_key_on_sqlite() {
    matrix(Setup::sqlite().await).await;
}

#[tokio::test]
async fn every_operation_has_an_expected_refusal_for_every_key_on_postgresql() {
    matrix(Setup::postgres().await).await;
}
