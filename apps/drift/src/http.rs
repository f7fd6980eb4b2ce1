//! The application over HTTP: an API for programs, a page for people, and two environments to try.

mod api;
mod demo;
mod description;
mod page;
mod panels;
mod problem;

use std::sync::Arc;

use axum::{
    Router,
    routing::{get, post},
};
use steadfast_core::{
    Objects,
    store::{Clock, Entropy},
};
use steadfast_egress::Policy;
use steadfast_web::Connect;

use crate::Vault;

pub use self::description::paths;

/// What the routes work with. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    /// The pairs.
    pub objects: Objects,
    /// What may be asked.
    pub policy: Policy,
    /// Encrypts URLs with secrets in them.
    pub vault: Vault,
    /// Chance, for ids.
    pub entropy: Arc<dyn Entropy>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How a live connection is made.
    pub connect: Connect,
}

/// The routes of the application.
pub fn router(site: Site) -> Router {
    Router::new()
        .route("/api/compare", post(api::create))
        .route("/api/compare/{id}", get(api::show))
        .route("/api/compare/{id}/events", get(api::events))
        .route("/api/pairs", get(api::pairs))
        .route("/api/pairs/{pair}/comparisons", get(api::history))
        .route("/api/demo/staging", get(demo::staging))
        .route("/api/demo/production", get(demo::production))
        .route("/drift", get(page::home).post(page::submit))
        .route("/drift/{id}", get(page::show))
        .route("/drift-assets/drift.css", get(page::style))
        .route("/drift-assets/drift.js", get(page::script))
        .with_state(site)
}
