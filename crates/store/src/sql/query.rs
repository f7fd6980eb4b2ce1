//! Queries as statements, and rows as answers. The stores only run the statements.

use std::{ops::RangeInclusive, sync::LazyLock};

use super::{
    dump, entries, objects, queries, runs,
    statement::{Dialect, Fields, Param, RowReader, Select, Statement, Text, params},
    table::Stored,
};
use crate::{Answer, DEPTH_SEEN_MAX, EntityId, Position, Query, RunSummary, StoreError};

impl Query {
    /// The statements whose rows, one after the other, are the answer.
    pub(crate) fn statements(self, dialect: Dialect) -> Vec<Statement> {
        use Query as Q;
        let (sql, params): Select = match self {
            Q::Stream { stream, from, limit } => (&queries::STREAM, params![stream, from, limit]),
            Q::All { after, limit } => (&queries::ALL, params![after, limit]),
            Q::Message { position } => (&queries::MESSAGE, params![position]),
            Q::Pending { stream, after, limit } => queries::pending(stream, after, limit),
            Q::Dead { queue, after, limit } => queries::dead(queue, after, limit),
            Q::Attempts { position } => (&queries::ATTEMPTS, params![position]),
            Q::Version { stream } => (queries::VERSION, params![stream]),
            Q::Streams { within, after, limit } => queries::streams(within, after, limit),
            Q::Addresses { ids } => return dialect.each(ids, queries::ADDRESS, queries::ADDRESSES),
            Q::Snapshot { stream } => (&queries::SNAPSHOT, params![stream]),
            Q::Due { after, limit } => {
                (&queries::DUE, params![after.due_at, after.position, limit])
            }
            Q::Backlog { target, ordered, after, limit } => {
                queries::backlog(target, ordered, after, limit)
            }
            Q::Orphans { epoch, queued, limit } => queries::orphans(epoch, queued, limit),
            Q::QueueMessages { queue, after, until, limit } => (
                &queries::QUEUE_MESSAGES,
                params![queue, after.due_at, after.position, until, limit],
            ),
            Q::Leased { queue, at, limit } => (&queries::LEASED, params![queue, at, limit]),
            Q::QueueDepth { queue, at } => (queries::DEPTH, params![queue, at, DEPTH_SEEN_MAX]),
            Q::NextDue { queue, after } => (queries::NEXT_DUE, params![queue, after]),
            Q::Unswept { until, limit } => (queries::SWEEP, params![until, limit]),
            Q::ExpiryRow { list, until, limit } => {
                (&queries::EXPIRING, params![list.tag(), until, limit])
            }
            Q::ExpiredKeys { at, limit } => (queries::EXPIRED_KEYS, params![at, limit]),
            Q::Head { entity } => (&objects::HEAD, params![entity]),
            Q::Heads { history_over, after, limit } => {
                (objects::long_heads(history_over), params![history_over, after, limit])
            }
            Q::Classes { kind, after, limit } => objects::classes(kind, after, limit),
            Q::Objects { class, prefix, after, limit } => {
                objects::objects(&class, &prefix, after.as_deref(), limit)
            }
            Q::CountObjects { class, max } => objects::count_objects(&class, max),
            Q::Images { entity, pages } => return images(dialect, entity, &pages),
            Q::TurnsBack { from, limit } => (&objects::TURNS_BACK, params![from, limit]),
            Q::TurnSummaries { from, limit } => (&objects::TURN_SUMMARIES, params![from, limit]),
            Q::OldTurns { after, limit } => (&objects::OLD_TURNS, params![after, limit]),
            Q::Run { entity } => (&runs::RUN, params![entity]),
            Q::Runs { page, limit } => return vec![runs::page(&page, limit)],
            Q::CountRuns { workflow, status, max } => {
                return vec![Statement::of(runs::count(status), params![workflow, max])];
            }
            Q::CountRunNames { workflow, prefix, max } => runs::names(&workflow, &prefix, max),
            Q::ExpiredRuns { at, limit } => (&runs::EXPIRED, params![at, limit]),
            Q::Totals => (queries::TOTALS, vec![]),
            Q::Entry { entry } => entries::one(&entry),
            Q::Entries { space, range, limit } => entries::list(space, range, limit),
            Q::EntriesByAge { space, after, until, limit } => {
                (&entries::BY_AGE, params![space, after.changed_at, after.key, until, limit])
            }
            Q::ExpiredEntries { at, limit } => (&entries::EXPIRED, params![at, limit]),
            Q::Referenced { ids } => {
                return dialect.each(ids, entries::REFERENCED, entries::REFERENCED_MANY);
            }
            Q::Dump => return dump::all(),
            Q::Violations => return dump::violations(dialect),
        };
        vec![Statement::of(sql, params)]
    }
}

fn images(dialect: Dialect, entity: EntityId, pages: &[RangeInclusive<u32>]) -> Vec<Statement> {
    let of = |sql: &'static LazyLock<String>, params| Statement::of(sql.as_str(), params);
    match dialect {
        Dialect::Sqlite => {
            let range = |it: &RangeInclusive<u32>| params![entity, *it.start(), *it.end()];
            pages.iter().map(|it| of(&objects::IMAGES, range(it))).collect()
        }
        Dialect::Postgres => {
            let first = Param::Many(pages.iter().map(|it| (*it.start()).into()).collect());
            let last = Param::Many(pages.iter().map(|it| (*it.end()).into()).collect());
            vec![of(&objects::IMAGES_MANY, vec![entity.into(), first, last])]
        }
    }
}

impl Answer {
    /// Adds a row that a statement found.
    pub(crate) fn add(&mut self, row: &dyn Fields, text: Text) -> Result<(), StoreError> {
        let row = &mut RowReader::new(row);
        match self {
            Answer::Messages(found) => found.push(queries::recorded(row)?),
            Answer::Queued(found) => found.push(queries::queued_message(row)?),
            Answer::Works(found) => found.push(Stored::read(row)?),
            Answer::Attempts(found) => found.push(Stored::read(row)?),
            Answer::Numbers(found) => found.push(row.int()?),
            Answer::Times(found) => found.push(row.time()?),
            Answer::Texts(found) => found.push(text(row)?),
            Answer::Streams(found) => found.push(queries::stream_summary(row)?),
            Answer::Addresses(found) => found.push(row.address()?),
            Answer::Snapshots(found) => found.push(Stored::read(row)?),
            Answer::Depths(found) => found.push(queries::depth(row)?),
            Answer::ExpiryRow(found) => found.push(Stored::read(row)?),
            Answer::Keys(found) => found.push(queries::key_name(row)?),
            Answer::Heads(found) => found.push(Stored::read(row)?),
            Answer::Objects(found) => found.push(objects::object_summary(row)?),
            Answer::Images(found) => found.push(objects::image(row)?),
            Answer::Turns(found) => found.push(Stored::read(row)?),
            Answer::TurnSummaries(found) => found.push(objects::turn_summary(row)?),
            Answer::OldTurns(found) => found.push(objects::old_turn(row)?),
            Answer::Runs(found) => found.push(<(Position, RunSummary)>::read(row)?.1),
            Answer::Totals(found) => found.push(queries::totals(row)?),
            Answer::Entries(found) => found.push(Stored::read(row)?),
            Answer::References(found) => found.push(entries::reference(row)?),
        }
        Ok(())
    }
}
