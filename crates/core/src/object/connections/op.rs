//! Operations on connections that a turn requests. They are performed when the turn is durable.

use std::sync::Arc;

use super::{
    connection::{Closed, ConnectParams, ConnectionId},
    outbox::{Event, Outbox},
};

/// A connection to be accepted.
pub(in crate::object) struct NewConnection {
    pub(in crate::object) id: ConnectionId,
    pub(in crate::object) params: ConnectParams,
    pub(in crate::object) outbox: Arc<Outbox>,
}

/// A change to the connections of an object, or an event for them.
#[derive(Debug)]
pub(in crate::object) enum ConnectionOp {
    /// It was accepted.
    Join { id: ConnectionId, outbox: Arc<Outbox> },
    /// Its tags were replaced.
    Tag { id: ConnectionId, tags: Box<[Box<str>]> },
    /// An event was sent.
    Tell { to: Recipients, event: Event },
    /// It must be closed.
    Close { id: ConnectionId, closed: Closed },
    /// All must be closed.
    CloseAll { closed: Closed },
    /// It has ended.
    Leave { id: ConnectionId },
}

impl ConnectionOp {
    /// Approximate size in memory.
    pub(in crate::object) fn bytes(&self) -> usize {
        if let ConnectionOp::Tell { event, .. } = self { event.text.len() } else { 0 }
    }
}

/// The connections that an event is for.
#[derive(Debug)]
pub(in crate::object) enum Recipients {
    All,
    Tagged(Box<str>),
    One(ConnectionId),
}
