//! Requests to objects: each leads to a turn.

use steadfast_store::{Lease, Position, SettledAs, Timestamp, Write};

use super::{
    CallError,
    call_key::Key,
    connections::{Closed, ConnectionId, NewConnection},
};

/// The reply as JSON.
pub(super) type Reply = Result<String, CallError>;

/// The caller of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// The program itself: another turn, a run, a consumer, an alarm, a route of an application.
    #[default]
    Internal,
    /// Somebody outside, by the HTTP API or a live connection. There is no access control yet that
    /// would know more.
    Anonymous,
}

/// A request for a turn.
pub(super) enum Request {
    /// A message, by its name.
    Call { message: Box<str>, body: Box<str>, key: Option<Key>, caller: Caller },
    /// Alarms that ring; this wake-up was due then.
    Wake { due_at: Timestamp },
    /// Somebody connects.
    Connected(Box<NewConnection>),
    /// A connection said something.
    Received { id: ConnectionId, text: Box<str> },
    /// A connection ended.
    Closed { id: ConnectionId, closed: Closed },
    /// The end of the object.
    Delete,
}

impl Request {
    /// The caller of its turn.
    pub(super) fn caller(&self) -> Caller {
        match self {
            Request::Call { caller, .. } => *caller,
            Request::Connected(_) | Request::Received { .. } => Caller::Anonymous,
            Request::Wake { .. } | Request::Closed { .. } | Request::Delete => Caller::Internal,
        }
    }

    /// What the log says about it.
    pub(super) fn label(&self) -> &str {
        match self {
            Request::Call { message, .. } => message,
            Request::Wake { .. } => "alarm",
            Request::Connected(_) => "connected",
            Request::Received { .. } => "received",
            Request::Closed { .. } => "closed",
            Request::Delete => "delete",
        }
    }
}

/// A delivery that ends in the commit of the turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settle {
    pub(super) position: Position,
    pub(super) lease: Option<Lease>,
}

impl Settle {
    pub(super) fn write(self) -> Write {
        let Self { position, lease } = self;
        Write::Settle { position, lease, as_: SettledAs::Done, error: None }
    }
}
