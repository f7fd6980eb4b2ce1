//! Which headers of proxies are believed, and which settings need closed access.

use axum::http::{HeaderValue, header};
use clap::{Args, Command, FromArgMatches};

use super::*;

fn transport(flags: &[&str]) -> Result<Transport, Failure> {
    let command = TransportArgs::augment_args(Command::new("serve"));
    let matches = command.try_get_matches_from([&["serve"], flags].concat()).unwrap();
    Transport::of(&TransportArgs::from_arg_matches(&matches).unwrap())
}

fn refusal(result: Result<(), Failure>) -> String {
    match result {
        Err(Failure::Message(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// The client of a request from this peer to a server behind proxies in 10.0.0.0/8.
fn client(peer: &str, sent: &[(&'static str, &'static str)]) -> (String, Scheme, Option<String>) {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:8787"));
    for (name, value) in sent {
        headers.append(*name, HeaderValue::from_static(value));
    }
    let transport = transport(&["--trusted-proxy", "10.0.0.0/8,fd00::/8"]).unwrap();
    let uri = Uri::from_static("/v1/streams");
    let it = transport.client_info(peer.parse().unwrap(), &uri, &headers);
    (it.address.to_string(), it.scheme, it.host)
}

const PROXY: &str = "10.0.0.1";
const SPOOFED: [(&str, &str); 4] = [
    ("x-forwarded-for", "127.0.0.1"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "gate.example.org"),
    ("forwarded", "for=127.0.0.1;proto=https;host=gate.example.org"),
];

#[test]
fn headers_of_a_peer_that_is_no_proxy_are_ignored() {
    for peer in ["203.0.113.9", "127.0.0.1", "2001:db8::1"] {
        let direct = (peer.to_owned(), Scheme::Http, Some("127.0.0.1:8787".to_owned()));
        assert_eq!(client(peer, &SPOOFED), direct);
    }
}

#[test]
fn the_nearest_address_that_is_no_proxy_is_the_client() {
    let address = |sent: &'static str| client(PROXY, &[("x-forwarded-for", sent)]).0;
    assert_eq!(address("203.0.113.9"), "203.0.113.9");
    // The first address was sent by the client itself.
    assert_eq!(address("127.0.0.1, 203.0.113.9"), "203.0.113.9");
    assert_eq!(address("1.2.3.4, 203.0.113.9, 10.0.0.2"), "203.0.113.9");
    assert_eq!(address("203.0.113.9:4711"), "203.0.113.9");
    assert_eq!(address("[2001:db8::1]:4711"), "2001:db8::1");
    assert_eq!(address("2001:db8::1"), "2001:db8::1");
    // Of a client that the proxy does not name, the proxy is known.
    assert_eq!(address("1.2.3.4, unknown"), PROXY);
    assert_eq!(address("1.2.3.4, unknown, 10.0.0.2"), "10.0.0.2");
    assert_eq!(address("10.0.0.3, 10.0.0.2"), "10.0.0.3");
    let twice = [("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "203.0.113.9")];
    assert_eq!(client("::ffff:10.0.0.1", &twice).0, "203.0.113.9");
}

#[test]
fn scheme_and_host_of_a_trusted_proxy_are_used() {
    let sent = [
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "gate.example.org"),
    ];
    let expected = ("203.0.113.9".into(), Scheme::Https, Some("gate.example.org".into()));
    assert_eq!(client(PROXY, &sent), expected);
    assert_eq!(client("fd00::1", &sent), expected);
    let standard = "for=\"[2001:db8::1]:47\";proto=https;host=\"gate.example.org\"";
    let expected = ("2001:db8::1".into(), Scheme::Https, Some("gate.example.org".into()));
    assert_eq!(client(PROXY, &[("forwarded", standard)]), expected);
    // A list has one value per hop; the client sent the first.
    let appended = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https, http")];
    assert_eq!(client(PROXY, &appended).1, Scheme::Http);
    assert_eq!(client(PROXY, &[("x-forwarded-proto", "https")]).1, Scheme::Https);
    assert_eq!(client(PROXY, &[("x-forwarded-proto", "gopher")]).1, Scheme::Http);
}

#[test]
fn headers_that_contradict_each_other_are_not_believed() {
    let sent = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=127.0.0.1;proto=https")];
    let expected = (PROXY.into(), Scheme::Http, Some("127.0.0.1:8787".into()));
    assert_eq!(client(PROXY, &sent), expected);
    let sent = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=203.0.113.9;proto=https")];
    assert_eq!(client(PROXY, &sent).0, "203.0.113.9");
}

#[test]
fn a_network_needs_closed_access_and_a_safe_way() {
    let network = "0.0.0.0:8787".parse().unwrap();
    let plain = transport(&[]).unwrap();
    assert!(plain.check_listen("--listen", "[::1]:1".parse().unwrap()).is_ok());
    let text = refusal(plain.check_listen("--listen", network));
    assert!(text.contains("--listen 0.0.0.0:8787 is open to other machines"), "{text}");
    plain.close();
    let text = refusal(plain.check_listen("--s3-listen", network));
    assert!(text.contains("--s3-listen 0.0.0.0:8787") && text.contains("in the clear"), "{text}");
    assert!(!plain.is_safe_for_network());
    let proxied = transport(&["--trusted-proxy", "10.0.0.1"]).unwrap();
    assert!(proxied.is_safe_for_network());
    assert!(proxied.check_listen("--listen", network).is_err(), "access is open");
    proxied.close();
    assert!(proxied.check_listen("--listen", network).is_ok());
}

#[test]
fn a_public_url_needs_closed_access_and_a_safe_way() {
    let flags = ["--public-url", "https://gate.example.org"];
    let plain = transport(&flags).unwrap();
    let text = refusal(plain.check());
    assert!(text.contains("--access closed") && text.contains("--webhooks-listen"), "{text}");
    plain.close();
    assert!(refusal(plain.check()).contains("in the clear"));
    let proxied = transport(&[&flags[..], &["--trusted-proxy", "10.0.0.1"]].concat()).unwrap();
    proxied.close();
    assert!(proxied.check().is_ok());
    let s3 = ["--s3-public-url", "https://s3.example.org/", "--trusted-proxy", "10.0.0.1"];
    let s3 = transport(&s3).unwrap();
    assert!(refusal(s3.check()).starts_with("--s3-public-url needs --access closed"));
    assert_eq!(s3.s3_url("127.0.0.1:8788".parse().unwrap()), "https://s3.example.org");
    let port = proxied.s3_url("127.0.0.1:8788".parse().unwrap());
    assert_eq!(port, "http://127.0.0.1:8788");
}

#[test]
fn proxies_and_an_open_loopback_may_have_any_number_of_connections() {
    let transport = transport(&["--trusted-proxy", "10.0.0.1"]).unwrap();
    let exempt = |address: &str| transport.is_exempt(address.parse().unwrap());
    assert!(exempt("127.0.0.1") && exempt("10.0.0.1") && !exempt("10.0.0.2"));
    transport.close();
    assert!(!exempt("127.0.0.1") && exempt("10.0.0.1"));
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let pair = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let ((cert, key), (_, other)) = (pair(), pair());
    let (cert, key) = (write("cert.pem", &cert), write("key.pem", &key));
    let failure = |cert: &str, key: &str| {
        let made = transport(&["--tls-cert", cert, "--tls-key", key]);
        refusal(made.map(|_| ()))
    };
    assert!(transport(&["--tls-cert", &cert, "--tls-key", &key]).is_ok());
    let (empty, other) = (write("empty.pem", ""), write("other.pem", &other));
    let text = failure("/nowhere/cert.pem", &key);
    assert!(text.starts_with("--tls-cert /nowhere/cert.pem cannot be read"), "{text}");
    let text = failure(&cert, "/nowhere/key.pem");
    assert!(text.starts_with("--tls-key /nowhere/key.pem cannot be read"), "{text}");
    let text = failure(&empty, &key);
    assert!(text.contains(&empty) && text.contains("has no certificate"), "{text}");
    let text = failure(&cert, &empty);
    assert!(text.contains(&empty) && text.contains("has no private key"), "{text}");
    let text = failure(&cert, &other);
    assert!(text.contains(&other) && text.contains("are not a pair"), "{text}");
    let text = refusal(transport(&["--tls-cert", &cert]).map(|_| ()));
    assert!(text.contains("--tls-cert needs --tls-key"), "{text}");
    let text = refusal(transport(&["--tls-key", &key]).map(|_| ()));
    assert!(text.contains("--tls-key needs --tls-cert"), "{text}");
}
