//! Queues: at-least-once delivery in due order to concurrent consumers. Messages that fail for good
//! become dead letters, and can be redriven.
//!
//! | To understand | read |
//! | --- | --- |
//! | what a program declares | `name.rs`, `consumer.rs`, `error.rs` |
//! | the queues of a program, and one of them | `queues.rs`, `state.rs`, `window.rs`, `meter.rs` |
//! | sends | `send.rs` |
//! | deliveries to consumers | `source.rs`, `worker.rs` |
//! | consumers in other processes | `pull.rs` |
//! | operators | `control.rs`, `redrive.rs`, `views.rs` |

mod consumer;
mod control;
mod error;
mod meter;
mod name;
mod pull;
mod queues;
mod redrive;
mod send;
mod source;
mod state;
mod views;
mod window;
mod worker;

pub use self::{
    consumer::{Batch, BatchConsumer, ConsumeOptions, Consumer, Delivery, Settled, SettledBatch},
    error::QueueError,
    meter::{Rates, Sample},
    name::{DelayedQueue, Queue, QueueSettings, QueueSpec},
    pull::{AckResult, LeaseId, LeasedMessage, PULL_MAX},
    queues::Queues,
    redrive::{Redrive, RedriveResult},
    send::{Outgoing, SEND_MAX},
    views::{PeekState, QueueMessageView, QueuePage, QueueView},
    worker::QUEUE_CRASH_POINTS,
};
pub(crate) use self::{
    consumer::{BatchAdapter, SingleAdapter},
    queues::QueueDeclarations,
};
