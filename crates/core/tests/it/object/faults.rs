//! Faults inside of a turn: even if the handler ignores the error, the turn commits whole or not at
//! all, and the next one works.

use std::time::Duration;

use steadfast_core::{CallError, Object, ObjectOptions};

use super::{Program, ledger};
use crate::{
    lab::Lab,
    ledger::{Add, Ledger, Misbehave, Query, Read, Sql},
};

laws!(
    a_handler_that_swallows_an_interrupt_commits_nothing,
    a_handler_that_swallows_a_rollback_commits_nothing,
    a_handler_that_swallows_a_full_database_commits_nothing,
    a_statement_of_the_runtime_that_was_kept_cannot_split_a_turn,
    a_turn_that_changes_too_much_is_refused,
    a_statement_that_fails_alone_does_not_end_the_turn,
    an_object_whose_first_turn_fails_works_afterwards,
    a_limit_that_stopped_a_turn_with_a_key_leaves_the_key_free,
);

const ENDLESS: &str =
    "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";
const ROWS: &str = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 100) \
     INSERT INTO one (data) SELECT zeroblob(4000) FROM c";
const FIVE: &str = "INSERT INTO entry (amount) VALUES (5)";

fn sql(statements: &[&str]) -> Sql {
    let statements = statements.iter().map(|it| (*it).to_owned()).collect();
    Sql { statements, strict: false }
}

async fn start(lab: &Lab) -> Program {
    let options = ObjectOptions {
        turn_time: Duration::from_millis(50),
        delta_bytes_max: 50_000,
        database_bytes_max: 160 << 10,
        ..ObjectOptions::default()
    };
    let app = Program::with(lab, Ledger::default(), options).await;
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 1);
    let prepare = [
        "CREATE TABLE one (id INTEGER PRIMARY KEY, data BLOB); INSERT INTO one (id) VALUES (1)",
        "CREATE TRIGGER no BEFORE DELETE ON one BEGIN SELECT RAISE(ROLLBACK, 'never'); END",
    ];
    assert_eq!(app.call(Ledger::at("a"), sql(&prepare)).await.unwrap(), ["ok", "ok"]);
    app
}

/// A turn that is rolled back and leaves no trace; the next one works.
async fn commits_nothing(lab: &Lab, app: &Program, statements: &[&str]) {
    let before = lab.store.dump().await.unwrap();
    let total = app.call(Ledger::at("a"), Read).await.unwrap().0;
    let error = app.call(Ledger::at("a"), sql(statements)).await.unwrap_err();
    assert!(matches!(error, CallError::RolledBack { .. }), "{statements:?}: {error}");
    assert!(error.surely_unapplied() && !error.is_retryable());
    assert_eq!(lab.store.dump().await.unwrap(), before, "{statements:?} committed something");
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (total, total));
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), total + 1);
}

async fn a_handler_that_swallows_an_interrupt_commits_nothing(lab: Lab) {
    let app = start(&lab).await;
    // Either only the statement is lost, or the whole transaction.
    commits_nothing(&lab, &app, &[FIVE, ENDLESS, FIVE]).await;
    let write = format!("INSERT INTO entry (amount) {ENDLESS}");
    commits_nothing(&lab, &app, &[FIVE, &write, FIVE]).await;
    commits_nothing(&lab, &app, &[&write]).await;
    lab.assert_sound().await;
}

async fn a_handler_that_swallows_a_rollback_commits_nothing(lab: Lab) {
    let app = start(&lab).await;
    for end in [
        "DELETE FROM one",
        "INSERT OR ROLLBACK INTO one (id) VALUES (1)",
        "UPDATE OR ROLLBACK total SET n = NULL",
    ] {
        commits_nothing(&lab, &app, &[FIVE, end]).await;
        commits_nothing(&lab, &app, &[end, FIVE]).await;
        commits_nothing(&lab, &app, &[FIVE, end, FIVE, FIVE]).await;
        commits_nothing(&lab, &app, &[end, "CREATE TABLE two (x)"]).await;
        commits_nothing(&lab, &app, &[end, "BEGIN", FIVE, "COMMIT"]).await;
        commits_nothing(&lab, &app, &[end, "SAVEPOINT s", FIVE, "RELEASE s"]).await;
    }
    lab.assert_sound().await;
}

async fn a_handler_that_swallows_a_full_database_commits_nothing(lab: Lab) {
    let app = start(&lab).await;
    let grow = "INSERT INTO one (data) VALUES (zeroblob(200000))";
    commits_nothing(&lab, &app, &[FIVE, grow, FIVE]).await;
    commits_nothing(&lab, &app, &[FIVE, ROWS, FIVE]).await;
    commits_nothing(&lab, &app, &[ROWS, "INSERT INTO one (data) VALUES (zeroblob(9000))"]).await;
    // Passed on, it is the same.
    let statements = vec![ROWS.into()];
    let error = app.call(Ledger::at("a"), Sql { statements, strict: true }).await.unwrap_err();
    assert!(matches!(error, CallError::RolledBack { .. }), "{error}");
    assert!(error.to_string().contains("limit"), "{error}");
    lab.assert_sound().await;
}

/// The runtime has prepared statements itself, with more rights; a connection may cache them.
async fn a_statement_of_the_runtime_that_was_kept_cannot_split_a_turn(lab: Lab) {
    let app = start(&lab).await;
    app.call(Ledger::at("a"), Misbehave::Refuse).await.unwrap_err();
    for ends in [
        &["cached COMMIT"][..],
        &["cached COMMIT", "cached BEGIN"],
        &["cached ROLLBACK"],
        &["cached ROLLBACK", "cached BEGIN"],
        &["cached SAVEPOINT attempt", "cached ROLLBACK TO attempt", "cached RELEASE attempt"],
    ] {
        let sum = async || app.call(Ledger::at("a"), Read).await.unwrap().1;
        let before = sum().await;
        let said = app.call(Ledger::at("a"), sql(&[&[FIVE], ends, &[FIVE]].concat())).await;
        let whole = if said.is_ok() { 10 } else { 0 };
        assert_eq!(sum().await - before, whole, "{ends:?} said {said:?}");
    }
    lab.assert_sound().await;
}

async fn a_turn_that_changes_too_much_is_refused(lab: Lab) {
    let app = start(&lab).await;
    commits_nothing(&lab, &app, &["INSERT INTO one (data) VALUES (randomblob(60000))"]).await;
    let fits = "INSERT INTO one (data) VALUES (randomblob(40000))";
    assert_eq!(app.call(Ledger::at("a"), sql(&[fits])).await.unwrap(), ["ok"]);
    lab.assert_sound().await;
}

async fn a_statement_that_fails_alone_does_not_end_the_turn(lab: Lab) {
    let app = start(&lab).await;
    let said = app
        .call(
            Ledger::at("a"),
            sql(&[
                FIVE,
                "INSERT INTO one (id) VALUES (7), (1)",
                "nonsense",
                "UPDATE total SET n = 6",
            ]),
        )
        .await
        .unwrap();
    assert_eq!([&said[0], &said[3]], ["ok", "ok"]);
    assert!(said[1].contains("UNIQUE"), "{said:?}");
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (6, 6));
    let count = Query { sql: "SELECT count(*) FROM one".into() };
    assert_eq!(app.call(Ledger::at("a"), count).await.unwrap(), ["Integer(1)"]);
}

async fn an_object_whose_first_turn_fails_works_afterwards(mut lab: Lab) {
    let app = start(&lab).await;
    let ways =
        || [Misbehave::Panic, Misbehave::Refuse, Misbehave::RefuseForGood, Misbehave::SendTooMuch];
    for (number, way) in ways().into_iter().enumerate() {
        let name = || Ledger::at(format!("new {number}"));
        app.call(name(), way).await.unwrap_err();
        assert!(lab.store.head(ledger(name().name()).id()).await.unwrap().is_none());
        assert_eq!(app.call(name(), Read).await.unwrap(), (0, 0));
        app.call(name(), Misbehave::Refuse).await.unwrap_err();
        assert_eq!(app.call(name(), Add { by: 5 }).await.unwrap(), 5);
        app.call(name(), Misbehave::Panic).await.unwrap_err();
        assert_eq!(app.call(name(), Add { by: 5 }).await.unwrap(), 10);
    }
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    for number in 0..ways().len() {
        let name = Ledger::at(format!("new {number}"));
        assert_eq!(app.call(name, Read).await.unwrap(), (10, 10));
    }
}

async fn a_limit_that_stopped_a_turn_with_a_key_leaves_the_key_free(lab: Lab) {
    let app = start(&lab).await;
    for statements in [[FIVE, ENDLESS, FIVE], [FIVE, "DELETE FROM one", FIVE]] {
        let before = lab.store.dump().await.unwrap();
        let call = app.objects.call(Ledger::at("a"), sql(&statements)).key("k");
        assert_eq!(call.await.unwrap_err().code(), "turn_rolled_back");
        assert_eq!(lab.store.dump().await.unwrap(), before);
    }
    let call = app.objects.call(Ledger::at("a"), Add { by: 1 }).key("k");
    assert_eq!(call.await.unwrap(), 2);
}
