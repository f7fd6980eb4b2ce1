//! Commits, message streams and the three stores.
//!
//! Every step of progress is one [`Commit`]: one atomic transaction in one [`Store`]. This crate
//! does not interpret messages; the crates above do.

#![cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "the stores share their code, and PostgreSQL uses the most of it")
)]

mod calendar;
mod clock;
mod code;
mod commit;
pub mod crash;
mod entry;
mod error;
mod fresh_messages;
#[doc(hidden)]
pub mod futures;
#[doc(hidden)]
pub mod fuzz;
mod id;
pub mod limits;
mod memory;
mod message;
mod notice;
mod opaque;
mod outcome;
mod plan;
#[cfg(feature = "postgres")]
mod postgres;
pub mod private;
mod process;
mod query;
mod reads;
mod recorded;
mod records;
mod retention;
mod retry;
mod run;
mod seal;
mod secret;
#[doc(hidden)]
pub mod sort;
mod sql;
mod sqlite;
mod store;
mod store_clock;
mod streams;
mod sweep;
mod texts;
mod turn;
mod writer;

/// Returns the future of an `async fn` in a box. Its body is then compiled by its own crate, and
/// not again by each crate that awaits it. Every `pub async fn` of the store, of buckets and of the
/// core that is not generic has it.
#[doc(hidden)]
pub use async_recursion::async_recursion as boxed;

#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresOptions, PostgresStore};
pub use self::{
    calendar::DateTime,
    clock::{Clock, Entropy, ManualClock, SeededEntropy, Sleep, SystemClock, TimeLeft, Timestamp},
    code::Code,
    commit::{Commit, Expect, Remember, Snapshot, Write},
    entry::{AgeCursor, Count, Entry, EntryKey, EntryRange, Put, behind},
    error::{CommitsLost, InvalidInput, OpenError, RemoteProblem, StoreError},
    id::{Address, AddressError, EntityId, EntityKind, Position, Version},
    memory::{MemoryStore, Moment},
    message::{Cause, Direction, Due, Json, Lease, Message, MessageKind, Task},
    notice::{Notice, NoticeBatch, Notices},
    opaque::{OpaqueArc, OpaqueWeak},
    outcome::{GrantedClaim, Outcome, Receipt, RecordedKey, Rejection},
    plan::Work,
    query::{Answer, DueCursor, Query, QueryKind, StreamSummary, Totals},
    recorded::{
        Attempt, DEPTH_SEEN_MAX, ENQUEUE, QueueDepth, QueuedMessage, Recorded, SettledAs,
        Settlement, State, queue_address,
    },
    records::{Record, Records, RowCache},
    retention::{ExpiryList, ExpiryRow, KeyName, Retention, Sweep, SweepList},
    retry::{RetryPolicy, backoff},
    run::{RunCursor, RunFilter, RunPage, RunStatus, RunSummary},
    seal::{Seal, SealError, SealFile, identity_of},
    secret::{Secret, secret_text},
    sql::{BASELINE_FORMAT, Migration},
    sqlite::{SqliteOptions, SqliteStore, peek_entry},
    store::{Activity, CommitCallback, Dump, Health, Owner, Setting, Store},
    store_clock::{CLOCK_STEP_MAX, ClockReport, ClockStep, StoreClock},
    streams::{AppendError, AppendOutcome, Streams, failed},
    sweep::sweep,
    texts::UnknownText,
    turn::{
        Base, Complete, Head, Images, ObjectSummary, OldTurn, PageImage, RecordedTurn, Turn,
        TurnSummary,
    },
};
