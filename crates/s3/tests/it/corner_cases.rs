//! Corner cases of S3 that common clients and a conformance suite test.

use steadfast_bucket::{BucketName, EventType, LifecycleRule, Rule};

use crate::{
    setup::Setup,
    sign::{hash, sign_in},
};

#[tokio::test]
async fn a_bucket_is_only_for_its_owner() {
    let setup = Setup::new().await;
    let owner = setup.buckets.account().to_owned();
    for name in ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"] {
        for (value, status) in [(owner.as_str(), 200), ("123456789012", 403), ("", 403)] {
            let answer =
                setup.ask_as(&setup.key, ("PUT", "/photos/a"), &[(name, value)], "x").await;
            assert_eq!(answer.status, status, "{name}: {value}: {}", answer.body);
        }
    }
    let target = "/photos/a?x-amz-expected-bucket-owner=123456789012";
    setup.ask("GET", target, "").await.is(403, "AccessDenied");
    setup
        .ask("GET", &format!("/photos/a?x-amz-expected-bucket-owner={owner}"), "")
        .await
        .is(200, "");
}

#[tokio::test]
async fn a_wrong_region_is_refused_with_the_right_one() {
    let setup = Setup::new().await;
    for (region, status, code) in [
        ("us-east-1", 200, ""),
        ("eu-central-1", 200, ""),
        ("US", 400, "AuthorizationHeaderMalformed"),
        ("", 400, "AuthorizationHeaderMalformed"),
    ] {
        let scope = format!("{region}/s3/aws4_request");
        let payload = hash(b"");
        let (headers, _) = sign_in(&scope, true, &setup.key, "GET", "/photos", &[], &payload);
        let answer = setup.send("GET", "/photos", &headers, Vec::new()).await.is(status, code);
        let says = answer.body.contains("<Region>us-east-1</Region>");
        assert_eq!(says, status == 400, "{}", answer.body);
        let (headers, _) = sign_in(&scope, true, &setup.key, "HEAD", "/photos", &[], &payload);
        let answer = setup.send("HEAD", "/photos", &headers, Vec::new()).await;
        assert_eq!(answer.status, status);
        let told = answer.headers.get("x-amz-bucket-region").is_some_and(|it| it == "us-east-1");
        assert!(told || status == 200, "{:?}", answer.headers);
    }
}

#[tokio::test]
async fn the_time_of_a_signature_may_be_in_date() {
    let setup = Setup::new().await;
    let (scope, payload) = ("us-east-1/s3/aws4_request", hash(b""));
    let (mut headers, _) = sign_in(scope, false, &setup.key, "GET", "/photos", &[], &payload);
    assert!(headers.iter().any(|it| it.0 == "date"));
    setup.send("GET", "/photos", &headers, Vec::new()).await.is(200, "");
    let date = headers.iter_mut().find(|it| it.0 == "date").unwrap();
    date.1 = "Fri, 24 May 2013 00:00:00 GMT".into();
    let answer = setup.send("GET", "/photos", &headers, Vec::new()).await;
    assert!(answer.status.is_client_error(), "another time is not what was signed");
}

#[tokio::test]
async fn an_empty_delimiter_is_ignored() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a/b", "x").await.is(200, "");
    for target in [
        "/photos?delimiter=",
        "/photos?delimiter=&list-type=2",
        "/photos?delimiter=&versions",
        "/photos?delimiter=&uploads",
    ] {
        let body = setup.ask("GET", target, "").await.is(200, "").body;
        assert!(!body.contains("Delimiter"), "{target}: {body}");
    }
    let body = setup.ask("GET", "/photos?delimiter=%2F", "").await.is(200, "").body;
    assert!(body.contains("<Delimiter>/</Delimiter>"), "{body}");
}

#[tokio::test]
async fn an_encoding_round_trips() {
    let setup = Setup::new().await;
    for encoding in ["gzip, deflate", "gzip,deflate", "deflate , gzip"] {
        let headers = [("content-encoding", encoding)];
        setup.ask_as(&setup.key, ("PUT", "/photos/a"), &headers, "x").await.is(200, "");
        let found = setup.ask("HEAD", "/photos/a", "").await.is(200, "");
        assert_eq!(found.headers["content-encoding"], encoding);
    }
}

#[tokio::test]
async fn an_unknown_part_is_refused() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a", "x").await.is(200, "");
    setup.ask("GET", "/photos/a?partNumber=1", "").await.is(206, "");
    for (number, status, code) in [
        ("0", 400, "InvalidArgument"),
        ("-1", 400, "InvalidArgument"),
        ("10001", 400, "InvalidArgument"),
        ("2", 416, "InvalidPartNumber"),
        ("10000", 416, "InvalidPartNumber"),
    ] {
        let target = format!("/photos/a?partNumber={number}");
        setup.ask("GET", &target, "").await.is(status, code);
        assert_eq!(setup.ask("HEAD", &target, "").await.status, status);
    }
    let begun = setup.ask("POST", "/photos/k?uploads", "").await.is(200, "").body;
    let id = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0;
    for number in ["0", "-1", "10001"] {
        let target = format!("/photos/k?partNumber={number}&uploadId={id}");
        setup.ask("PUT", &target, "x").await.is(400, "InvalidArgument");
    }
}

#[tokio::test]
async fn unset_features_are_answered_as_in_s3() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a", "x").await.is(200, "");
    for (what, code, text) in [
        ("policy", "NoSuchBucketPolicy", "no policy: all is private; `steadfast keys create`"),
        ("policyStatus", "NoSuchBucketPolicy", "no policy"),
        ("cors", "NoSuchCORSConfiguration", "no CORS rules"),
        ("tagging", "NoSuchTagSet", "no tags"),
        ("website", "NoSuchWebsiteConfiguration", "no website"),
        ("encryption", "ServerSideEncryptionConfigurationNotFoundError", "no encryption"),
        ("replication", "ReplicationConfigurationNotFoundError", "no replication"),
        ("ownershipControls", "OwnershipControlsNotFoundError", "no ownership controls"),
        ("object-lock", "ObjectLockConfigurationNotFoundError", "no object lock"),
        ("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration", "no public access block"),
        ("lifecycle", "NoSuchLifecycleConfiguration", "`steadfast buckets lifecycle put`"),
        ("analytics&id=a", "NoSuchConfiguration", "no analytics"),
        ("id=a&intelligent-tiering", "NoSuchConfiguration", "no intelligent tiering"),
        ("id=a&inventory", "NoSuchConfiguration", "no inventory"),
        ("id=a&metrics", "NoSuchConfiguration", "no metrics"),
    ] {
        let answer = setup.ask("GET", &format!("/photos?{what}"), "").await.is(404, code);
        let is_told = answer.body.contains("bucket photos has ") && answer.body.contains(text);
        assert!(is_told && !answer.body.contains("this "), "{what}: {}", answer.body);
        setup.ask("GET", &format!("/nowhere?{what}"), "").await.is(404, "NoSuchBucket");
    }
    for what in ["logging", "notification", "accelerate", "requestPayment"] {
        setup.ask("GET", &format!("/photos?{what}"), "").await.is(200, "");
    }
    for what in ["analytics", "intelligent-tiering", "inventory", "metrics"] {
        let list = setup.ask("GET", &format!("/photos?{what}"), "").await.is(200, "").body;
        assert!(list.contains("<IsTruncated>false</IsTruncated>"), "{what}: {list}");
        setup.ask("GET", &format!("/nowhere?{what}"), "").await.is(404, "NoSuchBucket");
    }
    setup.ask("GET", "/photos/a?tagging", "").await.is(200, "");
    setup.ask("GET", "/photos/b?tagging", "").await.is(404, "NoSuchKey");
    setup.ask("GET", "/photos/a?retention", "").await.is(400, "InvalidRequest");
    setup.ask("GET", "/photos/a?legal-hold", "").await.is(400, "InvalidRequest");
    let (id, delete_after_ms) = ("old".into(), Some(86_400_000));
    let rule = LifecycleRule { id, delete_after_ms, ..LifecycleRule::default() };
    setup.buckets.put_lifecycle(&BucketName::new("photos").unwrap(), rule).await.unwrap();
    // The bucket has lifecycle rules that S3 cannot represent.
    setup.ask("GET", "/photos?lifecycle", "").await.is(501, "NotImplemented");
}

#[tokio::test]
async fn a_setting_that_no_bucket_has_can_be_deleted() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a", "x").await.is(200, "");
    for what in [
        "policy",
        "cors",
        "tagging",
        "website",
        "encryption",
        "replication",
        "ownershipControls",
        "publicAccessBlock",
        "lifecycle",
        "analytics&id=a",
        "id=a&intelligent-tiering",
        "id=a&inventory",
        "id=a&metrics",
    ] {
        setup.ask("DELETE", &format!("/photos?{what}"), "").await.is(204, "");
        setup.ask("DELETE", &format!("/nowhere?{what}"), "").await.is(404, "NoSuchBucket");
    }
    setup.ask("DELETE", "/photos/a?tagging", "").await.is(204, "");
    setup.ask("DELETE", "/photos/b?tagging", "").await.is(404, "NoSuchKey");
    setup.ask("GET", "/photos/a", "").await.is(200, "");
    let (id, delete_after_ms) = ("old".into(), Some(86_400_000));
    let rule = LifecycleRule { id, delete_after_ms, ..LifecycleRule::default() };
    setup.buckets.put_lifecycle(&BucketName::new("photos").unwrap(), rule).await.unwrap();
    let kept = setup.ask("DELETE", "/photos?lifecycle", "").await.is(501, "NotImplemented");
    assert!(kept.body.contains("`steadfast buckets lifecycle delete`"), "{}", kept.body);
}

#[tokio::test]
async fn an_operation_that_is_not_served_is_named_with_the_way_that_is() {
    let setup = Setup::new().await;
    for (method, target, text) in [
        ("PUT", "/photos?policy", "PutBucketPolicy is not supported: all is private; `steadfast"),
        ("PUT", "/photos?lifecycle", "; `steadfast buckets lifecycle put` sets a rule"),
        ("PUT", "/photos?encryption", "not sealed at rest; use an encrypted disk"),
        ("PUT", "/photos?website", "PutBucketWebsite is not supported"),
        ("POST", "/photos", "no operation of S3 has the method, path and query"),
    ] {
        let answer = setup.ask(method, target, "").await.is(501, "NotImplemented");
        assert!(answer.body.contains(text) && !answer.body.contains("this "), "{}", answer.body);
    }
    let sealed = [("x-amz-server-side-encryption", "AES256")];
    let answer = setup.ask_as(&setup.key, ("PUT", "/photos/a"), &sealed, "x").await;
    let text = "does not seal blobs at rest: use an encrypted disk; leave x-amz-server-side";
    assert!(answer.body.contains(text), "{}", answer.body);
}

#[tokio::test]
async fn a_bucket_is_not_created_in_another_location() {
    let setup = Setup::new().await;
    let body = |location: &str| {
        format!(
            "<CreateBucketConfiguration><LocationConstraint>{location}</LocationConstraint>\
             </CreateBucketConfiguration>"
        )
    };
    for location in ["eu-west-1", "EU", "us-east-2"] {
        let answer = setup.ask("PUT", "/fresh", &body(location)).await;
        let answer = answer.is(400, "InvalidLocationConstraint");
        assert!(answer.body.contains("auto"), "{}", answer.body);
        setup.ask("GET", "/fresh", "").await.is(404, "NoSuchBucket");
    }
    for (name, location) in [("/fresh", "auto"), ("/fresh2", "us-east-1"), ("/fresh3", "")] {
        setup.ask("PUT", name, &body(location)).await.is(200, "");
        setup.ask("HEAD", name, "").await.is(200, "");
    }
}

#[tokio::test]
async fn the_rules_of_a_bucket_are_its_notifications() {
    let setup = Setup::new().await;
    let body = setup.ask("GET", "/photos?notification", "").await.is(200, "").body;
    assert!(!body.contains("Queue"), "{body}");
    let photos = BucketName::new("photos").unwrap();
    let events = [EventType::ObjectCreate, EventType::ObjectDelete];
    let (prefix, suffix) = ("a&b/".into(), ".jpg".into());
    let rule = Rule { prefix, suffix, ..Rule::new("all", &events, "photo-news") };
    setup.buckets.put_rule(&photos, rule).await.unwrap();
    let body = setup.ask("GET", "/photos?notification", "").await.is(200, "").body;
    let queue = format!("<Queue>arn:steadfast:sqs:us-east-1:{}:photo-news</Queue>", {
        setup.buckets.account()
    });
    for part in [
        "<Id>all</Id>",
        &queue,
        "<Event>s3:ObjectCreated:*</Event>",
        "<Event>s3:ObjectRemoved:*</Event>",
        "<Event>s3:LifecycleExpiration:*</Event>",
        "<Name>prefix</Name><Value>a&amp;b/</Value>",
        "<Name>suffix</Name><Value>.jpg</Value>",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    let read = ("GET", "/photos?notification");
    for (prefix, sees) in [("a&b/", true), ("a", true), ("a&b/c", false), ("other/", false)] {
        let key = setup.key("photos", Some(prefix), true).await;
        let body = setup.ask_as(&key, read, &[], "").await.is(200, "").body;
        assert_eq!(body.contains("<Queue>") && body.contains("a&amp;b/"), sees, "{prefix}: {body}");
        assert_eq!(body.contains("Queue"), sees, "{prefix}: {body}");
    }
    setup.ask("GET", "/nowhere?notification", "").await.is(404, "NoSuchBucket");
}

#[tokio::test]
async fn the_versions_of_a_bucket_are_its_blobs() {
    let setup = Setup::new().await;
    for target in ["/photos/a", "/photos/b", "/photos/c/d"] {
        setup.ask("PUT", target, "x").await.is(200, "");
    }
    let body = setup.ask("GET", "/photos?delimiter=%2F&versions", "").await.is(200, "").body;
    assert_eq!(body.matches("<Version>").count(), 2, "{body}");
    assert_eq!(body.matches("<VersionId>null</VersionId>").count(), 2, "{body}");
    assert!(body.contains("<Prefix>c/</Prefix>"), "{body}");
    let body = setup.ask("GET", "/photos?versions&max-keys=2", "").await.is(200, "").body;
    assert!(body.contains("<NextKeyMarker>b</NextKeyMarker>"), "{body}");
    let target = "/photos?versions&key-marker=b&version-id-marker=null";
    let body = setup.ask("GET", target, "").await.is(200, "").body;
    assert!(body.contains("<Key>c/d</Key>") && !body.contains("<Key>b</Key>"), "{body}");
    let key = setup.key("photos", Some("a"), true).await;
    setup.ask_as(&key, ("GET", "/photos?versions"), &[], "").await.is(403, "AccessDenied");
    setup.ask_as(&key, ("GET", "/photos?prefix=a&versions"), &[], "").await.is(200, "");
}

#[tokio::test]
async fn a_public_upload_is_stored_private_with_a_warning() {
    let setup = Setup::new().await;
    for (acl, is_told) in [("public-read", true), ("private", false), ("authenticated-read", true)]
    {
        let headers = [("x-amz-acl", acl)];
        let answer =
            setup.ask_as(&setup.key, ("PUT", "/photos/a"), &headers, "x").await.is(200, "");
        assert_eq!(answer.headers.contains_key("warning"), is_told, "{acl}");
        let host = [("host".into(), "localhost".into())];
        setup.send("GET", "/photos/a", &host, Vec::new()).await.is(403, "AccessDenied");
    }
    let owner = format!("<ID>{}</ID>", setup.buckets.account());
    for target in ["/photos?acl", "/photos/a?acl"] {
        let body = setup.ask("GET", target, "").await.is(200, "").body;
        assert_eq!(body.matches("<Grant>").count(), 1, "{body}");
        assert_eq!(body.matches(&owner).count(), 2, "{body}");
        assert!(body.contains("<Permission>FULL_CONTROL</Permission>"), "{body}");
        setup
            .ask_as(&setup.key, ("PUT", target), &[("x-amz-acl", "private")], "")
            .await
            .is(200, "");
        let public = [("x-amz-acl", "public-read")];
        let answer = setup.ask_as(&setup.key, ("PUT", target), &public, "").await;
        answer.is(400, "AccessControlListNotSupported");
    }
    setup.ask("GET", "/photos/b?acl", "").await.is(404, "NoSuchKey");
}

#[tokio::test]
async fn only_the_acl_in_force_is_accepted() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/a", "x").await.is(200, "");
    let owner = setup.buckets.account().to_owned();
    let grant = |id: &str, permission: &str| {
        format!(
            "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:type=\"CanonicalUser\"><ID>{id}</ID></Grantee>\
             <Permission>{permission}</Permission></Grant>"
        )
    };
    let policy = |of: &str, grants: &str| {
        format!(
            "<AccessControlPolicy><Owner><ID>{of}</ID></Owner>\
             <AccessControlList>{grants}</AccessControlList></AccessControlPolicy>"
        )
    };
    let all = grant(&owner, "FULL_CONTROL");
    for (body, is_in_force) in [
        (policy(&owner, &all), true),
        (policy(&owner, &grant(&owner, "READ")), false),
        (policy(&owner, &grant(&owner, "WRITE_ACP")), false),
        (policy(&owner, ""), false),
        (policy(&owner, &(all.clone() + &grant("0123", "READ"))), false),
        (policy("0123", &all), false),
    ] {
        for target in ["/photos?acl", "/photos/a?acl"] {
            let answer = setup.ask("PUT", target, &body).await;
            match is_in_force {
                true => answer.is(200, ""),
                false => answer.is(400, "AccessControlListNotSupported"),
            };
        }
    }
}

#[tokio::test]
async fn a_presigned_url_with_a_public_acl_returns_a_warning() {
    let setup = Setup::new().await;
    for (acl, is_told) in [("public-read", true), ("private", false)] {
        let target = format!("/photos/a?x-amz-acl={acl}");
        let answer = setup.ask("PUT", &target, "x").await.is(200, "");
        assert_eq!(answer.headers.contains_key("warning"), is_told, "{acl}");
    }
    let answer = setup.ask("PUT", "/photos/a?acl&x-amz-acl=public-read", "").await;
    answer.is(400, "AccessControlListNotSupported");
}

#[tokio::test]
async fn a_url_with_the_old_signature_is_refused_with_advice() {
    let setup = Setup::new().await;
    let host = [("host".into(), "localhost".into())];
    let target = "/photos/a?AWSAccessKeyId=K&Signature=x&Expires=1";
    let answer = setup.send("GET", target, &host, Vec::new()).await.is(400, "InvalidRequest");
    for text in ["signature_version", "s3v4", "aws configure set", "presigned"] {
        assert!(answer.body.contains(text), "{}", answer.body);
    }
}
