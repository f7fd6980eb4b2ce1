//! The changes of one turn: the rows before and after it, table by table.

use std::collections::BTreeMap;

use rusqlite::{
    Row, params_from_iter,
    types::{Value as Sql, ValueRef},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_store::{Timestamp, TurnSummary, sort::sort_by_key};

use super::{
    contents::{BYTES_MAX, Table, damaged, is_system},
    reader::{InspectError, Reader, size, to_json},
};
use crate::object::history::Past;

/// Maximum rows of a table that is compared.
const ROWS_MAX: usize = 10_000;

/// Maximum changed rows in a result.
const SHOWN_MAX: usize = 100;

/// A turn in a timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = TurnEntry))]
pub struct TurnView {
    /// Its number, from 1.
    pub turn: i64,
    /// When it was committed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The name of the message.
    pub input: String,
    /// Stored bytes of its changes.
    pub bytes: i64,
    /// Messages that it sent.
    pub sent: u32,
    /// The `globalPosition` of the delivered message; null for a call.
    pub cause: Option<i64>,
}

impl From<TurnSummary> for TurnView {
    fn from(TurnSummary { seq: turn, at, input, bytes, sent, cause, .. }: TurnSummary) -> Self {
        Self { turn, at, input: input.into(), bytes, sent, cause }
    }
}

/// The changes of one turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = TurnDetail))]
pub struct Changes {
    /// Its entry in the timeline.
    #[serde(flatten)]
    pub entry: TurnView,
    /// Tables, indexes, views and triggers that were created, changed or removed, without the
    /// runtime's own.
    pub schema: Vec<SchemaChange>,
    /// Rows that were added, changed or removed, at most 100; those of the runtime's own tables
    /// come last.
    pub changes: Vec<RowChange>,
    /// Whether more rows changed.
    pub truncated: bool,
    /// Tables that were not compared, such as those with more than 10,000 rows. Virtual tables
    /// never are.
    pub skipped: Vec<SkippedTable>,
}

/// A part of the schema before and after a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = SchemaEntry))]
pub struct SchemaChange {
    /// table, index, view or trigger.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The statement that made it; null if it was not there.
    pub before: Option<String>,
    /// The same after the turn.
    pub after: Option<String>,
}

/// A row before and after a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = RowEntry))]
pub struct RowChange {
    /// Its table.
    pub table: String,
    /// Whether the table is the runtime's own.
    pub system: bool,
    /// The primary key of the row, or its row id.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub key: Map<String, Value>,
    /// The columns, in the order of the table.
    pub columns: Vec<String>,
    /// The row before, by column; null if it was added.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub before: Option<Map<String, Value>>,
    /// The row after; null if it was removed.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub after: Option<Map<String, Value>>,
}

/// A table that was not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = SkippedEntry))]
pub struct SkippedTable {
    /// Its name.
    pub table: String,
    /// The reason.
    pub reason: String,
}

/// Compares an object before and after a turn; before its first turn it is empty.
pub(super) fn compare(
    turn: TurnSummary,
    before: Option<Past>,
    after: Past,
) -> Result<Changes, InspectError> {
    let before = before.unwrap_or_else(Past::nothing);
    let before = Reader::open(before).map_err(|error| damaged(&error))?;
    let after = Reader::open(after).map_err(|error| damaged(&error))?;
    let (entry, schema) = (turn.into(), schema(&before, &after)?);
    let (rows, skipped) = (Vec::new(), Vec::new());
    let mut changes = Changes { entry, schema, changes: rows, truncated: false, skipped };
    let (old, new) = (tables(&before)?, tables(&after)?);
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    sort_by_key(&mut names, |it| (is_system(it), *it));
    names.dedup();
    let mut comparison = Comparison { before, after, changes: &mut changes, bytes: 0 };
    for name in names {
        comparison.table(old.get(name), new.get(name))?;
    }
    Ok(changes)
}

fn tables(reader: &Reader) -> Result<BTreeMap<String, Table>, InspectError> {
    let tables = Table::all(&reader.connection).map_err(|error| reader.error(&error))?;
    let real = tables.into_iter().filter(|it| !it.is_virtual);
    Ok(real.map(|it| (it.name.clone(), it)).collect())
}

fn schema(before: &Reader, after: &Reader) -> Result<Vec<SchemaChange>, InspectError> {
    let read = |reader: &Reader| -> rusqlite::Result<BTreeMap<(String, String), String>> {
        let sql = "SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL LIMIT 1000";
        let mut list = reader.connection.prepare(sql)?;
        let row = |row: &Row<'_>| Ok(((row.get(0)?, row.get(1)?), row.get(2)?));
        list.query_map((), row)?.collect()
    };
    let mut old = read(before).map_err(|error| before.error(&error))?;
    let new = read(after).map_err(|error| after.error(&error))?;
    let mut changes = Vec::new();
    for ((name, kind), sql) in new {
        let was = old.remove(&(name.clone(), kind.clone()));
        if was.as_ref() != Some(&sql) {
            changes.push(SchemaChange { kind, name, before: was, after: Some(sql) });
        }
    }
    let gone = old.into_iter().map(|((name, kind), sql)| SchemaChange {
        kind,
        name,
        before: Some(sql),
        after: None,
    });
    changes.extend(gone);
    changes.retain(|it| !is_system(&it.name));
    Ok(changes)
}

/// Both states, and the changes between them.
struct Comparison<'a> {
    before: Reader,
    after: Reader,
    changes: &'a mut Changes,
    /// Approximate bytes of the result.
    bytes: usize,
}

impl Comparison<'_> {
    fn table(&mut self, old: Option<&Table>, new: Option<&Table>) -> Result<(), InspectError> {
        let Some(table) = new.or(old) else { return Ok(()) };
        let compared = match self.obstacle(table, old, new) {
            Ok(None) => self.rows(table, old.is_some(), new.is_some()),
            Ok(Some(reason)) => {
                self.changes.skipped.push(SkippedTable { table: table.name.clone(), reason });
                Ok(())
            }
            Err(error) => Err(error),
        };
        let late = if self.before.has_timed_out() { &self.before } else { &self.after };
        compared.map_err(|error| late.error(&error))
    }

    /// Why a table is not compared.
    fn obstacle(
        &self,
        table: &Table,
        old: Option<&Table>,
        new: Option<&Table>,
    ) -> rusqlite::Result<Option<String>> {
        if old.zip(new).is_some_and(|(old, new)| old != new) {
            return Ok(Some("its columns are others than before".into()));
        }
        if table.key.is_empty() {
            return Ok(Some("its rows have no key".into()));
        }
        for (reader, side) in [(&self.before, old), (&self.after, new)] {
            let Some(side) = side else { continue };
            let count = side.count(ROWS_MAX + 1);
            let count: usize = reader.connection.query_row(&count, (), |row| row.get(0))?;
            if ROWS_MAX < count {
                return Ok(Some(format!("it has more than {ROWS_MAX} rows")));
            }
        }
        Ok(None)
    }

    /// Compares row by row: added and changed rows, then removed ones.
    fn rows(&mut self, table: &Table, was: bool, is: bool) -> rusqlite::Result<()> {
        let Self { before, after, changes, bytes } = self;
        let (before, after) = (was.then_some(&*before), is.then_some(&*after));
        each(table, after, before, |new, old| match old {
            Some(old) if is_same(table, old, new)? => Ok(true),
            old => note(table, old, Some(new), changes, bytes),
        })?;
        each(table, before, after, |old, new| match new {
            Some(_) => Ok(true),
            None => note(table, Some(old), None, changes, bytes),
        })
    }
}

/// Calls `see` with each row here and the row with the same key there, until it returns `false`.
fn each(
    table: &Table,
    here: Option<&Reader>,
    there: Option<&Reader>,
    mut see: impl FnMut(&Row<'_>, Option<&Row<'_>>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let Some(here) = here else { return Ok(()) };
    let mut list = here.connection.prepare(&table.rows())?;
    let mut find = there.map(|it| it.connection.prepare(&table.row())).transpose()?;
    let mut rows = list.query(())?;
    let mut go_on = true;
    while let Some(row) = rows.next()?.filter(|_| go_on) {
        go_on = match &mut find {
            None => see(row, None)?,
            Some(find) => {
                let mut found = find.query(params_from_iter(key(table, row)?))?;
                see(row, found.next()?)?
            }
        };
    }
    Ok(())
}

/// Adds a row to the result; `false` if the result is full.
fn note(
    table: &Table,
    old: Option<&Row<'_>>,
    new: Option<&Row<'_>>,
    changes: &mut Changes,
    bytes: &mut usize,
) -> rusqlite::Result<bool> {
    let places = table.key.len()..table.key.len() + table.columns.len();
    for row in [old, new].into_iter().flatten() {
        for place in places.clone() {
            *bytes += size(row.get_ref(place)?);
        }
    }
    if SHOWN_MAX <= changes.changes.len() || BYTES_MAX < *bytes {
        changes.truncated = true;
        return Ok(false);
    }
    let cells = |row: Option<&Row<'_>>| -> rusqlite::Result<Option<Map<String, Value>>> {
        let cell = |row: &Row<'_>, (place, name): (usize, &String)| {
            Ok((name.clone(), to_json(row.get_ref(place)?)))
        };
        row.map(|row| places.clone().zip(&table.columns).map(|it| cell(row, it)).collect())
            .transpose()
    };
    let Some(any) = new.or(old) else { return Ok(true) };
    let values = key(table, any)?;
    let values = values.iter().map(|it| to_json(ValueRef::from(it)));
    changes.changes.push(RowChange {
        table: table.name.clone(),
        system: is_system(&table.name),
        columns: table.columns.clone(),
        key: table.key.iter().cloned().zip(values).collect(),
        before: cells(old)?,
        after: cells(new)?,
    });
    Ok(true)
}

/// The key of a row: its first columns.
fn key(table: &Table, row: &Row<'_>) -> rusqlite::Result<Vec<Sql>> {
    (0..table.key.len()).map(|place| row.get(place)).collect()
}

fn is_same(table: &Table, old: &Row<'_>, new: &Row<'_>) -> rusqlite::Result<bool> {
    for place in 0..table.key.len() + table.columns.len() {
        if old.get_ref(place)? != new.get_ref(place)? {
            return Ok(false);
        }
    }
    Ok(true)
}
