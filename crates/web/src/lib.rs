//! Parts that an application adds to its server: routes, pages, problems, live connections,
//! command-line verbs.

#![forbid(unsafe_code)]

mod any_handler;
mod asset;
mod blob_file;
mod caller;
pub mod console;
mod idempotency;
mod json;
mod needs;
mod page;
mod paging;
mod problem;
mod routes;
mod serve;
mod settings;
mod table;
mod verb;

use std::{pin::Pin, sync::Arc};

use axum::{extract::Request, response::Response};

pub use steadfast_api::{Code, Limit, Page as ListPage, Role, escaped};

pub use self::{
    any_handler::AnyHandler,
    asset::Asset,
    blob_file::{BlobFile, blob_response, byte_range},
    caller::Caller,
    idempotency::IdempotencyKey,
    json::{Json, pretty_json, read_body},
    needs::{Declare, Needs, needs},
    page::{Page, link},
    paging::{Cursor, PageRequest, Params, bad_cursor, page_of},
    problem::Problem,
    routes::{IntoRoutes, Routes},
    serve::{Counter, FromServer, MountedRoutes, NavLink, Serve, ServerContext, Web},
    settings::Number,
    table::{DeclaredRoutes, RouteEntry, RouteKind, RouteTable},
    verb::{Ask, Cli, CliVerb, print, printable},
};

/// Connects a request to an object of a class, as a WebSocket or with server-sent events. The
/// server provides it.
pub type Connect = Arc<
    dyn Fn(&'static str, String, Request) -> Pin<Box<dyn Future<Output = Response> + Send>>
        + Send
        + Sync,
>;
