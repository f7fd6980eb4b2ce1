//! A type-erased class: JSON in, JSON out.

use std::{rc::Rc, sync::Arc};

use super::{
    template::Template,
    turn_state::{Registry, TurnState},
};
use crate::{
    Error, Result,
    name_map::NameMap,
    object::{
        connections::{Closed, Connection},
        fields::MessageField,
    },
};

/// Marks the refusal of a class that takes no connections; callers get `CallError::NotLive`.
pub(in crate::object) const NOT_LIVE: &str = "\u{0}not live";

pub(in crate::object) struct Class {
    pub(in crate::object) methods: Methods,
    pub(in crate::object) live: LiveClass,
    pub(in crate::object) migrations: &'static [&'static str],
    pub(in crate::object) template: Template,
    /// The classes and workflows of the program; `None` if they are unknown.
    pub(in crate::object) served: Option<Arc<Registry>>,
}

/// Why a handler gave no reply.
pub(in crate::object) enum HandlerError {
    /// The message is malformed.
    Malformed { path: String, detail: String },
    /// It returned an error.
    Refused(Error),
}

type Handler = Box<dyn Fn(&Rc<TurnState>, &str) -> Result<String, HandlerError> + Send + Sync>;

/// One message that a class takes.
#[doc(hidden)]
pub struct Method {
    pub(in crate::object) public: bool,
    pub(in crate::object) run: Handler,
    pub(in crate::object) fields: fn() -> Option<Vec<MessageField>>,
}

/// The messages of a class by name.
#[doc(hidden)]
#[expect(unreachable_pub, reason = "a hidden method of a public trait returns it")]
pub type Methods = NameMap<Method>;

type Connected = Box<dyn Fn(&Rc<TurnState>, &Connection) -> Result<()> + Send + Sync>;
type Received = Box<dyn Fn(&Rc<TurnState>, &Connection, &str) -> Result<()> + Send + Sync>;
type Ended = Box<dyn Fn(&Rc<TurnState>, &Connection, &Closed) -> Result<()> + Send + Sync>;

/// The handlers of live connections.
pub(in crate::object) struct LiveClass {
    pub(in crate::object) connected: Connected,
    pub(in crate::object) received: Received,
    pub(in crate::object) closed: Ended,
    pub(in crate::object) auto_reply: &'static [(&'static str, &'static str)],
}
