use http::HeaderName;

use super::*;
use crate::probe::{redacted_url, shown_url};

fn sorted(headers: &[(&str, &[u8])]) -> Sorted {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        map.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    sort(&map)
}

#[test]
fn headers_are_grouped_joined_and_sorted() {
    let sorted = sorted(&[
        ("Vary", b"Accept"),
        ("vary", b"Origin"),
        ("Content-Type", b"text/html"),
        ("Access-Control-Allow-Origin", b"*"),
        ("Server", b"nginx"),
        ("X-Empty", b""),
        ("x-odd", b"caf\xe9"),
        ("cf-ray", b"8f3c1d2e4b5a6978-FRA"),
    ]);
    assert_eq!(sorted.groups.core["vary"], "Accept, Origin");
    assert_eq!(sorted.groups.core.len(), 2);
    assert_eq!(sorted.groups.access_control.unwrap().len(), 1);
    let other = sorted.groups.other.unwrap();
    assert_eq!((&*other["x-empty"], &*other["x-odd"]), ("", "caf\u{fffd}"));
    assert_eq!(sorted.platform.server.as_deref(), Some("nginx"));
    assert_eq!(sorted.place.colo.as_deref(), Some("FRA"));
}

#[test]
fn groups_without_headers_are_left_out() {
    assert_eq!(sorted(&[]), Sorted::default());
    assert_eq!(sorted(&[("cf-ray", b"8f3c")]).place.colo, None);
    assert_eq!(sorted(&[("cf-ray", b"8f3c-x1")]).place.colo, None);
}

#[test]
fn country_and_network_are_told_where_the_answer_names_them() {
    let of = |name: &str, value: &str| {
        let place = sorted(&[(name, value.as_bytes())]).place;
        (place.country, place.asn)
    };
    assert_eq!(of("CF-IPCountry", "de"), (Some("DE".into()), None));
    assert_eq!(of("cloudfront-viewer-country", "NL"), (Some("NL".into()), None));
    assert_eq!(of("x-country", "Germany"), (None, None));
    assert_eq!(of("cf-ipcountry", "XX"), (None, None));
    assert_eq!(of("cf-ipcountry", "T1"), (None, None));
    assert_eq!(of("x-asn", "AS64500"), (None, Some(64_500)));
    assert_eq!(of("cloudfront-viewer-asn", "64500"), (None, Some(64_500)));
    assert_eq!(of("x-asn", "nobody"), (None, None));
    assert_eq!(of("x-asn", "0"), (None, None));
}

#[test]
fn no_secret_is_kept() {
    let secret = "s3cr3t";
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.s3cr3t";
    let headers: Vec<(&str, String)> = vec![
        ("set-cookie", format!("sid={secret}; Path=/")),
        ("set-cookie", secret.into()),
        ("authorization", format!("Bearer {secret}")),
        ("proxy-authorization", secret.into()),
        ("x-api-key", secret.into()),
        ("x-auth-token", secret.into()),
        ("x-amz-security-token", secret.into()),
        ("x-csrf-token", secret.into()),
        ("x-session-id", secret.into()),
        ("x-signature", secret.into()),
        ("x-debug", format!("Bearer {secret}")),
        ("x-trace", format!("user={jwt}")),
        ("location", format!("https://u:{secret}@a.example/cb?code={secret}&x=1#{secret}")),
        ("content-location", format!("/a?access_token={secret}")),
        ("link", format!("</a?sig={secret}>; rel=next")),
        (
            "www-authenticate",
            format!("Digest realm=\"a\", nonce=\"{secret}\", opaque=\"{secret}\""),
        ),
        (
            "content-security-policy",
            format!(
                "script-src 'nonce-{secret}' 'self'; report-uri https://r.example/?token={secret}"
            ),
        ),
        ("report-to", format!("{{\"url\":\"https://u:{secret}@r.example/?key={secret}\"}}")),
        ("sourcemap", format!("//u:{secret}@a.example/x.map#{secret}")),
    ];
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|it| (it.0, it.1.as_bytes())).collect();
    let sorted = sorted(&headers);
    assert!(!format!("{sorted:?}").contains(secret), "{sorted:#?}");
    let core = &sorted.groups.core;
    assert_eq!(core["location"], "https://a.example/cb?code=[redacted]&x=1");
    assert!(core["www-authenticate"].starts_with("Digest realm=\"a\", nonce="));
    let other = sorted.groups.other.unwrap();
    let policy =
        "script-src 'nonce-[redacted]' 'self'; report-uri https://r.example/?token=[redacted]";
    assert_eq!(other["content-security-policy"], policy);
    assert_eq!(other["sourcemap"], "//a.example/x.map");
    assert_eq!(other["set-cookie"], "sid=[redacted]");
}

#[test]
fn what_is_no_secret_stays() {
    for (name, value) in [
        ("access-control-allow-headers", "authorization, x-token"),
        ("strict-transport-security", "max-age=1"),
        ("x-powered-by", "Express"),
        ("etag", "\"abc\""),
        ("x-cache", "HIT"),
    ] {
        let sorted = sorted(&[(name, value.as_bytes())]);
        let groups = sorted.groups;
        let kept = groups.access_control.or(groups.other).unwrap();
        assert_eq!(kept[name], value);
    }
    assert_eq!(redacted_url("https://a.example/x?page=2&q=b"), "https://a.example/x?page=2&q=b");
    assert_eq!(redacted_url("u:p@nonsense"), "nonsense");
    for (given, shown) in [
        ("https://a.example/x?q=1", "https://a.example/x?q=1"),
        ("https://a.example/?key=k", "https://a.example/?key=[redacted]"),
        ("https://a.example/#token=t", "https://a.example/"),
    ] {
        assert_eq!(shown_url(given), shown);
    }
}

#[test]
fn only_secrets_are_taken_out_of_a_query() {
    for open in [
        "state=open",
        "state=CA",
        "state=North-Carolina",
        "state=new%20york",
        "code=404",
        "code=SPRING2026",
        "country_code=de",
        "access=public",
        "author=jane",
        "authority=2",
        "monkey=7",
    ] {
        let url = format!("https://a.example/x?{open}");
        assert_eq!(redacted_url(&url), url);
    }
    for secret in [
        "state=SplxlOBeZQQYbYS6WxSbIA",
        "state=b7f3e2",
        "code=4%2F0AX4XfWh",
        "code=123456",
        "code=s3cr3t",
        "access=qwertyuiopasdfghjklz",
        "oauth_verifier=x",
        "authorization=x",
        "sortKey=x",
        "api-key=x",
        "x=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    ] {
        let (name, _) = secret.split_once('=').unwrap();
        let url = format!("https://a.example/x?{secret}&page=2");
        let shown = format!("https://a.example/x?{name}=[redacted]&page=2");
        assert_eq!(redacted_url(&url), shown);
    }
    let path = "https://a.example/in/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln/x";
    assert_eq!(redacted_url(path), "https://a.example/in/[redacted]/x");
}

#[test]
fn flags_of_cookies_are_read_in_any_spelling() {
    let sorted = sorted(&[
        ("set-cookie", b"b=1; SECURE; httponly; SameSite=None"),
        ("set-cookie", b"a=1;Path=/;samesite = Strict"),
        ("set-cookie", b"c=1; SameSite=odd"),
        ("set-cookie", b"=1"),
        ("set-cookie", b""),
    ]);
    let of = |at: usize| {
        let it = &sorted.cookies[at];
        (&*it.name, it.secure, it.http_only, it.same_site.as_deref())
    };
    assert_eq!(of(0), ("a", false, false, Some("strict")));
    assert_eq!(of(1), ("b", true, true, Some("none")));
    assert_eq!(of(2), ("c", false, false, None));
    assert_eq!(sorted.cookies.len(), 3);
}

#[test]
fn a_flood_of_headers_is_kept_within_bounds() {
    let value = vec![0xff; 4_000];
    let names: Vec<String> = (0..200).map(|it| format!("x-{it:03}")).collect();
    let mut headers: Vec<(&str, &[u8])> = names.iter().map(|it| (&**it, &*value)).collect();
    let long = "x".repeat(500);
    headers.push((&long, b"1"));
    let other = sorted(&headers).groups.other.unwrap();
    assert_eq!((other.len(), &*other["x-199"]), (200, "[left out]"));
    assert!(serde_json::to_vec(&other).unwrap().len() < 128 << 10);
}
