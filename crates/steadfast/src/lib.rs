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

/// What most programs use.
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

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The guide to the four doors compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/programs.md")]
struct Programs;
