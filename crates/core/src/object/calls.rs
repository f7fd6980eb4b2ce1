//! The closed list of messages of a class, checked by the compiler.

use std::{collections::BTreeMap, marker::PhantomData, rc::Rc, sync::Arc, time::Duration};

use steadfast_store::{self as store, Due, InvalidInput, Json, Message, Task};

use super::{
    Handle, Object, Turn,
    fields::{MessageField, fields_of},
    turn::Core,
};
use crate::{Body, Error};

/// A message on its way out of a turn.
#[doc(hidden)]
pub struct Sending {
    pub(crate) target: store::Address,
    pub(crate) action: &'static str,
    pub(crate) message_type: &'static str,
    pub(crate) data: Json,
    pub(crate) metadata: Json,
    /// It waits so long before it may be delivered.
    pub(crate) delay: Duration,
    /// It waits for earlier ones to the same target.
    pub(crate) ordered: bool,
}

impl Sending {
    /// As it is stored.
    pub(crate) fn message(self, due: Due) -> Result<Message, InvalidInput> {
        let Self { target, action, message_type, data, metadata, delay, ordered } = self;
        let due = if delay.is_zero() { due } else { Due::After(delay) };
        let message = Message::new(message_type, data)?.action(action).metadata(metadata)?;
        Ok(message.task(Task { target, ordered, due }))
    }
}

/// How a handler did not give a reply.
pub(super) enum Fault {
    /// The message is not what it takes.
    Malformed { path: String, detail: String },
    /// It said no.
    Refused(Error),
}

/// A handler whose types are forgotten: JSON in, JSON out.
type Erased = Box<dyn Fn(&Rc<Core>, &str) -> Result<String, Fault> + Send + Sync>;

/// One message that a class takes.
#[doc(hidden)]
pub struct Method {
    pub(super) public: bool,
    pub(super) run: Erased,
    pub(super) fields: fn() -> Option<Vec<MessageField>>,
}

/// What a class takes, by name.
#[doc(hidden)]
#[expect(unreachable_pub, reason = "a hidden method of a public trait returns it")]
pub type Methods = BTreeMap<&'static str, Method>;

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

/// Two lists of messages in one, for a class with more messages than a tuple has places:
/// `type Calls = Both<(Open, Close), (Read, Write)>;`. Either may be such a pair itself.
pub struct Both<A, B>(PhantomData<(A, B)>);

/// A place in the first of two lists.
#[doc(hidden)]
pub struct First<I>(PhantomData<I>);

/// A place in the second of two lists.
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

/// Says that a message is in a list, at place `I`.
#[diagnostic::on_unimplemented(
    message = "`{M}` is not in the `type Calls` of its object",
    label = "add `{M}` to `type Calls = (…)`"
)]
pub trait Lists<M, I> {}

/// A place in a list.
#[doc(hidden)]
pub struct Nth<const N: usize>;

/// Never a message. With a second candidate the compiler waits for the argument instead of guessing
/// the one listed message, and so says "not in `type Calls`" instead of "expected `Increment`".
#[doc(hidden)]
pub enum Nobody {}

impl<A> Lists<Nobody, Nth<99>> for (A,) {}

fn erase<C: Handle<M>, M: Body>(class: Arc<C>) -> Method {
    let run = Box::new(move |core: &Rc<Core>, body: &str| {
        let msg: M = decode(body)?;
        let reply = class.handle(&Turn::new(core.clone()), msg).map_err(Fault::Refused)?;
        serde_json::to_string(&reply).map_err(|error| Fault::Refused(Error::terminal(error)))
    });
    Method { public: C::PUBLIC, run, fields: fields_of::<M> }
}

fn decode<M: Body>(body: &str) -> Result<M, Fault> {
    // A message without fields is `null` to serde or `{}`, as it was declared; to callers it is the
    // same.
    match body.trim() {
        "" | "null" => decode_text("null").or_else(|_| decode_text("{}")),
        "{}" => decode_text("{}").or_else(|error| decode_text("null").map_err(|_| error)),
        _ => decode_text(body),
    }
}

fn decode_text<M: Body>(body: &str) -> Result<M, Fault> {
    let mut json = serde_json::Deserializer::from_str(body);
    let msg = serde_path_to_error::deserialize(&mut json).map_err(|error| Fault::Malformed {
        path: place(error.path()),
        detail: error.inner().to_string(),
    })?;
    let rest = json.end();
    rest.map_err(|error| Fault::Malformed { path: ".".into(), detail: error.to_string() })?;
    Ok(msg)
}

/// Where in a message something is wrong; `.` is the whole.
fn place(path: &serde_path_to_error::Path) -> String {
    let path = path.to_string();
    if path == "?" { ".".into() } else { path }
}

macro_rules! lists {
    ($all:tt $($T:ident $n:tt),*) => { $( lists!(@one $all $T $n); )* };
    (@one [$($A:ident),*] $T:ident $n:tt) => {
        impl<$($A),*> Lists<$T, Nth<$n>> for ($($A,)*) {}
    };
}

macro_rules! tuple {
    ($($T:ident $n:tt),*) => {
        impl<C: Object $(+ Handle<$T>)*, $($T: Body),*> CallList<C> for ($($T,)*) {
            fn methods(class: &Arc<C>) -> Methods {
                let _ = class;
                #[allow(unused_mut, reason = "the empty tuple adds nothing")]
                let mut methods = Methods::new();
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

tuple!();
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, D 2);
tuple!(A 0, B 1, D 2, E 3);
tuple!(A 0, B 1, D 2, E 3, F 4);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15);
tuple!(A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16);
tuple!(
    A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16, T 17
);
tuple!(
    A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16,
    T 17, U 18
);
tuple!(
    A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16,
    T 17, U 18, V 19
);
tuple!(
    A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16,
    T 17, U 18, V 19, W 20
);
tuple!(
    A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16,
    T 17, U 18, V 19, W 20, X 21
);
tuple!(
    A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16,
    T 17, U 18, V 19, W 20, X 21, Y 22
);
tuple!(
    A 0, B 1, D 2, E 3, F 4, G 5, H 6, J 7, K 8, L 9, M 10, N 11, O 12, P 13, Q 14, R 15, S 16,
    T 17, U 18, V 19, W 20, X 21, Y 22, Z 23
);
