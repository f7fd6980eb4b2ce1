//! The declarations of a program: classes, their messages, and the addresses of objects. The
//! declaration becomes the type-erased [`Class`] that the executor runs.

use std::{fmt, marker::PhantomData, rc::Rc, sync::Arc};

use steadfast_store::{self as store, EntityKind, InvalidInput, Json};

use super::{
    connection::{Closed, Connection},
    database::Template,
    effect::Sending,
    fields::fields_of,
    transaction::{Class, ClassMethod, HandlerError, LiveClass, Methods, NOT_LIVE, TurnState},
};
use crate::{Body, Error, Result, body::path_of};

/// One turn. Everything recorded here commits with the SQL, or not at all.
///
/// It stays on its thread and ends with the handler.
pub struct Turn<C> {
    pub(crate) state: Rc<TurnState>,
    class: PhantomData<fn() -> C>,
}

impl<C> Turn<C> {
    fn new(state: Rc<TurnState>) -> Self {
        Self { state, class: PhantomData }
    }
}

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
fn erase<C: Handle<M>, M: Body>(class: Arc<C>) -> ClassMethod {
    let run = Box::new(move |state: &Rc<TurnState>, body: &str| {
        let msg: M = decode(body)?;
        let reply = class.handle(&Turn::new(state.clone()), msg).map_err(HandlerError::Refused)?;
        serde_json::to_string(&reply).map_err(|error| HandlerError::Refused(Error::terminal(error)))
    });
    // Only public messages have a form in the console.
    let fields = if C::PUBLIC { fields_of::<M> } else { || None };
    ClassMethod { public: C::PUBLIC, run, fields }
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

/// A tuple of messages that a class handles.
#[diagnostic::on_unimplemented(
    message = "`type Calls` of `{C}` must be a tuple of messages that it handles",
    note = "one message needs a comma: `type Calls = (Increment,);`",
    note = "each message needs `impl Handle<…> for {C}`",
    note = "more than 24 messages need `Both<(…), (…)>`"
)]
pub trait CallList<C> {
    #[doc(hidden)]
    fn methods(class: &Arc<C>) -> Methods;

    #[doc(hidden)]
    fn names() -> Vec<&'static str>;
}

/// Two lists of messages in one, for a class with more messages than a tuple has elements: `type
/// Calls = Both<(Open, Close), (Read, Write)>;`. Either may be such a pair itself.
pub struct Both<A, B>(PhantomData<(A, B)>);

/// An index in the first of two lists.
#[doc(hidden)]
pub struct First<I>(PhantomData<I>);

/// An index in the second of two lists.
#[doc(hidden)]
pub struct Second<I>(PhantomData<I>);

impl<M, I, A: Lists<M, I>, B> Lists<M, First<I>> for Both<A, B> {}
impl<M, I, A, B: Lists<M, I>> Lists<M, Second<I>> for Both<A, B> {}

impl<C, A: CallList<C>, B: CallList<C>> CallList<C> for Both<A, B> {
    fn methods(class: &Arc<C>) -> Methods {
        let (mut methods, others) = (A::methods(class), B::methods(class));
        methods.extend(others);
        methods
    }

    fn names() -> Vec<&'static str> {
        [A::names(), B::names()].concat()
    }
}

/// A message is in a list, at index `I`.
#[diagnostic::on_unimplemented(
    message = "`{M}` is not in the `type Calls` of its object",
    label = "add `{M}` to `type Calls = (…)`"
)]
pub trait Lists<M, I> {}

/// An index in a list.
#[doc(hidden)]
pub struct Nth<const N: usize>;

/// Never a message. With a second candidate the compiler waits for the argument instead of guessing
/// the one listed message. Then its error is "not in `type Calls`" instead of "expected
/// `Increment`".
#[doc(hidden)]
pub enum NoMessage {}

impl<A> Lists<NoMessage, Nth<99>> for (A,) {}

macro_rules! lists {
    ($all:tt $($T:ident $n:tt),*) => { $( lists!(@one $all $T $n); )* };
    (@one [$($A:ident),*] $T:ident $n:tt) => {
        impl<$($A),*> Lists<$T, Nth<$n>> for ($($A,)*) {}
    };
}

macro_rules! tuple {
    ($($T:ident $n:tt,)*) => {
        impl<C: Object $(+ Handle<$T>)*, $($T: Body),*> CallList<C> for ($($T,)*) {
            fn methods(class: &Arc<C>) -> Methods {
                let _ = class;
                #[allow(unused_mut, reason = "the empty tuple adds nothing")]
                let mut methods = Methods::default();
                $(
                    let name = <C as Handle<$T>>::NAME;
                    let twice = methods.insert(name, erase::<C, $T>(class.clone()));
                    assert!(twice.is_none(), "two messages of `{}` are named `{name}`", C::CLASS);
                )*
                methods
            }

            fn names() -> Vec<&'static str> {
                vec![$(<C as Handle<$T>>::NAME),*]
            }
        }
        lists!([$($T),*] $($T $n),*);
    };
}

/// A list for each number of messages, up to all of these.
macro_rules! tuples {
    ([$($all:tt)*]) => { tuple!($($all)*); };
    ([$($some:tt)*] $T:ident $n:tt, $($rest:tt)*) => {
        tuple!($($some)*);
        tuples!([$($some)* $T $n,] $($rest)*);
    };
}

tuples!(
    [] A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16,
    T 17, U 18, V 19, W 20, X 21, Y 22, Z 23,
);

/// Names one object of a class: plain data.
pub struct Address<C> {
    name: String,
    class: PhantomData<fn() -> C>,
}

impl<C: Object> Address<C> {
    pub(crate) fn new(name: String) -> Self {
        Self { name, class: PhantomData }
    }

    /// The name within the class.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn resolve(&self) -> Result<store::Address, store::AddressError> {
        store::Address::new(EntityKind::Object, C::CLASS, &self.name)
    }
}

impl<C> Clone for Address<C> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), class: PhantomData }
    }
}

impl<C: Object> fmt::Debug for Address<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object/{}/{}", C::CLASS, self.name)
    }
}

/// A destination of messages of type `M`: an object that handles them, or a queue of them. `I` is
/// inferred.
pub trait Destination<M, I> {
    #[doc(hidden)]
    fn sending(self, msg: M) -> Result<Sending, InvalidInput>;
}

impl<C: Handle<M>, M: Body, I> Destination<M, I> for Address<C>
where
    C::Calls: Lists<M, I>,
{
    fn sending(self, msg: M) -> Result<Sending, InvalidInput> {
        Sending::to(self.resolve()?, "call", C::NAME, Json::of(&msg)?)
    }
}
