//! Objects on the wire.

mod sql;
mod turn;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::{
    Alarm,
    object::{ClassView, ConnectionView, LastFailure, ObjectView, TableView},
};
use steadfast_store::ObjectSummary;
use utoipa::ToSchema;

pub(crate) use self::{
    sql::{SqlBody, SqlRows},
    turn::{RowEntry, TurnDetail, TurnEntry},
};
use crate::api::time::rfc3339;

/// A class of objects in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ObjectClass {
    /// Its name.
    pub(crate) name: String,
    /// Whether this server serves it; the others are stored here by other programs.
    pub(crate) served: bool,
    /// How many of its objects exist, up to 1,000.
    pub(crate) objects: usize,
    /// Whether there are more than that.
    pub(crate) more: bool,
}

impl ObjectClass {
    /// The wire form.
    pub(crate) fn of(class: ClassView) -> Self {
        let ClassView { name, served, objects, more } = class;
        Self { name, served, objects, more }
    }
}

/// An object in a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectEntry {
    /// 32 hexadecimal digits, computed from the address.
    pub(crate) id: String,
    /// `object/class/name`.
    pub(crate) address: String,
    /// The name within the class.
    pub(crate) name: String,
    /// Its turns so far.
    pub(crate) turns: i64,
    /// Whether it is in memory.
    pub(crate) awake: bool,
    /// When its last turn was committed; null if that turn is no longer kept.
    #[schema(format = DateTime)]
    pub(crate) updated_at: Option<String>,
    /// When its name was first used.
    #[schema(format = DateTime)]
    pub(crate) created_at: String,
}

impl ObjectEntry {
    /// The wire form.
    pub(crate) fn of(summary: &ObjectSummary, awake: bool) -> Self {
        Self {
            id: summary.address.id().to_string(),
            address: summary.address.to_string(),
            name: summary.address.name().into(),
            turns: summary.head.seq,
            awake,
            updated_at: summary.updated_at.map(rfc3339),
            created_at: rfc3339(summary.created_at),
        }
    }
}

/// An object, with all but its rows.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectDetail {
    /// What the list shows of it.
    #[serde(flatten)]
    pub(crate) entry: ObjectEntry,
    /// Its class.
    pub(crate) class: String,
    /// Whether this server serves its class.
    pub(crate) served: bool,
    /// The oldest turn after which it can be seen; looked for up to 2,000 turns back.
    pub(crate) oldest_turn: i64,
    /// Bytes of its database.
    pub(crate) bytes: usize,
    /// Its tables, by name; the runtime's own come last.
    pub(crate) tables: Vec<TableEntry>,
    /// Its alarms in the order in which they ring; those given up come last.
    pub(crate) alarms: Vec<AlarmEntry>,
    /// Its live connections.
    pub(crate) connections: Vec<ConnectionEntry>,
    /// How a turn last failed since the server started; an alarm has an error of its own.
    pub(crate) last_error: Option<FailureEntry>,
    /// What is wrong with what is stored of it; then size, tables and alarms are not known.
    pub(crate) damage: Option<String>,
}

/// A table of an object.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TableEntry {
    /// Its name.
    pub(crate) name: String,
    /// Its columns.
    pub(crate) columns: Vec<String>,
    /// How many rows it has, up to 10,000; null if that could not be counted in time.
    pub(crate) rows: Option<usize>,
    /// Whether there are more than that.
    pub(crate) more: bool,
    /// Whether it is the runtime's own.
    pub(crate) system: bool,
}

/// An alarm of an object.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AlarmEntry {
    /// Its name.
    pub(crate) name: String,
    /// The time that it was set to.
    #[schema(format = DateTime)]
    pub(crate) due_at: String,
    /// When it rings: then, or later if an attempt failed.
    #[schema(format = DateTime)]
    pub(crate) ring_at: String,
    /// The message that arrives then.
    pub(crate) message: String,
    /// Its period in milliseconds, if it is repeated.
    pub(crate) every_ms: Option<u64>,
    /// What becomes of times that passed: once, each or skip.
    pub(crate) catch_up: String,
    /// Attempts that failed so far.
    pub(crate) attempts: u32,
    /// Whether it was given up.
    pub(crate) failed: bool,
    /// Why the last attempt failed.
    pub(crate) error: Option<String>,
}

/// A live connection of an object.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectionEntry {
    /// Its number.
    pub(crate) id: i64,
    /// What it is found by.
    pub(crate) tags: Vec<String>,
    /// Since when.
    #[schema(format = DateTime)]
    pub(crate) connected_at: String,
    /// What it carries.
    pub(crate) attachment: Value,
}

/// How a turn of an object failed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct FailureEntry {
    /// When.
    #[schema(format = DateTime)]
    pub(crate) at: String,
    /// The message.
    pub(crate) input: String,
    /// The stable code.
    pub(crate) code: String,
    /// What happened.
    pub(crate) message: String,
}

/// That an object is gone.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Deleted {
    /// Always true.
    pub(crate) deleted: bool,
}

impl ObjectDetail {
    /// The wire form.
    pub(crate) fn of(view: ObjectView) -> Self {
        let ObjectView { summary, served, awake, oldest_turn, last_failure, inside } = view;
        let (inside, damage) = match inside {
            Ok(inside) => (inside, None),
            Err(damage) => (Default::default(), Some(damage)),
        };
        Self {
            entry: ObjectEntry::of(&summary, awake),
            class: summary.address.class().into(),
            served,
            oldest_turn,
            bytes: inside.bytes,
            tables: inside.tables.into_iter().map(TableEntry::of).collect(),
            alarms: inside.alarms.into_iter().map(AlarmEntry::of).collect(),
            connections: inside.connections.into_iter().map(ConnectionEntry::of).collect(),
            last_error: last_failure.map(FailureEntry::of),
            damage,
        }
    }
}

impl TableEntry {
    fn of(table: TableView) -> Self {
        let TableView { name, columns, rows, more, system } = table;
        Self { name, columns, rows, more, system }
    }
}

impl AlarmEntry {
    fn of(alarm: Alarm) -> Self {
        let millis = |it: std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        Self {
            due_at: rfc3339(alarm.due_at),
            ring_at: rfc3339(alarm.ring_at),
            every_ms: alarm.every.map(millis),
            catch_up: alarm.catch_up.tag().into(),
            name: alarm.name,
            message: alarm.message,
            attempts: alarm.attempts,
            failed: alarm.failed,
            error: alarm.error,
        }
    }
}

impl ConnectionEntry {
    fn of(connection: ConnectionView) -> Self {
        let ConnectionView { id, tags, connected_at, attachment } = connection;
        Self { id, tags, connected_at: rfc3339(connected_at), attachment }
    }
}

impl FailureEntry {
    fn of(failure: LastFailure) -> Self {
        let LastFailure { at, input, code, message } = failure;
        Self { at: rfc3339(at), input, code, message }
    }
}
