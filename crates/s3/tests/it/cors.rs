//! Pages of other origins: rules, preflights, and the headers of responses.

use std::time::Duration;

use steadfast_bucket::{BlobKey, BucketName, CorsRule};
use steadfast_s3::{PresignMethod, presign};
use steadfast_store::{Clock, SystemClock};

use crate::setup::{Answer, Setup};

const RULES: &str = "<CORSConfiguration>\
    <CORSRule><ID>app</ID><AllowedOrigin>https://app.example</AllowedOrigin>\
    <AllowedOrigin>https://*.app.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod>\
    <AllowedMethod>PUT</AllowedMethod><AllowedHeader>Content-Type</AllowedHeader>\
    <AllowedHeader>X-Amz-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader>\
    <ExposeHeader>x-amz-request-id</ExposeHeader><MaxAgeSeconds>600</MaxAgeSeconds></CORSRule>\
    <CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>HEAD</AllowedMethod></CORSRule>\
    </CORSConfiguration>";
const APP: &str = "https://app.example";

impl Setup {
    async fn preflight(&self, target: &str, origin: &str, method: &str, headers: &str) -> Answer {
        let mut sent = vec![
            ("host".to_owned(), "localhost".to_owned()),
            ("origin".to_owned(), origin.to_owned()),
            ("access-control-request-method".to_owned(), method.to_owned()),
        ];
        if !headers.is_empty() {
            sent.push(("access-control-request-headers".to_owned(), headers.to_owned()));
        }
        self.send("OPTIONS", target, &sent, Vec::new()).await
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |it| it.to_str().unwrap())
}

/// The origin that may read the response.
fn allowed(answer: &Answer) -> &str {
    header(answer, "access-control-allow-origin")
}

#[tokio::test]
async fn the_rules_of_a_bucket_are_put_shown_replaced_and_deleted() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos?cors", RULES).await.is(200, "");
    let shown = setup.ask("GET", "/photos?cors", "").await.is(200, "").body;
    for part in RULES.replace("<CORSConfiguration>", "").split("<CORSRule>").skip(1) {
        for item in part.split('>').filter(|it| it.contains("</") && !it.starts_with("</")) {
            assert!(shown.contains(item), "{item}: {shown}");
        }
    }
    assert!(shown.contains("<ID>rule-2</ID>"), "{shown}");
    let photos = BucketName::new("photos").unwrap();
    let stored = setup.buckets.cors(&photos).await.unwrap();
    assert_eq!((stored.len(), &*stored[0].id, stored[0].max_age_seconds), (2, "app", Some(600)));
    let one = "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin>\
               <AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>";
    setup.ask("PUT", "/photos?cors", one).await.is(200, "");
    assert_eq!(setup.buckets.cors(&photos).await.unwrap().len(), 1);
    for (bad, code) in [
        (one.replace("GET", "PATCH"), "InvalidArgument"),
        (one.replace("GET", "OPTIONS"), "InvalidArgument"),
        (one.replace('*', "https://*.a.*"), "InvalidArgument"),
        (one.replace("<AllowedMethod>GET</AllowedMethod>", ""), "MalformedXML"),
        ("<CORSConfiguration></CORSConfiguration>".to_owned(), "MalformedXML"),
    ] {
        setup.ask("PUT", "/photos?cors", &bad).await.is(400, code);
    }
    setup.ask("PUT", "/nowhere?cors", one).await.is(404, "NoSuchBucket");
    assert_eq!(setup.buckets.cors(&photos).await.unwrap()[0].id, "rule-1", "nothing changed");
    setup.ask("DELETE", "/photos?cors", "").await.is(204, "");
    setup.ask("GET", "/photos?cors", "").await.is(404, "NoSuchCORSConfiguration");
    setup.ask("DELETE", "/photos?cors", "").await.is(204, "");
}

#[tokio::test]
async fn a_preflight_is_answered_by_the_first_rule_that_fits() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos?cors", RULES).await.is(200, "");
    let asked = "content-type, X-AMZ-meta-a";
    let answer = setup.preflight("/photos/a?x=y", APP, "PUT", asked).await.is(200, "");
    assert_eq!(allowed(&answer), APP);
    assert_eq!(header(&answer, "access-control-allow-methods"), "GET, PUT");
    assert_eq!(header(&answer, "access-control-allow-headers"), "content-type, x-amz-meta-a");
    assert_eq!(header(&answer, "access-control-max-age"), "600");
    assert!(header(&answer, "vary").contains("Origin"), "{answer:?}");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    let below = "https://a.app.example";
    assert_eq!(allowed(&setup.preflight("/photos/a", below, "GET", "").await), below);
    for origin in ["https://else.example", "null"] {
        let answer = setup.preflight("/photos/a", origin, "HEAD", "").await.is(200, "");
        assert_eq!(allowed(&answer), "*");
    }
    let many = vec!["x-amz-a"; 101].join(",");
    for (target, origin, method, headers) in [
        ("/photos/a", "https://app.example.evil.example", "GET", ""),
        ("/photos/a", "https://evilapp.example", "GET", ""),
        ("/photos/a", "http://app.example", "GET", ""),
        ("/photos/a", "https://app.example:444", "GET", ""),
        ("/photos/a", "null", "GET", ""),
        ("/photos/a", APP, "DELETE", ""),
        ("/photos/a", APP, "put", ""),
        ("/photos/a", APP, "PUT", "content-type, authorization"),
        ("/photos/a", APP, "PUT", &many),
        // A bucket without rules, no bucket, and no name of one.
        ("/other/a", APP, "GET", ""),
        ("/nowhere/a", APP, "GET", ""),
        ("/", APP, "GET", ""),
        ("/%70hotos/a", APP, "GET", ""),
    ] {
        let answer = setup.preflight(target, origin, method, headers).await;
        let answer = answer.is(403, "AccessForbidden");
        assert_eq!(allowed(&answer), "", "{target} {origin} {method} {headers}");
        assert_eq!(answer.used, None);
    }
    // Without an origin or a method it is no preflight.
    for name in ["origin", "access-control-request-method"] {
        let headers = [("host".into(), "localhost".into()), (name.to_owned(), APP.to_owned())];
        let answer = setup.send("OPTIONS", "/photos/a", &headers, Vec::new()).await;
        answer.is(501, "NotImplemented");
    }
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_reads_responses_of_presigned_urls_and_errors() {
    let setup = Setup::new().await;
    let photos = BucketName::new("photos").unwrap();
    let rule = CorsRule {
        id: "app".into(),
        origins: vec![APP.into()],
        methods: vec!["GET".into(), "PUT".into()],
        expose_headers: vec!["etag".into()],
        ..CorsRule::default()
    };
    setup.buckets.put_cors(&photos, rule).await.unwrap();
    let (hour, now) = (Duration::from_hours(1), SystemClock.now());
    let place = (&photos, &BlobKey::new("a").unwrap());
    let url = |method| presign("http://localhost", &setup.key, method, place, hour, now).unwrap();
    let send = async |method: &str, url: String, origin: Option<&str>| {
        let mut headers = vec![("host".to_owned(), "localhost".to_owned())];
        headers.extend(origin.map(|it| ("origin".to_owned(), it.to_owned())));
        let mut pieces = Vec::new();
        if method == "PUT" {
            headers.push(("content-length".to_owned(), "4".to_owned()));
            pieces.push(Ok(bytes::Bytes::from_static(b"sent")));
        }
        setup.send(method, url.strip_prefix("http://localhost").unwrap(), &headers, pieces).await
    };
    let (get, put) = (url(PresignMethod::Get), url(PresignMethod::Put));
    let wrong = get.replace("/photos/a", "/photos/b");
    for (method, url, status) in [("PUT", put, 200), ("GET", get.clone(), 200), ("GET", wrong, 403)]
    {
        let answer = send(method, url.clone(), Some(APP)).await;
        assert_eq!((answer.status.as_u16(), allowed(&answer)), (status, APP), "{method} {url}");
        assert_eq!(header(&answer, "access-control-expose-headers"), "etag");
        assert_eq!(header(&answer, "vary"), "Origin");
        assert!(!answer.headers.contains_key("access-control-allow-credentials"));
        let foreign = send(method, url, Some("https://else.example")).await;
        assert_eq!((foreign.status.as_u16(), allowed(&foreign)), (status, ""));
        assert_eq!(header(&foreign, "vary"), "Origin");
    }
    // A response that a browser may keep for later scripts; other buckets have no rules.
    let image = send("GET", get, None).await.is(200, "");
    assert_eq!((allowed(&image), header(&image, "vary")), ("", "Origin"));
    for target in ["/other?list-type=2", "/"] {
        let origin = [("origin", APP)];
        let answer = setup.ask_as(&setup.key, ("GET", target), &origin, "").await.is(200, "");
        assert_eq!((allowed(&answer), header(&answer, "vary")), ("", "Origin"), "{target}");
    }
    // Without a signature, a bucket without rules looks like one with rules for other origins.
    let headers = [("host", "localhost"), ("origin", "null")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for target in ["/photos/a", "/other/a", "/nowhere/a"] {
        let answer = setup.send("GET", target, &headers, Vec::new()).await;
        let answer = answer.is(403, "AccessDenied");
        assert_eq!((allowed(&answer), header(&answer, "vary")), ("", "Origin"), "{target}");
    }
}
