//! Processes: pure `decide` and `evolve` over a stream that is both inbox and outbox.

mod definition;
pub mod kit;
mod record;
mod registry;
mod runner;

pub(crate) use self::record::encoded;
pub use self::{
    definition::{
        Action, Actions, CodecError, Event, EventOf, Execute, InputError, Process, Refused,
        translate,
    },
    record::Published,
    registry::{InstanceView, Processes},
    runner::{Decided, Output, Reply},
};
pub use crate::Body;
