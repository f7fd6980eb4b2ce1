//! What applications say over HTTP, each in the same way: what went wrong, which routes there are,
//! how a page looks around its content, and how a live connection is made.

#![forbid(unsafe_code)]

mod asset;
mod describe;
mod page;
mod problem;
mod serve;

use std::{pin::Pin, sync::Arc};

use axum::{extract::Request, response::Response};

pub use self::{
    asset::{icon, script, style},
    describe::{Route, describe},
    page::{Page, page},
    problem::problem,
    serve::{Counter, NavLink, Serve, ServerContext, Web, pattern},
};

/// Connects a request to an object of a class: as a WebSocket, or with server-sent events. Whoever
/// serves an application knows how.
pub type Connect = Arc<
    dyn Fn(&'static str, String, Request) -> Pin<Box<dyn Future<Output = Response> + Send>>
        + Send
        + Sync,
>;
