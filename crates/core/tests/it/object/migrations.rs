//! Migrations: each runs once, with a turn or not at all.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_core::{CallError, Error, Handle, Object, Result, Turn, rusqlite, store::Address};

use super::Program;
use crate::lab::{Lab, address_of};

laws!(
    migrations_run_once_each_and_in_order,
    a_new_migration_runs_on_an_old_object,
    a_failed_turn_takes_its_migrations_along_and_the_next_one_runs_them,
    a_migration_that_fails_changes_nothing_and_fixed_code_continues,
    an_object_that_is_newer_than_the_code_is_refused,
    inspection_creates_no_object_and_migrates_none_in_the_store,
    tables_that_first_turns_need_exist_in_new_objects_from_the_start,
);
laws!(also on postgres: a_new_migration_runs_on_an_old_object);

const ONE: &str = "CREATE TABLE run (n INTEGER NOT NULL); INSERT INTO run VALUES (1)";
const TWO: &str = "ALTER TABLE run ADD COLUMN at INTEGER; INSERT INTO run VALUES (2, unixepoch())";
const THREE: &str = "INSERT INTO run VALUES (3, 0); CREATE INDEX run_n ON run (n)";
const WRONG: &str = "INSERT INTO run VALUES (99, 0); INSERT INTO nowhere VALUES (1)";
const ENDING: &str = "INSERT INTO run VALUES (99, 0); COMMIT; CREATE TABLE x (y)";

/// The code at some time: 1, 2 and 3 follow each other, 12 and 13 are mistakes.
struct Code<const V: u32>;
#[derive(Serialize, Deserialize)]
struct Runs;
#[derive(Serialize, Deserialize)]
struct Note {
    n: i64,
    refuse: bool,
}

impl<const V: u32> Object for Code<V> {
    const CLASS: &'static str = "grown";
    type Calls = (Runs, Note);
    const MIGRATIONS: &'static [&'static str] = match V {
        1 => &[ONE],
        2 => &[ONE, TWO],
        12 => &[ONE, TWO, WRONG],
        13 => &[ONE, TWO, ENDING],
        _ => &[ONE, TWO, THREE],
    };
}

impl<const V: u32> Handle<Runs> for Code<V> {
    const NAME: &'static str = "runs";
    type Reply = Vec<i64>;
    fn handle(&self, turn: &Turn<Self>, _: Runs) -> Result<Vec<i64>> {
        let mut list = turn.sql().prepare("SELECT n FROM run ORDER BY rowid")?;
        let rows = list.query_map((), |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

impl<const V: u32> Handle<Note> for Code<V> {
    const NAME: &'static str = "note";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Note) -> Result<()> {
        turn.sql().execute("INSERT INTO run (n) VALUES (?1)", [msg.n])?;
        if msg.refuse { Err(Error::terminal("no")) } else { Ok(()) }
    }
}

/// Sets an alarm in its first turn, or none.
struct Clerk;
#[derive(Serialize, Deserialize)]
struct Begin {
    alarm: bool,
    refuse: bool,
}
#[derive(Serialize, Deserialize)]
struct Rang;

impl Object for Clerk {
    const CLASS: &'static str = "clerk";
    type Calls = (Begin, Rang);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE rang (n INTEGER NOT NULL)"];
}

impl Handle<Begin> for Clerk {
    const NAME: &'static str = "begin";
    /// The number of tables of the runtime, and how often the alarm fired.
    type Reply = (i64, i64);
    fn handle(&self, turn: &Turn<Self>, msg: Begin) -> Result<(i64, i64)> {
        let seen = "SELECT (SELECT count(*) FROM sqlite_schema WHERE name = '_steadfast_alarm'), \
                    (SELECT count(*) FROM rang)";
        let seen = turn.sql().query_row(seen, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
        if msg.alarm {
            turn.set_alarm("ring", Duration::from_secs(1), Rang);
        }
        turn.sql().execute("INSERT INTO rang SELECT 1 WHERE 0", ())?;
        turn.kv().put("begun", &true)?;
        if msg.refuse { Err(Error::terminal("no")) } else { Ok(seen) }
    }
}

impl Handle<Rang> for Clerk {
    const NAME: &'static str = "rang";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Rang) -> Result<()> {
        turn.sql().execute("INSERT INTO rang VALUES (1)", ())?;
        Ok(())
    }
}

async fn tables_that_first_turns_need_exist_in_new_objects_from_the_start(mut lab: Lab) {
    let begin = |alarm, refuse| Begin { alarm, refuse };
    for process in 0..2 {
        let name = |it: &str| Clerk::at(format!("{it}{process}"));
        let app = Program::of(lab.store.clone(), &lab.clock, |it| it.class(Clerk)).await;
        assert_eq!(app.call(name("plain"), begin(false, false)).await.unwrap(), (0, 0));
        app.call(name("refused"), begin(true, true)).await.unwrap_err();
        assert_eq!(app.call(name("first"), begin(true, false)).await.unwrap(), (0, 0));
        for it in ["second", "third"] {
            assert_eq!(app.call(name(it), begin(true, false)).await.unwrap(), (1, 0), "{it}");
        }
        assert_eq!(app.call(name("refused"), begin(false, false)).await.unwrap(), (1, 0));
        app.advance(Duration::from_secs(2)).await;
        for (it, rang) in [("plain", 0), ("refused", 0), ("first", 1), ("second", 1), ("third", 1)]
        {
            let (_, times) = app.call(name(it), begin(false, false)).await.unwrap();
            assert_eq!(times, rang, "{it}");
        }
        app.stop().await;
        lab.assert_sound().await;
        lab.reopen().await;
    }
}

/// Runs one version of the code, in a process of its own.
async fn during<const V: u32>(lab: &mut Lab, act: impl AsyncFnOnce(&Program)) {
    let app = Program::of(lab.store.clone(), &lab.clock, |it| it.class(Code::<V>)).await;
    act(&app).await;
    app.stop().await;
    lab.assert_sound().await;
    lab.reopen().await;
}

async fn note<const V: u32>(app: &Program, n: i64) -> Result<(), CallError> {
    app.call(Code::<V>::at("a"), Note { n, refuse: false }).await
}

async fn runs<const V: u32>(app: &Program) -> Result<Vec<i64>, CallError> {
    app.call(Code::<V>::at("a"), Runs).await
}

fn object() -> Address {
    address_of(steadfast_core::store::EntityKind::Object, "grown", "a")
}

async fn migrations_run_once_each_and_in_order(mut lab: Lab) {
    for turn in 0..3 {
        during::<3>(&mut lab, async |app| {
            note::<3>(app, 100 + turn).await.unwrap();
            let wanted: Vec<i64> = [1, 2, 3].into_iter().chain(100..=100 + turn).collect();
            assert_eq!(runs::<3>(app).await.unwrap(), wanted);
        })
        .await;
    }
}

async fn a_new_migration_runs_on_an_old_object(mut lab: Lab) {
    during::<1>(&mut lab, async |app| note::<1>(app, 100).await.unwrap()).await;
    during::<2>(&mut lab, async |app| note::<2>(app, 200).await.unwrap()).await;
    during::<3>(&mut lab, async |app| {
        assert_eq!(runs::<3>(app).await.unwrap(), [1, 100, 2, 200, 3]);
        note::<3>(app, 300).await.unwrap();
    })
    .await;
    during::<3>(&mut lab, async |app| {
        assert_eq!(runs::<3>(app).await.unwrap(), [1, 100, 2, 200, 3, 300]);
    })
    .await;
}

async fn a_failed_turn_takes_its_migrations_along_and_the_next_one_runs_them(mut lab: Lab) {
    during::<1>(&mut lab, async |app| note::<1>(app, 100).await.unwrap()).await;
    during::<3>(&mut lab, async |app| {
        for _ in 0..3 {
            let refused = app.call(Code::<3>::at("a"), Note { n: 0, refuse: true }).await;
            assert!(matches!(refused, Err(CallError::Refused(_))));
            assert_eq!(runs::<3>(app).await.unwrap(), [1, 100, 2, 3]);
        }
        note::<3>(app, 300).await.unwrap();
        assert_eq!(runs::<3>(app).await.unwrap(), [1, 100, 2, 3, 300]);
    })
    .await;
    during::<3>(&mut lab, async |app| {
        assert_eq!(runs::<3>(app).await.unwrap(), [1, 100, 2, 3, 300]);
    })
    .await;
}

async fn refused_to_migrate<const V: u32>(lab: &mut Lab) {
    let before = lab.store.dump().await.unwrap();
    during::<V>(lab, async |app| {
        for _ in 0..2 {
            let error = runs::<V>(app).await.unwrap_err();
            assert!(matches!(error, CallError::Migration { .. }), "{error}");
            assert_eq!((error.code(), error.surely_unapplied()), ("migration_failed", true));
            note::<V>(app, 1).await.unwrap_err();
        }
    })
    .await;
    assert_eq!(lab.store.dump().await.unwrap(), before);
}

async fn a_migration_that_fails_changes_nothing_and_fixed_code_continues(mut lab: Lab) {
    during::<2>(&mut lab, async |app| note::<2>(app, 100).await.unwrap()).await;
    refused_to_migrate::<12>(&mut lab).await;
    refused_to_migrate::<13>(&mut lab).await;
    during::<3>(&mut lab, async |app| {
        note::<3>(app, 300).await.unwrap();
        assert_eq!(runs::<3>(app).await.unwrap(), [1, 2, 100, 3, 300]);
    })
    .await;
}

async fn an_object_that_is_newer_than_the_code_is_refused(mut lab: Lab) {
    during::<3>(&mut lab, async |app| note::<3>(app, 100).await.unwrap()).await;
    refused_to_migrate::<2>(&mut lab).await;
    refused_to_migrate::<1>(&mut lab).await;
    during::<3>(&mut lab, async |app| {
        assert_eq!(runs::<3>(app).await.unwrap(), [1, 2, 3, 100]);
    })
    .await;
}

async fn inspection_creates_no_object_and_migrates_none_in_the_store(mut lab: Lab) {
    during::<1>(&mut lab, async |app| {
        assert_eq!(runs::<1>(app).await.unwrap(), [1]);
    })
    .await;
    assert!(lab.store.head(object().id()).await.unwrap().is_none());
    during::<1>(&mut lab, async |app| note::<1>(app, 100).await.unwrap()).await;
    let before = lab.store.dump().await.unwrap();
    during::<3>(&mut lab, async |app| {
        assert_eq!(runs::<3>(app).await.unwrap(), [1, 100, 2, 3]);
    })
    .await;
    assert_eq!(lab.store.dump().await.unwrap(), before);
}
