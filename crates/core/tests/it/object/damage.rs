//! Damaged data: only that object is out of service, with a clear error.

use steadfast_core::{CallError, Object, rusqlite};

use super::{Program, lazy::FILL, ledger, sleep::awake};
use crate::{
    lab::{Lab, Place, execute},
    ledger::{Add, Ledger, Read, Sql},
};

// A store in memory cannot be damaged from outside.
laws!(on sqlite, postgres: a_damaged_object_is_out_of_service_alone,
    a_page_that_turns_out_to_be_damaged_later_ends_the_service);

/// Ways to damage an object: in SQLite, and in PostgreSQL if the statement differs. `ID` is its id,
/// `LAST` its last turn. A byte is replaced by another one: the data are random.
const WAYS: &[(&str, &str, Option<&str>)] = &[
    (
        "turn",
        "UPDATE turn SET delta = CAST(substr(delta, 1, 20) || \
         iif(substr(delta, 21, 1) = x'5a', x'a5', x'5a') || substr(delta, 22) AS BLOB) WHERE LAST",
        Some("UPDATE turn SET delta = set_byte(delta, 20, get_byte(delta, 20) # 90) WHERE LAST"),
    ),
    (
        "turn cut off",
        "UPDATE turn SET delta = substr(delta, 1, length(delta) - 1) WHERE LAST",
        None,
    ),
    ("last turn gone", "DELETE FROM turn WHERE LAST", None),
    ("turn gone", "DELETE FROM turn WHERE position = (SELECT prev FROM turn WHERE LAST)", None),
    (
        "image",
        "UPDATE image SET data = CAST(substr(data, 1, 20) || \
         iif(substr(data, 21, 1) = x'5a', x'a5', x'5a') || substr(data, 22) AS BLOB) \
         WHERE entity = ID AND page = 10",
        Some(
            "UPDATE image SET data = set_byte(data, 20, get_byte(data, 20) # 90) \
             WHERE entity = ID AND page = 10",
        ),
    ),
    ("image sum", "UPDATE image SET crc = crc + 1 WHERE entity = ID AND page = 10", None),
    ("image gone", "DELETE FROM image WHERE entity = ID AND page = 10", None),
    ("images gone", "DELETE FROM image WHERE entity = ID", None),
    (
        "head",
        "UPDATE head SET chk = chk + 1 \
         WHERE number = (SELECT number FROM base WHERE entity = ID)",
        None,
    ),
    (
        "head back",
        "UPDATE head SET seq = seq - 1, position = (SELECT prev FROM turn WHERE LAST) \
         WHERE number = (SELECT number FROM base WHERE entity = ID)",
        None,
    ),
    ("base", "UPDATE base SET chk = chk + 1 WHERE entity = ID", None),
];

const LAST: &str = "entity = ID AND seq = (SELECT max(seq) FROM turn WHERE entity = ID)";

async fn damage(lab: &Lab, name: &str, sqlite: &str, postgres: Option<&str>) {
    let id = ledger(name).id();
    let say = |sql: &str, id: &str| sql.replace("LAST", LAST).replace("ID", id);
    match &lab.place {
        Place::Folder(folder) => {
            let file = rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap();
            let sql = say(sqlite, &format!("x'{id}'"));
            assert!(0 < file.execute(&sql, ()).expect(&sql), "{sql}");
        }
        Place::Database(url) => {
            execute(url, &say(postgres.unwrap_or(sqlite), &format!("'\\x{id}'"))).await;
        }
        Place::Memory => panic!("cannot be damaged"),
    }
}

/// An object with images, and with turns after them.
async fn fill(app: &Program, name: &str) {
    let big = "CREATE TABLE big AS SELECT randomblob(100000) AS data".to_owned();
    let big = Sql { statements: vec![big], strict: true };
    app.call(Ledger::at(name), big).await.unwrap();
    for _ in 0..3 {
        app.call(Ledger::at(name), Add { by: 1 }).await.unwrap();
    }
}

async fn a_damaged_object_is_out_of_service_alone(mut lab: Lab) {
    let app = Program::on(&lab).await;
    for (name, ..) in WAYS {
        fill(&app, name).await;
    }
    fill(&app, "sound").await;
    app.stop().await;
    lab.store.close().await;
    for (name, sqlite, postgres) in WAYS {
        damage(&lab, name, sqlite, *postgres).await;
    }
    lab.reopen().await;
    let app = Program::on(&lab).await;
    for (name, ..) in WAYS {
        for _ in 0..2 {
            let heard = app.call(Ledger::at(*name), Read).await;
            let error = heard.expect_err(name);
            assert!(matches!(&error, CallError::Corrupt { .. }), "{name}: {error}");
            assert_eq!((error.code(), error.is_retryable()), ("corrupt", false));
            app.call(Ledger::at(*name), Add { by: 1 }).await.expect_err(name);
        }
        assert_eq!(app.call(Ledger::at("sound"), Read).await.unwrap(), (3, 3));
    }
    assert_eq!(app.call(Ledger::at("sound"), Add { by: 1 }).await.unwrap(), 4);
}

async fn a_page_that_turns_out_to_be_damaged_later_ends_the_service(mut lab: Lab) {
    let app = Program::on(&lab).await;
    let sql = |sql: &str| Sql { statements: vec![sql.to_owned()], strict: false };
    app.call(Ledger::at("a"), sql(FILL)).await.unwrap();
    app.stop().await;
    lab.store.close().await;
    let sum = "UPDATE image SET crc = crc + 1 WHERE entity = ID AND page = 300";
    damage(&lab, "a", sum, None).await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    // It is not detected, because that data is not needed.
    assert_eq!(app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap(), 1);
    app.call(Ledger::at("b"), Add { by: 1 }).await.unwrap();
    let swallowed = app.call(Ledger::at("a"), sql("DELETE FROM big")).await;
    assert!(matches!(swallowed, Err(CallError::Corrupt { .. })), "{swallowed:?}");
    for _ in 0..3 {
        let error = app.call(Ledger::at("a"), Add { by: 1 }).await.unwrap_err();
        assert!(matches!(error, CallError::Corrupt { .. }), "{error}");
        assert!(!error.is_retryable());
        // Nor is it in service after it could have been evicted.
        awake(&lab, &app, 1).await;
    }
    assert_eq!(app.call(Ledger::at("b"), Read).await.unwrap(), (1, 1));
    lab.assert_sound().await;
}
