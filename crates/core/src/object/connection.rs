//! Live connections: the types that handlers see, the outbox of each connection, and the operations
//! that turns request. The registry performs them when the turn is durable.
//!
//! The outbox is held outside of the object, so it outlives the object's eviction. The list of
//! connections is a table inside of the object (`connected.rs`), so it is part of the turn's
//! transaction. Each end is handled once, even if the process ended with it.

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::Timestamp;
use tokio::sync::Notify;

use crate::{Body, Principal, Result};

/// The number of a connection. It is never reused, even by a later process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub(super) i64);

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

    pub(super) fn caller(&self) -> Caller {
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
    pub(super) attachment: Option<String>,
    pub(super) params: ConnectParams,
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

    pub(super) fn slow() -> Self {
        Self::new(Self::TRY_AGAIN, "too slow: events were not read; connect again")
    }

    pub(super) fn broken() -> Self {
        Self::new(Self::BROKEN, "the connection broke")
    }

    pub(super) fn with_the_process() -> Self {
        Self::new(Self::BROKEN, "the process ended")
    }

    pub(super) fn deleted() -> Self {
        Self::new(Self::GOING_AWAY, "the object was deleted")
    }

    pub(super) fn stopping() -> Self {
        Self::new(Self::GOING_AWAY, "the server stops; connect again")
    }
}

/// The caller of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// The program itself: another turn, a run, a consumer, an alarm, a route of an application.
    #[default]
    Internal,
    /// A caller outside of the program without a credential: access is open.
    Anonymous,
    /// A caller outside of the program with a credential.
    Principal(Arc<Principal>),
}

impl Caller {
    /// The principal, if the caller has a credential.
    pub fn principal(&self) -> Option<&Principal> {
        match self {
            Self::Principal(it) => Some(it),
            Self::Internal | Self::Anonymous => None,
        }
    }
}

/// Approximate size of an event without its text.
const EVENT_BYTES: usize = 64;

/// An event for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionEvent {
    /// The JSON, shared by all connections that get the event.
    pub text: Arc<str>,
    /// Its number, so that a client can resume after it on a later connection.
    pub number: Option<i64>,
}

/// The events of one connection, in order, until its end. A connection that reads too slowly is
/// closed.
#[derive(Debug)]
pub(super) struct Outbox {
    bytes_max: usize,
    state: Mutex<State>,
    changed: Notify,
    has_ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    unread: VecDeque<ConnectionEvent>,
    bytes: usize,
    end: Option<Closed>,
}

impl Outbox {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            state: Mutex::default(),
            changed: Notify::new(),
            has_ended: Notify::new(),
        })
    }

    /// Adds an event. If the buffer is full, it is cleared and the connection ends.
    pub(super) fn push(&self, event: ConnectionEvent) {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return;
        }
        state.bytes += EVENT_BYTES + event.text.len();
        // A single event is never too large.
        if self.bytes_max < state.bytes && !state.unread.is_empty() {
            *state = State { end: Some(Closed::slow()), ..State::default() };
        } else {
            state.unread.push_back(event);
        }
        drop(state);
        self.wake();
    }

    /// Each of the two possible waiters has a notification of its own.
    fn wake(&self) {
        self.changed.notify_one();
        self.has_ended.notify_one();
    }

    /// Ends it after the buffered events; the first end counts.
    pub(super) fn end(&self, closed: Closed) {
        self.state.lock().end.get_or_insert(closed);
        self.wake();
    }

    /// The next event, or the end.
    pub(super) async fn next(&self) -> Result<ConnectionEvent, Closed> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(event) = state.unread.pop_front() {
                    state.bytes -= EVENT_BYTES + event.text.len();
                    if state.end.is_some() {
                        self.has_ended.notify_one();
                    }
                    return Ok(event);
                }
                // An idle connection must not keep the memory of a burst.
                state.unread.shrink_to(4);
                if let Some(end) = &state.end {
                    return Err(end.clone());
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits until the connection has ended and the buffer is empty.
    pub(super) async fn ended(&self) -> Closed {
        loop {
            {
                let state = self.state.lock();
                if let Some(end) = state.end.as_ref().filter(|_| state.unread.is_empty()) {
                    return end.clone();
                }
            }
            self.has_ended.notified().await;
        }
    }
}

/// A connection to be accepted.
pub(super) struct NewConnection {
    pub(super) id: ConnectionId,
    pub(super) params: ConnectParams,
    pub(super) outbox: Arc<Outbox>,
}

/// A change to the connections of an object, or an event for them.
#[derive(Debug)]
pub(super) enum ConnectionOp {
    /// It was accepted.
    Join { id: ConnectionId, outbox: Arc<Outbox> },
    /// Its tags were replaced.
    Tag { id: ConnectionId, tags: Box<[Box<str>]> },
    /// An event was sent.
    Tell { to: Recipients, event: ConnectionEvent },
    /// It must be closed.
    Close { id: ConnectionId, closed: Closed },
    /// All must be closed.
    CloseAll { closed: Closed },
    /// It has ended.
    Leave { id: ConnectionId },
}

impl ConnectionOp {
    /// Approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        if let ConnectionOp::Tell { event, .. } = self { event.text.len() } else { 0 }
    }
}

/// The connections that an event is for.
#[derive(Debug)]
pub(super) enum Recipients {
    All,
    Tagged(Box<str>),
    One(ConnectionId),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> ConnectionEvent {
        ConnectionEvent { text: text.into(), number: None }
    }

    #[tokio::test]
    async fn events_come_in_order_and_then_the_end() {
        let outbox = Outbox::new(10_000);
        outbox.push(event("a"));
        outbox.push(event("b"));
        outbox.end(Closed::stopping());
        outbox.end(Closed::deleted());
        outbox.push(event("c"));
        assert_eq!(outbox.next().await, Ok(event("a")));
        assert_eq!(outbox.next().await, Ok(event("b")));
        assert_eq!(outbox.next().await, Err(Closed::stopping()));
        assert_eq!(outbox.ended().await, Closed::stopping());
    }

    #[tokio::test]
    async fn a_slow_connection_is_closed_and_its_buffer_is_cleared() {
        let outbox = Outbox::new(1_000);
        for _ in 0..100 {
            outbox.push(event("0123456789"));
        }
        assert_eq!(outbox.next().await, Err(Closed::slow()));
    }

    #[tokio::test]
    async fn a_single_event_may_exceed_the_limit_of_the_buffer() {
        let outbox = Outbox::new(10);
        outbox.push(event("0123456789012345"));
        assert!(outbox.next().await.is_ok());
        outbox.push(event("0123456789012345"));
        assert!(outbox.next().await.is_ok());
    }
}
