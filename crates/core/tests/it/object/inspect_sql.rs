//! SQL over one object: it reads durable data, and nothing else.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast_core::{
    Object,
    object::{InspectError, Rows, SqlQuery},
    store::{ManualClock, MemoryStore},
};

use super::{
    Program, by_now,
    inspect::{add, run},
};
use crate::{
    gated_store::GatedStore,
    lab::{Lab, START},
    ledger::{Add, Ledger},
};

laws!(
    a_statement_reads_the_durable_current_or_past_state,
    parameters_are_positional_or_named_and_never_left_out,
    a_statement_that_is_not_read_only_is_refused_and_changes_nothing,
    a_statement_that_takes_too_long_is_stopped,
    a_statement_that_needs_too_much_space_says_so,
    answers_end_at_their_limits,
    every_kind_of_value_has_a_form,
);

async fn ask(app: &Program, sql: &str, params: Value) -> Result<Rows, InspectError> {
    let query = SqlQuery { sql: sql.into(), params, turn: None };
    app.objects.query(None, "ledger", "a", query).await
}

async fn rows(app: &Program, sql: &str, params: Value) -> Vec<Vec<Value>> {
    ask(app, sql, params).await.unwrap().rows
}

async fn a_statement_reads_the_durable_current_or_past_state(lab: Lab) {
    let app = Program::on(&lab).await;
    for by in 1..=3 {
        add(&app, "a", by).await;
    }
    let found = ask(&app, "SELECT id, amount AS much FROM entry WHERE id > 1", json!(null)).await;
    let found = found.unwrap();
    assert_eq!((found.turn, found.truncated), (3, false));
    assert_eq!(found.columns, ["id", "much"]);
    assert_eq!(found.rows, [[json!(2), json!(2)], [json!(3), json!(3)]]);
    for turn in 1..=3 {
        let sql = "SELECT sum(amount) FROM entry".into();
        let query = SqlQuery { sql, params: Value::Null, turn: Some(turn) };
        let found = app.objects.query(None, "ledger", "a", query).await.unwrap();
        assert_eq!((found.turn, &found.rows[0][0]), (turn, &json!((1..=turn).sum::<i64>())));
    }
    let query = SqlQuery { sql: "SELECT 1".into(), params: Value::Null, turn: Some(4) };
    let error = app.objects.query(None, "ledger", "a", query).await.unwrap_err();
    assert_eq!(error.code(), "turn_not_found");
    let now = rows(&app, "SELECT unixepoch('now')", json!(null)).await;
    assert_eq!(now, [[json!(super::at(0) / 1_000)]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uncommitted_changes_are_not_visible() {
    let clock = ManualClock::at(START);
    let store = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
    let app = Program::of(store.clone(), &clock, |it| it.class(Ledger::default())).await;
    add(&app, "a", 1).await;
    store.hold();
    let mut adding = app.call(Ledger::at("a"), Add { by: 10 });
    assert!(by_now(&mut adding).is_none());
    store.came().await;
    assert_eq!(rows(&app, "SELECT n FROM total", json!(null)).await, [[json!(1)]]);
    store.let_go();
    assert_eq!(adding.await.unwrap(), 11);
    assert_eq!(rows(&app, "SELECT n FROM total", json!(null)).await, [[json!(11)]]);
}

async fn parameters_are_positional_or_named_and_never_left_out(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    let both = [[json!(1), json!("x")]];
    assert_eq!(rows(&app, "SELECT ?, ?", json!([1, "x"])).await, both);
    assert_eq!(rows(&app, "SELECT ?1, ?2", json!([1, "x"])).await, both);
    assert_eq!(rows(&app, "SELECT :a, @b", json!({"a": 1, "b": "x"})).await, both);
    assert_eq!(rows(&app, "SELECT $a, :b", json!({"$a": 1, ":b": "x"})).await, both);
    let blob = rows(&app, "SELECT typeof(?1), ?1", json!([{"blob": "00ff"}])).await;
    assert_eq!(blob, [[json!("blob"), json!({"blob": "00ff"})]]);
    for (sql, params, word) in [
        ("SELECT ?", json!([]), "`?1` is missing"),
        ("SELECT ?", json!(null), "`?1` is missing"),
        ("SELECT :a", json!({"b": 1}), "`:a` is missing"),
        ("SELECT ?", json!([1, 2]), "1 parameters, 2 are given"),
        ("SELECT ?", json!([[1]]), "`?1` must be"),
        ("SELECT 1", json!("x"), "an array"),
        ("SELECT ?", json!([18446744073709551615_u64]), "64 bits"),
    ] {
        let error = ask(&app, sql, params).await.unwrap_err();
        assert_eq!(error.code(), "sql_failed", "{sql}: {error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

async fn a_statement_that_is_not_read_only_is_refused_and_changes_nothing(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    run(&app, "a", "CREATE VIRTUAL TABLE text USING fts5(body)").await;
    run(&app, "a", "INSERT INTO text VALUES ('a needle in the hay')").await;
    for sql in [
        "DELETE FROM entry",
        "INSERT INTO entry (amount) VALUES (1) RETURNING id",
        "UPDATE total SET n = 0",
        "WITH x AS (SELECT 1) INSERT INTO entry (amount) SELECT * FROM x",
        "DROP TABLE entry",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "ATTACH '/tmp/x' AS x",
        "ATTACH '' AS x",
        "VACUUM",
        "VACUUM INTO '/tmp/x'",
        "BEGIN",
        "SAVEPOINT x",
        "REINDEX",
        "ANALYZE",
        "EXPLAIN DELETE FROM entry",
        "PRAGMA user_version = 7",
        "PRAGMA writable_schema = ON",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA optimize",
        "SELECT load_extension('x')",
        "SELECT * FROM entry; DELETE FROM entry",
    ] {
        let error = ask(&app, sql, json!(null)).await.unwrap_err();
        assert_eq!(error.code(), "sql_failed", "{sql}: {error}");
    }
    for sql in ["", "-- nothing", "SELEC 1", "SELECT * FROM nowhere", "SELECT 1; SELECT 2", "x\0y"]
    {
        let error = ask(&app, sql, json!(null)).await.unwrap_err();
        assert_eq!(error.code(), "sql_failed", "{sql}: {error}");
    }
    for sql in [
        "PRAGMA table_info(entry)",
        "SELECT * FROM pragma_table_xinfo('entry')",
        "PRAGMA user_version",
        "PRAGMA integrity_check",
        "EXPLAIN QUERY PLAN SELECT * FROM entry",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3) SELECT i FROM n",
        "SELECT * FROM text WHERE text MATCH 'needle'",
        "SELECT json_object('a', 1);  -- and no more",
        "VALUES (1)",
    ] {
        assert!(!rows(&app, sql, json!(null)).await.is_empty(), "{sql}");
    }
    assert_eq!(rows(&app, "SELECT n FROM total", json!(null)).await, [[json!(1)]]);
    app.assert_sound().await;
}

async fn a_statement_that_takes_too_long_is_stopped(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
         SELECT count(*) FROM n";
    let error = ask(&app, endless, json!(null)).await.unwrap_err();
    assert_eq!(error.code(), "sql_failed", "{error}");
    assert_eq!(rows(&app, "SELECT n FROM total", json!(null)).await, [[json!(1)]]);
}

async fn answers_end_at_their_limits(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    let count = |limit: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {limit}) \
             SELECT i FROM n"
        )
    };
    let found = ask(&app, &count(1_000), json!(null)).await.unwrap();
    assert_eq!((found.rows.len(), found.truncated), (1_000, false));
    let found = ask(&app, &count(1_001), json!(null)).await.unwrap();
    assert_eq!((found.rows.len(), found.truncated), (1_000, true));
    let large = count(9).replace("SELECT i FROM n", "SELECT zeroblob(500000) FROM n");
    let found = ask(&app, &large, json!(null)).await.unwrap();
    assert_eq!((found.rows.len(), found.truncated), (4, true));
    let found = ask(&app, "SELECT zeroblob(4000000)", json!(null)).await.unwrap();
    assert_eq!((found.rows.len(), found.truncated), (0, true));
    let error = ask(&app, "SELECT zeroblob(5000000)", json!(null)).await.unwrap_err();
    assert_eq!(error.code(), "sql_failed", "{error}");
    // A row is in memory as a whole, so its columns are few.
    let wide = format!("SELECT {}", vec!["1"; 101].join(", "));
    assert_eq!(ask(&app, &wide, json!(null)).await.unwrap_err().code(), "sql_failed");
}

async fn every_kind_of_value_has_a_form(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    let sql =
        "SELECT NULL, 9007199254740993, 0.5, 9e999, -9e999, 'ü', x'00ff', CAST(x'ff' AS TEXT)";
    let expected = json!([
        null,
        9_007_199_254_740_993_i64,
        0.5,
        {"real": "Inf"},
        {"real": "-Inf"},
        "ü",
        {"blob": "00ff"},
        {"text": "ff"}
    ]);
    assert_eq!(json!(rows(&app, sql, json!(null)).await), json!([expected]));
}

async fn a_statement_that_needs_too_much_space_says_so(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    // 200 MB of different values are kept until the end.
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) \
         SELECT count(DISTINCT hex(zeroblob(50000)) || i) FROM n";
    let error = ask(&app, sql, json!(null)).await.unwrap_err().to_string();
    assert!(error.contains("more space") && !error.contains("disk"), "{error}");
    assert_eq!(rows(&app, "SELECT n FROM total", json!(null)).await, [[json!(1)]]);
}
