//! Steadfast: a durable platform in one library.
//!
//! Every step of progress is one [`store::Commit`]. Unfinished work is a row in the store, and the
//! [`Dispatcher`] delivers it.

mod access;
mod app;
mod background;
mod body;
pub mod bucket;
mod client;
mod commit;
mod convert;
pub mod dispatch;
mod error;
mod idempotency;
mod name_map;
pub mod object;
mod on_drop;
mod open;
mod places;
pub mod process;
pub mod queue;
mod remote;
mod retention;
mod revive;
mod runtime;
mod script;
pub mod test;
pub mod workflow;

pub use rusqlite;
pub use steadfast_store as store;
pub use steadfast_vfs::tune_sqlite;

pub use self::{
    access::{
        Audit, AuditEvent, AuditRecord, Denied, NewSession, NewToken, Principal, Resource,
        ResourceKind, Role, SESSION_IDLE, SESSION_MAX, Scope, ScopeError, Session, SessionId,
        Sessions, Token, TokenError, TokenSnapshot, TokenSpec, Tokens, Verb, is_closed,
        is_organization,
    },
    app::{App, Owner},
    background::background_threads,
    body::{Body, JsonText},
    bucket::{BlobAction, BlobEvent, Bucket, BucketError, BucketHandle, BucketSpec, Buckets},
    client::{Client, Receive, RemoteProgram, RunChange},
    dispatch::{
        CRASH_POINTS, Dispatcher, DispatcherBuilder, DispatcherOptions, Failure, Handler, Router,
        Unknown,
    },
    error::{Error, Result, ResultExt, StartError},
    idempotency::{KeyError, RequestKey},
    object::{
        Address, Alarm, Both, CallError, CatchUp, Closed, ConnectParams, Connection, ConnectionId,
        Handle, Job, LiveSocket, Object, ObjectOptions, Objects, Outcome, Perform, RemoteObjects,
        Sql, Turn,
    },
    open::{owner_of, program_of, refuse_foreign, refuse_foreign_database},
    places::{Place, Places},
    queue::{
        Batch, BatchConsumer, ConsumeOptions, Consumer, Delivery, Queue, QueueError, QueueSettings,
        QueueSpec, Queues, Settled, SettledBatch,
    },
    retention::{RetentionSettings, Sweeper},
    revive::{ReviveError, revive},
    runtime::{CLOSE_TIMEOUT, Extension, RunHandle, Runtime, Unserved},
    workflow::{Ctx, Event, Retry, RunAddress, RunEnded, RunError, RunEvent, Runs, Workflow},
};
