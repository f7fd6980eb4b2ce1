//! The view `workflow_messages`: the stream as one table, from psql and sqlite3.

use std::time::Duration;

use steadfast_store::{Commit, SettledAs, Write};

use crate::lab::{self, Lab, Place, address, command, event};

/// One message in each state.
async fn fill(lab: &Lab) {
    let stream = address("order-1");
    let input = event("OrderPlaced").input();
    let outputs = (0..5).map(|_| command(&stream));
    let messages = std::iter::once(input).chain(outputs).collect();
    let positions = lab.append(&stream, messages).await;
    lab.clock.advance(Duration::from_millis(250));
    lab.settle(positions[1], None).await.committed().unwrap();
    let die = Write::Settle {
        position: positions[2],
        lease: None,
        as_: SettledAs::Dead,
        error: Some("no such guest".into()),
    };
    lab.committed(Commit::of(die)).await;
    let (position, as_) = (positions[5], SettledAs::Cancelled);
    let cancel = Write::Settle { position, lease: None, as_, error: None };
    lab.committed(Commit::of(cancel)).await;
    lab.claim(positions[3], 1).await.committed().unwrap();
}

const COLUMNS: &str = "SELECT workflow_id, position, kind, direction, message_type, \
    CAST(message_data AS TEXT), CAST(message_metadata AS TEXT), CAST(processed AS TEXT), \
    CAST(created_at AS TEXT), CAST(processed_at AS TEXT), CAST(state AS TEXT), \
    CAST(error AS TEXT) FROM workflow_messages WHERE workflow_id = 'stream/lab/order-1' \
    ORDER BY position";

/// As in the note.
const PENDING: &str = "SELECT position FROM workflow_messages WHERE kind = 'C' AND \
    direction = 'O' AND processed = false ORDER BY created_at, position";

fn check(rows: &[Vec<Option<String>>]) {
    let columns = |index: usize| -> Vec<&str> {
        rows.iter().map(|row| row[index].as_deref().unwrap_or("NULL")).collect()
    };
    assert_eq!(columns(1), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(columns(2), ["E", "C", "C", "C", "C", "C"]);
    assert_eq!(columns(3), ["I", "O", "O", "O", "O", "O"]);
    assert_eq!(columns(4), ["OrderPlaced", "do", "do", "do", "do", "do"]);
    assert_eq!(columns(5), ["{}"; 6]);
    assert_eq!(columns(6), ["{}"; 6]);
    assert_eq!(columns(7), ["NULL", "true", "NULL", "false", "false", "NULL"]);
    assert_eq!(columns(8), ["1700000000000"; 6]);
    assert_eq!(columns(9), ["NULL", "1700000000250", "NULL", "NULL", "NULL", "NULL"]);
    assert_eq!(columns(10), ["NULL", "done", "dead", "in flight", "pending", "cancelled"]);
    assert_eq!(columns(11), ["NULL", "NULL", "no such guest", "NULL", "NULL", "NULL"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_answers_the_queries_of_the_note() {
    let lab = Lab::sqlite().await;
    fill(&lab).await;
    let Place::Folder(folder) = &lab.place else { unreachable!() };
    // Concurrent with the running store, like the sqlite3 tool.
    let file = rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap();
    let mut statement = file.prepare(COLUMNS).unwrap();
    let rows = statement.query_map((), |row| {
        (0..12)
            .map(|index| {
                let text = match row.get_ref(index)? {
                    rusqlite::types::ValueRef::Integer(it) => Some(it.to_string()),
                    other => other.as_str_or_null().unwrap().map(str::to_owned),
                };
                let flag = |it: String| if it == "1" { "true".into() } else { "false".into() };
                Ok(if index == 7 { text.map(flag) } else { text })
            })
            .collect()
    });
    check(&rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap());
    let mut pending = file.prepare(PENDING).unwrap();
    let pending = pending.query_map((), |row| row.get(0)).unwrap();
    let pending: Vec<i64> = pending.collect::<Result<_, _>>().unwrap();
    assert_eq!(pending, [4, 5], "in flight and waiting, neither dead nor cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_answers_the_queries_of_the_note() {
    let lab = Lab::postgres().await;
    fill(&lab).await;
    let Place::Database(url) = &lab.place else { unreachable!() };
    let client = lab::client(url).await;
    let rows = client.query(COLUMNS, &[]).await.unwrap();
    let rows = rows.iter().map(|row| {
        (0..12)
            .map(|index| match index {
                1 => Some(row.get::<_, i64>(index).to_string()),
                _ => row.get::<_, Option<String>>(index),
            })
            .collect()
    });
    check(&rows.collect::<Vec<_>>());
    let pending = client.query(PENDING, &[]).await.unwrap();
    let pending: Vec<i64> = pending.iter().map(|row| row.get(0)).collect();
    assert_eq!(pending, [4, 5], "in flight and waiting, neither dead nor cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_messages_are_read_from_the_work_table_and_not_from_all_messages() {
    let lab = Lab::sqlite().await;
    let Place::Folder(folder) = &lab.place else { unreachable!() };
    let file = rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap();
    let sql = "EXPLAIN QUERY PLAN SELECT * FROM workflow_messages WHERE processed = false";
    let mut statement = file.prepare(sql).unwrap();
    let plan = statement.query_map((), |row| row.get::<_, String>(3)).unwrap();
    let plan: Vec<String> = plan.collect::<Result<_, _>>().unwrap();
    assert!(plan.iter().any(|it| it.contains("SCAN w")), "{plan:#?}");
    assert!(plan.iter().any(|it| it.contains("outcome_not_done")), "{plan:#?}");
}
