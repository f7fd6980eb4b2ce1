//! Every known way around such a check, as far as it shows in a URL or in an answer of DNS.

mod doubles;

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use steadfast_egress::{EgressError, Gate, Policy, Target, URL_LEN_MAX, refusal};

use self::doubles::{Answers, Recorder};

fn code(text: &str) -> &'static str {
    Policy::public_only().check(text).map_or_else(|error| error.code(), |_| "allowed")
}

#[test]
fn every_spelling_of_loopback_is_blocked() {
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "017700000001",
        "0",
        "0x0",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "127.0.0.1.",
        "①②⑦.0.0.1",
        "127。0。0。1",
        "127.0.0.1",
        "127%2e0%2e0%2e1",
        "%31%32%37.0.0.1",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "0.0.0.0",
        "127.255.255.254",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "localhost..",
        "a.localhost",
        "localhost.localdomain",
        "ⓛocalhost",
        "loc%61lhost",
    ] {
        for url in [format!("http://{host}/"), format!("https://{host}:8443/x?y=z")] {
            // Two dots at the end are no name at all.
            let expected = if host.ends_with("..") { "invalid_url" } else { "ssrf_blocked" };
            assert_eq!(code(&url), expected, "{url}");
        }
    }
}

#[test]
fn every_special_range_is_blocked_at_both_edges_and_open_beyond_them() {
    for (first, last, before, after) in [
        ("0.0.0.0", "0.255.255.255", "", "1.0.0.0"),
        ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
        ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
        ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
        ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
        ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
        ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
        ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
        ("192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"),
        ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
        ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
        ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
        ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
        ("224.0.0.0", "255.255.255.255", "223.255.255.255", ""),
        ("168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"),
    ] {
        for inside in [first, last] {
            assert_eq!(code(&format!("http://{inside}/")), "ssrf_blocked", "{inside}");
            // The same through IPv6: mapped, and by way of NAT64.
            for host in [format!("[::ffff:{inside}]"), format!("[64:ff9b::{inside}]")] {
                assert_eq!(code(&format!("http://{host}/")), "ssrf_blocked", "{host}");
            }
        }
        for outside in [before, after].into_iter().filter(|it| !it.is_empty()) {
            assert_eq!(code(&format!("http://{outside}/")), "allowed", "{outside}");
            assert_eq!(code(&format!("http://[64:ff9b::{outside}]/")), "allowed", "{outside}");
        }
    }
}

#[test]
fn metadata_of_clouds_and_special_ipv6_are_blocked() {
    for host in [
        "169.254.169.254",
        "100.100.100.200",
        "192.0.0.192",
        "metadata.google.internal",
        "metadata.google.internal.",
        "METADATA.google.INTERNAL",
        "instance-data.ec2.internal",
        "[::ffff:a9fe:a9fe]",
        "[::a9fe:a9fe]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[64:ff9b:1::808:808]",
        "[2002:7f00:1::]",
        "[2002:808:808::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fdff:ffff::1]",
        "[fe80::1]",
        "[fe80::%25eth0]",
        "[fe80::1%eth0]",
        "[febf::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[2001::1]",
        "[2001:10::1]",
        "[2001:1ff::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[3fff:fff::1]",
        "[5f00::1]",
        "[4000::1]",
        "[1fff::1]",
        "printer.local",
        "nas.home.arpa",
        "wiki.corp",
        "intranet",
        "router.lan",
        "1.0.0.127.in-addr.arpa",
        "abc.onion",
    ] {
        assert_eq!(code(&format!("http://{host}/latest/meta-data/")), "ssrf_blocked", "{host}");
    }
    for host in ["[2606:4700::1111]", "[2001:4860:4860::8888]", "[2001:200::1]", "[3fff:1000::1]"] {
        assert_eq!(code(&format!("http://{host}/")), "allowed", "{host}");
    }
}

#[test]
fn what_readers_of_urls_disagree_about_is_no_url() {
    let long = format!("http://example.com/{}", "a".repeat(URL_LEN_MAX));
    let encoded = format!("http://example.com/{}", "ü".repeat(500));
    for url in [
        "",
        " ",
        "example.com",
        "//example.com",
        "/path",
        "http://",
        "http:///",
        "http://?",
        "file:///etc/passwd",
        "gopher://example.com/",
        "ftp://example.com/",
        "data:text/plain,a",
        "javascript:alert(1)",
        "ws://example.com",
        "http+unix://%2fvar%2frun%2fdocker.sock/",
        "http://a@b.com/",
        "http://a:b@example.com/",
        "http://:b@example.com/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1:80\\@example.com/",
        "http:\\\\127.0.0.1\\",
        "http://example.com\\@127.0.0.1",
        "http://exa\tmple.com/",
        "ht\ntp://example.com/",
        "http://example.com/\r\nHost: b",
        "http://example.com/\0",
        "\thttp://example.com/",
        "http://[::1/",
        "http://exa mple.com/",
        "http://example.com:0/",
        "http://example.com:99999",
        "http://example.com:80:80/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://0x100000000",
        "http://.example.com/",
        "http://a..b.com/",
        "http://exa%00mple.com/",
        "http://a*b.com/",
        "http://xn--/",
        &long,
        &encoded,
    ] {
        assert_eq!(code(url), "invalid_url", "{url:?}");
    }
}

#[test]
fn ports_of_other_protocols_are_blocked() {
    for port in [22, 25, 53, 110, 143, 465, 587, 993, 6379, 6667, 10080, 11211] {
        assert_eq!(code(&format!("http://example.com:{port}/")), "ssrf_blocked", "{port}");
    }
    for port in [80, 443, 3000, 8000, 8080, 8443, 8787] {
        assert_eq!(code(&format!("https://example.com:{port}/")), "allowed", "{port}");
    }
}

#[test]
fn public_hosts_are_understood_in_one_spelling() {
    let normal = |text: &str| Policy::public_only().check(text).unwrap().url().to_string();
    assert_eq!(normal(" HTTP://EXAMPLE.com:80/a/../b#c "), "http://example.com/b");
    assert_eq!(normal("https://bücher.example.com"), "https://xn--bcher-kva.example.com/");
    assert_eq!(normal("http://134744072/"), "http://8.8.8.8/");
    assert_eq!(normal("http://example。com/"), "http://example.com/");
    let target = Policy::public_only().check("https://example.com./x").unwrap();
    assert_eq!((target.host().as_str(), target.port()), ("example.com", 443));
    assert!(target.is_https() && target.literal().is_none());
}

fn gate(answers: Answers) -> (Gate, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new());
    (Gate::with(Policy::public_only(), Arc::new(answers), recorder.clone()), recorder)
}

async fn resolved(gate: &Gate, url: &str) -> Result<Vec<SocketAddr>, EgressError> {
    let target: Target = gate.check(url)?;
    Ok(gate.resolve(&target).await?.addresses().to_vec())
}

#[tokio::test]
async fn one_private_address_among_public_ones_blocks_them_all() {
    for bad in ["127.0.0.1", "10.0.0.1", "::1", "fd00::1", "::ffff:10.0.0.1", "169.254.169.254"] {
        for answer in [vec![bad], vec!["8.8.8.8", bad], vec![bad, "8.8.8.8"]] {
            let (gate, recorder) = gate(Answers::new().with("evil.example", &answer));
            let error = resolved(&gate, "http://evil.example/").await.unwrap_err();
            assert_eq!(error.code(), "ssrf_blocked", "{answer:?}");
            assert_eq!(recorder.asked(), []);
        }
    }
}

#[tokio::test]
async fn a_name_that_answers_differently_the_second_time_gains_nothing() {
    let answers =
        Answers::new().with("evil.example", &["8.8.8.8"]).with("evil.example", &["127.0.0.1"]);
    let (gate, recorder) = gate(answers);
    let target = gate.check("http://evil.example/").unwrap();
    let pinned = gate.resolve(&target).await.unwrap();
    assert!(gate.connect(&pinned).await.is_err());
    assert_eq!(recorder.asked(), ["8.8.8.8:80".parse().unwrap()]);
    let again = gate.resolve(&target).await.unwrap_err();
    assert_eq!(again.code(), "ssrf_blocked");
    assert_eq!(recorder.asked().len(), 1);
}

#[tokio::test]
async fn names_without_addresses_are_told_apart() {
    let many: Vec<String> = (0..40).map(|it| format!("8.8.8.{it}")).collect();
    let many: Vec<&str> = many.iter().map(|it| &**it).collect();
    let answers = Answers::new().with("empty.example", &[]).with("many.example", &many);
    let (gate, _) = gate(answers);
    for url in ["http://none.example/", "http://empty.example/", "http://many.example/"] {
        assert_eq!(resolved(&gate, url).await.unwrap_err().code(), "dns_error", "{url}");
    }
}

#[tokio::test]
async fn every_checked_address_is_tried_in_order_and_no_other() {
    let answers = Answers::new().with("two.example", &["8.8.8.8", "8.8.8.8", "2606:4700::1"]);
    let (gate, recorder) = gate(answers);
    let target = gate.check("https://two.example/").unwrap();
    let pinned = gate.resolve(&target).await.unwrap();
    assert!(gate.connect(&pinned).await.is_err());
    let expected: Vec<SocketAddr> =
        vec!["8.8.8.8:443".parse().unwrap(), "[2606:4700::1]:443".parse().unwrap()];
    assert_eq!(recorder.asked(), expected);
}

#[tokio::test]
async fn a_literal_address_is_not_resolved() {
    let answers = Arc::new(Answers::new());
    let recorder = Arc::new(Recorder::new());
    let gate = Gate::with(Policy::public_only(), answers.clone(), recorder);
    assert_eq!(resolved(&gate, "http://8.8.8.8:81/").await.unwrap().len(), 1);
    assert!(answers.asked().is_empty());
}

#[tokio::test]
async fn an_operator_allows_hosts_and_networks_and_nothing_beside_them() {
    let policy = Policy::public_only()
        .allow_host("Staging.Internal")
        .unwrap()
        .allow_network("10.1.0.0/16".parse().unwrap());
    let answers = Answers::new()
        .with("staging.internal", &["192.168.1.1"])
        .with("api.internal", &["10.1.2.3"])
        .with("other.internal", &["10.2.0.1"]);
    let gate = Gate::with(policy, Arc::new(answers), Arc::new(Recorder::new()));
    for url in [
        "http://staging.internal/",
        "http://staging.internal.:22/",
        "http://api.internal/",
        "http://10.1.255.255/",
        "http://[::ffff:10.1.0.1]/",
    ] {
        assert!(resolved(&gate, url).await.is_ok(), "{url}");
    }
    for url in ["http://other.internal/", "http://10.2.0.0/", "http://192.168.1.1/", "http://[::1]"]
    {
        assert_eq!(resolved(&gate, url).await.unwrap_err().code(), "ssrf_blocked", "{url}");
    }
}

#[tokio::test]
async fn the_servers_own_demo_is_open_and_nothing_else_of_it() {
    let address = Arc::new(OnceLock::new());
    let paths = &["/api/demo/staging", "/api/demo/production"];
    let policy = Policy::public_only()
        .allow_own(address.clone(), paths)
        .allow_endpoint("::1", 9000)
        .unwrap();
    let gate = Gate::with(policy.clone(), Arc::new(Answers::new()), Arc::new(Recorder::new()));
    let early = resolved(&gate, "http://127.0.0.1:8080/api/demo/staging").await;
    assert_eq!(early.unwrap_err().code(), "ssrf_blocked", "it does not listen yet");
    address.set(([127, 0, 0, 1], 8080).into()).unwrap();
    assert!(policy.check("http://localhost:8080/api/demo/staging").is_ok());
    for url in [
        "http://127.0.0.1:8080/api/demo/staging",
        "http://127.1:8080/api/x/../demo/production?a=b",
        "http://[::1]:9000/anything",
    ] {
        assert!(resolved(&gate, url).await.is_ok(), "{url}");
    }
    for url in [
        "http://127.0.0.1:8080/",
        "http://127.0.0.1:8080/api/demo/",
        "http://127.0.0.1:8081/api/demo/staging",
        "http://127.0.0.2:8080/api/demo/staging",
        "http://localhost:8081/api/demo/staging",
        "http://127.0.0.1:8080/api/demo/staging/",
        "http://127.0.0.1:8080/api/demo/staging/..",
        "http://127.0.0.1:8080/api/demo/%73taging",
        "http://127.0.0.1/api/demo/staging",
        "http://[::1]:9001/",
    ] {
        assert_eq!(resolved(&gate, url).await.unwrap_err().code(), "ssrf_blocked", "{url}");
    }
}

#[test]
fn what_an_operator_mistypes_is_refused() {
    for host in ["", "a b", "http://a", "a/b", "a:80", "u@a", "a?b"] {
        assert!(Policy::public_only().allow_host(host).is_err(), "{host:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics_and_no_target_is_private(text in ".{0,40}", host in "[0-9a-fx.:%]{1,24}") {
        for url in [text.clone(), format!("http://{text}"), format!("http://{host}/"),
            format!("http://[{host}]/")] {
            if let Ok(target) = Policy::public_only().check(&url)
                && let Some(address) = target.literal() {
                proptest::prop_assert!(refusal(address).is_none(), "{}", url);
            }
        }
    }
}
