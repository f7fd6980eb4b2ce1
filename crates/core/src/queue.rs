//! Queues: at-least-once delivery in due order to concurrent consumers. Messages that fail for good
//! become dead letters, and can be redriven.

mod change;
mod consumer;
mod consumer_time;
mod control;
mod delivery;
mod error;
mod keyed;
mod meter;
mod name;
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
mod views;
mod window;
mod worker;

pub(crate) use self::queues::QueueDeclarations;
pub use self::{
    consumer::{Batch, BatchConsumer, ConsumeOptions, Consumer, SettledBatch},
    delivery::{Delivery, Settled},
    error::QueueError,
    meter::Rates,
    name::{DelayedQueue, Queue, QueueSpec},
    peek::{PeekState, QueueMessageView},
    pull::{AckResult, LeaseId, LeasedMessage, PULL_MAX},
    queues::Queues,
    redrive::{Redrive, RedriveResult},
    samples::Sample,
    send::{Outgoing, SEND_MAX},
    settings::QueueSettings,
    views::{QueuePage, QueueView},
    worker::QUEUE_CRASH_POINTS,
};
