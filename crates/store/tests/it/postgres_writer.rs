//! The writer of a PostgreSQL store: the order of its statements, and its thread.

use std::{sync::mpsc, time::Duration};

use steadfast_store::{Commit, EntryKey, Health, Put, Write};

use crate::{
    failover::{url, with_short_lease},
    lab::{self, Lab, Place, address, command, event, json},
    wait::until,
    wire::Wire,
};

/// The statements of the transaction that writes a message.
fn transaction(all: &[String]) -> &[String] {
    let message = all.iter().position(|it| it.starts_with("INSERT INTO message"));
    let message = message.expect("a message was written");
    let begin = all[..message].iter().rposition(|it| it == "BEGIN").expect("it was begun");
    let commit = all[message..].iter().position(|it| it == "COMMIT").expect("it was committed");
    &all[begin..=message + commit]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statements_of_a_batch_are_sent_in_order_and_commit_comes_last() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let wire = Wire::start(url(&lab)).await;
    let store = lab::open(&Place::Database(wire.url.clone()), &lab.clock).await.unwrap();
    let entry = EntryKey::new("list", b"key").unwrap();
    let expires = Some(Duration::from_hours(1));
    let put = Put { entry, value: Some(json("1")), reference: None, expires };
    let commit = Commit::append(&address("a"), 0, vec![command(&address("a")), event("x")]);
    wire.take_statements();
    store.commit(commit.write(Write::Put(put))).await.unwrap().committed().unwrap();
    let all = wire.take_statements();
    let sent = transaction(&all);
    let fence = sent.iter().position(|it| it.starts_with("UPDATE node")).unwrap();
    let reads = sent.iter().filter(|it| it.starts_with("SELECT")).count();
    assert_eq!(fence, 1, "{sent:?}");
    assert!(sent[2..2 + reads].iter().all(|it| it.starts_with("SELECT")), "{sent:?}");
    let tables = [
        "INSERT INTO entity",
        "INSERT INTO message",
        "INSERT INTO work",
        "INSERT INTO entry",
        "UPDATE counter",
        "COMMIT",
    ];
    assert_eq!(sent.len(), 2 + reads + tables.len(), "{sent:?}");
    for (statement, table) in sent[2 + reads..].iter().zip(tables) {
        assert!(statement.starts_with(table), "{table}: {sent:?}");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_that_block_all_threads_of_the_program_do_not_end_the_lease() {
    let lab = with_short_lease().await;
    let (blocks, blocked) = mpsc::channel();
    let releases = [(); 2].map(|()| {
        let (release, released) = mpsc::channel::<()>();
        let blocks = blocks.clone();
        tokio::spawn(async move {
            blocks.send(()).expect("the test waits");
            // It blocks until the test drops the other end.
            let _ = released.recv();
        });
        release
    });
    // The runtime has two threads; this test runs on a third one.
    for _ in 0..2 {
        blocked.recv().unwrap();
    }
    let (answer, answered) = mpsc::channel();
    let commit = Commit::append(&address("a"), 0, vec![event("x")]);
    lab.store.submit(commit, Box::new(move |result| _ = answer.send(result)));
    let answer = answered.recv_timeout(Duration::from_mins(1)).expect("the writer answers");
    answer.unwrap().committed().unwrap();
    // An idle owner sends a heartbeat each 2 s, and its lease lasts 6 s.
    let enough = lab.store.activity().heartbeats + 4;
    let is_renewed =
        || enough <= lab.store.activity().heartbeats && lab.store.check_lease().is_ok();
    for _ in 0..3_000 {
        if is_renewed() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert!(is_renewed(), "{:?}", lab.store.health());
    drop(releases);
    assert_eq!(lab.version(&address("a")).await, 1);
    until("it is well", async || lab.store.health() == Health::Ready).await;
}

/// Counts the connections of a store.
struct Connections {
    client: tokio_postgres::Client,
    store: String,
}

impl Connections {
    async fn of(url: &str) -> Self {
        // Each store of these tests has its own application name.
        let store = url.rsplit('=').next().expect("a name").to_owned();
        let client = lab::client(&lab::server()).await;
        Self { client, store }
    }

    async fn count(&self) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
        self.client.query_one(sql, &[&self.store]).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn a_store_that_is_dropped_ends_its_writer_and_records_a_clean_shutdown() {
    let lab = Lab::postgres().await;
    lab.append(&address("a"), vec![event("x")]).await;
    let Lab { store, place, clock, .. } = lab;
    let Place::Database(url) = &place else { panic!("not in a database") };
    let connections = Connections::of(url).await;
    assert!(0 < connections.count().await);
    // In an async context, where nothing may block.
    drop(store);
    until("its connections have ended", async || connections.count().await == 0).await;
    let row = lab::client(url).await.query_one("SELECT clean FROM node", &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
    let store = lab::open(&place, &clock).await.unwrap();
    assert_eq!(store.version(address("a").id()).await.unwrap(), 1);
    store.close().await;
}

#[tokio::test]
async fn an_opening_that_is_dropped_ends_its_thread() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let connections = Connections::of(url(&lab)).await;
    // Another client holds the row of the owner, so the opening waits.
    let holder = lab::client(&lab::server()).await;
    let schema = &connections.store;
    holder.batch_execute(&format!("BEGIN; LOCK TABLE {schema}.node")).await.unwrap();
    let mut opens = Box::pin(lab::open(&lab.place, &lab.clock));
    tokio::select! {
        biased;
        opened = &mut opens => panic!("it did not wait: {:?}", opened.err()),
        () = until("it has connected", async || 0 < connections.count().await) => {}
    }
    drop(opens);
    // A backend that waits for a lock does not notice that its client is gone.
    holder.batch_execute("COMMIT").await.unwrap();
    until("its connection has ended", async || connections.count().await == 0).await;
    lab::open(&lab.place, &lab.clock).await.unwrap().close().await;
}
