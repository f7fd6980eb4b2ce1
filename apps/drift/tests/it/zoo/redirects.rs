use steadfast_drift::{envelope::ProbeResponse, probe::ProbeOptions};
use tokio::io::AsyncWriteExt;

use super::keeper::{Cage, Keeper, cage, code, failure, patient, response, says};

/// A server whose paths `/n` lead to `/n-1`, and `/0` to an answer.
async fn stairs(status: u16) -> Cage {
    cage(80, None, move |head, mut visitor| async move {
        let path = head.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
        let answer = match path.parse::<u32>().unwrap() {
            0 => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
            step => format!("HTTP/1.1 {status} X\r\nLocation: /{}\r\n\r\n", step - 1),
        };
        visitor.write_all(answer.as_bytes()).await.unwrap();
    })
    .await
}

async fn climbed(cage: &Cage, steps: u32) -> ProbeResponse {
    let keeper = Keeper::new(&[cage], patient());
    response(keeper.probe(&format!("http://zoo.example/{steps}")).await)
}

#[tokio::test]
async fn every_kind_of_redirect_is_followed_and_told() {
    for status in [301, 302, 303, 307, 308] {
        let probe = climbed(&stairs(status).await, 2).await;
        let told: Vec<_> =
            probe.redirects.iter().map(|it| (&*it.from_url, &*it.to_url, it.status)).collect();
        let urls = ["http://zoo.example/2", "http://zoo.example/1", "http://zoo.example/0"];
        assert_eq!(told, [(urls[0], urls[1], status), (urls[1], urls[2], status)]);
        assert_eq!(probe.response.final_url, urls[2]);
        let hops: Vec<_> = probe.hops.iter().map(|it| (&*it.url, it.status)).collect();
        assert_eq!(hops, [(urls[0], status), (urls[1], status), (urls[2], 200)]);
    }
}

#[tokio::test]
async fn ten_redirects_are_followed_and_the_eleventh_is_not() {
    let cage = stairs(302).await;
    assert_eq!(climbed(&cage, 10).await.redirects.len(), 10);
    let keeper = Keeper::new(&[&cage], patient());
    let failed = failure(keeper.probe("http://zoo.example/11").await);
    assert_eq!(failed.error.code.as_str(), "fetch_error");
    assert_eq!(failed.error.message, "Too many redirects (>10)");
    assert_eq!(failed.hops.len(), 11);
    let none = ProbeOptions { redirects_max: 0, ..patient() };
    let keeper = Keeper::new(&[&cage], none);
    assert_eq!(code(keeper.probe("http://zoo.example/1").await), "fetch_error");
}

fn location(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn a_circle_is_seen_at_its_first_round() {
    let cage = says(location("/#again")).await;
    let failed = failure(Keeper::new(&[&cage], patient()).probe("http://zoo.example/").await);
    assert_eq!(failed.error.message, "the redirects go round in a circle");
    assert_eq!(cage.heads().len(), 1);
}

#[tokio::test]
async fn a_redirect_without_a_location_is_a_fetch_error() {
    for head in ["", "Location:\r\n", "Location:  \r\n"] {
        let cage = says(format!("HTTP/1.1 301 X\r\n{head}Content-Length: 0\r\n\r\n")).await;
        let keeper = Keeper::new(&[&cage], patient());
        assert_eq!(code(keeper.probe("http://zoo.example/").await), "fetch_error", "{head:?}");
    }
}

#[tokio::test]
async fn no_redirect_leads_where_a_url_may_not() {
    for (to, expected) in [
        ("http://127.0.0.1/", "ssrf_blocked"),
        ("http://127.1:8080/", "ssrf_blocked"),
        ("//2130706433/", "ssrf_blocked"),
        ("http://[::1]/", "ssrf_blocked"),
        ("http://[::ffff:169.254.169.254]/", "ssrf_blocked"),
        ("http://169.254.169.254/latest/meta-data/", "ssrf_blocked"),
        ("http://localhost/", "ssrf_blocked"),
        ("http://metadata.google.internal/", "ssrf_blocked"),
        ("http://inner.example/", "ssrf_blocked"),
        ("http://mixed.example/", "ssrf_blocked"),
        ("http://zoo.example:22/", "ssrf_blocked"),
        ("http://nobody.example/", "dns_error"),
        ("file:///etc/passwd", "invalid_url"),
        ("gopher://zoo.example/", "invalid_url"),
        ("javascript:alert(1)", "invalid_url"),
        ("http://user:secret@zoo.example/", "invalid_url"),
        ("http:\\\\127.0.0.1\\", "invalid_url"),
        ("http://zoo.example/\ta", "invalid_url"),
        ("http://[fe80::1%25eth0]/", "invalid_url"),
        ("https://", "invalid_url"),
    ] {
        let cage = says(location(to)).await;
        let keeper = Keeper::new(&[&cage], patient());
        let failed = failure(keeper.probe("http://zoo.example/").await);
        assert_eq!(failed.error.code.as_str(), expected, "{to}");
        assert!(!format!("{failed:?}").contains("secret"), "{failed:?}");
        assert_eq!(keeper.recorder.asked(), ["8.8.8.8:80".parse().unwrap()], "{to}");
        assert_eq!(failed.hops.len(), 1);
    }
}

#[tokio::test]
async fn bytes_of_another_encoding_in_a_location_mean_themselves() {
    let first = cage(80, None, |head, mut visitor| async move {
        let answer: &[u8] = match head.starts_with("GET / ") {
            true => b"HTTP/1.1 302 X\r\nLocation: /caf\xe9\r\n\r\n",
            false => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        };
        visitor.write_all(answer).await.unwrap();
    })
    .await;
    let probe = response(Keeper::new(&[&first], patient()).probe("http://zoo.example/").await);
    assert_eq!(probe.response.final_url, "http://zoo.example/caf%E9");
}

#[tokio::test]
async fn a_redirect_to_another_public_port_is_followed() {
    let second = cage(8080, None, |_, mut visitor| async move {
        visitor.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    })
    .await;
    let first = says(location("http://zoo.example:8080/?token=s3cret")).await;
    let keeper = Keeper::new(&[&first, &second], patient());
    let probe = response(keeper.probe("http://zoo.example/").await);
    assert_eq!(probe.response.final_url, "http://zoo.example:8080/?token=[redacted]");
    assert!(second.heads()[0].starts_with("GET /?token=s3cret HTTP/1.1"));
    assert!(second.heads()[0].to_lowercase().contains("host: zoo.example:8080\r\n"));
    assert!(!format!("{probe:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_secret_that_a_server_sends_back_is_shown_nowhere() {
    let secret = "Hu5h-Hu5h/9";
    // As `encodeURIComponent` writes it, once and twice, and base64 of `/?token=` and it.
    let (once, twice) = ("Hu5h-Hu5h%2F9", "Hu5h-Hu5h%252F9");
    let base64 = "Lz90b2tlbj1IdTVoLUh1NWgvOQ";
    let first = cage(80, None, move |head, mut visitor| async move {
        let answer = match head.starts_with("GET /?token=") {
            true => format!(
                "HTTP/1.1 302 X\r\nLocation: /login?next=%2F%3Ftoken%3D{twice}&t={once}\r\n\r\n"
            ),
            false => format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nLink: </a?t={once}>; rel=next\r\n\
                 Content-Location: /login?next={twice}\r\nServer: echo {secret}\r\n\
                 X-Back: {base64}\r\nSet-Cookie: c{secret}=1\r\nVary: {secret}\r\n\
                 Access-Control-Allow-Origin: http://zoo.example/{secret}\r\n\
                 Content-Type: text/{secret}\r\n\r\n"
            ),
        };
        visitor.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let keeper = Keeper::new(&[&first], patient());
    let envelope = keeper.probe(&format!("http://zoo.example/?token={once}")).await;
    assert!(first.heads()[1].starts_with("GET /login?next=%2F%3Ftoken%3DHu5h"), "it is followed");
    let text = serde_json::to_string(&envelope).unwrap();
    assert!(!text.contains("Hu5h") && !text.contains("IdTVo"), "{text}");
    let probe = response(envelope);
    let shown = "http://zoo.example/login?next=%2F%3Ftoken%3D[redacted]&t=[redacted]";
    assert_eq!(probe.response.final_url, shown);
    let other = probe.response.headers.other.unwrap();
    assert_eq!(other["link"], "</a?t=[redacted]>; rel=next");
    assert_eq!(other["server"], "echo [redacted]");
}
