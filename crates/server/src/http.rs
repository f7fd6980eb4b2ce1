//! The routes of a program, for another axum server.

use std::sync::Arc;

use axum::Router;
use steadfast_core::{Runtime, StartError};
use steadfast_web::RouteTable;

pub use crate::server::Policy;
use crate::{app, location::Location, server::Server};

/// The routes of `serve`: the API, the console, metrics, and those of the applications. They may be
/// nested below a path.
///
/// Fails if an application declares a route of the server, and names both.
pub fn router(runtime: &Runtime, policy: Policy) -> Result<Router, StartError> {
    let server = Arc::new(Server::new(runtime.clone(), Location::Host, policy));
    app::router(server)
}

/// Lists the routes of [`router`], with their required roles.
pub fn route_table(runtime: &Runtime) -> Result<RouteTable, StartError> {
    app::table(runtime)
}

#[cfg(test)]
mod tests;
