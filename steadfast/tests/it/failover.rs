//! PostgreSQL failover, and servers that take over from each other. Acknowledged changes hold: no
//! response is older than an earlier response to another client.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_store::{Clock, SystemClock};

use crate::{
    cluster::Cluster,
    harness::{self, Answer, Server, assert_fails_with, steadfast, until},
    proxy::Proxy,
};

const INCREMENT: &str = "/v1/objects/counter/a/calls/increment";
const READ: &str = "/v1/objects/counter/a/calls/read";

fn serve(url: &str, flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    Server::with(folder, &[&["--store", url], flags].concat())
}

fn increment(server: &Server, key: &str) -> Result<Answer, ureq::Error> {
    server.try_post_json(INCREMENT, r#"{"by": 1}"#, &[("idempotency-key", key)])
}

/// Increments once, with as many retries as needed.
fn increment_surely(server: &Server, key: &str) -> u64 {
    let mut found = None;
    until(key, || {
        match increment(server, key) {
            Ok(answer) if answer.status == 200 => found = Some(number(&answer)),
            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.body),
            Err(error) => panic!("{key}: {error}"),
        }
        found.is_some()
    });
    found.expect("it was answered")
}

fn number(answer: &Answer) -> u64 {
    answer.body.parse().expect("a number")
}

/// The value that a client reads, if any.
fn read(server: &Server) -> Option<u64> {
    let answer = server.try_post_json(READ, "", &[]).ok()?;
    (answer.status == 200).then(|| number(&answer))
}

#[test]
fn a_promoted_replica_without_acknowledged_commits_is_detected_and_needs_a_decision() {
    let primary = Cluster::start();
    let standby = primary.standby(&[]);
    let proxy = Proxy::to(&primary.folder());
    let mut server = serve(&proxy.url(), &[]);
    for key in 0..5 {
        increment_surely(&server, &format!("kept-{key}"));
    }
    primary.caught_up(&standby);
    // From here on the replica receives nothing.
    standby.stop();
    for key in 0..20 {
        increment_surely(&server, &format!("lost-{key}"));
    }
    let lost_id = send(&server);
    let lease = pull(&server)["leaseId"].clone();
    assert_eq!(read(&server), Some(25));

    primary.stop();
    standby.start_again();
    standby.promote();
    proxy.lead_to(&standby.folder());
    proxy.cut();

    // No response contradicts an earlier one, and the process ends with the reason.
    until("it has noticed", || {
        match server.try_post_json(READ, "", &[]) {
            Ok(answer) if answer.status == 200 => assert_eq!(answer.body, "25"),
            Ok(answer) => return answer.json()["code"] == "commits_lost",
            // The process may have ended already.
            Err(_) => return true,
        }
        false
    });
    assert_eq!(server.wait(), Some(1));

    // A restart does not hide it.
    let mut again = steadfast();
    let folder = tempfile::tempdir().unwrap();
    again.args(["--listen", "127.0.0.1:0", "--store", &proxy.url(), "--data"]).arg(folder.path());
    let refused = harness::output(&mut again);
    assert_fails_with(&refused, &["lacks acknowledged commits: batches ", "--accept-loss"]);

    let server = serve(&proxy.url(), &["--accept-loss"]);
    assert_eq!(read(&server), Some(5));
    let sql = server.ask(&["objects", "sql", "counter", "a", "SELECT n FROM counter"]);
    assert!(harness::stdout(&sql).contains('5'), "{sql:?}");
    assert_eq!(increment_surely(&server, "lost-0"), 6, "a lost key is a new one");
    assert_eq!(increment_surely(&server, "kept-0"), 1, "a kept key is kept");
    assert_eq!(server.get("/readyz").status, 200);
    // No message id is used twice.
    let id = send(&server);
    assert!(lost_id < id, "{lost_id} and {id}");
    let acks = json!({ "acks": [{ "leaseId": lease }] }).to_string();
    let answer = server.post_json("/v1/queues/q/messages/ack", &acks, &[]).json();
    assert_eq!((&answer["acked"], &answer["lost"]), (&json!(0), &json!([lease])));
    assert_eq!(pull(&server)["id"], id.to_string());
}

/// Sends to a queue and returns the id.
fn send(server: &Server) -> i64 {
    let answer = server.post_json("/v1/queues/q/messages", r#"{"body": "x"}"#, &[]).json();
    let id = answer["ids"][0].as_str().and_then(|it| it.parse().ok());
    id.expect("a number")
}

fn pull(server: &Server) -> Value {
    let body = r#"{"batchSize": 1, "leaseMs": 600000}"#;
    server.post_json("/v1/queues/q/messages/pull", body, &[]).json()["items"][0].clone()
}

#[test]
fn a_complete_replica_takes_over_under_load_without_a_restart() {
    let primary = Cluster::start();
    let standby = primary.standby(&[]);
    primary.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{}'", standby.name()));
    primary.sql("SELECT pg_reload_conf()");
    until("it is synchronous", || {
        primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
    });
    let proxy = Proxy::to(&primary.folder());
    let server = serve(&proxy.url(), &[]);
    let observed = Observations::default();
    std::thread::scope(|scope| {
        let _over = OnDrop(&observed.is_over);
        let (server, observed) = (&server, &observed);
        let writers = (0..4).map(|writer| {
            scope.spawn(move || {
                for key in 0..50 {
                    observed.observe(increment_surely(server, &format!("{writer}/{key}")));
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        scope.spawn(move || observed.read(server));
        until("it is in the middle", || 50 <= observed.newest.load(Ordering::SeqCst));
        primary.stop();
        standby.promote();
        standby.sql("ALTER SYSTEM SET synchronous_standby_names = ''");
        standby.sql("SELECT pg_reload_conf()");
        proxy.lead_to(&standby.folder());
        writers.into_iter().for_each(|it| it.join().unwrap());
    });
    assert_eq!(read(&server), Some(200), "each one once");
}

/// The values that all clients have received, and their requests.
#[derive(Default)]
struct Observations {
    newest: AtomicU64,
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    is_over: AtomicBool,
}

impl Observations {
    fn observe(&self, value: u64) {
        self.newest.fetch_max(value, Ordering::SeqCst);
    }

    /// Reads until the end: no response may be older than any earlier response.
    fn read(&self, server: &Server) {
        while !self.is_over.load(Ordering::SeqCst) {
            let before = self.newest.load(Ordering::SeqCst);
            if let Some(value) = read(server) {
                assert!(before <= value, "{value} is observed after {before}");
                self.observe(value);
            }
        }
    }

    /// Increments until the end.
    fn increment(&self, server: &Server, who: &str) {
        for number in 0_u64.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            match increment(server, &format!("{who}/{number}")) {
                Ok(answer) if answer.status == 200 => {
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                    self.observe(self::number(&answer));
                }
                _ => drop(self.unknown.fetch_add(1, Ordering::SeqCst)),
            }
        }
    }
}

/// A second server waits and takes over from one under load. No client reads an old value, neither
/// meanwhile nor when the first server returns.
fn take_over(
    silence: impl FnOnce(&Server),
    come_back: impl FnOnce(&Server),
    url: &str,
    direct: &str,
) {
    let first = serve(url, &[]);
    assert_eq!(increment_surely(&first, "k-1"), 1);
    let folder = tempfile::tempdir().expect("a folder");
    let mut waiting = steadfast();
    waiting.args(["--listen", "127.0.0.1:0", "--store", direct, "--wait-for-owner"]);
    let second = std::thread::spawn(move || Server::begin(waiting, folder).expect("it greets"));
    let observed = Observations::default();
    observed.acknowledged.store(1, Ordering::SeqCst);
    let second = std::thread::scope(|scope| {
        let _over = OnDrop(&observed.is_over);
        for reader in 0..4 {
            let (observed, first) = (&observed, &first);
            scope.spawn(move || match reader {
                0 => observed.increment(first, "first"),
                _ => observed.read(first),
            });
        }
        // A waiting server does not disturb the first one.
        until("it works", || 50 <= observed.newest.load(Ordering::SeqCst));
        let began = SystemClock.elapsed();
        silence(&first);
        let second = second.join().expect("it greets");
        for key in 0..20 {
            observed.observe(increment_surely(&second, &format!("second-{key}")));
            observed.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        eprintln!("taken over after {:?}", SystemClock.elapsed() - began);
        come_back(&first);
        // Until it has ended it could return an old value.
        until("it has ended", || first.try_get("/healthz").is_err());
        second
    });
    let (acknowledged, unknown) =
        (observed.acknowledged.into_inner(), observed.unknown.into_inner());
    let found = read(&second).expect("it answers");
    assert!(acknowledged <= found && found <= acknowledged + unknown, "{acknowledged} <= {found}");
}

/// Sets the flag when it is dropped.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_disconnected_owner_is_replaced_and_returns_no_stale_reads() {
    let cluster = Cluster::start();
    let proxy = Proxy::to(&cluster.folder());
    let swallow = |first: &Server| {
        proxy.swallow(true);
        // It stops responding by itself, before another server may respond.
        until("it answers nothing", || first.get("/readyz").status == 503);
    };
    take_over(swallow, |_| proxy.swallow(false), &proxy.url(), &cluster.url);
}

#[test]
fn a_stopped_owner_is_replaced_and_returns_no_stale_reads_after_it_resumes() {
    let cluster = Cluster::start();
    let stop = |first: &Server| first.signal(Signal::STOP);
    let go_on = |first: &Server| first.signal(Signal::CONT);
    take_over(stop, go_on, &cluster.url, &cluster.url);
}

#[test]
fn a_second_server_is_refused_and_the_first_one_continues() {
    let cluster = Cluster::start();
    let first = serve(&cluster.url, &[]);
    assert_eq!(increment_surely(&first, "k-1"), 1);
    let mut second = steadfast();
    let folder = tempfile::tempdir().unwrap();
    second.args(["--listen", "127.0.0.1:0", "--store", &cluster.url, "--data"]).arg(folder.path());
    assert_fails_with(&harness::output(&mut second), &["is served by another process"]);
    assert_eq!(increment_surely(&first, "k-2"), 2);
}

#[test]
fn a_read_only_primary_with_open_connections_is_replaced_by_the_new_one() {
    let primary = Cluster::start();
    let standby = primary.standby(&[]);
    let proxy = Proxy::to(&primary.folder());
    let server = serve(&proxy.url(), &[]);
    assert_eq!(increment_surely(&server, "k-1"), 1);
    // Existing connections stay; new ones reach the new primary.
    primary.sql("ALTER SYSTEM SET default_transaction_read_only = on");
    primary.sql("SELECT pg_reload_conf()");
    primary.caught_up(&standby);
    standby.promote();
    proxy.lead_to(&standby.folder());
    assert_eq!(increment_surely(&server, "k-2"), 2);
    assert_eq!(read(&server), Some(2));
    // Nothing is read from the old primary over connections that are still open.
    for key in 3..8 {
        assert_eq!(increment_surely(&server, &format!("k-{key}")), key);
        let turns = server.json("/v1/objects/counter/a/turns?limit=1");
        assert_eq!(turns["items"][0]["turn"], key, "{turns}");
    }
}

#[test]
fn an_unconfirmed_commit_is_not_acknowledged_when_its_wait_is_cancelled() {
    let cluster = Cluster::start();
    let server = serve(&cluster.url, &[]);
    assert_eq!(increment_surely(&server, "k-1"), 1);
    let waits =
        || cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    cluster.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    cluster.sql("SELECT pg_reload_conf()");
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| increment_surely(&server, "k-2"));
        until("it waits for the standby", || waits() != "0");
        let ended = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
            WHERE wait_event = 'SyncRep'";
        cluster.sql(ended);
        // The server retries, and that waits too.
        until("it waits again", || waits() != "0");
        assert!(!answer.is_finished(), "nobody has confirmed it");
        cluster.sql("ALTER SYSTEM RESET synchronous_standby_names");
        cluster.sql("SELECT pg_reload_conf()");
        assert_eq!(answer.join().unwrap(), 2);
    });
    assert_eq!(read(&server), Some(2), "once");
}

#[test]
fn a_slow_connection_to_the_database_loses_nothing() {
    let cluster = Cluster::start();
    let proxy = Proxy::to(&cluster.folder());
    let server = serve(&proxy.url(), &[]);
    proxy.delay(Duration::from_millis(30));
    for key in 1..10 {
        assert_eq!(increment_surely(&server, &format!("k-{key}")), key);
        assert_eq!(read(&server), Some(key));
    }
}
