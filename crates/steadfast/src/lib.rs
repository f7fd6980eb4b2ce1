//! Steadfast: a durable platform in one library, and your own binary becomes the server.
//!
//! [`App`] declares a program: objects, workflows, processes, queues and buckets. With the feature
//! `server` (on by default) [`main`](fn@main) serves it over HTTP with a console, and is its
//! command line. [`App::open`] embeds it instead, and [`App::test`] tests it in memory. With the
//! feature `client` [`connect`] reaches a program in another process with the same [`Client`].

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
pub use steadfast_api::{self as api, connect};
pub use steadfast_core::*;
#[cfg(feature = "server")]
pub use steadfast_server::{http, main};
#[cfg(feature = "server")]
pub use steadfast_web as web;

/// The items that most programs use.
pub mod prelude {
    pub use std::process::ExitCode;

    pub use steadfast_core::{
        Alarm, App, Batch, BatchConsumer, BlobAction, BlobEvent, Bucket, CallError, CatchUp,
        Client, Closed, Connection, Consumer, Ctx, Delivery, Error, Event, Failure, Handle, Job,
        Object, Outcome, Perform, Queue, QueueSettings, Result, ResultExt, Retry, RunEnded,
        Runtime, Settled, Turn, Workflow,
        process::{Action, Actions, EventOf, Execute, Process, Published, Refused},
    };
    #[cfg(feature = "server")]
    pub use steadfast_web::{Caller, Needs, Problem, Role, Routes, Serve, needs};
}

/// The examples of the documents compile.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/programs.md")]
    struct Programs;

    #[doc = include_str!("../../../docs/coming-from.md")]
    struct ComingFrom;

    #[doc = include_str!("../../../docs/guides/access.md")]
    struct Access;

    #[doc = include_str!("../../../docs/idempotency.md")]
    struct Idempotency;

    #[doc = include_str!("../../../docs/concepts/commit.md")]
    struct Commits;

    #[doc = include_str!("../../../docs/concepts/objects.md")]
    struct Objects;

    #[doc = include_str!("../../../docs/concepts/workflows.md")]
    struct Workflows;

    #[doc = include_str!("../../../docs/concepts/processes.md")]
    struct Processes;

    #[doc = include_str!("../../../docs/concepts/queues.md")]
    struct Queues;

    #[doc = include_str!("../../../docs/concepts/buckets.md")]
    struct Buckets;
}
