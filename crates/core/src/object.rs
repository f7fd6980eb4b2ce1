//! Objects: named, single-threaded, each with a SQLite database of its own. A turn commits whole or
//! not at all, together with everything it sends.

mod activation;
mod address;
mod alarm;
mod awake;
mod calls;
mod cell;
mod checkpoint;
mod database;
mod deliver;
mod effect;
mod error;
mod fields;
mod flight;
mod guard;
mod held;
mod history;
mod inspect;
mod key;
mod kv;
mod live;
mod mailbox;
mod migrate;
mod mould;
mod objects;
mod options;
mod pace;
mod pages;
mod pending;
mod pool;
mod precedence;
mod restore;
mod run_call;
mod sleep;
mod sql;
mod step;
mod tables;
mod transact;
mod turn;
mod unopened;
mod wake;

pub(crate) use self::run_call::{CallKey, sweep_run_replies};
pub use self::{
    address::{Address, Destination},
    alarm::{Alarm, CatchUp},
    calls::{Both, CallList, First, Lists, Nobody, Nth, Second, Sending},
    effect::{Job, Outcome, Perform},
    error::CallError,
    fields::{FieldKind, MessageField, MessageView},
    history::{HistoryError, HistoryRetention, Past, pages_at, sweep_history},
    inspect::{
        Changes, ClassList, ClassView, ConnectionView, Inside, InspectError, LastFailure,
        ObjectView, Query, RowChange, Rows, SchemaChange, Skipped, TableView,
    },
    kv::KeyValue,
    live::{Arrival, Closed, Connection, ConnectionId, Event, LiveSocket, Numbered},
    objects::{Objects, ObjectsBuilder},
    options::ObjectOptions,
    pending::PendingCall,
    sql::Sql,
    turn::{Caller, Ringing, StartedRun, Turn},
};
use crate::{Body, Error, Result};

/// Marks the refusal of a class that takes no connections; callers get `CallError::NotLive`.
const NOT_LIVE: &str = "\u{0}not live";

/// A class of objects. The class is a value: its fields are what its handlers need from outside.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// use steadfast::{Handle, Object, Result, Turn};
///
/// struct Counter;
/// #[derive(Serialize, Deserialize)]
/// struct Increment {
///     by: i64,
/// }
///
/// impl Object for Counter {
///     const CLASS: &'static str = "counter";
///     type Calls = (Increment,);
///     const MIGRATIONS: &'static [&'static str] =
///         &["CREATE TABLE counter (n INTEGER NOT NULL); INSERT INTO counter VALUES (0)"];
/// }
///
/// impl Handle<Increment> for Counter {
///     const NAME: &'static str = "increment";
///     type Reply = i64;
///     fn handle(&self, turn: &Turn<Self>, msg: Increment) -> Result<i64> {
///         let add = "UPDATE counter SET n = n + ?1 RETURNING n";
///         Ok(turn.sql().query_row(add, [msg.by], |row| row.get(0))?)
///     }
/// }
/// ```
pub trait Object: Send + Sync + Sized + 'static {
    /// The name of the class: part of addresses, of URLs and of every row. It may never change.
    const CLASS: &'static str;
    /// Every message that the class takes, as a tuple. One message needs a comma: `(Increment,)`.
    type Calls: CallList<Self>;
    /// SQL scripts that make and change the tables, run in order, once each. Only ever add to the
    /// end.
    const MIGRATIONS: &'static [&'static str] = &[];

    /// Texts of connections that are answered at once, without a turn and without waking the
    /// object: what comes in, and what goes back.
    const AUTO_REPLY: &'static [(&'static str, &'static str)] = &[];

    /// The address of one object: plain data, nothing is looked up.
    fn at(name: impl Into<String>) -> Address<Self> {
        Address::new(name.into())
    }

    /// Somebody wants to connect, over HTTP everybody who may call. `Err` refuses, and nothing was
    /// changed. What is told here to the connection arrives first; more than may wait for one
    /// (`unread_bytes_max`) ends it. A class that does not say otherwise takes no connections.
    fn connected(&self, turn: &Turn<Self>, connection: &Connection) -> Result<()> {
        let _ = (turn, connection);
        Err(Error::terminal(format!("class `{}` takes no connections", Self::CLASS))
            .with_code(NOT_LIVE))
    }

    /// A text came in from a connection. `Err` is told to the connection, which stays. A class that
    /// does not say otherwise only tells.
    fn received(&self, turn: &Turn<Self>, connection: &Connection, text: &str) -> Result<()> {
        let _ = (turn, connection, text);
        Err(Error::terminal(format!("class `{}` takes no texts", Self::CLASS))
            .with_code("not_received"))
    }

    /// A connection ended, for whatever reason; it is not among the connections any more. This is
    /// called once for each one that was accepted. One that ended with the process is heard of
    /// before the object does anything else. Its end is no matter of choice: after an `Err` it is
    /// gone all the same.
    fn closed(&self, turn: &Turn<Self>, connection: &Connection, closed: &Closed) -> Result<()> {
        let _ = (turn, connection, closed);
        Ok(())
    }
}

/// One message of a class: its name, its reply, and the turn that handles it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle `{M}`",
    label = "write `impl Handle<{M}> for {Self}`"
)]
pub trait Handle<M: Body>: Object {
    /// The name of the message within the class. It is stored: it may never change.
    const NAME: &'static str;
    /// Whether it may be called over HTTP.
    const PUBLIC: bool = false;
    /// What comes back.
    type Reply: Body;

    /// Handles a message: a plain synchronous function over the object's database. `Ok` commits the
    /// turn, `Err` or a panic undoes all of it.
    fn handle(&self, turn: &Turn<Self>, msg: M) -> Result<Self::Reply>;
}
