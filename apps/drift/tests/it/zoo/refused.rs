use super::keeper::{Keeper, code, patient};

#[tokio::test]
async fn nothing_is_asked_for_what_may_not_be_reached() {
    for (url, expected) in [
        ("http://127.0.0.1/", "ssrf_blocked"),
        ("http://0x7f.1/", "ssrf_blocked"),
        ("http://①②⑦.0.0.1/", "ssrf_blocked"),
        ("http://[64:ff9b::7f00:1]/", "ssrf_blocked"),
        ("http://[2002:7f00:1::]/", "ssrf_blocked"),
        ("http://100.100.100.200/", "ssrf_blocked"),
        ("http://localhost:8080/", "ssrf_blocked"),
        ("http://inner.example/", "ssrf_blocked"),
        ("http://mixed.example/", "ssrf_blocked"),
        ("http://nobody.example/", "dns_error"),
        ("", "invalid_url"),
        ("zoo.example", "invalid_url"),
        ("ftp://zoo.example/", "invalid_url"),
        ("http://a:b@zoo.example/", "invalid_url"),
        ("http://zoo.example/\r\nX: y", "invalid_url"),
    ] {
        let keeper = Keeper::new(&[], patient());
        let envelope = keeper.probe(url).await;
        assert!(envelope.cf.is_none() && envelope.platform.is_none());
        assert_eq!(code(envelope), expected, "{url}");
        assert_eq!(keeper.recorder.asked(), [], "{url}");
    }
}

#[tokio::test]
async fn nobody_there_is_a_fetch_error() {
    let keeper = Keeper::new(&[], patient());
    assert_eq!(code(keeper.probe("http://zoo.example:81/").await), "fetch_error");
    assert_eq!(keeper.recorder.asked(), ["8.8.8.8:81".parse().unwrap()]);
}

/// Variables of the environment cannot be changed within a process safely, so another one runs a
/// test that would fail through a proxy.
#[test]
fn proxies_of_the_environment_are_not_used() {
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "zoo::answers::a_good_answer_is_seen_whole"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        again.env(name, "http://127.0.0.1:9");
    }
    let done = again.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn a_probe_may_move_between_threads() {
    fn send<T: Send>(_: &T) {}
    let keeper = Keeper::new(&[], patient());
    send(&keeper.probe("http://zoo.example/"));
}
