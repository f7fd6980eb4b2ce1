//! Large objects are loaded in part, the rest is read when a turn needs it, and results do not
//! differ.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use steadfast_core::{
    CallError, Object, ObjectOptions,
    object::{HistoryRetention, pages_at, sweep_history},
    rusqlite,
    store::{Entropy, ManualClock, MemoryStore, SeededEntropy},
};

use super::{Program, ledger, sleep::awake};
use crate::{
    gated_store::GatedStore,
    lab::{Lab, Place, START},
    ledger::{Add, Ledger, Query, Read, Sql},
};

laws!(on sqlite, postgres:
    a_random_life_with_sleep_and_sweeps_is_that_of_an_ordinary_database,
    pages_that_were_not_read_are_right_when_images_are_written_concurrently,
    an_object_that_is_deleted_while_it_is_not_all_read_begins_anew,
    an_object_that_shrinks_while_it_is_not_all_read_is_as_it_should_be,
);

/// 400 rows, one on each page.
pub(super) const FILL: &str = "CREATE TABLE big (id INTEGER PRIMARY KEY, data TEXT); \
     WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 400) \
     INSERT INTO big SELECT x, printf('%.3000c', char(65 + x % 26)) FROM n";
const SEEN: &str =
    "SELECT count(*) || ' ' || sum(length(data)) || ' ' || sum(id * unicode(data)) FROM big";
const NOTHING_KEPT: HistoryRetention =
    HistoryRetention { keep: Duration::ZERO, ..HistoryRetention::DEFAULT };

fn sql(statements: &[&str], strict: bool) -> Sql {
    Sql { statements: statements.iter().map(|it| (*it).to_owned()).collect(), strict }
}

async fn run(app: &Program, statement: &str) -> Result<Vec<String>, CallError> {
    app.call(Ledger::at("a"), sql(&[statement], true)).await
}

async fn query(app: &Program, sql: &str) -> String {
    app.call(Ledger::at("a"), Query { sql: sql.into() }).await.unwrap().remove(0)
}

/// An object that is large and asleep.
async fn filled(lab: &Lab) -> Program {
    let app = Program::on(lab).await;
    run(&app, FILL).await.unwrap();
    asleep(lab, &app).await;
    app
}

async fn asleep(lab: &Lab, app: &Program) {
    awake(lab, app, 0).await;
}

/// The state of the object is sound, and equal to that in the store.
async fn assert_sound(lab: &Lab, app: &Program) {
    assert_eq!(query(app, "PRAGMA integrity_check").await, "ok");
    let past = pages_at(&*lab.store, &ledger("a"), None).await.unwrap().open().unwrap();
    let stored = past.query_row(SEEN, (), |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(query(app, SEEN).await, stored);
}

fn any_seed() -> u64 {
    let any = || SeededEntropy::from_system().next() % 1_000_000;
    let given = std::env::var("STEADFAST_TEST_SEED");
    let seed = given.map_or_else(|_| any(), |seed| seed.parse().expect("a number"));
    eprintln!("seed {seed} (set STEADFAST_TEST_SEED to run it again)");
    seed
}

fn statement(chance: &SeededEntropy) -> String {
    let below = |limit: u64| chance.next() % limit;
    let (id, letter) = (1 + below(500), 65 + below(26));
    match below(9) {
        0 => format!("DELETE FROM big WHERE id BETWEEN {id} AND {}", id + below(200)),
        1 => "CREATE INDEX IF NOT EXISTS by_data ON big (data)".into(),
        2 => "DROP INDEX IF EXISTS by_data".into(),
        3 => format!("UPDATE big SET data = data || 'x' WHERE id % 50 = {}", below(50)),
        4 => format!(
            "WITH n (x) AS (SELECT {id} UNION ALL SELECT x + 1 FROM n LIMIT {}) INSERT OR REPLACE \
             INTO big SELECT x, printf('%.{}c', char({letter})) FROM n",
            1 + below(100),
            1 + below(6_000),
        ),
        _ => format!(
            "INSERT OR REPLACE INTO big VALUES ({id}, printf('%.{}c', char({letter})))",
            1 + below(9_000)
        ),
    }
}

async fn a_random_life_with_sleep_and_sweeps_is_that_of_an_ordinary_database(lab: Lab) {
    let chance = SeededEntropy::new(any_seed());
    let below = |limit: u64| chance.next() % limit;
    let app = filled(&lab).await;
    let oracle = rusqlite::Connection::open_in_memory().unwrap();
    oracle.execute_batch(FILL).unwrap();
    let all = "SELECT count(*) || ' ' || group_concat(id || substr(data, 1, 9) || length(data)) \
         FROM (SELECT * FROM big ORDER BY id)";
    for step in 0..120 {
        match below(12) {
            0 | 1 => asleep(&lab, &app).await,
            2 => {
                lab.clock.advance(Duration::from_secs(1));
                sweep_history(&*lab.store, NOTHING_KEPT).await.unwrap();
            }
            3 => {
                // All its reads and changes are undone.
                let before = statement(&chance);
                let fails = [&*before, "UPDATE big SET data = data || 'y'", "SELECT nothing"];
                app.call(Ledger::at("a"), sql(&fails, true)).await.unwrap_err();
            }
            4 => {
                let id = below(500);
                let one = format!("SELECT coalesce(sum(length(data)), 0) FROM big WHERE id = {id}");
                let expected: i64 = oracle.query_row(&one, (), |row| row.get(0)).unwrap();
                assert_eq!(query(&app, &one).await, format!("Integer({expected})"), "{step}");
            }
            _ => {
                let statement = statement(&chance);
                run(&app, &statement).await.unwrap();
                oracle.execute_batch(&statement).unwrap();
            }
        }
        if step % 20 == 19 {
            let expected: String = oracle.query_row(all, (), |row| row.get(0)).unwrap();
            assert!(query(&app, all).await == expected, "step {step}");
            assert_sound(&lab, &app).await;
        }
    }
    lab.assert_sound().await;
}

async fn pages_that_were_not_read_are_right_when_images_are_written_concurrently(lab: Lab) {
    let app = filled(&lab).await;
    let expected = query(&app, SEEN).await;
    // Turns after the images, on pages of their own.
    run(&app, "UPDATE big SET data = upper(data) || 'x' WHERE id = 390").await.unwrap();
    asleep(&lab, &app).await;
    for round in 1..=3 {
        app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
        lab.clock.advance(Duration::from_secs(1));
        // The sweep writes images and deletes the turns; then the object does so by itself.
        let forgotten = sweep_history(&*lab.store, NOTHING_KEPT).await.unwrap();
        assert!(0 < forgotten);
        run(&app, "UPDATE big SET data = lower(upper(data)) WHERE id = 30").await.unwrap();
        for _ in 0..260 * (round - 1) {
            app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
        }
        sweep_history(&*lab.store, NOTHING_KEPT).await.unwrap();
        let late = "SELECT data = printf('%.3000c', char(65 + id % 26)) FROM big WHERE id = 200";
        assert_eq!(query(&app, late).await, "Integer(1)");
        assert_sound(&lab, &app).await;
        asleep(&lab, &app).await;
    }
    run(&app, "UPDATE big SET data = printf('%.3000c', char(65 + id % 26))").await.unwrap();
    assert_eq!(query(&app, SEEN).await, expected);
    lab.assert_sound().await;
}

async fn an_object_that_is_deleted_while_it_is_not_all_read_begins_anew(lab: Lab) {
    let app = filled(&lab).await;
    app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    assert!(app.objects.delete(Ledger::CLASS, "a").await.unwrap());
    assert_eq!(app.call(Ledger::at("a"), Add { by: 5 }).await.unwrap(), 5);
    run(&app, &FILL.replace("65", "97")).await.unwrap();
    let seen = query(&app, SEEN).await;
    asleep(&lab, &app).await;
    assert_eq!(query(&app, SEEN).await, seen);
    assert_sound(&lab, &app).await;
    lab.assert_sound().await;
}

async fn an_object_that_shrinks_while_it_is_not_all_read_is_as_it_should_be(lab: Lab) {
    let app = filled(&lab).await;
    // The runtime vacuums it when it writes images.
    run(&app, "DELETE FROM big WHERE id > 20").await.unwrap();
    asleep(&lab, &app).await;
    for _ in 0..300 {
        app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    }
    let head = lab.store.head(ledger("a").id()).await.unwrap().unwrap();
    assert!(head.base.pages < 100, "{} pages", head.base.pages);
    assert_sound(&lab, &app).await;
    asleep(&lab, &app).await;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (300, 300));
    assert_sound(&lab, &app).await;
}

fn held() -> (Arc<GatedStore>, Lab) {
    let clock = ManualClock::at(START);
    let store = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    (store.clone(), Lab { store, clock, place: Place::Memory, memory: None })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waking_a_large_object_reads_a_part_of_it() {
    let (store, lab) = held();
    let app = filled(&lab).await;
    let read = || store.images_read.swap(0, Ordering::SeqCst);
    read();
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 1);
    let first = read();
    assert!((1..=32).contains(&first), "{first} pages");
    assert_eq!(query(&app, "SELECT length(data) FROM big WHERE id = 200").await, "Integer(3000)");
    let then = read();
    assert!((1..=48).contains(&then), "{then} pages");
    assert_sound(&lab, &app).await;
    asleep(&lab, &app).await;
    read();
    // A page that is changed by turns after the images is read with them.
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1, 1));
    let again = read();
    assert!((1..=48).contains(&again), "{again} pages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_are_not_in_memory_do_not_count_as_memory() {
    let (_, lab) = held();
    let options = ObjectOptions { awake_bytes_max: 3 << 20, ..ObjectOptions::default() };
    let app = Program::with(&lab, Ledger::default(), options).await;
    for name in ["b", "c", "d", "e", "f", "g", "h"] {
        app.call(Ledger::at(name), sql(&[FILL], true)).await.unwrap();
    }
    asleep(&lab, &app).await;
    for name in ["b", "c", "d", "e", "f", "g", "h"] {
        app.call(Ledger::at(name), Add { by: 1 }).await.unwrap();
    }
    assert_eq!(app.objects.awake(), 7, "each has more than a megabyte");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_while_pages_are_needed_costs_the_turn_and_nothing_else() {
    let (store, lab) = held();
    let app = filled(&lab).await;
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 1);
    store.images_away.store(true, Ordering::SeqCst);
    let five = "INSERT INTO entry (amount) VALUES (5)";
    for strict in [true, false] {
        let turn = sql(&[five, "UPDATE big SET data = 'x' WHERE id = 200", five], strict);
        let error = app.call(Ledger::at("a"), turn).await.unwrap_err();
        assert!(matches!(&error, CallError::Store(_)), "{error}");
        assert!(error.is_retryable() && error.surely_unapplied());
        // It was dropped, and now cannot even be read.
        let error = app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        store.images_away.store(false, Ordering::SeqCst);
        assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1, 1));
        store.images_away.store(true, Ordering::SeqCst);
    }
    store.images_away.store(false, Ordering::SeqCst);
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 2);
    assert_sound(&lab, &app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_another_owner_changed_is_never_seen_in_part() {
    let (_, lab) = held();
    let app = filled(&lab).await;
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (0, 0));
    let other = Program::on(&lab).await;
    run(&other, "UPDATE big SET data = 'moved' WHERE id BETWEEN 190 AND 300").await.unwrap();
    for _ in 0..300 {
        other.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    }
    let seen = query(&other, SEEN).await;
    let error = app.call(Ledger::at("a"), Query { sql: SEEN.into() }).await.unwrap_err();
    assert!(matches!(error, CallError::Lost { .. }) && error.is_retryable(), "{error}");
    assert_eq!(query(&app, SEEN).await, seen);
    assert_sound(&lab, &app).await;
}
