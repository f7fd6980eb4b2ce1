//! Requests to objects: each leads to a turn.

use steadfast_store::{Lease, Position, SettledAs, Timestamp, Write};

use super::{
    CallError,
    call_key::Key,
    caller::Caller,
    connections::{Closed, ConnectionId, NewConnection},
};

/// The reply as JSON.
pub(super) type Reply = Result<String, CallError>;

/// A request for a turn.
pub(super) enum Request {
    /// A message, by its name.
    Call { message: Box<str>, body: Box<str>, key: Option<Key>, caller: Caller },
    /// Due alarms; this wake-up was due then.
    Wake { due_at: Timestamp },
    /// A connection to accept.
    Connected(Box<NewConnection>),
    /// A text from a connection.
    Received { id: ConnectionId, text: Box<str>, caller: Caller },
    /// A connection ended.
    Closed { id: ConnectionId, closed: Closed },
    /// Deletes the object.
    Delete,
}

impl Request {
    /// The caller of its turn.
    pub(super) fn caller(&self) -> Caller {
        match self {
            Request::Call { caller, .. } | Request::Received { caller, .. } => caller.clone(),
            Request::Connected(new) => new.params.caller(),
            Request::Wake { .. } | Request::Closed { .. } | Request::Delete => Caller::Internal,
        }
    }

    /// The name for the log.
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
