//! `steadfast drift`: comparisons for scripts.

use std::process::Output;

use serde_json::Value;

use crate::harness::{Server, run, stderr, stdout};

const LOOPBACK: [&str; 2] = ["--drift-networks", "127.0.0.0/8"];

/// Compares in a process of its own, which may ask this machine.
fn drift(left: &str, right: &str, flags: &[&str]) -> Output {
    run(&[&["drift", left, right][..], &LOOPBACK, flags].concat())
}

fn demo(server: &Server) -> (String, String) {
    let at = |name: &str| format!("{}/api/demo/{name}", server.url);
    (at("staging"), at("production"))
}

#[test]
fn the_exit_code_says_how_bad_the_differences_are() {
    let server = Server::empty();
    let (staging, production) = demo(&server);
    let told = drift(&staging, &production, &[]);
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    let text = stdout(&told);
    for words in ["the worst is critical", "asks for authentication", "Bearer realm", "next   "] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    assert!(stderr(&told).starts_with("probing …\n"), "{}", stderr(&told));
    for severity in ["warn", "critical"] {
        let found = drift(&staging, &production, &["--fail-on", severity]);
        assert_eq!(found.status.code(), Some(1), "{}", stderr(&found));
        assert!(!stderr(&found).contains("error"), "{}", stderr(&found));
    }
    // Another query is another URL, and nothing worse.
    let other = format!("{staging}?again");
    let found = drift(&staging, &other, &["--fail-on", "critical", "--json"]);
    let shown: Value = serde_json::from_str(&stdout(&found)).unwrap();
    assert_eq!(found.status.code(), Some(0), "{shown}");
    assert_eq!(server.json("/api/pairs")["items"], Value::Array(vec![]), "nothing is kept");
}

#[test]
fn json_is_that_of_the_api_and_a_server_remembers() {
    let server = Server::empty();
    let (staging, production) = demo(&server);
    let labels = ["--left-label", "staging", "--right-label", "production", "--json"];
    let here: Value =
        serde_json::from_str(&stdout(&drift(&staging, &production, &labels))).unwrap();
    assert_eq!(here["status"], "completed");
    assert_eq!(here["result"]["leftLabel"], "staging");
    let asked = server.ask(&["drift", &staging, &production, "--json"]);
    let there: Value = serde_json::from_str(&stdout(&asked)).unwrap();
    let id = there["comparisonId"].as_str().unwrap();
    assert_eq!(server.json(&format!("/api/compare/{id}"))["result"], there["result"]);
    let codes = |shown: &Value| -> Vec<Value> {
        let findings = shown["result"]["diff"]["findings"].as_array().unwrap();
        let codes = findings.iter().map(|it| it["code"].clone());
        codes.filter(|it| it != "TIMING_DRIFT").collect()
    };
    assert_eq!(codes(&here), codes(&there));
}

#[test]
fn what_could_not_be_compared_is_exit_code_2() {
    let nobody = ["--server", "http://127.0.0.1:1"];
    for (line, words) in [
        (&["drift", "http://10.0.0.1/", "http://10.0.0.2/"][..], "--drift-networks NETWORK"),
        (&["drift", "nonsense", "http://10.0.0.2/"], "(invalid_url)"),
        (&["drift", "http://[fe80::1%25eth0]/", "http://10.0.0.2/"], "(ssrf_blocked)"),
        (&["drift", "https://example.com", "https://example.com/"], "(invalid_request)"),
        (&["drift", "https://a.example", "https://b.example", nobody[0], nobody[1]], "no answer"),
        (&["drift", "https://a.example"], "<RIGHT>"),
        (&["drift", "https://a.example", "https://b.example", "--fail-on", "info"], "critical"),
    ] {
        let refused = run(line);
        assert_eq!(refused.status.code(), Some(2), "{line:?}");
        assert!(stderr(&refused).contains(words), "{words} is missing in {}", stderr(&refused));
        assert_eq!(stdout(&refused), "");
    }
}

#[test]
fn a_pair_keeps_as_many_comparisons_as_the_flag_says() {
    let server = Server::with(tempfile::tempdir().unwrap(), &["--drift-keep", "2"]);
    let (staging, production) = demo(&server);
    for _ in 0..3 {
        assert!(server.ask(&["drift", &staging, &production]).status.success());
    }
    let pairs = server.json("/api/pairs");
    let pair = pairs["items"][0]["pairKey"].as_str().unwrap();
    let kept = server.json(&format!("/api/pairs/{pair}/comparisons"));
    let sequences: Vec<i64> = kept["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["sequence"].as_i64().unwrap())
        .collect();
    assert_eq!(sequences, [3, 2]);
}
