//! Turns of objects on the wire.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_core::object::{Changes, RowChange, SchemaChange, Skipped};
use steadfast_store::TurnSummary;
use utoipa::ToSchema;

use crate::api::time::rfc3339;

/// A turn in a timeline.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnEntry {
    /// Its number, from 1.
    pub(crate) turn: i64,
    /// When it was committed.
    #[schema(format = DateTime)]
    pub(crate) at: String,
    /// The name of the message.
    pub(crate) input: String,
    /// Bytes of what it changed, as they are stored.
    pub(crate) bytes: i64,
    /// Messages that it sent.
    pub(crate) sent: u32,
    /// The `globalPosition` of the message that was delivered, if it was one; null for a call.
    pub(crate) cause: Option<i64>,
}

impl TurnEntry {
    /// The wire form.
    pub(crate) fn of(turn: &TurnSummary) -> Self {
        Self {
            turn: turn.seq,
            at: rfc3339(turn.at),
            input: turn.input.to_string(),
            bytes: turn.bytes,
            sent: turn.sent,
            cause: turn.cause,
        }
    }
}

/// What one turn changed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnDetail {
    /// What the timeline shows of it.
    #[serde(flatten)]
    pub(crate) entry: TurnEntry,
    /// Tables, indexes, views and triggers that were made, changed or removed, without the
    /// runtime's own.
    pub(crate) schema: Vec<SchemaEntry>,
    /// Rows that were added, changed or removed, 100 at most; those of the runtime's own tables
    /// come last.
    pub(crate) changes: Vec<RowEntry>,
    /// Whether there are more.
    pub(crate) truncated: bool,
    /// Tables that were not compared, as those of more than 10,000 rows. Virtual tables never are.
    pub(crate) skipped: Vec<SkippedEntry>,
}

/// A part of the schema before and after a turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SchemaEntry {
    /// table, index, view or trigger.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    /// The statement that made it; null if it was not there.
    pub(crate) before: Option<String>,
    /// The same after the turn.
    pub(crate) after: Option<String>,
}

/// A row before and after a turn.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RowEntry {
    /// Its table.
    pub(crate) table: String,
    /// Whether the table is the runtime's own.
    pub(crate) system: bool,
    /// What names the row: its primary key or row id.
    #[schema(value_type = Object)]
    pub(crate) key: Map<String, Value>,
    /// The columns, in the order of the table.
    pub(crate) columns: Vec<String>,
    /// The row before, by column; null if it was added.
    #[schema(value_type = Option<Object>)]
    pub(crate) before: Option<Map<String, Value>>,
    /// The row after; null if it was removed.
    #[schema(value_type = Option<Object>)]
    pub(crate) after: Option<Map<String, Value>>,
}

/// A table that was not compared.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SkippedEntry {
    /// Which.
    pub(crate) table: String,
    /// Why.
    pub(crate) reason: String,
}

impl TurnDetail {
    /// The wire form.
    pub(crate) fn of(changes: Changes) -> Self {
        let Changes { turn, schema, rows, skipped, truncated } = changes;
        let schema = schema.into_iter().map(|it| {
            let SchemaChange { kind, name, before, after } = it;
            SchemaEntry { kind, name, before, after }
        });
        let skipped =
            skipped.into_iter().map(|Skipped { table, reason }| SkippedEntry { table, reason });
        Self {
            entry: TurnEntry::of(&turn),
            schema: schema.collect(),
            changes: rows.into_iter().map(RowEntry::of).collect(),
            truncated,
            skipped: skipped.collect(),
        }
    }
}

impl RowEntry {
    fn of(row: RowChange) -> Self {
        let RowChange { table, system, columns, key, before, after } = row;
        let named = |cells: Vec<Value>| columns.iter().cloned().zip(cells).collect();
        let (before, after) = (before.map(named), after.map(named));
        Self { table, system, key, columns, before, after }
    }
}
