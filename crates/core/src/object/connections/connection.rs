//! A connection, as the turns of its object see it.

use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_store::Timestamp;

use crate::{Body, Result};

/// The number of a connection. It is never used again, not by a later process either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub(in crate::object) i64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who comes: what they say about themselves when they connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    params: Vec<(String, String)>,
    last_seen: Option<i64>,
}

impl Arrival {
    /// Somebody who says nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says something more; over HTTP these are the parameters of the query.
    pub fn param(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.params.push((name.into(), value.into()));
        self
    }

    /// Says which number was seen last, to go on from there.
    pub fn after(mut self, number: i64) -> Self {
        self.last_seen = Some(number);
        self
    }
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// Its number.
    pub id: ConnectionId,
    /// What the object calls it, see [`Turn::set_tags`](crate::Turn::set_tags).
    pub tags: Vec<String>,
    /// When it was accepted.
    pub connected_at: Timestamp,
    pub(in crate::object) attachment: Option<String>,
    pub(in crate::object) arrival: Arrival,
}

impl Connection {
    /// What the object has attached to it, see [`Turn::attach`](crate::Turn::attach).
    pub fn attachment<T: Body>(&self) -> Result<Option<T>> {
        Ok(self.attachment.as_deref().map(serde_json::from_str).transpose()?)
    }

    /// What was said when it connected, by name. Known in that turn only: attach what is needed
    /// later.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.arrival.params.iter().find(|it| it.0 == name).map(|it| &*it.1)
    }

    /// The number that was seen last on an earlier connection. Known in the turn of connecting
    /// only.
    pub fn last_seen(&self) -> Option<i64> {
        self.arrival.last_seen
    }
}

/// How a connection ended. The codes are those of WebSocket (RFC 6455).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The code.
    pub code: u16,
    /// Why.
    pub reason: String,
}

impl Closed {
    /// It was closed in order.
    pub const NORMAL: u16 = 1000;
    /// The server stops, or the object was deleted.
    pub const GOING_AWAY: u16 = 1001;
    /// It broke, or it ended with the process.
    pub const BROKEN: u16 = 1006;
    /// Something went wrong on our side.
    pub const FAILED: u16 = 1011;
    /// Come again later: it did not read what it was told, or too much is going on.
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
        Self::new(Self::TRY_AGAIN, "too slow: what it was told was not read; connect again")
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
