//! Live connections: people and programs that stay on the line with an object. What comes in is a
//! turn; what goes out leaves when the turn is durable.
//!
//! The line itself is held outside of the object, so it outlives the object's sleep. Which
//! connections there are is a table inside of the object, so a turn sees it as it sees everything
//! else, and hears of every end once, also of those that came with the end of the process.

mod connection;
mod door;
mod line;
mod room;
mod socket;
mod table;
mod turn;
mod turns;

pub use self::{
    connection::{Arrival, Closed, Connection, ConnectionId},
    line::Event,
    socket::LiveSocket,
    turn::Numbered,
};
pub(super) use self::{
    door::Door,
    line::Line,
    room::{Op, Rooms},
    turns::{Coming, LOST_AT_ONCE},
};
use super::{Object, Turn};
use crate::Result;

/// A class whose objects take connections. Register it with `live_object`.
///
/// Over HTTP everybody may connect who may call: the class decides in [`connected`], a turn that
/// may refuse.
///
/// [`connected`]: Live::connected
pub trait Live: Object {
    /// Texts that are answered at once, without a turn and without waking the object: what comes
    /// in, and what goes back.
    const AUTO_REPLY: &'static [(&'static str, &'static str)] = &[];

    /// Somebody wants to connect. `Err` refuses, and nothing was changed. What is told here to the
    /// connection arrives first; more than may wait for one (`unread_bytes_max`) ends it.
    fn connected(&self, turn: &Turn<Self>, connection: &Connection) -> Result<()>;

    /// A text came in. `Err` is told to the connection, which stays.
    fn received(&self, turn: &Turn<Self>, connection: &Connection, text: &str) -> Result<()>;

    /// A connection ended, for whatever reason; it is not among the connections any more. This is
    /// called once for each one that was accepted. One that ended with the process is heard of
    /// before the object does anything else. Its end is no matter of choice: after an `Err` it is
    /// gone all the same.
    fn closed(&self, turn: &Turn<Self>, connection: &Connection, closed: &Closed) -> Result<()> {
        let _ = (turn, connection, closed);
        Ok(())
    }
}
