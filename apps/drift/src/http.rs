//! The application over HTTP: an API for programs, a page for people, and two environments to try.

mod api;
mod demo;
mod page;
mod panels;

use std::sync::Arc;

use axum::http::StatusCode;
use steadfast_core::{
    Objects,
    store::{Clock, Entropy},
};
use steadfast_egress::Policy;
use steadfast_web::{Connect, Needs, Problem, Role, Routes};

use crate::{Vault, VaultError, pair::PairError};

const NOTHING: Needs = Needs::NOTHING;

/// The state of the routes. Cheap to clone.
#[derive(Clone)]
pub struct Site {
    /// The pairs.
    pub objects: Objects,
    /// The addresses that may be requested.
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

/// The statuses of what a pair refuses.
const REFUSALS: &[(&str, StatusCode)] = &[
    ("unknown_comparison", StatusCode::NOT_FOUND),
    ("key_reused", StatusCode::CONFLICT),
    ("too_many_running", StatusCode::TOO_MANY_REQUESTS),
];

/// The routes of the application.
pub fn routes() -> Routes<Site> {
    let (viewer, member) = (Role::Viewer, Role::Member);
    let history = "/api/pairs/{pair}/comparisons";
    Routes::new("drift")
        .post("/api/compare", member, "Compare two environments", api::create)
        .answers(202)
        .get("/api/compare/{id}", viewer, "Show a comparison", api::show)
        .get(
            "/api/compare/{id}/events",
            viewer,
            "Follow a comparison over a WebSocket or server-sent events",
            api::events,
        )
        .get("/api/pairs", viewer, "List pairs of environments, latest first", api::pairs)
        .get(history, viewer, "List the comparisons of a pair", api::history)
        // The program compares them like any other environment, without a credential.
        .get(
            "/api/demo/staging",
            NOTHING,
            "Answer as the staging environment of the demo",
            demo::staging,
        )
        .get(
            "/api/demo/production",
            NOTHING,
            "Answer as the production environment of the demo, which differs",
            demo::production,
        )
        .pages()
        .get("/drift", viewer, "Show the page", page::home)
        .post("/drift", member, "Compare from the form of the page", page::submit)
        .get("/drift/{id}", viewer, "Show the page of a comparison", page::show)
        .asset("Style of the page", &page::STYLE)
        .asset("Script of the page", &page::SCRIPT)
        .refusals(REFUSALS)
}

impl From<PairError> for Problem {
    fn from(error: PairError) -> Self {
        Self::invalid(error.code(), error.to_string())
    }
}

impl From<VaultError> for Problem {
    fn from(error: VaultError) -> Self {
        let status = match &error {
            VaultError::Store(_) | VaultError::Seal(_) => StatusCode::SERVICE_UNAVAILABLE,
            VaultError::Unreadable => StatusCode::CONFLICT,
        };
        Self::new(status, error.code(), error.to_string())
    }
}
