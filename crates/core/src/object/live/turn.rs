//! What a turn can do with the connections of its object. All of it happens when the turn is
//! durable, in the order of turns, or not at all.

use serde::Serialize;

use super::{
    Closed, Connection, ConnectionId, Event,
    room::{Op, To},
};
use crate::{
    Error, Result,
    object::{Object, Turn, turn::Core},
};

/// Bytes of one event.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// What one turn may tell.
const OPS_MAX: usize = 5_000;
const OPS_BYTES_MAX: usize = 8 << 20;
/// As is usual elsewhere.
const TAGS_MAX: usize = 10;
const TAG_CHARS_MAX: usize = 256;
const ATTACHMENT_BYTES_MAX: usize = 16 << 10;
/// What fits into a close frame.
const REASON_BYTES_MAX: usize = 123;

impl<C: Object> Turn<C> {
    /// Tells all connections.
    pub fn broadcast(&self, msg: &impl Serialize) {
        self.core.tell(To::All, None, msg);
    }

    /// Tells the connections with a tag.
    pub fn broadcast_to(&self, tag: &str, msg: &impl Serialize) {
        self.core.tell(To::Tagged(tag.into()), None, msg);
    }

    /// Tells one connection. If it has ended, nobody is told.
    pub fn tell(&self, id: ConnectionId, msg: &impl Serialize) {
        self.core.tell(To::One(id), None, msg);
    }

    /// What is told through this has a number. A later connection says which it saw last, see
    /// [`Connection::last_seen`]; over server-sent events browsers do so by themselves.
    pub fn numbered(&self, number: i64) -> Numbered<'_> {
        Numbered { core: &self.core, number }
    }

    /// Ends a connection. Nothing of it is received any more.
    pub fn close(&self, id: ConnectionId, reason: &str) {
        let mut reason = reason.to_owned();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        let closed = Closed::new(Closed::NORMAL, reason);
        self.core.alter(|core| core.close_connection(id), Op::Close { id, closed });
    }

    /// Gives a connection these tags, instead of those that it has: at most 10 of 256 characters.
    pub fn set_tags<T: AsRef<str>>(&self, id: ConnectionId, tags: &[T]) {
        let tags: Box<[Box<str>]> = tags.iter().map(|it| it.as_ref().into()).collect();
        let long = tags.iter().find(|it| TAG_CHARS_MAX < it.chars().count());
        if TAGS_MAX < tags.len() || long.is_some() {
            let text = format!("a connection has at most {TAGS_MAX} tags of {TAG_CHARS_MAX} chars");
            return self.core.fail(Error::terminal(text).with_code("invalid_tags"));
        }
        match serde_json::to_string(&tags) {
            Ok(json) => {
                self.core.alter(|core| core.tag_connection(id, &json), Op::Tag { id, tags });
            }
            Err(error) => self.core.fail(Error::terminal(error)),
        }
    }

    /// Attaches something to a connection, at most 16 KiB of JSON, instead of what was attached.
    pub fn attach(&self, id: ConnectionId, value: &impl Serialize) {
        let json = match serde_json::to_string(value) {
            Ok(json) => json,
            Err(error) => return self.core.fail(Error::terminal(error)),
        };
        if ATTACHMENT_BYTES_MAX < json.len() {
            let text =
                format!("attachment has {} bytes, limit is {ATTACHMENT_BYTES_MAX}", json.len());
            return self.core.fail(Error::terminal(text).with_code("attachment_too_large"));
        }
        if let Err(error) = self.core.attach_to(id, Some(&json)) {
            self.core.fail(error.into());
        }
    }

    /// The connections, in the order in which they came.
    pub fn connections(&self) -> Result<Vec<Connection>> {
        Ok(self.core.all_connections()?)
    }

    /// How many connections there are.
    pub fn connection_count(&self) -> Result<usize> {
        Ok(self.core.count_connections()?)
    }

    /// A connection; `None` if it has ended.
    pub fn connection(&self, id: ConnectionId) -> Result<Option<Connection>> {
        Ok(self.core.find_connection(id, false)?)
    }
}

/// Tells connections something that has a number.
pub struct Numbered<'a> {
    core: &'a Core,
    number: i64,
}

impl Numbered<'_> {
    /// Tells all connections.
    pub fn broadcast(&self, msg: &impl Serialize) {
        self.core.tell(To::All, Some(self.number), msg);
    }

    /// Tells the connections with a tag.
    pub fn broadcast_to(&self, tag: &str, msg: &impl Serialize) {
        self.core.tell(To::Tagged(tag.into()), Some(self.number), msg);
    }

    /// Tells one connection.
    pub fn tell(&self, id: ConnectionId, msg: &impl Serialize) {
        self.core.tell(To::One(id), Some(self.number), msg);
    }
}

impl Core {
    fn tell(&self, to: To, number: Option<i64>, msg: &impl Serialize) {
        match serde_json::to_string(msg) {
            Ok(text) if text.len() <= EVENT_BYTES_MAX => {
                self.leads_to(Op::Tell { to, event: Event { text: text.into(), number } });
            }
            Ok(text) => {
                let text = format!("event has {} bytes, limit is {EVENT_BYTES_MAX}", text.len());
                self.fail(Error::terminal(text).with_code("event_too_large"));
            }
            Err(error) => self.fail(Error::terminal(error)),
        }
    }

    /// Changes the row of a connection, and its line afterwards. If it has ended, nothing is done.
    fn alter(&self, change: impl FnOnce(&Self) -> rusqlite::Result<bool>, op: Op) {
        match change(self) {
            Ok(true) => self.leads_to(op),
            Ok(false) => {}
            Err(error) => self.fail(error.into()),
        }
    }

    pub(super) fn leads_to(&self, op: Op) {
        let told = {
            let ops = self.ops.borrow();
            let bytes = op.bytes() + ops.iter().map(Op::bytes).sum::<usize>();
            (ops.len() < OPS_MAX, bytes <= OPS_BYTES_MAX)
        };
        if told != (true, true) {
            let text = format!("a turn tells at most {OPS_MAX} times, {OPS_BYTES_MAX} bytes");
            return self.fail(Error::terminal(text).with_code("too_many_events"));
        }
        self.ops.borrow_mut().push(op);
    }
}
