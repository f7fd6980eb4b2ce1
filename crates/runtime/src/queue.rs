//! Queues: for now, where messages can be sent to. They wait there.

use std::{fmt, marker::PhantomData};

/// A queue of messages of one type, by its name: `const MAIL: Queue<Mail> = Queue::named("mail");`
pub struct Queue<T> {
    name: &'static str,
    message: PhantomData<fn() -> T>,
}

impl<T> Queue<T> {
    /// The queue of this name.
    pub const fn named(name: &'static str) -> Self {
        Self { name, message: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Queue<T> {}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue/{}", self.name)
    }
}
