//! What an application adds to its server and how it answers there: routes, pages, problems, live
//! connections, verbs of the command line.

#![forbid(unsafe_code)]

mod asset;
pub mod console;
mod describe;
mod page;
mod problem;
mod serve;
mod verb;

use std::{pin::Pin, sync::Arc};

use axum::{extract::Request, response::Response};

pub use steadfast_api::escaped;

pub use self::{
    asset::Asset,
    describe::{Route, describe},
    page::Page,
    problem::{Problem, problem},
    serve::{Counter, MountedRoutes, NavLink, Routes, Serve, ServerContext, Web, pattern},
    verb::{Ask, Cli, Verb, print, printable},
};

/// Connects a request to an object of a class: as a WebSocket, or with server-sent events. Whoever
/// serves an application knows how.
pub type Connect = Arc<
    dyn Fn(&'static str, String, Request) -> Pin<Box<dyn Future<Output = Response> + Send>>
        + Send
        + Sync,
>;
