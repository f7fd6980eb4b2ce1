//! Live connections: the types that handlers see, the outbox of each connection, and the registry
//! of open ones. Turns request operations on connections; the registry performs them when the turn
//! is durable.
//!
//! The outbox is held outside of the object, so it outlives the object's eviction. The list of
//! connections is a table inside of the object (`executor/connection_rows.rs`), so it is part of
//! the turn's transaction. Each end is handled once, even if the process ended with it.

mod connection;
mod op;
mod outbox;
mod registry;

pub use self::{
    connection::{Closed, ConnectParams, Connection, ConnectionId},
    outbox::Event,
};
pub(super) use self::{
    op::{ConnectionOp, NewConnection, Recipients},
    outbox::Outbox,
    registry::{ConnectionRegistry, ConnectionSlot},
};
