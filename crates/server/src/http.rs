//! The routes of a program, for an axum server of somebody else's.

use std::sync::Arc;

use axum::Router;
use steadfast_core::{Runtime, StartError};
use steadfast_web::RouteTable;

pub use crate::server::Policy;
use crate::{app, place::Place, server::Server};

/// The routes that `serve` has: the API, the console, metrics, and those of the applications. They
/// may be nested below a path.
///
/// Fails if an application has a route of the server, and names both.
pub fn router(runtime: &Runtime, policy: Policy) -> Result<Router, StartError> {
    let server = Arc::new(Server::new(runtime.clone(), Place::Host, policy));
    app::router(server)
}

/// Lists the routes that [`router`] serves, with what each needs of its callers.
pub fn route_table(runtime: &Runtime) -> Result<RouteTable, StartError> {
    app::table(runtime)
}

#[cfg(test)]
mod tests;
