//! The routes of a program, for an axum server of somebody else's.

use std::sync::Arc;

use axum::Router;
use steadfast_core::{Runtime, StartError};
use steadfast_web::RouteTable;

use crate::{app, place::Place, server::Server};

/// Which requests the routes answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Those for a name of this machine (`localhost`, `127.0.0.1`, `[::1]`), and no writes from a
    /// page of another origin: what `serve` does.
    Loopback,
    /// All that come. The host program checks callers and origins before it lets them through. It
    /// may say who calls: `steadfast::object::Caller` in the extensions of a request is what turns
    /// learn from `turn.caller()`.
    HostDecides,
}

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
