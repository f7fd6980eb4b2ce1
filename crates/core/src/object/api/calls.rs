//! The closed list of messages of a class, checked by the compiler.

use std::{marker::PhantomData, sync::Arc};

use super::{Handle, Object, erase};
use crate::{Body, object::executor::Methods};

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
    ($($T:ident $n:tt),*) => {
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
