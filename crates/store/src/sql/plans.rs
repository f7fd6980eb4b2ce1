//! How SQLite goes about statements, for tests.

use rusqlite::{Connection, params_from_iter, types::Null};

use super::{MIGRATIONS, expiry, queries};

/// The steps of a statement, none of which reads a whole table.
pub(crate) fn steps(statement: &str) -> Vec<String> {
    let connection = Connection::open_in_memory().unwrap();
    MIGRATIONS.iter().for_each(|it| connection.execute_batch(it.sqlite).unwrap());
    let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let empty = params_from_iter(vec![Null; plan.parameter_count()]);
    let steps = plan.query_map(empty, |row| row.get::<_, String>(3)).unwrap();
    let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
    // What a part of the statement has put together is not a table.
    let made = ["CONSTANT ROW", "found", "walk", "workflow_messages"];
    let is_made = |it: &str| made.contains(&it) || it.ends_with("_runs");
    let scans = |it: &&String| it.strip_prefix("SCAN ").is_some_and(|it| !is_made(it));
    assert_eq!(steps.iter().find(scans), None, "{statement}: {steps:#?}");
    steps
}

pub(crate) fn has(steps: &[String], text: &str) -> bool {
    steps.iter().any(|it| it.contains(text))
}

#[test]
fn a_stream_is_read_through_the_index_of_origins() {
    let view = "SELECT position, message_type FROM workflow_messages WHERE workflow_id = ?1";
    for (statement, bounds) in [
        (queries::READ_STREAM, "(origin=? AND version>?)"),
        (queries::PENDING_OF_STREAM, "(origin=?)"),
        (queries::STREAM, "(origin=?)"),
        (expiry::ERASURE, "(origin=?)"),
        (view, "(origin=?)"),
    ] {
        let steps = steps(statement);
        assert!(has(&steps, &format!("INDEX message_stream {bounds}")), "{steps:#?}");
    }
    // In the order of versions, so nothing is sorted.
    assert!(!has(&steps(queries::READ_STREAM), "B-TREE"));
}

#[test]
fn entities_are_listed_through_the_index_of_addresses() {
    for (statement, is_sorted) in [
        (queries::OBJECTS, true),
        (queries::COUNT_OBJECTS, true),
        // The classes themselves are few.
        (queries::CLASSES, false),
    ] {
        let steps = steps(statement);
        assert!(has(&steps, "INDEX entity_address (<expr>>? AND <expr><?)"), "{steps:#?}");
        assert_eq!(has(&steps, "B-TREE"), !is_sorted, "{steps:#?}");
    }
    let streams = steps(queries::STREAMS);
    for index in ["entity_stream (<expr>>? AND <expr><?)", "entity_address (<expr>>? AND <expr><?)"]
    {
        assert!(has(&streams, index), "{streams:#?}");
    }
}

#[test]
fn objects_with_a_long_history_are_found_without_the_others() {
    let steps = steps(queries::heads(i64::MAX));
    assert!(has(&steps, "INDEX base_history (number>?)"), "{steps:#?}");
}
