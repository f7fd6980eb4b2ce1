//! Messages for the tests, written through the store as an application would.

use std::{path::Path, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{
    Address, Cause, Commit, Due, Json, Lease, Message, Position, SettledAs, SqliteOptions,
    SqliteStore, Store, Streams, SystemClock, Task, Turn, Write,
};

/// A stream with a message in every state.
pub(crate) const ORDER: &str = "process/checkout/order-1";

/// A stream whose name and data would be markup if they were not escaped.
pub(crate) const ODD: &str = "stream/odd/<b>&\"x\"/%2F?#";

/// Streams in the list, with `ORDER` and `ODD`.
pub(crate) const STREAMS: usize = 62;

/// Positions of the messages of `ORDER` in the store.
pub(crate) const DONE: Position = 2;
pub(crate) const DEAD: Position = 3;
pub(crate) const CANCELLED: Position = 4;
pub(crate) const PENDING: Position = 5;

/// Prevents processes from starting while a store is open, see `harness::spawn`.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

/// Opens a folder.
pub(crate) fn open(folder: &Path) -> SqliteStore {
    let options = SqliteOptions::new(folder, Arc::new(SystemClock));
    SqliteStore::open(options).expect("the folder is free")
}

/// Runs async code of a test.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("a runtime").block_on(future)
}

/// Fills a folder.
pub(crate) fn fill(folder: &Path) {
    let _alone = alone();
    block_on(async {
        let store = Arc::new(open(folder));
        let streams = Streams::new(store.clone());
        fill_order(store.as_ref(), &streams).await;
        let data = r#"{"html":"</pre><script>alert(1)</script>"}"#;
        let odd = message("</td><script>", data).event();
        streams.append(&address(ODD), 0, vec![odd]).await.expect("appended");
        for number in 0..STREAMS - 2 {
            let stream = address(&format!("stream/bulk/{number:03}"));
            let noted = message("noted", "1").event();
            streams.append(&stream, 0, vec![noted]).await.expect("appended");
        }
        store.close().await;
    });
}

/// Fills a folder with an instance whose command names another instance, which refuses the result;
/// returns the position of the command.
pub(crate) fn fill_misled(folder: &Path) -> Position {
    let _alone = alone();
    block_on(async {
        let store = Arc::new(open(folder));
        let fine = address("process/traffic-fine/r/1");
        let beside = Json::parse(r#"{"process":"traffic-fine"}"#).expect("JSON");
        let command = message("GenerateTrafficFineSystemNumber", r#"{"policeReportId":"r-2"}"#);
        let command = command.metadata(beside).expect("a message").to(&fine);
        let streams = Streams::new(store.clone());
        streams.append(&fine, 0, vec![command]).await.expect("appended");
        store.close().await;
    });
    1
}

/// Fills a folder with one stream of this many messages of almost a megabyte.
pub(crate) fn fill_large(folder: &Path, count: i64) {
    let _alone = alone();
    block_on(async {
        let store = Arc::new(open(folder));
        let streams = Streams::new(store.clone());
        let data = format!("\"{}\"", "x".repeat((1 << 20) - 2));
        for version in 0..count {
            let large = message("large", &data).event();
            streams
                .append(&address("stream/large/1"), version, vec![large])
                .await
                .expect("appended");
        }
        store.close().await;
    });
}

/// Reads an address.
pub(crate) fn address(text: &str) -> Address {
    text.parse().expect("an address")
}

fn message(message_type: &str, data: &str) -> Message {
    Message::new(message_type, Json::parse(data).expect("JSON")).expect("a message")
}

async fn fill_order(store: &dyn Store, streams: &Streams) {
    let target = address("object/warehouse/main");
    let later = Task {
        target: target.clone(),
        ordered: true,
        due: Due::After(Duration::from_hours(24 * 365)),
    };
    let messages = vec![
        message("place-order", r#"{"total": 12.50,  "lines":[1,2]}"#).input(),
        message("reserve", "{}").to(&target).cause(Cause::Sibling(0)),
        message("charge", r#"{"card":"…"}"#).to(&target).cause(Cause::Sibling(0)),
        message("greet", "null").to(&target),
        message("remind", "{}").task(later).action("schedule"),
        message("order-placed", "{}").event().action("publish"),
    ];
    let order = address(ORDER);
    streams.append(&order, 0, messages).await.expect("appended");
    assert!(streams.mark_command_processed(&order, DONE).await.expect("marked"));
    assert!(streams.cancel(CANCELLED).await.expect("cancelled"));
    let lease = Lease { holder: store.owner().epoch, number: 1 };
    let (position, lasts) = (DEAD, Duration::from_mins(1));
    let (error, after) = ("card declined".to_owned(), Duration::ZERO);
    let given_up = Some("gave up: card declined".to_owned());
    for write in [
        Write::Claim { position, lease, lasts },
        Write::Retry { position, lease: Some(lease), error, after },
        Write::Claim { position, lease, lasts },
        Write::Settle { position, lease: Some(lease), as_: SettledAs::Dead, error: given_up },
    ] {
        let outcome = store.commit(Commit::of(write)).await.expect("answered");
        outcome.committed().expect("committed");
    }
}

/// Creates a message with a delivery in flight, in a folder that stays open and can only be copied.
/// Returns its position.
pub(crate) fn fill_claimed(folder: &Path) -> Position {
    let _alone = alone();
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(open(folder));
        let greet = message("greet", "null").to(&address("object/warehouse/main"));
        let stream = address("stream/claimed/a");
        // Enough bytes that the write-ahead log is not checkpointed.
        let long = format!("\"{}\"", "x".repeat(4_000));
        let mut messages = vec![greet];
        messages.extend((0..100).map(|_| message("noted", &long).event()));
        Streams::new(store.clone()).append(&stream, 0, messages).await.expect("appended");
        let position = store.read_stream(stream.id(), 1, 1).await.expect("read")[0].position;
        let lease = Lease { holder: store.owner().epoch, number: 1 };
        let claim = Write::Claim { position, lease, lasts: Duration::from_mins(1) };
        let outcome = store.commit(Commit::of(claim)).await.expect("answered");
        outcome.committed().expect("committed");
        // Like a killed process.
        std::mem::forget(store);
        position
    })
}

/// Creates an object of a class that the server does not know.
pub(crate) fn fill_parrot(folder: &Path) {
    let _alone = alone();
    block_on(async {
        let store = open(folder);
        let object = address("object/parrot/p");
        let (input, delta) = ("say".into(), Vec::new().into());
        let turn = Turn { object, cause: None, sent: 1, chk: 0xb77f_c6f1, input, delta };
        let outcome = store.commit(Commit::of(Write::Turn(turn))).await.expect("answered");
        outcome.committed().expect("committed");
        store.close().await;
    });
}

/// Deletes a message of pending work, as a disk error might.
pub(crate) fn damage(folder: &Path) {
    let database = rusqlite::Connection::open(folder.join("steadfast.db")).expect("a database");
    let removed = database.execute("DELETE FROM message WHERE position = ?1", [PENDING]);
    assert_eq!(removed.expect("the statement runs"), 1);
}

/// Changes the first turn of a store, as a disk error might.
pub(crate) fn damage_turn(folder: &Path) {
    let database = rusqlite::Connection::open(folder.join("steadfast.db")).expect("a database");
    let zeros = "UPDATE turn SET delta = zeroblob(length(delta)) WHERE position = 1";
    assert_eq!(database.execute(zeros, ()).expect("the statement runs"), 1);
}
