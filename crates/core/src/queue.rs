//! Queues: at least once, in due order, several consumers at a time; what cannot be handled moves
//! to dead letters, from where it can be given another chance.

mod carry;
mod change;
mod consumer;
mod control;
mod delivery;
mod desk;
mod error;
mod figures;
mod keyed;
mod meter;
mod name;
mod orphans;
mod patience;
mod peek;
mod pull;
mod pump;
mod purge;
mod queues;
mod rate;
mod redrive;
mod send;
mod settings;
mod settle;
mod shelf;
mod suspects;

pub use self::{
    carry::QUEUE_CRASH_POINTS,
    consumer::{Batch, BatchConsumer, ConsumeOptions, Consumer, SettledBatch},
    delivery::{Delivery, Settled},
    error::QueueError,
    figures::{QueuePage, QueueView, Sample},
    meter::Rates,
    name::{Later, Queue, QueueSpec},
    peek::{PeekState, Peeked},
    pull::{Acked, LeaseId, PULL_MAX, Pulled},
    queues::Queues,
    redrive::{Redrive, Redriven},
    send::{Outgoing, SEND_MAX},
    settings::QueueSettings,
};
pub(crate) use self::{name::address, queues::Declared};
