//! Queues: at-least-once delivery in due order to concurrent consumers. Messages that fail for good
//! become dead letters, and can be redriven.

mod change;
mod consumer;
mod control;
mod delivery;
mod error;
mod figures;
mod keyed;
mod meter;
mod name;
mod patience;
mod peek;
mod pull;
mod purge;
mod queues;
mod rate;
mod redrive;
mod samples;
mod send;
mod settings;
mod source;
mod state;
mod window;
mod worker;

pub(crate) use self::queues::Declared;
pub use self::{
    consumer::{Batch, BatchConsumer, ConsumeOptions, Consumer, SettledBatch},
    delivery::{Delivery, Settled},
    error::QueueError,
    figures::{QueuePage, QueueView},
    meter::Rates,
    name::{Later, Queue, QueueSpec},
    peek::{PeekState, Peeked},
    pull::{Acked, LeaseId, PULL_MAX, Pulled},
    queues::Queues,
    redrive::{Redrive, Redriven},
    samples::Sample,
    send::{Outgoing, SEND_MAX},
    settings::QueueSettings,
    worker::QUEUE_CRASH_POINTS,
};
