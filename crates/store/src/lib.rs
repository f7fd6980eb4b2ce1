//! Commits, message streams and the three stores that keep them.
//!
//! Every step of progress is one [`Commit`]: one atomic transaction in one [`Store`]. Nothing here
//! knows what messages mean; that is decided above.

mod clock;
mod commit;
pub mod crash;
mod entropy;
mod error;
mod id;
pub mod limits;
mod memory;
mod message;
mod notice;
mod plan;
mod postgres;
mod process;
mod retention;
mod retry;
mod sql;
mod sqlite;
mod store;
mod streams;
mod writer;

pub use self::{
    clock::{Clock, ManualClock, Sleep, SystemClock, Timestamp},
    commit::{
        Claimed, Commit, Expect, Lease, Outcome, Receipt, Rejection, Remember, Remembered, Write,
    },
    entropy::{Entropy, SeededEntropy},
    error::{InvalidInput, OpenError, StoreError},
    id::{Address, AddressError, EntityId, EntityKind},
    memory::MemoryStore,
    message::{
        Attempt, Cause, Direction, Due, Json, Message, MessageKind, Position, Recorded, Settled,
        SettledAs, State, Task, Version,
    },
    notice::{News, Notice, Notices},
    plan::Work,
    postgres::{PostgresOptions, PostgresStore},
    retention::{Retention, sweep},
    retry::RetryPolicy,
    sqlite::{SqliteOptions, SqliteStore},
    store::{Activity, DueCursor, Health, Owner, Setting, Snapshot, Store, StreamSummary, Totals},
    streams::{AppendError, Appended, Streams, failed},
};
