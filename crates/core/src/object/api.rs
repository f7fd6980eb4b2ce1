//! The API that a program is written against: classes, their messages, and the turn that a handler
//! gets. It builds the type-erased [`Class`] that the executor runs.

mod address;
mod alarms;
mod calls;
mod kv;
mod live;
mod turn;

use std::{rc::Rc, sync::Arc};

pub use self::{
    address::{Address, Destination},
    calls::{Both, CallList, First, Lists, NoMessage, Nth, Second},
    kv::KeyValue,
    live::NumberedEvents,
    turn::{StartedRun, Turn},
};
use super::{
    connections::{Closed, Connection},
    executor::{Class, HandlerError, LiveClass, Method, NOT_LIVE, Template, TurnState},
    fields::fields_of,
};
use crate::{Body, Error, Result, body::path_of};

/// A class of objects. The class is a value: its fields are the dependencies of its handlers.
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

    /// Texts of connections with fixed replies, as pairs of text and reply. They need no turn and
    /// do not load the object.
    const AUTO_REPLY: &'static [(&'static str, &'static str)] = &[];

    /// The address of one object: plain data, nothing is looked up.
    fn at(name: impl Into<String>) -> Address<Self> {
        Address::new(name.into())
    }

    /// Accepts a connection. `Err` refuses it, and nothing was changed. Over HTTP every caller that
    /// may call the object can connect. Events that this turn sends to the connection arrive first;
    /// more than `unread_bytes_max` closes it. By default a class refuses connections.
    fn connected(&self, turn: &Turn<Self>, connection: &Connection) -> Result<()> {
        let _ = (turn, connection);
        Err(Error::terminal(format!("class `{}` takes no connections", Self::CLASS))
            .with_code(NOT_LIVE))
    }

    /// Receives a text from a connection. `Err` is sent to the connection, which stays open. By
    /// default a class refuses texts.
    fn received(&self, turn: &Turn<Self>, connection: &Connection, text: &str) -> Result<()> {
        let _ = (turn, connection, text);
        Err(Error::terminal(format!("class `{}` takes no texts", Self::CLASS))
            .with_code("not_received"))
    }

    /// A connection has ended; it is no longer in the list of connections. This is called once for
    /// each accepted connection. For connections that ended with the process, it is called before
    /// any other turn of the object. An `Err` does not keep the connection.
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
    /// The reply.
    type Reply: Body;

    /// Handles a message: a plain synchronous function over the object's database. `Ok` commits the
    /// turn, `Err` or a panic undoes all of it.
    fn handle(&self, turn: &Turn<Self>, msg: M) -> Result<Self::Reply>;
}

/// Erases the types of a class.
pub(super) fn class_of<C: Object>(class: C) -> Class {
    let class = Arc::new(class);
    let methods = C::Calls::methods(&class);
    let is_one_of_each = methods.len() == C::Calls::names().len();
    assert!(is_one_of_each, "two messages of `{}` have one name", C::CLASS);
    let turn = |state: &Rc<TurnState>| Turn::new(state.clone());
    let (connected, received, closed) = (class.clone(), class.clone(), class);
    let live = LiveClass {
        connected: Box::new(move |state, it| connected.connected(&turn(state), it)),
        received: Box::new(move |state, it, text| received.received(&turn(state), it, text)),
        closed: Box::new(move |state, it, end| closed.closed(&turn(state), it, end)),
        auto_reply: C::AUTO_REPLY,
    };
    let migrations = C::MIGRATIONS;
    Class { methods, live, migrations, template: Template::default(), served: None }
}

/// Erases the types of one message.
fn erase<C: Handle<M>, M: Body>(class: Arc<C>) -> Method {
    let run = Box::new(move |state: &Rc<TurnState>, body: &str| {
        let msg: M = decode(body)?;
        let reply = class.handle(&Turn::new(state.clone()), msg).map_err(HandlerError::Refused)?;
        serde_json::to_string(&reply).map_err(|error| HandlerError::Refused(Error::terminal(error)))
    });
    // Only public messages have a form in the console.
    let fields = if C::PUBLIC { fields_of::<M> } else { || None };
    Method { public: C::PUBLIC, run, fields }
}

fn decode<M: Body>(body: &str) -> Result<M, HandlerError> {
    // A message without fields is `null` or `{}` to serde, depending on its declaration; callers
    // may send either.
    match body.trim() {
        "" | "null" => decode_text("null").or_else(|_| decode_text("{}")),
        "{}" => decode_text("{}").or_else(|error| decode_text("null").map_err(|_| error)),
        _ => decode_text(body),
    }
}

fn decode_text<M: Body>(body: &str) -> Result<M, HandlerError> {
    serde_json::from_str(body).map_err(|error| malformed(body, &error))
}

fn malformed(body: &str, error: &serde_json::Error) -> HandlerError {
    HandlerError::Malformed { path: path_of(body, error), detail: error.to_string() }
}
