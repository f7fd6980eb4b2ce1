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
