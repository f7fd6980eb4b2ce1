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
        "sortKey=name",
        "sort_key=created_at",
        "sortKey=createdAt",
        "max_tokens=100",
        "tokenizer=bpe",
        "a=1;b=2",
        "next=%2Fhome%3Fpage%3D2",
        "q=c%23",
        "plan=basic%20tier",
        "cursor=abc==",
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
        "api-key=x",
        "apiKey=x",
        "accesstoken=x",
        "PHPSESSID=x",
        "mapsKey=AIzaSyB1x9",
        "%74oken=x",
        "%2574oken=x",
        "token=a;b",
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
fn a_secret_is_found_wherever_it_is_in_a_url_and_however_it_is_encoded() {
    for (query, shown) in [
        ("a=1;token=hush1", "a=1;token=[redacted]"),
        ("next=%2F%3Ftoken%3Dhush1%26page%3D2", "next=%2F%3Ftoken%3D[redacted]%26page%3D2"),
        ("next=%252F%253Ftoken%253Dhush1", "next=%252F%253Ftoken%253D[redacted]"),
        ("next=https://b.example/?token=hush1", "next=https://b.example/?token=[redacted]"),
        ("next=%2F%3F%74oken%3Dhush1", "next=%2F%3Ftoken%3D[redacted]"),
        ("next%3Dtoken%3Dhush1", "next%3Dtoken%3D[redacted]"),
        ("token%3Dhush1", "token%3D[redacted]"),
        ("next=%2F%23access_token=hush1", "next=%2F%23access_token=[redacted]"),
        ("next=%2Fa%23access_token%3Dhush1", "next=%2Fa"),
        ("next=a/b%3Ftoken%3Dhush1&b=", "next=a%2Fb%3Ftoken%3D[redacted]&b="),
    ] {
        let url = redacted_url(&format!("https://a.example/x?{query}"));
        assert_eq!(url, format!("https://a.example/x?{shown}"), "{query}");
        assert_eq!(redacted_url(&url), url, "twice is once");
        let header = redact::header("link", &format!("</x?{query}>; rel=\"next\""));
        assert_eq!(header, format!("</x?{shown}>; rel=\"next\""));
    }
    let path = redacted_url("https://a.example/x;jsessionid=hush1/y");
    assert_eq!(path, "https://a.example/x;jsessionid=[redacted]/y");
    assert_eq!(redact::header("x-info", "a=1 token=\"hush1\""), "a=1 token=\"[redacted]\"");
    assert_eq!(redact::header("content-location", "in?token=hush1&a="), "in?token=[redacted]&a=");
}

#[test]
fn a_known_secret_is_taken_out_of_every_text() {
    let mut known = redact::Known::default();
    known.learn("https://a.example/?token=Hu5h%2FHu5h&key=hush&code=404&sid=public&page=2");
    for (text, expected) in [
        ("x=Hu5h/Hu5h.", "x=[redacted]."),
        ("x=Hu5h%2FHu5h", "x=[redacted]"),
        ("x=Hu5h%252FHu5h", "x=[redacted]"),
        ("x=Hu5h%25252fHu5h%20y", "x=[redacted]%20y"),
        ("%48u5h/Hu5h", "[redacted]"),
        ("aHu5h/Hu5hb", "a[redacted]b"),
        ("hush hushed", "[redacted] hushed"),
        ("public, 404, page=2", "public, 404, page=2"),
        ("x=SHU1aC9IdTVo&", "x=[redacted]&"),
        ("\u{fc}Hu5h/Hu5h\u{fc}", "\u{fc}[redacted]\u{fc}"),
    ] {
        let mut text = text.to_owned();
        known.take_out(&mut text);
        assert_eq!(text, expected);
    }
    let mut known = redact::Known::default();
    known.learn("https://a.example/?token=redact&sig=dacted");
    let mut text = "redact".to_owned();
    known.take_out(&mut text);
    assert!(!text.starts_with("redact"), "{text}");
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
