//! The timeline of an object, the changes of a turn, and the object as a file.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steadfast_core::{
    Object,
    object::{Changes, HistoryRetention, RowChange, sweep_history},
    rusqlite::Connection,
};

use super::{
    Program,
    inspect::{add, run},
    ledger,
};
use crate::{
    lab::Lab,
    ledger::{Add, AddBoth, Ledger},
};

laws!(
    turns_are_listed_newest_first_in_pages,
    a_turn_shows_the_rows_it_changed_before_and_after,
    the_runtimes_own_tables_come_last_and_are_marked,
    rows_are_identified_by_their_keys_in_every_kind_of_table,
    large_tables_and_many_rows_are_not_compared,
    a_swept_turn_is_reported_as_deleted,
    an_export_is_an_ordinary_file_now_and_then,
);
laws!(also on postgres:
    turns_are_listed_newest_first_in_pages,
    a_swept_turn_is_reported_as_deleted,
);

async fn turn(app: &Program, number: i64) -> Changes {
    app.objects.look_at_turn(None, "ledger", "a", number).await.unwrap()
}

fn shown(changes: &Changes) -> Vec<Value> {
    let row = |it: &RowChange| {
        let cells = |row: &Option<Map<String, Value>>| {
            row.as_ref().map(|row| it.columns.iter().map(|it| row[it].clone()).collect::<Vec<_>>())
        };
        json!([it.table, it.key, cells(&it.before), cells(&it.after)])
    };
    changes.changes.iter().map(row).collect()
}

async fn turns_are_listed_newest_first_in_pages(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    add(&app, "b", 1).await;
    app.call(Ledger::at("a"), AddBoth { other: "c".into(), by: 2 }).await.unwrap();
    lab.clock.advance(Duration::from_secs(1));
    run(&app, "a", "CREATE TABLE large AS SELECT randomblob(100000)").await;
    let list = async |from, limit| app.objects.look_at_turns("ledger", "a", from, limit).await;
    let turns = list(None, 9).await.unwrap();
    let seen: Vec<(i64, &str, u32)> =
        turns.iter().map(|it| (it.seq, &*it.input, it.sent)).collect();
    assert_eq!(seen, [(3, "sql", 0), (2, "add-both", 1), (1, "add", 0)]);
    assert!(100_000 < turns[0].bytes && turns[1].bytes < 1_000 && 0 < turns[1].bytes);
    assert_eq!(turns[0].at.since(turns[1].at), Duration::from_secs(1));
    let page = list(None, 2).await.unwrap();
    assert_eq!(page, turns[..2]);
    assert_eq!(list(Some(page[1].prev), 2).await.unwrap(), turns[2..]);
    // The turns of other objects are not returned.
    let other = lab.store.head(ledger("b").id()).await.unwrap().unwrap().position;
    assert_eq!(list(Some(other), 2).await.unwrap(), []);
}

async fn a_turn_shows_the_rows_it_changed_before_and_after(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 5).await;
    add(&app, "a", 7).await;
    run(&app, "a", "DELETE FROM entry WHERE id = 1; UPDATE total SET n = 7").await;
    run(&app, "a", "CREATE TABLE x (y); DROP TABLE rung").await;
    let first = turn(&app, 1).await;
    assert_eq!((first.entry.turn, &*first.entry.input), (1, "add"));
    let made: Vec<&str> = first.schema.iter().map(|it| &*it.name).collect();
    assert_eq!(made, ["entry", "rung", "total"]);
    let total = |it: i64| json!([it]);
    let expected =
        [json!(["entry", {"id": 1}, null, [1, 5]]), json!(["total", {"rowid": 1}, null, total(5)])];
    assert_eq!(shown(&first), expected);
    assert_eq!(first.changes[0].columns, ["id", "amount"]);
    let second = turn(&app, 2).await;
    let expected = [
        json!(["entry", {"id": 2}, null, [2, 7]]),
        json!(["total", {"rowid": 1}, total(5), total(12)]),
    ];
    assert_eq!((shown(&second), second.schema.len()), (expected.to_vec(), 0));
    let expected =
        [json!(["entry", {"id": 1}, [1, 5], null]), json!(["total", {"rowid": 1}, total(12), [7]])];
    assert_eq!(shown(&turn(&app, 3).await), expected);
    let last = turn(&app, 4).await;
    let schema: Vec<(&str, bool, bool)> =
        last.schema.iter().map(|it| (&*it.name, it.before.is_some(), it.after.is_some())).collect();
    assert_eq!(schema, [("x", false, true), ("rung", true, false)]);
    assert!(last.changes.is_empty() && last.skipped.is_empty() && !last.truncated);
}

async fn the_runtimes_own_tables_come_last_and_are_marked(lab: Lab) {
    let app = Program::on(&lab).await;
    app.objects.call(Ledger::at("a"), Add { by: 5 }).key("k").await.unwrap();
    let changes = turn(&app, 1).await;
    let tables: Vec<(&str, bool)> =
        changes.changes.iter().map(|it| (&*it.table, it.system)).collect();
    assert_eq!(tables, [("entry", false), ("total", false), ("_steadfast_key", true)]);
    assert!(changes.schema.iter().all(|it| !it.name.starts_with("_steadfast_")));
    let view = app.objects.look_at(None, "ledger", "a").await.unwrap();
    assert!(view.tables.last().is_some_and(|it| it.system));
}

async fn rows_are_identified_by_their_keys_in_every_kind_of_table(lab: Lab) {
    let app = Program::on(&lab).await;
    let tables = "CREATE TABLE two (b TEXT COLLATE NOCASE, a INTEGER, v, PRIMARY KEY (a, b DESC)) \
             WITHOUT ROWID; \
         CREATE TABLE \"odd \"\"name\" (rowid TEXT, \"a \"\"b\", g AS (rowid || '!')); \
         CREATE TABLE hidden (rowid, _rowid_, oid); \
         CREATE TABLE wide (id INTEGER PRIMARY KEY, v); \
         INSERT INTO two VALUES ('x', 1, 1), ('y', 1, 2); \
         INSERT INTO \"odd \"\"name\" VALUES ('r', x'00'); INSERT INTO wide VALUES (-5, NULL)";
    run(&app, "a", tables).await;
    run(
        &app,
        "a",
        "UPDATE two SET v = 3 WHERE b = 'x'; UPDATE two SET b = 'Y' WHERE b = 'y'; \
         UPDATE \"odd \"\"name\" SET rowid = 's'; INSERT INTO hidden VALUES (1, 2, 3); \
         ALTER TABLE wide ADD COLUMN w",
    )
    .await;
    let changes = turn(&app, 2).await;
    let odd = |it: &str| json!([it, {"blob": "00"}, format!("{it}!")]);
    let expected = [
        json!(["odd \"name", {"_rowid_": 1}, odd("r"), odd("s")]),
        json!(["two", {"a": 1, "b": "Y"}, ["y", 1, 2], ["Y", 1, 2]]),
        json!(["two", {"a": 1, "b": "x"}, ["x", 1, 1], ["x", 1, 3]]),
    ];
    assert_eq!(shown(&changes), expected);
    let skipped: Vec<&str> = changes.skipped.iter().map(|it| &*it.table).collect();
    assert_eq!(skipped, ["hidden", "wide"]);
}

async fn large_tables_and_many_rows_are_not_compared(lab: Lab) {
    let app = Program::on(&lab).await;
    let fill = |table: &str, rows: u32| {
        format!(
            "CREATE TABLE {table} (id INTEGER PRIMARY KEY); \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows}) \
             INSERT INTO {table} SELECT i FROM n;"
        )
    };
    run(&app, "a", &(fill("large", 10_001) + &fill("most", 10_000))).await;
    let changes = turn(&app, 1).await;
    assert_eq!((changes.changes.len(), changes.truncated), (100, true));
    assert_eq!((changes.skipped.len(), &*changes.skipped[0].table), (1, "large"));
    assert!(changes.skipped[0].reason.contains("more than 10000 rows"));
    run(&app, "a", "DELETE FROM most WHERE id = 9999; DELETE FROM large WHERE id = 1").await;
    let changes = turn(&app, 2).await;
    // Now that it has 10,000 it had one more before.
    assert_eq!(shown(&changes), [json!(["most", {"id": 9999}, [9999], null])]);
    assert_eq!(changes.skipped.len(), 1);
}

async fn a_swept_turn_is_reported_as_deleted(lab: Lab) {
    let app = Program::on(&lab).await;
    for by in 1..=3 {
        add(&app, "a", by).await;
    }
    lab.clock.advance(Duration::from_hours(48));
    for by in 4..=5 {
        add(&app, "a", by).await;
    }
    let keep = Duration::from_hours(24);
    let retention = HistoryRetention { keep, ..HistoryRetention::DEFAULT };
    assert_eq!(sweep_history(&*lab.store, retention).await.unwrap(), 3);
    assert_eq!(app.objects.look_at(None, "ledger", "a").await.unwrap().oldest_turn, 3);
    assert_eq!(turn(&app, 4).await.changes.len(), 2);
    for number in 1..=3 {
        let error = app.objects.look_at_turn(None, "ledger", "a", number).await.unwrap_err();
        assert_eq!(error.code(), "turn_not_found", "{error}");
    }
    assert_eq!(app.objects.look_at_turns("ledger", "a", None, 9).await.unwrap().len(), 2);
    assert_eq!(app.objects.look_back(None, "ledger", "a", Some(3)).await.unwrap().turn, 3);
}

/// Exports a current or past state of an object to a file, like a user, and opens it.
async fn exported(app: &Program, turn: Option<i64>) -> (tempfile::TempDir, Connection) {
    let past = app.objects.look_back(None, "ledger", "a", turn).await.unwrap();
    let bytes: Vec<u8> = past.into_pages().flat_map(|it| it.to_vec()).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.sqlite");
    std::fs::write(&file, bytes).unwrap();
    (folder, Connection::open(file).unwrap())
}

async fn an_export_is_an_ordinary_file_now_and_then(lab: Lab) {
    let app = Program::on(&lab).await;
    for by in 1..=3 {
        add(&app, "a", by).await;
    }
    run(&app, "a", "CREATE TABLE large AS SELECT randomblob(300000)").await;
    run(&app, "a", "DROP TABLE large").await;
    for (turn, total) in [(None, 6), (Some(4), 6), (Some(2), 3), (Some(1), 1)] {
        let (_folder, file) = exported(&app, turn).await;
        let one = |sql: &str| file.query_row(sql, (), |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(one("PRAGMA integrity_check"), "ok");
        assert_eq!(one("SELECT CAST(n AS TEXT) FROM total"), total.to_string());
        file.execute("UPDATE total SET n = 100", ()).unwrap();
    }
}
