//! Objects: classes, calls, rows, turns.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use steadfast_core::{
    Alarm as AlarmEntry,
    object::{
        Changes as TurnDetail, ClassView as ObjectClass, ConnectionView as ConnectionEntry,
        LastFailure as FailureEntry, ObjectItem as ObjectEntry, ObjectView as ObjectDetail,
        RowChange as RowEntry, Rows as SqlRows, SchemaChange as SchemaEntry,
        SkippedTable as SkippedEntry, TableView as TableEntry, TurnView as TurnEntry,
    },
};
use utoipa::ToSchema;

use crate::{
    JsonText, Page,
    json::{json_text, json_value},
    operation::{like, operation, requests},
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

/// The result of a deletion.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// Always true.
    pub deleted: bool,
}
