//! Objects: named, single-threaded, each with a SQLite database of its own. A turn commits whole or
//! not at all, together with everything it sends.
//!
//! | To understand | read |
//! | --- | --- |
//! | classes, handlers, addresses | `api.rs`, `turn.rs`, `fields.rs` |
//! | a call, from the client to its reply | `call.rs`, `objects.rs`, `request.rs`, `scheduler.rs` |
//! | threads and memory | `lifecycle.rs`, `pool.rs`, `priority.rs`, `table.rs` |
//! | the order of turns and commits | `actor.rs`, checked by `actor/model.rs` |
//! | one turn | `executor.rs`, `transaction.rs`, `executor/commit.rs` |
//! | the database of an object | `database.rs`, `guard.rs` |
//! | the stored object, past states | `storage.rs`, `history.rs` |
//! | alarms | `executor/alarms.rs` |
//! | messages and jobs | `effect.rs`, `delivery.rs` |
//! | live connections | `live.rs`, `connection.rs`, `registry.rs`, `executor/connected.rs` |
//! | inspection | `inspect.rs` and its folder |
//! | errors and limits | `error.rs`, `options.rs` |

mod actor;
mod api;
mod call;
mod connection;
mod database;
mod delivery;
mod effect;
mod error;
mod executor;
mod fields;
mod guard;
mod history;
mod inspect;
mod lifecycle;
mod live;
mod objects;
mod options;
mod pool;
mod priority;
mod registry;
mod request;
mod scheduler;
mod storage;
mod table;
mod transaction;
mod turn;

pub use self::{
    api::{
        Address, Both, CallList, Destination, First, Handle, Lists, NoMessage, Nth, Object, Second,
        Turn,
    },
    call::{PendingCall, RemoteObjects},
    connection::{Caller, Closed, ConnectParams, Connection, ConnectionEvent, ConnectionId},
    database::Sql,
    effect::{Job, Outcome, Perform, Sending},
    error::{CallError, LastFailure},
    executor::alarms::{Alarm, CatchUp},
    fields::{FieldKind, MessageField, MessageView},
    history::{HistoryError, HistoryRetention, Past, pages_at, sweep_history},
    inspect::{
        ClassList, ClassView,
        changes::{Changes, RowChange, SchemaChange, SkippedTable, TurnView},
        contents::{ConnectionView, ObjectItem, ObjectView, Rows, SqlQuery, TableView},
        reader::InspectError,
    },
    live::{LiveSocket, NumberedEvents},
    objects::{Objects, ObjectsBuilder},
    options::ObjectOptions,
    transaction::FiredAlarm,
    turn::KeyValue,
};
pub(crate) use self::{
    call::call_error,
    effect::call_message,
    request::{CallKey, sweep_run_replies},
    transaction::TurnState,
};
