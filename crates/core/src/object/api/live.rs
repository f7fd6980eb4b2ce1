//! Operations of a turn on the connections of its object. They are performed when the turn is
//! durable, in the order of turns, or not at all.

use serde::Serialize;

use super::{Object, turn::Turn};
use crate::{
    Error, Result,
    object::{
        connections::{Closed, Connection, ConnectionId, ConnectionOp, Event, Recipients},
        executor::TurnState,
    },
};

/// Bytes of one event.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// The limit of comparable platforms.
const TAGS_MAX: usize = 10;
const TAG_CHARS_MAX: usize = 256;
const ATTACHMENT_BYTES_MAX: usize = 16 << 10;
/// The limit of a WebSocket close frame.
const REASON_BYTES_MAX: usize = 123;

impl<C: Object> Turn<C> {
    /// Sends an event to all connections.
    pub fn broadcast(&self, msg: &impl Serialize) {
        tell(&self.state, Recipients::All, None, msg);
    }

    /// Sends an event to the connections with a tag.
    pub fn broadcast_to(&self, tag: &str, msg: &impl Serialize) {
        tell(&self.state, Recipients::Tagged(tag.into()), None, msg);
    }

    /// Sends an event to one connection. If it has ended, the event is dropped.
    pub fn tell(&self, id: ConnectionId, msg: &impl Serialize) {
        tell(&self.state, Recipients::One(id), None, msg);
    }

    /// Events that are sent through this have a number. A client that reconnects passes the last
    /// number it has seen, see [`Connection::last_seen`]; browsers do so for server-sent events.
    pub fn numbered(&self, number: i64) -> NumberedEvents<'_> {
        NumberedEvents { state: &self.state, number }
    }

    /// Closes a connection. Later texts from it are ignored.
    pub fn close(&self, id: ConnectionId, reason: &str) {
        let mut reason = reason.to_owned();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        let closed = Closed::new(Closed::NORMAL, reason);
        alter(&self.state, self.state.close_connection(id), ConnectionOp::Close { id, closed });
    }

    /// Replaces the tags of a connection: at most 10 of 256 characters.
    pub fn set_tags<T: AsRef<str>>(&self, id: ConnectionId, tags: &[T]) {
        let tags: Box<[Box<str>]> = tags.iter().map(|it| it.as_ref().into()).collect();
        let long = tags.iter().find(|it| TAG_CHARS_MAX < it.chars().count());
        if TAGS_MAX < tags.len() || long.is_some() {
            let text = format!("a connection has at most {TAGS_MAX} tags of {TAG_CHARS_MAX} chars");
            return self.state.fail(Error::terminal(text).with_code("invalid_tags"));
        }
        match serde_json::to_string(&tags) {
            Ok(json) => {
                alter(
                    &self.state,
                    self.state.tag_connection(id, &json),
                    ConnectionOp::Tag { id, tags },
                );
            }
            Err(error) => self.state.fail(Error::terminal(error)),
        }
    }

    /// Replaces the attachment of a connection: at most 16 KiB of JSON.
    pub fn attach(&self, id: ConnectionId, value: &impl Serialize) {
        let json = match serde_json::to_string(value) {
            Ok(json) => json,
            Err(error) => return self.state.fail(Error::terminal(error)),
        };
        if ATTACHMENT_BYTES_MAX < json.len() {
            let text =
                format!("attachment has {} bytes, limit is {ATTACHMENT_BYTES_MAX}", json.len());
            return self.state.fail(Error::terminal(text).with_code("attachment_too_large"));
        }
        if let Err(error) = self.state.attach_to(id, Some(&json)) {
            self.state.fail(error.into());
        }
    }

    /// The connections, in the order in which they connected.
    pub fn connections(&self) -> Result<Vec<Connection>> {
        Ok(self.state.all_connections()?)
    }

    /// The number of connections.
    pub fn connection_count(&self) -> Result<usize> {
        Ok(self.state.count_connections()?)
    }

    /// A connection; `None` if it has ended.
    pub fn connection(&self, id: ConnectionId) -> Result<Option<Connection>> {
        Ok(self.state.find_connection(id, false)?)
    }
}

/// Sends events that have a number.
pub struct NumberedEvents<'a> {
    state: &'a TurnState,
    number: i64,
}

impl NumberedEvents<'_> {
    /// Sends an event to all connections.
    pub fn broadcast(&self, msg: &impl Serialize) {
        tell(self.state, Recipients::All, Some(self.number), msg);
    }

    /// Sends an event to the connections with a tag.
    pub fn broadcast_to(&self, tag: &str, msg: &impl Serialize) {
        tell(self.state, Recipients::Tagged(tag.into()), Some(self.number), msg);
    }

    /// Sends an event to one connection.
    pub fn tell(&self, id: ConnectionId, msg: &impl Serialize) {
        tell(self.state, Recipients::One(id), Some(self.number), msg);
    }
}

fn tell(state: &TurnState, to: Recipients, number: Option<i64>, msg: &impl Serialize) {
    match serde_json::to_string(msg) {
        Ok(text) if text.len() <= EVENT_BYTES_MAX => {
            state.record(ConnectionOp::Tell { to, event: Event { text: text.into(), number } });
        }
        Ok(text) => {
            let text = format!("event has {} bytes, limit is {EVENT_BYTES_MAX}", text.len());
            state.fail(Error::terminal(text).with_code("event_too_large"));
        }
        Err(error) => state.fail(Error::terminal(error)),
    }
}

/// Records an operation if the row of the connection was changed. If the connection has ended,
/// nothing is done.
fn alter(state: &TurnState, changed: rusqlite::Result<bool>, op: ConnectionOp) {
    match changed {
        Ok(true) => state.record(op),
        Ok(false) => {}
        Err(error) => state.fail(error.into()),
    }
}
