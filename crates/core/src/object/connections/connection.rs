//! A connection, as the turns of its object see it.

use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_store::Timestamp;

use crate::{Body, Result, object::caller::Caller};

/// The number of a connection. It is never reused, even by a later process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub(in crate::object) i64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The parameters of a new connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectParams {
    params: Vec<(String, String)>,
    last_seen: Option<i64>,
    caller: Option<Caller>,
}

impl ConnectParams {
    /// No parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter; over HTTP these are the parameters of the query.
    pub fn param(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.params.push((name.into(), value.into()));
        self
    }

    /// Sets the number of the last event that the client has seen.
    pub fn after(mut self, number: i64) -> Self {
        self.last_seen = Some(number);
        self
    }

    /// Sets the caller that the turns of the connection see; anonymous otherwise.
    pub fn by(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    pub(in crate::object) fn caller(&self) -> Caller {
        self.caller.clone().unwrap_or(Caller::Anonymous)
    }
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// Its number.
    pub id: ConnectionId,
    /// The tags that the object gave it, see [`Turn::set_tags`](crate::Turn::set_tags).
    pub tags: Vec<String>,
    /// When it was accepted.
    pub connected_at: Timestamp,
    pub(in crate::object) attachment: Option<String>,
    pub(in crate::object) params: ConnectParams,
}

impl Connection {
    /// The attachment that the object gave it, see [`Turn::attach`](crate::Turn::attach).
    pub fn attachment<T: Body>(&self) -> Result<Option<T>> {
        Ok(self.attachment.as_deref().map(serde_json::from_str).transpose()?)
    }

    /// A parameter of the connection, by name. Available in the turn that connects only: attach
    /// values that later turns need.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.params.iter().find(|it| it.0 == name).map(|it| &*it.1)
    }

    /// The number of the last event that the client saw on an earlier connection. Available in the
    /// turn that connects only.
    pub fn last_seen(&self) -> Option<i64> {
        self.params.last_seen
    }
}

/// The end of a connection. The codes are those of WebSocket (RFC 6455).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The code.
    pub code: u16,
    /// The reason.
    pub reason: String,
}

impl Closed {
    /// It was closed normally.
    pub const NORMAL: u16 = 1000;
    /// The server stops, or the object was deleted.
    pub const GOING_AWAY: u16 = 1001;
    /// It was lost, or the process ended.
    pub const BROKEN: u16 = 1006;
    /// An error of the server.
    pub const FAILED: u16 = 1011;
    /// Try again later: the client read too slowly, or the server is overloaded.
    pub const TRY_AGAIN: u16 = 1013;

    /// An end with this code and reason.
    pub fn new(code: u16, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    /// Whether it ended without being closed.
    pub fn is_error(&self) -> bool {
        self.code == Self::BROKEN
    }

    pub(in crate::object) fn slow() -> Self {
        Self::new(Self::TRY_AGAIN, "too slow: events were not read; connect again")
    }

    pub(in crate::object) fn broken() -> Self {
        Self::new(Self::BROKEN, "the connection broke")
    }

    pub(in crate::object) fn with_the_process() -> Self {
        Self::new(Self::BROKEN, "the process ended")
    }

    pub(in crate::object) fn deleted() -> Self {
        Self::new(Self::GOING_AWAY, "the object was deleted")
    }

    pub(in crate::object) fn stopping() -> Self {
        Self::new(Self::GOING_AWAY, "the server stops; connect again")
    }
}
