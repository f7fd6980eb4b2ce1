//! What waits for an object.

use steadfast_store::{Lease, Position, SettledAs, Timestamp, Write};
use tokio::sync::oneshot;

use super::{CallError, Caller, Closed, ConnectionId, key::Key, live::Coming};

/// What comes back: the reply as JSON.
pub(super) type Reply = Result<String, CallError>;

/// Something for an object to do.
pub(super) struct Item {
    pub(super) input: Input,
    /// The delivery that ends with it.
    pub(super) end: Option<End>,
    pub(super) reply: oneshot::Sender<Reply>,
}

impl Item {
    /// Whether somebody waits for it; a delivery has time.
    pub(super) fn is_asked(&self) -> bool {
        self.end.is_none()
    }

    /// Whether nobody waits for it any more: a delivery that was given up comes again, and the
    /// caller of a call has gone away.
    pub(super) fn is_abandoned(&self) -> bool {
        let is_dropped = self.end.is_some() || matches!(self.input, Input::Call { .. });
        is_dropped && self.reply.is_closed()
    }
}

pub(super) enum Input {
    /// A message, by its name.
    Call { message: Box<str>, body: Box<str>, key: Option<Key>, caller: Caller },
    /// Alarms that ring; this wake-up was due then.
    Wake { due_at: Timestamp },
    /// Somebody connects.
    Connected(Box<Coming>),
    /// A connection said something.
    Received { id: ConnectionId, text: Box<str> },
    /// A connection ended.
    Closed { id: ConnectionId, closed: Closed },
    /// The end of the object.
    Delete,
}

impl Input {
    /// The caller of its turn.
    pub(super) fn caller(&self) -> Caller {
        match self {
            Input::Call { caller, .. } => *caller,
            Input::Connected(_) | Input::Received { .. } => Caller::Anonymous,
            Input::Wake { .. } | Input::Closed { .. } | Input::Delete => Caller::Internal,
        }
    }

    /// What the log says about it.
    pub(super) fn label(&self) -> &str {
        match self {
            Input::Call { message, .. } => message,
            Input::Wake { .. } => "alarm",
            Input::Connected(_) => "connected",
            Input::Received { .. } => "received",
            Input::Closed { .. } => "closed",
            Input::Delete => "delete",
        }
    }
}

/// A delivery that ends in the commit of the turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) position: Position,
    pub(super) lease: Option<Lease>,
}

impl End {
    pub(super) fn write(self) -> Write {
        let Self { position, lease } = self;
        Write::Settle { position, lease, as_: SettledAs::Done, error: None }
    }
}
