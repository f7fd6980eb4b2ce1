//! The routes of a program, for an axum server of somebody else's.

use std::sync::Arc;

use axum::Router;
use steadfast_core::Runtime;

use crate::{app, node::Node, place::Place};

/// Which requests the routes answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Those for a name of this machine (`localhost`, `127.0.0.1`, `[::1]`), and no writes from a
    /// page of another origin: what `serve` does.
    Loopback,
    /// All that come. The host program checks callers and origins before it lets them through.
    HostDecides,
}

/// The routes that `serve` has: the API, the console, metrics, and those of the applications.
///
/// Links of the console begin at `/`, so that only the API works below a prefix.
pub fn router(runtime: &Runtime, policy: Policy) -> Router {
    let node = Arc::new(Node::new(runtime.clone(), Place::Host, policy));
    app::router(node)
}
