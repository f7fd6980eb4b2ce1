//! Rights of SQL in handlers: everything inside of their own database, nothing outside of it.

use steadfast_core::{CallError, Object};

use super::Program;
use crate::{
    lab::Lab,
    ledger::{Add, Ledger, Query, Read, Sql},
};

laws!(
    statements_that_leave_the_database_or_the_transaction_are_refused,
    tables_of_the_runtime_can_be_read_but_not_changed,
    useful_statements_are_allowed,
    time_in_sql_is_constant_and_that_of_the_turn,
);

async fn run(app: &Program, statement: &str) -> Result<Vec<String>, CallError> {
    let statements = vec![statement.to_owned()];
    app.call(Ledger::at("a"), Sql { statements, strict: true }).await
}

async fn query(app: &Program, sql: &str) -> Result<Vec<String>, CallError> {
    app.call(Ledger::at("a"), Query { sql: sql.into() }).await
}

/// Neither one statement nor a query, and neither alone nor behind an ordinary statement.
async fn refused(lab: &Lab, app: &Program, statement: &str) {
    let before = lab.store.dump().await.unwrap();
    let error = run(app, statement).await.expect_err(statement);
    let text = error.to_string();
    let known = ["not authorized", "prohibited", "no such function", "may not be", "within a tran"];
    assert!(known.iter().any(|it| text.contains(it)), "{statement}: {text}");
    query(app, statement).await.expect_err(statement);
    run(app, &format!("UPDATE total SET n = 9; {statement}")).await.expect_err(statement);
    assert_eq!(lab.store.dump().await.unwrap(), before, "{statement}");
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (1, 1), "{statement}");
}

async fn statements_that_leave_the_database_or_the_transaction_are_refused(lab: Lab) {
    let app = Program::on(&lab).await;
    app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap();
    for statement in [
        "ATTACH ':memory:' AS other",
        "ATTACH '/tmp/steadfast-laws.db' AS other",
        "DETACH main",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/tmp/steadfast-laws', 'x')",
        "SELECT edit('x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT fts3_tokenizer('simple', x'0000000000000000')",
        "PRAGMA journal_mode = OFF",
        "PRAGMA journal_mode = WAL",
        "PRAGMA journal_mode",
        "PRAGMA locking_mode = NORMAL",
        "PRAGMA synchronous = OFF",
        "PRAGMA page_size = 512",
        "PRAGMA auto_vacuum = 2",
        "PRAGMA incremental_vacuum",
        "PRAGMA cache_spill = 0",
        "PRAGMA mmap_size = 0",
        "PRAGMA writable_schema = ON",
        "PRAGMA user_version = 7",
        "PRAGMA application_id = 7",
        "PRAGMA schema_version = 7",
        "PRAGMA max_page_count = 1000000000",
        "PRAGMA foreign_keys = OFF",
        "PRAGMA temp_store = FILE",
        "PRAGMA temp_store_directory = '/tmp'",
        "PRAGMA encoding = 'UTF-16'",
        "PRAGMA query_only = 0",
        "PRAGMA hard_heap_limit = 1",
        "PRAGMA wal_checkpoint",
        "PRAGMA trusted_schema = 1",
        "PRAGMA main.journal_mode = DELETE",
        "SELECT * FROM pragma_journal_mode",
        "BEGIN",
        "COMMIT",
        "END",
        "ROLLBACK",
        "SAVEPOINT s",
        "ROLLBACK TO attempt",
        "RELEASE attempt",
        "VACUUM",
        "VACUUM INTO '/tmp/steadfast-laws.db'",
        "CREATE TEMP TABLE t (x)",
        "CREATE TEMP VIEW v AS SELECT 1",
        "CREATE TEMP TRIGGER t AFTER INSERT ON entry BEGIN SELECT 1; END",
        "CREATE TABLE temp.t (x)",
        "CREATE VIRTUAL TABLE v USING dbstat",
        "CREATE VIRTUAL TABLE v USING csv(filename = '/etc/passwd')",
        "UPDATE sqlite_schema SET sql = ''",
        "DELETE FROM sqlite_schema",
    ] {
        if statement.contains("pragma_journal_mode") {
            assert!(query(&app, statement).await.is_err(), "{statement}");
        } else {
            refused(&lab, &app, statement).await;
        }
    }
    assert!(!std::path::Path::new("/tmp/steadfast-laws.db").exists());
    lab.assert_sound().await;
}

async fn tables_of_the_runtime_can_be_read_but_not_changed(lab: Lab) {
    let app = Program::on(&lab).await;
    app.objects.call(Ledger::at("a"), Add { by: 1 }).key("k").await.unwrap();
    assert_eq!(query(&app, "SELECT key FROM _steadfast_key").await.unwrap(), ["k"]);
    run(&app, "CREATE TABLE mine (key TEXT PRIMARY KEY, value TEXT)").await.unwrap();
    for statement in [
        "INSERT INTO _steadfast_key (key, request, reply, expires_at) VALUES ('x', x'', '', 0)",
        "UPDATE _steadfast_key SET reply = '2'",
        "DELETE FROM _steadfast_key",
        "DROP TABLE _steadfast_key",
        "DROP TABLE _STEADFAST_KEY",
        "ALTER TABLE _steadfast_key RENAME TO x",
        "ALTER TABLE _steadfast_key ADD COLUMN x",
        "ALTER TABLE _steadfast_key DROP COLUMN reply",
        "CREATE INDEX x ON _steadfast_key (reply)",
        "CREATE TRIGGER x AFTER INSERT ON _steadfast_key BEGIN DELETE FROM entry; END",
        "CREATE TABLE _steadfast_kv (key, value)",
        "CREATE TABLE \"_Steadfast_alarm\" (x)",
        "CREATE VIEW _steadfast_alarm AS SELECT 1",
        "CREATE VIRTUAL TABLE _steadfast_alarm USING fts5(x)",
        "CREATE TRIGGER x AFTER INSERT ON entry BEGIN DELETE FROM _steadfast_key; END; \
         INSERT INTO entry (amount) VALUES (1)",
        "ALTER TABLE mine RENAME TO _steadfast_kv",
    ] {
        let error = run(&app, statement).await.expect_err(statement).to_string();
        let refusals = ["not authorized", "prohibited", "are taken"];
        assert!(refusals.iter().any(|it| error.contains(it)), "{error}");
    }
    let again = app.objects.call(Ledger::at("a"), Add { by: 1 }).key("k").await.unwrap();
    assert_eq!(again, 1);
}

async fn useful_statements_are_allowed(lab: Lab) {
    let app = Program::on(&lab).await;
    for statement in [
        "CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT UNIQUE, extra TEXT);
         CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL REFERENCES parent);
         CREATE INDEX child_parent ON child (parent);
         CREATE VIEW names AS SELECT name FROM parent",
        "CREATE TABLE log (text TEXT);
         CREATE TRIGGER logged AFTER INSERT ON parent BEGIN
             INSERT INTO log VALUES ('new ' || new.name); END",
        "INSERT INTO parent (name, extra) VALUES ('a', '{\"x\": [1, 2, 3]}'), ('b', NULL)",
        "INSERT INTO parent (name) VALUES ('a') ON CONFLICT (name) DO UPDATE SET name = 'c'",
        "INSERT INTO child (parent) VALUES (1), (2) RETURNING id",
        "CREATE VIRTUAL TABLE text USING fts5(body);
         INSERT INTO text VALUES ('the quick brown fox'), ('a lazy dog')",
        "CREATE VIRTUAL TABLE place USING rtree(id, x0, x1); INSERT INTO place VALUES (1, 0, 2)",
        "ALTER TABLE log ADD COLUMN at INTEGER; ALTER TABLE log RENAME TO journal",
        "CREATE TABLE gone (x); DROP TABLE gone; REINDEX; ANALYZE",
        "PRAGMA defer_foreign_keys = ON",
    ] {
        assert_eq!(run(&app, statement).await.expect(statement), ["ok"]);
    }
    for (sql, wanted) in [
        ("SELECT json_extract(extra, '$.x[1]') FROM parent WHERE id = 1", &["Integer(2)"][..]),
        (
            "SELECT value FROM parent, json_each(extra, '$.x') LIMIT 2",
            &["Integer(1)", "Integer(2)"],
        ),
        ("SELECT body FROM text WHERE text MATCH 'fox'", &["the quick brown fox"]),
        ("SELECT id FROM place WHERE x0 < 1 AND x1 > 1", &["Integer(1)"]),
        ("SELECT text FROM journal", &["new a", "new b"]),
        ("SELECT name FROM names ORDER BY 1", &["b", "c"]),
        ("SELECT sum(id) OVER (ORDER BY id) FROM child", &["Integer(1)", "Integer(3)"]),
        (
            "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 2) \
             SELECT n FROM c",
            &["Integer(1)", "Integer(2)"],
        ),
        ("SELECT name FROM pragma_table_info('child')", &["id", "parent"]),
        ("PRAGMA integrity_check", &["ok"]),
        ("PRAGMA user_version", &["Integer(2)"]),
        ("PRAGMA foreign_keys", &["Integer(1)"]),
    ] {
        assert_eq!(query(&app, sql).await.expect(sql), wanted, "{sql}");
    }
    let orphan = run(&app, "INSERT INTO child (parent) VALUES (77)").await.unwrap_err();
    assert!(orphan.to_string().contains("FOREIGN KEY"), "{orphan}");
    let late = "PRAGMA defer_foreign_keys = ON; INSERT INTO child (parent) VALUES (77)";
    run(&app, late).await.expect_err("the transaction ends with a broken foreign key");
    assert_eq!(query(&app, "SELECT count(*) FROM child").await.unwrap(), ["Integer(2)"]);
}

async fn time_in_sql_is_constant_and_that_of_the_turn(lab: Lab) {
    let app = Program::on(&lab).await;
    let now = "SELECT strftime('%s', 'now') || ' ' || unixepoch()";
    assert_eq!(query(&app, now).await.unwrap(), ["1700000000 1700000000"]);
    lab.clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(query(&app, now).await.unwrap(), ["1700000005 1700000005"]);
}
