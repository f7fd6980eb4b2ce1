//! Objects: named, single-threaded, each with a SQLite database of its own. A turn commits whole or
//! not at all, together with everything it sends.
//!
//! Each module imports only modules of lower rows:
//!
//! ```text
//! call   socket   delivery   inspect          entry points
//! objects
//! scheduler   api                             these two do not know each other
//! actor   executor                            nor do these
//! priority   storage   request   outgoing   effect   fields
//! connections   call_key
//! error   options
//! ```

mod actor;
mod api;
mod call;
mod call_key;
mod caller;
mod connections;
mod delivery;
mod effect;
mod error;
mod executor;
mod fields;
mod inspect;
mod objects;
mod options;
mod outgoing;
mod priority;
mod request;
mod scheduler;
mod socket;
mod storage;

pub(crate) use self::call_key::{CallKey, sweep_run_replies};
pub use self::{
    api::{
        Address, Both, CallList, Destination, First, Handle, KeyValue, Lists, NoMessage, Nth,
        NumberedEvents, Object, Second, StartedRun, Turn,
    },
    call::PendingCall,
    caller::Caller,
    connections::{Closed, ConnectParams, Connection, ConnectionId, Event},
    effect::{Job, Outcome, Perform},
    error::CallError,
    executor::{Alarm, CatchUp, FiredAlarm, Sql},
    fields::{FieldKind, MessageField, MessageView},
    inspect::{
        Changes, ClassList, ClassView, ConnectionView, InspectError, ObjectContents, ObjectView,
        Query, RowChange, Rows, SchemaChange, SkippedTable, TableView,
    },
    objects::{Objects, ObjectsBuilder},
    options::ObjectOptions,
    outgoing::Sending,
    scheduler::LastFailure,
    socket::LiveSocket,
    storage::{HistoryError, HistoryRetention, Past, pages_at, sweep_history},
};
