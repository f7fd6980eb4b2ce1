//! The application over HTTP: an API for programs, a page for people, and two environments to try.

mod api;
mod demo;
mod page;
mod panels;

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use steadfast_core::{
    Address, Object, Objects,
    store::{Clock, Entropy},
};
use steadfast_egress::Policy;
use steadfast_web::{Caller, Connect, Needs, Problem, Role, Routes};

use crate::{
    EnvPair, Pairs, Vault, VaultError,
    pair::{PairError, object_of},
};

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
    /// The organization of the caller, whose pairs are its own; `None` for the whole platform.
    pub organization: Option<String>,
}

impl Site {
    /// The name of the object of a pair.
    fn object_of(&self, key: &str) -> String {
        object_of(self.organization.as_deref(), key)
    }

    fn pair(&self, key: &str) -> Address<EnvPair> {
        EnvPair::at(self.object_of(key))
    }

    fn pairs(&self) -> Address<Pairs> {
        Pairs::of(self.organization.as_deref())
    }
}

/// Handlers take the site of their caller.
impl FromRequestParts<Site> for Site {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, site).await?;
        Ok(Self { organization: caller.organization().map(str::to_owned), ..site.clone() })
    }
}

/// The statuses of what a pair refuses.
const REFUSALS: &[(&str, StatusCode)] = &[
    ("unknown_comparison", StatusCode::NOT_FOUND),
    ("key_reused", StatusCode::CONFLICT),
    ("too_many_running", StatusCode::TOO_MANY_REQUESTS),
];

/// The routes of the application.
pub fn routes() -> Routes<Site> {
    let (viewer, member) =
        (Needs::of_organization(Role::Viewer), Needs::of_organization(Role::Member));
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
        .streams()
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
