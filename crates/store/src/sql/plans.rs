//! Query plans of SQLite, for tests.

use rusqlite::{Connection, params_from_iter, types::Null};

use super::{
    facts::{ERASURE, STREAM_END},
    migrations::BASELINE,
    objects, queries,
    statement::Dialect,
};
use crate::{
    AgeCursor, DueCursor, EntityId, EntityKind, EntryKey, EntryRange, ExpiryList, Query, QueryKind,
    RunPage, RunStatus, Timestamp,
};

/// The steps of a statement, none of which scans a whole table.
pub(crate) fn steps(statement: &str) -> Vec<String> {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(BASELINE.sqlite).unwrap();
    let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let empty = params_from_iter(vec![Null; plan.parameter_count()]);
    let steps = plan.query_map(empty, |row| row.get::<_, String>(3)).unwrap();
    let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
    // Subquery results are not tables, and the counter is one row.
    let made = ["CONSTANT ROW", "found", "walk", "workflow_messages", "due", "later", "same", "f"];
    let is_small = |it: &str| made.contains(&it) || it.ends_with("_runs") || it == "counter";
    let scans = |it: &&String| it.strip_prefix("SCAN ").is_some_and(|it| !is_small(it));
    assert_eq!(steps.iter().find(scans), None, "{statement}: {steps:#?}");
    steps
}

pub(crate) fn has(steps: &[String], text: &str) -> bool {
    steps.iter().any(|it| it.contains(text))
}

/// The first page of all runs.
pub(crate) fn page() -> RunPage {
    RunPage {
        workflow: "flow".into(),
        status: None,
        prefix: String::new(),
        since: None,
        until: None,
        after: None,
        by_name: false,
    }
}

/// Queries of a kind that lead to different statements.
fn examples(kind: QueryKind) -> Vec<Query> {
    use {Query as Q, QueryKind as K};
    let (id, other, at) = (EntityId([1; 16]), Some(EntityId([2; 16])), Timestamp(1));
    let (limit, max, after, text) = (9, 9, DueCursor::START, || String::from("a"));
    match kind {
        K::Stream => vec![Q::Stream { stream: id, from: 1, limit }],
        K::All => vec![Q::All { after: 1, limit }],
        K::Message => vec![Q::Message { position: 1 }],
        K::Pending => [None, other].map(|stream| Q::Pending { stream, after: 1, limit }).into(),
        K::Dead => [None, other].map(|queue| Q::Dead { queue, after: 1, limit }).into(),
        K::Attempts => vec![Q::Attempts { position: 1 }],
        K::Version => vec![Q::Version { stream: id }],
        K::Streams => {
            let parts = [None, Some((EntityKind::Stream, text()))];
            parts.map(|within| Q::Streams { within, after: None, limit }).into()
        }
        K::Addresses => vec![Q::Addresses { ids: vec![id] }],
        K::Snapshot => vec![Q::Snapshot { stream: id }],
        K::Due => vec![Q::Due { after, limit }],
        K::Backlog => {
            let backlog = |ordered| Q::Backlog { target: id, ordered, after, limit };
            [true, false].map(backlog).into()
        }
        K::Orphans => [true, false].map(|queued| Q::Orphans { epoch: 1, queued, limit }).into(),
        K::QueueMessages => vec![Q::QueueMessages { queue: id, after, until: at, limit }],
        K::Leased => vec![Q::Leased { queue: id, at, limit }],
        K::QueueDepth => vec![Q::QueueDepth { queue: id, at }],
        K::NextDue => vec![Q::NextDue { queue: id, after: at }],
        K::Unswept => vec![Q::Unswept { until: at, limit }],
        K::ExpiryRow => vec![Q::ExpiryRow { list: ExpiryList::Dead, until: at, limit }],
        K::ExpiredKeys => vec![Q::ExpiredKeys { at, limit }],
        K::Head => vec![Q::Head { entity: id }],
        K::Heads => [0, i64::MAX].map(|over| heads(over, limit)).into(),
        K::Classes => vec![Q::Classes { kind: EntityKind::Object, after: None, limit }],
        K::Objects => vec![Q::Objects { class: text(), prefix: text(), after: None, limit }],
        K::CountObjects => vec![Q::CountObjects { class: text(), max }],
        K::Images => vec![Q::Images { entity: id, pages: vec![1..=2] }],
        K::TurnsBack => vec![Q::TurnsBack { from: 1, limit }],
        K::TurnSummaries => vec![Q::TurnSummaries { from: 1, limit }],
        K::OldTurns => vec![Q::OldTurns { after: 1, limit }],
        K::Run => vec![Q::Run { entity: id }],
        K::Runs => {
            let named = RunPage { prefix: text(), ..page() };
            let by_name = RunPage { by_name: true, ..named.clone() };
            let paused = RunPage { status: Some(RunStatus::Paused), ..page() };
            [page(), named, by_name, paused].map(|page| Q::Runs { page, limit }).into()
        }
        K::CountRuns => vec![Q::CountRuns { workflow: text(), status: None, max }],
        K::CountRunNames => vec![Q::CountRunNames { workflow: text(), prefix: text(), max }],
        K::ExpiredRuns => vec![Q::ExpiredRuns { at, limit }],
        K::Totals => vec![Q::Totals],
        K::Entry => vec![Q::Entry { entry: EntryKey::new("s", b"k").unwrap() }],
        K::Entries => {
            let all = EntryRange::prefix(b"");
            let ranges = [all.clone(), all.after(b"a"), EntryRange::prefix(b"a")];
            ranges.map(|range| Q::Entries { space: text(), range, limit }).into()
        }
        K::EntriesByAge => {
            let (space, after) = (text(), AgeCursor::START);
            vec![Q::EntriesByAge { space, after, until: at, limit }]
        }
        K::ExpiredEntries => vec![Q::ExpiredEntries { at, limit }],
        K::Referenced => vec![Q::Referenced { ids: vec![id] }],
        K::Dump => vec![Q::Dump],
        K::Violations => vec![Q::Violations],
    }
}

fn heads(history_over: i64, limit: usize) -> Query {
    Query::Heads { history_over, after: 0, limit }
}

#[test]
fn no_query_reads_a_whole_table_and_few_sort() {
    // These read everything, for tests and for `doctor`.
    let reads_all = [QueryKind::Dump, QueryKind::Violations];
    let mut sorted = Vec::new();
    for kind in QueryKind::ALL.iter().filter(|it| !reads_all.contains(it)) {
        for query in examples(*kind) {
            assert_eq!(query.kind(), *kind);
            for statement in query.statements(Dialect::Sqlite) {
                let sorts = has(&steps(&statement.sql), "USE TEMP B-TREE FOR ORDER BY");
                sorted.extend(sorts.then_some(*kind).filter(|it| !sorted.contains(it)));
            }
        }
    }
    // All of them sort a page or less, but for orphans: no more than a process had in flight.
    let (streams, classes, orphans) = (QueryKind::Streams, QueryKind::Classes, QueryKind::Orphans);
    let turns = [QueryKind::TurnsBack, QueryKind::TurnSummaries];
    assert_eq!(sorted, [streams, orphans, classes, turns[0], turns[1], QueryKind::Runs]);
}

#[test]
fn a_stream_is_read_through_the_index_of_origins() {
    let view = "SELECT position, message_type FROM workflow_messages WHERE workflow_id = ?1";
    let pending = queries::pending(Some(EntityId::NONE), 0, 1).0;
    for (statement, bounds) in [
        (queries::STREAM.as_str(), "(origin=? AND version>?)"),
        (pending, "(origin=?)"),
        (queries::VERSION, "(origin=?)"),
        (STREAM_END, "(origin=?)"),
        (ERASURE, "(origin=?)"),
        (view, "(origin=?)"),
    ] {
        let steps = steps(statement);
        assert!(has(&steps, &format!("INDEX message_stream {bounds}")), "{steps:#?}");
    }
    // In the order of versions, so nothing is sorted.
    assert!(!has(&steps(&queries::STREAM), "B-TREE"));
}

#[test]
fn entities_are_listed_through_the_index_of_addresses() {
    for (statement, is_sorted) in [
        (objects::objects("a", "", None, 1).0, true),
        (objects::count_objects("a", 1).0, true),
        // The classes themselves are few.
        (objects::classes(EntityKind::Object, None, 1).0, false),
    ] {
        let steps = steps(statement);
        assert!(has(&steps, "INDEX entity_address (<expr>>? AND <expr><?)"), "{steps:#?}");
        assert_eq!(has(&steps, "B-TREE"), !is_sorted, "{steps:#?}");
    }
    let streams = steps(queries::streams(None, None, 1).0);
    for index in ["entity_stream (<expr>>? AND <expr><?)", "entity_address (<expr>>? AND <expr><?)"]
    {
        assert!(has(&streams, index), "{streams:#?}");
    }
}

#[test]
fn objects_with_a_long_history_are_found_without_the_others() {
    let steps = steps(objects::long_heads(i64::MAX));
    assert!(has(&steps, "INDEX base_history (number>?)"), "{steps:#?}");
}
