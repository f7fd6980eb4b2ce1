//! `steadfast drift --fail-on critical` in CI: quiet about sites that answer differently each time,
//! and not about sites that drifted.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use steadfast_store::{Clock, Entropy, SeededEntropy, SystemClock};

use crate::harness::{run, stderr, stdout};

/// `STEADFAST_SOAK=1 ./test` plays a hundred rounds.
fn rounds() -> usize {
    if std::env::var_os("STEADFAST_SOAK").is_some() { 100 } else { 2 }
}

/// The facts that a site has about a request.
struct Visit {
    path: String,
    /// Its number, from 0.
    number: u64,
    /// Something that nobody can know before.
    chance: u64,
}

impl Visit {
    /// Whether something happens that happens once in `n` times.
    fn once_in(&self, n: u64) -> bool {
        (self.chance >> 7).is_multiple_of(n)
    }
}

/// An answer: a status with its headers, a body, and how long it takes, in milliseconds. Without a
/// head the connection ends instead.
struct Answer {
    head: String,
    body: String,
    takes: u64,
}

fn says(body: impl Into<String>) -> Answer {
    Answer { head: "200 OK\r\ncontent-type: text/html".into(), body: body.into(), takes: 0 }
}

fn with(head: &str, body: impl Into<String>) -> Answer {
    Answer { head: head.into(), ..says(body) }
}

type Site = fn(&Visit) -> Answer;

/// Serves a site until the tests end, and gives its URL.
fn serve(site: Site, seed: u64) -> String {
    serve_at("127.0.0.1:0", site, seed)
}

fn serve_at(address: &str, site: Site, seed: u64) -> String {
    let listener = TcpListener::bind(address).expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (entropy, count) = (SeededEntropy::new(seed), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let chance = entropy.next();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.expect("a connection"));
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let visit = Visit { path, number, chance };
                line.clear();
                while reader.read_line(&mut line).is_ok_and(|it| 2 < it) {
                    line.clear();
                }
                let Answer { head, body, takes } = site(&visit);
                if head.is_empty() {
                    return;
                }
                let mut left = Duration::from_millis(takes);
                let begin = SystemClock.elapsed();
                while !left.is_zero() {
                    std::thread::park_timeout(left);
                    let gone = SystemClock.elapsed().saturating_sub(begin);
                    left = Duration::from_millis(takes).saturating_sub(gone);
                }
                let len = body.len();
                let text = format!(
                    "HTTP/1.1 {head}\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}"
                );
                // Clients that have disconnected are ignored.
                let _ = reader.get_mut().write_all(text.as_bytes());
            });
        }
    });
    url
}

fn nonce_everywhere(visit: &Visit) -> Answer {
    let nonce = visit.chance;
    let head = format!(
        "200 OK\r\ncontent-type: text/html\r\nx-request-id: {nonce}\r\netag: \"{nonce}\"\r\n\
         content-security-policy: script-src 'nonce-{nonce}'\r\nset-cookie: sid={nonce}; HttpOnly"
    );
    with(&head, format!("<script nonce=\"{nonce}\">go()</script>"))
}

fn time_in_seconds(_: &Visit) -> Answer {
    says(format!("it is {}", SystemClock.now().0 / 1_000))
}

fn time_in_milliseconds(_: &Visit) -> Answer {
    says(format!("it is {}", SystemClock.now().0))
}

fn visitors(visit: &Visit) -> Answer {
    says(format!("you are number {}", visit.number))
}

fn random_length(visit: &Visit) -> Answer {
    says("word ".repeat(usize::try_from(visit.chance % 12_000).expect("small")))
}

fn two_variants(visit: &Visit) -> Answer {
    says(if visit.once_in(2) { "the red button" } else { "the blue button, which is larger" })
}

fn canary(visit: &Visit) -> Answer {
    says(if visit.once_in(8) { "the new release".repeat(500) } else { "the old release".into() })
}

fn sometimes_private(visit: &Visit) -> Answer {
    let cache = if visit.once_in(2) { "no-store" } else { "public, max-age=60" };
    with(&format!("200 OK\r\ncache-control: {cache}"), "page")
}

fn sometimes_broken(visit: &Visit) -> Answer {
    if visit.once_in(4) { with("503 Busy", "later") } else { says("page") }
}

fn sometimes_of_another_kind(visit: &Visit) -> Answer {
    let kind = if visit.once_in(3) { "application/json" } else { "text/html" };
    with(&format!("200 OK\r\ncontent-type: {kind}"), "[]")
}

fn cookies_with_random_names(visit: &Visit) -> Answer {
    with(&format!("200 OK\r\nset-cookie: pool{}=1", visit.chance), "page")
}

fn asks_with_a_nonce(visit: &Visit) -> Answer {
    let head =
        format!("401 Who\r\nwww-authenticate: Digest realm=\"a\", nonce=\"{}\"", visit.chance);
    with(&head, format!("request {}", visit.chance))
}

fn redirect_to_a_session(visit: &Visit) -> Answer {
    match visit.path.as_str() {
        "/" => with(&format!("302 There\r\nlocation: /session/{}", visit.chance), ""),
        session => says(format!("welcome to {session}")),
    }
}

fn jitter(visit: &Visit) -> Answer {
    Answer { takes: (visit.chance >> 3) % 160, ..says("page") }
}

fn cache_hits(visit: &Visit) -> Answer {
    Answer { takes: if visit.once_in(2) { 0 } else { 200 }, ..says("page") }
}

fn drops_connections(visit: &Visit) -> Answer {
    if visit.once_in(8) { with("", "") } else { says("page") }
}

/// Sites that answer differently each time; both sides are of the same kind.
const DYNAMIC: &[(&str, Site)] = &[
    ("a nonce in body, policy and cookie", nonce_everywhere),
    ("the time in seconds", time_in_seconds),
    ("the time in milliseconds", time_in_milliseconds),
    ("a counter of visitors", visitors),
    ("a body of any length", random_length),
    ("two variants of a page", two_variants),
    ("a canary release", canary),
    ("a directive for caches that comes and goes", sometimes_private),
    ("a status that comes and goes", sometimes_broken),
    ("a content type that comes and goes", sometimes_of_another_kind),
    ("cookies with random names", cookies_with_random_names),
    ("a challenge with a nonce", asks_with_a_nonce),
    ("a redirect to a session", redirect_to_a_session),
    ("answers that take any time", jitter),
    ("a cache that hits half of the time", cache_hits),
    ("connections that end without an answer now and then", drops_connections),
];

/// Compares two URLs of this machine; gives the exit code and the output.
fn compared(left: &str, right: &str) -> (Option<i32>, String) {
    let allow = ["--drift-networks", "127.0.0.0/8"];
    let done = run(&[&["drift", left, right, "--fail-on", "critical"][..], &allow].concat());
    (done.status.code(), format!("{}{}", stdout(&done), stderr(&done)))
}

/// Plays all rounds of all pairs, some at a time.
fn play(pairs: &[(&str, String, String)], expected: i32) {
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let (round, (name, left, right)) = (at / pairs.len(), &pairs[at % pairs.len()]);
            if rounds() <= round {
                return;
            }
            let (code, said) = compared(left, right);
            assert_eq!(code, Some(expected), "{name}, round {round}: {said}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
}

#[test]
fn sites_that_answer_differently_each_time_are_no_drift() {
    let mut seed = 1;
    let mut served = |site: Site| {
        seed += 1;
        serve(site, seed)
    };
    let pairs: Vec<_> =
        DYNAMIC.iter().map(|(name, site)| (*name, served(*site), served(*site))).collect();
    play(&pairs, 0);
}

fn page(_: &Visit) -> Answer {
    says("page")
}

fn long_page_of_any_length(visit: &Visit) -> Answer {
    says("word ".repeat(1_000 + usize::try_from(visit.chance % 11_000).expect("small")))
}

fn random_words(visit: &Visit) -> Answer {
    says("word ".repeat(usize::try_from(visit.chance % 200).expect("small")))
}

fn greeting(visit: &Visit) -> Answer {
    says(format!("hello {}", visit.chance))
}

/// Sites that drifted: the left and the right one.
const DRIFTED: &[(&str, Site, Site)] = &[
    ("another text", page, |_| says("another page")),
    ("a failure behind a dynamic page", greeting, |it| {
        with("500 Oh\r\ncontent-type: text/html", format!("sorry {}", it.chance))
    }),
    ("a missing dynamic page", greeting, |it| {
        with("404 No\r\ncontent-type: text/html", format!("sorry {}", it.chance))
    }),
    ("a login on one side of a dynamic page", greeting, |it| {
        let head = "200 OK\r\ncontent-type: text/html\r\nwww-authenticate: Basic realm=\"a\"";
        with(head, format!("hello {}", it.chance))
    }),
    ("another kind of a dynamic page", greeting, |it| {
        with("200 OK\r\ncontent-type: application/json", format!("{}", it.chance))
    }),
    ("a dynamic page that must not be stored", greeting, |it| {
        let head = "200 OK\r\ncontent-type: text/html\r\ncache-control: no-store";
        with(head, format!("hello {}", it.chance))
    }),
    ("other origins that may read a dynamic page", greeting, |it| {
        let head = "200 OK\r\ncontent-type: text/html\r\naccess-control-allow-origin: *";
        with(head, format!("hello {}", it.chance))
    }),
    ("a dynamic page that is much longer", greeting, |it| {
        says(format!("{}{}", "hello ".repeat(5_000), it.chance))
    }),
    ("a blank page beside one of any length", |_| says(""), long_page_of_any_length),
    ("a small page beside one of any length", page, long_page_of_any_length),
    ("a short page of any length beside a long one", random_words, long_page_of_any_length),
    ("a redirect to another host", page, |_| {
        with(&format!("302 There\r\nlocation: {}", ELSEWHERE.wait()), "")
    }),
];

/// A page on another host.
static ELSEWHERE: OnceLock<String> = OnceLock::new();

#[test]
fn sites_that_drifted_are_reported_each_time() {
    ELSEWHERE.set(serve_at("127.0.0.2:0", page, 1)).unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut pairs: Vec<_> = DRIFTED
        .iter()
        .enumerate()
        .map(|(at, (name, left, right))| {
            let seed = 1_000 + 2 * at as u64;
            (*name, serve(*left, seed), serve(*right, seed + 1))
        })
        .collect();
    pairs.push(("a side that is down", serve(page, 1), format!("http://{gone}/")));
    play(&pairs, 1);
}

/// How long a side took, of all requests of a comparison.
fn samples(shown: &Value, side: &str) -> Vec<u64> {
    let all = shown["result"][side]["result"]["samplesMs"].as_array().expect("samples");
    let mut all: Vec<u64> = all.iter().map(|it| it.as_u64().expect("a number")).collect();
    all.sort_unstable();
    all
}

/// A machine that stalls makes a fast side slow: only rounds with a fast side count.
#[test]
fn a_side_that_is_slow_each_time_is_reported() {
    let (fast, slow) = (serve(page, 1), serve(|_| Answer { takes: 800, ..says("page") }, 2));
    let mut told = 0;
    for _ in 0..20 * rounds() {
        let flags = ["--drift-networks", "127.0.0.0/8", "--json", "--fail-on", "critical"];
        let done = run(&[&["drift", &*fast, &*slow][..], &flags].concat());
        let shown: Value = serde_json::from_str(&stdout(&done)).expect("JSON");
        let (left, right) = (samples(&shown, "left"), samples(&shown, "right"));
        if left[left.len() - 1] * 5 <= right[0] * 2 {
            assert_eq!(done.status.code(), Some(1), "{left:?} {right:?}");
            told += 1;
        }
        if told == rounds() {
            return;
        }
    }
    panic!("the machine was too slow to measure anything: {told} of {} rounds", rounds());
}
