//! Past states: every stored earlier turn can be read as it was then.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use steadfast_core::{
    CallError, Object, ObjectOptions,
    object::{HistoryError, HistoryRetention, pages_at, sweep_history},
    store::{Entropy, ManualClock, MemoryStore, Moment, SeededEntropy, Store},
};

use super::{Program, ledger};
use crate::{
    gated_store::GatedStore,
    lab::{Lab, Place, START},
    ledger::{Add, Ledger, Query, Read, Sql},
};

laws!(on sqlite, postgres:
    every_turn_of_a_random_life_can_be_seen_as_it_was,
    turns_older_than_the_retention_are_deleted_and_the_others_are_complete,
    turns_that_no_image_holds_are_put_into_images_before_they_are_forgotten,
    beyond_the_bytes_that_are_kept_the_oldest_turns_go,
    turns_that_were_never_made_are_refused,
    a_database_that_ends_with_pages_of_zeros_is_read_again,
    an_emptied_object_takes_little_space_and_its_past_states_can_be_read,
);

const DUMP: &str = "SELECT group_concat(quote(id) || quote(a) || quote(b), x'0a') FROM \
     (SELECT * FROM t0 UNION ALL SELECT * FROM t1 ORDER BY 1, 2, 3)";

/// A random statement. Some fail, on purpose: they must not change the pages.
fn statement(chance: &SeededEntropy) -> String {
    let below = |limit: u64| chance.next() % limit;
    let (table, id) = (format!("t{}", below(2)), below(60));
    match below(16) {
        0 => "CREATE TABLE extra (x, y); INSERT INTO extra VALUES (1, 2)".into(),
        1 => "DROP TABLE IF EXISTS extra".into(),
        2 => format!("CREATE INDEX IF NOT EXISTS i_{table} ON {table} (b)"),
        3 => format!("DROP INDEX IF EXISTS i_{table}"),
        4 => format!("DELETE FROM {table} WHERE id % 3 = {}", below(3)),
        5 => format!("INSERT INTO {table} (id, a) SELECT id, a FROM {table} LIMIT 3"),
        6 => format!("UPDATE {table} SET b = randomblob({}) WHERE id < {id}", below(200)),
        7 | 8 => format!("INSERT INTO {table} (b) VALUES (randomblob({}))", below(20_000)),
        9 => format!("UPDATE {table} SET a = NULL WHERE id > {id}"),
        10 => format!("INSERT OR REPLACE INTO {table} VALUES ({id}, 'x', zeroblob(9000))"),
        _ => format!("INSERT OR REPLACE INTO {table} VALUES ({id}, {}, 'text')", below(1_000)),
    }
}

async fn live(app: &Program, chance: &SeededEntropy) {
    let statements = (0..1 + chance.next() % 3).map(|_| statement(chance)).collect();
    app.call(Ledger::at("a"), Sql { statements, strict: false }).await.unwrap();
}

async fn run(app: &Program, sql: &str) -> Result<Vec<String>, CallError> {
    let statements = vec![sql.to_owned()];
    app.call(Ledger::at("a"), Sql { statements, strict: true }).await
}

async fn start(lab: &Lab) -> Program {
    let app = Program::on(lab).await;
    for table in ["t0", "t1"] {
        let sql = format!("CREATE TABLE IF NOT EXISTS {table} (id INTEGER PRIMARY KEY, a, b)");
        run(&app, &sql).await.unwrap();
    }
    app
}

async fn bytes_at(store: &dyn Store, turn: Option<i64>) -> Result<(i64, Vec<u8>), HistoryError> {
    let past = pages_at(store, &ledger("a"), turn).await?;
    Ok((past.turn, past.bytes()))
}

fn any_seed() -> u64 {
    let any = || SeededEntropy::from_system().next() % 1_000_000;
    let given = std::env::var("STEADFAST_TEST_SEED");
    let seed = given.map_or_else(|_| any(), |seed| seed.parse().expect("a number"));
    eprintln!("seed {seed} (set STEADFAST_TEST_SEED to run it again)");
    seed
}

async fn every_turn_of_a_random_life_can_be_seen_as_it_was(mut lab: Lab) {
    let chance = SeededEntropy::new(any_seed());
    let mut app = start(&lab).await;
    let (mut lives, mut bases) = (BTreeMap::new(), BTreeSet::new());
    for step in 0..90 {
        live(&app, &chance).await;
        let (turn, bytes) = bytes_at(&*lab.store, None).await.unwrap();
        let seen = Query { sql: DUMP.into() };
        if step % 10 == 0 {
            // The stored data equals the state of the object.
            let seen = app.call(Ledger::at("a"), seen).await.unwrap().remove(0);
            let past = pages_at(&*lab.store, &ledger("a"), None).await.unwrap().open().unwrap();
            let get = |row: &steadfast_core::rusqlite::Row<'_>| row.get::<_, Option<String>>(0);
            let stored = past.query_row(DUMP, (), get).unwrap();
            assert_eq!(stored.unwrap_or("Null".into()), seen);
            let check = past.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
            assert_eq!(check.unwrap(), "ok");
        }
        lives.insert(turn, bytes);
        bases.insert(lab.store.head(ledger("a").id()).await.unwrap().unwrap().base.seq);
        if step % 30 == 29 {
            app.stop().await;
            lab.reopen().await;
            app = Program::on(&lab).await;
        }
    }
    assert!(bases.len() > 2, "too few checkpoints: {bases:?}");
    for (turn, bytes) in lives {
        let (found, then) = bytes_at(&*lab.store, Some(turn)).await.unwrap();
        assert!(found == turn && then == bytes, "turn {turn} has changed");
    }
    lab.assert_sound().await;
}

async fn turns_older_than_the_retention_are_deleted_and_the_others_are_complete(mut lab: Lab) {
    let chance = SeededEntropy::new(any_seed());
    let app = start(&lab).await;
    for _ in 0..30 {
        live(&app, &chance).await;
    }
    let (old, _) = bytes_at(&*lab.store, None).await.unwrap();
    lab.clock.advance(Duration::from_hours(2));
    let mut lives = Vec::new();
    for _ in 0..30 {
        live(&app, &chance).await;
        lives.push(bytes_at(&*lab.store, None).await.unwrap());
    }
    let retention = HistoryRetention { keep: Duration::from_hours(1), ..HistoryRetention::DEFAULT };
    let forgotten = sweep_history(&*lab.store, retention).await.unwrap();
    assert_eq!(i64::try_from(forgotten).unwrap(), old);
    assert_eq!(sweep_history(&*lab.store, retention).await.unwrap(), 0);
    for (turn, bytes) in &lives {
        assert!(bytes_at(&*lab.store, Some(*turn)).await.unwrap().1 == *bytes, "turn {turn}");
    }
    bytes_at(&*lab.store, Some(old)).await.unwrap();
    let error = bytes_at(&*lab.store, Some(old - 1)).await.unwrap_err();
    assert!(matches!(error, HistoryError::Forgotten { oldest, .. } if oldest == old), "{error}");
    live(&app, &chance).await;
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    live(&app, &chance).await;
    let (turn, bytes) = lives.last().unwrap();
    assert!(bytes_at(&*lab.store, Some(*turn)).await.unwrap().1 == *bytes);
    lab.assert_sound().await;
}

async fn turns_that_no_image_holds_are_put_into_images_before_they_are_forgotten(mut lab: Lab) {
    let app = Program::on(&lab).await;
    for name in ["a", "b", "c"] {
        for by in 1..=5 {
            app.call(Ledger::at(name), Add { by }).await.unwrap();
        }
    }
    assert!(app.objects.delete("ledger", "c").await.unwrap());
    lab.clock.advance(Duration::from_hours(24 * 8));
    let swept = sweep_history(&*lab.store, HistoryRetention::DEFAULT).await.unwrap();
    assert_eq!(swept, 15);
    assert!(lab.store.old_turns(0, 10).await.unwrap().is_empty());
    lab.assert_sound().await;
    // The object in memory continues, and so does a reloaded one.
    assert_eq!(app.call(Ledger::at("a"), Add { by: 6 }).await.unwrap(), 21);
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (21, 21));
    assert_eq!(app.call(Ledger::at("b"), Read).await.unwrap(), (15, 15));
    assert_eq!(app.call(Ledger::at("b"), Add { by: 1 }).await.unwrap(), 16);
    bytes_at(&*lab.store, Some(5)).await.unwrap();
    assert!(matches!(bytes_at(&*lab.store, Some(4)).await, Err(HistoryError::Forgotten { .. })));
    lab.assert_sound().await;
}

async fn beyond_the_bytes_that_are_kept_the_oldest_turns_go(lab: Lab) {
    let chance = SeededEntropy::new(any_seed());
    let app = start(&lab).await;
    for _ in 0..40 {
        live(&app, &chance).await;
    }
    // Large enough for images: only turns that they contain are history.
    run(&app, "INSERT INTO t0 (b) VALUES (randomblob(100000))").await.unwrap();
    for name in ["small", "a"] {
        app.call(Ledger::at(name), Add { by: 1 }).await.unwrap();
    }
    let bytes_max = 120_000;
    let (last, bytes) = bytes_at(&*lab.store, None).await.unwrap();
    let retention = HistoryRetention { bytes_max, ..HistoryRetention::DEFAULT };
    assert!(0 < sweep_history(&*lab.store, retention).await.unwrap());
    let head = lab.store.head(ledger("a").id()).await.unwrap().unwrap();
    assert!(head.base.history_bytes <= 120_000, "{head:?}");
    let kept = lab.store.turns_back(head.position, 1_000).await.unwrap();
    let sum: usize = kept.iter().map(|it| it.delta.len()).sum();
    assert_eq!(i64::try_from(sum).unwrap(), head.base.history_bytes);
    let oldest = last - i64::try_from(kept.len()).unwrap();
    assert!(1 < oldest && oldest < last, "kept {} turns", kept.len());
    bytes_at(&*lab.store, Some(oldest)).await.unwrap();
    bytes_at(&*lab.store, Some(oldest - 1)).await.unwrap_err();
    assert!(bytes_at(&*lab.store, None).await.unwrap().1 == bytes);
    assert_eq!(app.call(Ledger::at("small"), Read).await.unwrap(), (1, 1));
    live(&app, &chance).await;
    lab.assert_sound().await;
}

async fn a_database_that_ends_with_pages_of_zeros_is_read_again(mut lab: Lab) {
    let app = start(&lab).await;
    // Large enough for images; the last page of the second row is all zeros.
    let grow = "INSERT INTO t0 (b) VALUES (randomblob(100000)), (zeroblob(9000))";
    run(&app, grow).await.unwrap();
    let length = Query { sql: "SELECT length(b) FROM t0 WHERE id = 2".into() };
    let (turn, then) = bytes_at(&*lab.store, None).await.unwrap();
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    assert_eq!(app.call(Ledger::at("a"), length).await.unwrap(), ["Integer(9000)"]);
    run(&app, "UPDATE t0 SET b = x'01' WHERE id = 2").await.unwrap();
    assert!(bytes_at(&*lab.store, Some(turn)).await.unwrap().1 == then);
}

async fn turns_that_were_never_made_are_refused(lab: Lab) {
    let app = Program::on(&lab).await;
    let none = bytes_at(&*lab.store, None).await.unwrap_err();
    assert!(matches!(none, HistoryError::NoTurn { turn: 0, last: 0, .. }), "{none}");
    app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    for turn in [-1, 0, 2, i64::MAX] {
        let error = bytes_at(&*lab.store, Some(turn)).await.unwrap_err();
        assert!(matches!(error, HistoryError::NoTurn { last: 1, .. }), "{error}");
    }
    assert_eq!(bytes_at(&*lab.store, Some(1)).await.unwrap().0, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inspection_during_turns_sees_the_state_after_one_turn() {
    let clock = ManualClock::at(START);
    let store = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    let lab = Lab { store: store.clone(), clock, place: Place::Memory, memory: None };
    let app = Program::with(&lab, Ledger::default(), ObjectOptions::default()).await;
    // It needs images.
    for _ in 0..300 {
        app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    }
    store.images_asked.forget_permits(usize::MAX);
    let stop = store.images.write().await;
    let looking = {
        let store = store.clone();
        tokio::spawn(async move { pages_at(&*store, &ledger("a"), None).await })
    };
    // It has read the head of the object; now the object runs turns, and writes images.
    store.images_asked.acquire().await.unwrap().forget();
    for _ in 0..300 {
        app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    }
    drop(stop);
    let past = looking.await.unwrap().unwrap();
    let turn = past.turn;
    let both = past.open().unwrap().query_row(
        "SELECT n, (SELECT count(*) FROM entry) FROM total",
        (),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
    );
    assert_eq!(both.unwrap(), (turn, turn), "it says that it is turn {turn}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_between_the_parts_of_a_checkpoint_does_no_harm() {
    // Some four megabytes: the images come in two commits.
    let big = "INSERT INTO t0 (b) VALUES (randomblob(2200000)), (randomblob(2200000))";
    let small = "UPDATE t0 SET b = randomblob(200000) WHERE id = 1";
    for commit in 1..=5 {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let mut lab = Lab { store: store.clone(), clock, place: Place::Memory, memory: None };
        let app = start(&lab).await;
        store.crash_at(commit, if commit % 2 == 0 { Moment::After } else { Moment::Before });
        for sql in [big, small] {
            // It may fail: the program has crashed.
            let _ = run(&app, sql).await;
        }
        drop(app);
        lab.store = Arc::new(store.restart());
        let (turn, then) = bytes_at(&*lab.store, None).await.unwrap();
        let app = start(&lab).await;
        let check = Query { sql: "PRAGMA integrity_check".into() };
        assert_eq!(app.call(Ledger::at("a"), check).await.unwrap(), ["ok"]);
        for sql in [small, small] {
            run(&app, sql).await.unwrap();
        }
        assert!(bytes_at(&*lab.store, Some(turn)).await.unwrap().1 == then, "commit {commit}");
        bytes_at(&*lab.store, Some(1)).await.unwrap();
    }
}

async fn an_emptied_object_takes_little_space_and_its_past_states_can_be_read(mut lab: Lab) {
    let app = Program::on(&lab).await;
    let sql = |statement: &str| Sql { statements: vec![statement.into()], strict: true };
    let fill = "CREATE TABLE big (id INTEGER PRIMARY KEY, x BLOB); \
         WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 600) \
         INSERT INTO big SELECT n, zeroblob(2000) || randomblob(200) || zeroblob(1800) FROM c";
    app.call(Ledger::at("a"), sql(fill)).await.unwrap();
    let full = lab.store.head(ledger("a").id()).await.unwrap().unwrap();
    let then = pages_at(&*lab.store, &ledger("a"), None).await.unwrap().bytes();
    assert!(600 * 4_096 < then.len());
    app.call(Ledger::at("a"), sql("DELETE FROM big")).await.unwrap();
    for by in 1..=260 {
        app.call(Ledger::at("a"), Add { by }).await.unwrap();
    }
    let head = lab.store.head(ledger("a").id()).await.unwrap().unwrap();
    assert!(head.base.pages < 50, "{head:?}");
    assert!(lab.store.images(ledger("a").id(), &[0..=u32::MAX]).await.unwrap().len() < 50);
    let past = pages_at(&*lab.store, &ledger("a"), Some(full.seq)).await.unwrap();
    assert!(past.bytes() == then, "turn {} has changed", full.seq);
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (33_930, 33_930));
    let check = Query { sql: "PRAGMA integrity_check".into() };
    assert_eq!(app.call(Ledger::at("a"), check).await.unwrap(), ["ok"]);
    app.assert_sound().await;
}
