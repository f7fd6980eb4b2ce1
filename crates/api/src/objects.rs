//! Objects: classes, calls, rows, turns.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use steadfast_core::object::{
    ClassView as ObjectClass, ConnectionView as ConnectionEntry, LastFailure as FailureEntry,
    Rows as SqlRows, SchemaChange as SchemaEntry, SkippedTable as SkippedEntry,
    TableView as TableEntry,
};
use steadfast_core::{
    Alarm,
    object::{Changes, ObjectView, RowChange},
};
use steadfast_store::{ObjectSummary, TurnSummary};
use utoipa::ToSchema;

use crate::{
    JsonText, Page,
    json::{json_text, json_value},
    operation::{like, operation, requests},
    rfc3339,
};

requests! {
    /// List the classes: those that the program serves, and those of stored objects.
    paged ListClasses {} => Page<ObjectClass>, Get "/v1/objects", Viewer, scope None, errors [];

    /// List the objects of a class, by name.
    paged ListObjects {
        /// Class name
        class: String,
    } with {
        /// Filter by prefix of the name
        #[arg(long, env = "STEADFAST_PREFIX", value_name = "TEXT")]
        pub prefix: Option<String>,
    } => Page<ObjectEntry>, Get "/v1/objects/{class}", Viewer, scope None,
        errors [InvalidName, ClassNotFound];

    /// Show the size, tables, alarms, connections and last error of an object, as stored.
    plain ShowObject {
        /// Class name
        class: String,
        /// Object name
        name: String,
    } => ObjectDetail, Get "/v1/objects/{class}/{name}", Viewer, scope Object(class, name) Read,
        errors [InvalidName, ClassNotFound, ObjectNotFound];

    /// Delete an object: its database, alarms and images. Messages that it sent are still
    /// delivered.
    plain DeleteObject {
        /// Class name
        class: String,
        /// Object name
        name: String,
    } => Deleted, Delete "/v1/objects/{class}/{name}", Operator, scope Object(class, name) Delete,
        errors [InvalidName, ClassNotFound, ObjectNotFound, Conflict, MigrationFailed, TurnLost];
}

/// Call an object. The first call that changes it creates it. The reply is sent when the change is
/// durable.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallObject {
    /// Class name
    #[serde(skip)]
    pub class: String,
    /// Object name: 1 to 512 bytes
    #[serde(skip)]
    pub name: String,
    /// Public message of the class
    #[serde(skip)]
    pub message: String,
    /// Message body: JSON, or @FILE
    #[arg(long, env = "STEADFAST_BODY", value_name = "JSON", value_parser = json_text)]
    pub body: Option<JsonText>,
    /// Idempotency key: a repetition within 24 hours changes nothing and gets the first reply
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(CallObject => JsonText, Post "/v1/objects/{class}/{name}/calls/{message}" (class, name,
    message), Member, scope Object(class, name) Call, key idempotency_key, empty "null",
    errors [InvalidName, InvalidInput, MalformedMessage, ClassNotFound, MessageNotFound, Refused,
        TurnRolledBack, HandlerPanicked, MigrationFailed, TurnLost]);
like!(
    CallObject,
    Value,
    "Call an object. The first call that changes it creates it. The reply \
    is sent when the change is durable."
);

/// Run one read-only SQL statement on an object, as it is now or was after a turn. Limits: 2 s,
/// 1,000 rows, about 4 MiB.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryObject {
    /// Class name
    #[serde(skip)]
    pub class: String,
    /// Object name
    #[serde(skip)]
    pub name: String,
    /// The statement
    pub sql: String,
    /// Parameters: a JSON array for `?`, or an object for `:name`; a blob is {"blob": "<hex>"}
    #[arg(long, env = "STEADFAST_PARAMS", value_name = "JSON", value_parser = json_value)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// State of the object after this turn
    #[arg(long, env = "STEADFAST_TURN", value_name = "TURN")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<i64>,
}
operation!(QueryObject => SqlRows, Post "/v1/objects/{class}/{name}/sql" (class, name), Viewer,
    scope Object(class, name) Read,
    errors [InvalidName, ClassNotFound, ObjectNotFound, TurnNotFound, SqlFailed]);

requests! {
    /// List the stored turns of an object, newest first.
    paged ListTurns {
        /// Class name
        class: String,
        /// Object name
        name: String,
    } => Page<TurnEntry>, Get "/v1/objects/{class}/{name}/turns", Viewer,
        scope Object(class, name) Read,
        errors [InvalidName, ClassNotFound, ObjectNotFound];

    /// Show the rows that one turn changed, before and after it.
    plain ShowTurn {
        /// Class name
        class: String,
        /// Object name
        name: String,
        /// Turn number, from 1
        turn: i64,
    } => TurnDetail, Get "/v1/objects/{class}/{name}/turns/{turn}", Viewer,
        scope Object(class, name) Read,
        errors [InvalidName, ClassNotFound, ObjectNotFound, TurnNotFound, SqlFailed];
}

/// An object in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectEntry {
    /// 32 hexadecimal digits, computed from the address.
    pub id: String,
    /// `object/class/name`.
    pub address: String,
    /// The name within the class.
    pub name: String,
    /// Number of turns.
    pub turns: i64,
    /// Whether it is in memory.
    pub awake: bool,
    /// When its last turn was committed; null if that turn is no longer kept.
    #[schema(format = DateTime)]
    pub updated_at: Option<String>,
    /// When its name was first used.
    #[schema(format = DateTime)]
    pub created_at: String,
}

impl ObjectEntry {
    /// The wire form.
    pub fn of(summary: &ObjectSummary, awake: bool) -> Self {
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
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDetail {
    /// Its entry in the list.
    #[serde(flatten)]
    pub entry: ObjectEntry,
    /// Its class.
    pub class: String,
    /// Whether this server serves its class.
    pub served: bool,
    /// The oldest turn whose state can be read, within the last 2,000 turns.
    pub oldest_turn: i64,
    /// Bytes of its database.
    pub bytes: usize,
    /// Its tables, by name; the runtime's own come last.
    pub tables: Vec<TableEntry>,
    /// Its alarms in due order; failed ones last.
    pub alarms: Vec<AlarmEntry>,
    /// Its live connections.
    pub connections: Vec<ConnectionEntry>,
    /// The last failure of a turn since the server started. Alarms have their own error.
    pub last_error: Option<FailureEntry>,
    /// Damage of its stored data. Its size, tables and alarms are unknown then.
    pub damage: Option<String>,
}

/// An alarm of an object.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlarmEntry {
    /// Its name.
    pub name: String,
    /// The time for which it was set.
    #[schema(format = DateTime)]
    pub due_at: String,
    /// When it fires: at that time, or later if an attempt failed.
    #[schema(format = DateTime)]
    pub ring_at: String,
    /// The message that it delivers.
    pub message: String,
    /// Its period in milliseconds, if it is repeated.
    pub every_ms: Option<u64>,
    /// How missed times are handled: once, each or skip.
    pub catch_up: String,
    /// Failed attempts.
    pub attempts: u32,
    /// Whether all attempts failed.
    pub failed: bool,
    /// The error of the last attempt.
    pub error: Option<String>,
}

/// The result of a deletion.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// Always true.
    pub deleted: bool,
}

impl From<ObjectView> for ObjectDetail {
    fn from(view: ObjectView) -> Self {
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
            tables: inside.tables,
            alarms: inside.alarms.into_iter().map(AlarmEntry::from).collect(),
            connections: inside.connections,
            last_error: last_failure,
            damage,
        }
    }
}

impl From<Alarm> for AlarmEntry {
    fn from(alarm: Alarm) -> Self {
        Self {
            due_at: rfc3339(alarm.due_at),
            ring_at: rfc3339(alarm.ring_at),
            every_ms: alarm.every.map(crate::time::millis),
            catch_up: alarm.catch_up.tag().into(),
            name: alarm.name,
            message: alarm.message,
            attempts: alarm.attempts,
            failed: alarm.failed,
            error: alarm.error,
        }
    }
}

/// A turn in a timeline.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnEntry {
    /// Its number, from 1.
    pub turn: i64,
    /// When it was committed.
    #[schema(format = DateTime)]
    pub at: String,
    /// The name of the message.
    pub input: String,
    /// Stored bytes of its changes.
    pub bytes: i64,
    /// Messages that it sent.
    pub sent: u32,
    /// The `globalPosition` of the delivered message; null for a call.
    pub cause: Option<i64>,
}

impl From<&TurnSummary> for TurnEntry {
    fn from(turn: &TurnSummary) -> Self {
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

/// The changes of one turn.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnDetail {
    /// Its entry in the timeline.
    #[serde(flatten)]
    pub entry: TurnEntry,
    /// Tables, indexes, views and triggers that were created, changed or removed, without the
    /// runtime's own.
    pub schema: Vec<SchemaEntry>,
    /// Rows that were added, changed or removed, at most 100; those of the runtime's own tables
    /// come last.
    pub changes: Vec<RowEntry>,
    /// Whether more rows changed.
    pub truncated: bool,
    /// Tables that were not compared, such as those with more than 10,000 rows. Virtual tables
    /// never are.
    pub skipped: Vec<SkippedEntry>,
}

/// A row before and after a turn.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RowEntry {
    /// Its table.
    pub table: String,
    /// Whether the table is the runtime's own.
    pub system: bool,
    /// The primary key of the row, or its row id.
    #[schema(value_type = Object)]
    pub key: Map<String, Value>,
    /// The columns, in the order of the table.
    pub columns: Vec<String>,
    /// The row before, by column; null if it was added.
    #[schema(value_type = Option<Object>)]
    pub before: Option<Map<String, Value>>,
    /// The row after; null if it was removed.
    #[schema(value_type = Option<Object>)]
    pub after: Option<Map<String, Value>>,
}

impl From<Changes> for TurnDetail {
    fn from(changes: Changes) -> Self {
        let Changes { turn, schema, rows, skipped, truncated } = changes;
        Self {
            entry: TurnEntry::from(&turn),
            schema,
            changes: rows.into_iter().map(RowEntry::from).collect(),
            truncated,
            skipped,
        }
    }
}

impl From<RowChange> for RowEntry {
    fn from(row: RowChange) -> Self {
        let RowChange { table, system, columns, key, before, after } = row;
        let named = |cells: Vec<Value>| columns.iter().cloned().zip(cells).collect();
        let (before, after) = (before.map(named), after.map(named));
        Self { table, system, key, columns, before, after }
    }
}
