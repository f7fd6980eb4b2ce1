//! The application over HTTP: an API for programs, and a page for people.

mod api;
mod artifacts;
mod cards;
mod create;
mod files;
mod forms;
mod list;
mod page;
mod site;
mod tags;
mod webhook;
mod workspace;

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use steadfast_web::{Needs, Problem, Role, Routes};

pub use self::site::Site;
use self::workspace::Workspace;
use crate::{TagTarget, providers::GenerateError};

const NOTHING: Needs = Needs::NOTHING;

/// Bytes of a request, and of what a provider tells.
const BODY_BYTES: usize = 1 << 20;

/// The statuses of what managers and libraries refuse.
const REFUSALS: &[(&str, StatusCode)] = &[
    ("unknown_generation", StatusCode::NOT_FOUND),
    ("unknown_artifact", StatusCode::NOT_FOUND),
    ("nothing_to_retry", StatusCode::CONFLICT),
    ("key_reused", StatusCode::CONFLICT),
    ("too_many_tags", StatusCode::CONFLICT),
    ("malformed_webhook", StatusCode::BAD_REQUEST),
    ("provider_unknown", StatusCode::SERVICE_UNAVAILABLE),
];

/// The id of something, and its tag.
type TagPath = Path<(String, String)>;

/// The routes of the application.
pub fn routes() -> Routes<Site> {
    let generation = "/api/generations/{id}";
    let artifact = "/api/artifacts/{id}";
    let (viewer, member) =
        (Needs::of_organization(Role::Viewer), Needs::of_organization(Role::Member));
    let tag = &format!("{generation}/tags/{{tag}}");
    let artifact_tag = &format!("{artifact}/tags/{{tag}}");
    // Each address of a webhook has a secret of its own.
    let webhook = "/webhooks/{provider}/{generation}/{task}/{token}";
    let tagging = |target, is_on| {
        async move |State(site): State<Site>, workspace: Workspace, Path(at): TagPath| {
            tags::set(&site, &workspace, target, at, is_on).await
        }
    };
    Routes::new("generations")
        .get("/api/generations", viewer, "List generations, newest first", api::list)
        .post("/api/generations", member, "Generate images or videos", create::create)
        .answers(202)
        .get(generation, viewer, "Show a generation", api::show)
        .delete(generation, member, "Delete a generation and its artifacts", api::delete)
        .answers(202)
        .post(
            &format!("{generation}/cancel"),
            member,
            "Cancel the tasks that are not done",
            api::cancel,
        )
        .post(&format!("{generation}/retry"), member, "Retry failed tasks", api::retry)
        .get(
            &format!("{generation}/events"),
            viewer,
            "Follow a generation over a WebSocket or server-sent events",
            api::events,
        )
        .streams()
        .put(tag, member, "Tag a generation", tagging(TagTarget::Generation, true))
        .answers(204)
        .delete(tag, member, "Remove a tag", tagging(TagTarget::Generation, false))
        .answers(204)
        .get("/api/artifacts", viewer, "List artifacts, newest first", artifacts::list)
        .get(artifact, viewer, "Show an artifact", artifacts::show)
        .delete(artifact, member, "Delete an artifact", artifacts::delete)
        .answers(202)
        .put(artifact_tag, member, "Tag an artifact", tagging(TagTarget::Artifact, true))
        .answers(204)
        .delete(artifact_tag, member, "Remove a tag", tagging(TagTarget::Artifact, false))
        .answers(204)
        .get("/api/tags", viewer, "List tags with counts", tags::list)
        .get("/artifacts/{id}/{file}", viewer, "Read an artifact", files::file)
        .post(webhook, NOTHING, "Receive a webhook of a provider", webhook::receive)
        .pages()
        .get("/generations", viewer, "Show the page", page::show)
        .post("/generations", member, "Handle the forms of the page", page::submit)
        .asset("Style of the page", &page::STYLE)
        .asset("Script of the page", &page::SCRIPT)
        .body_limit(BODY_BYTES)
        .refusals(REFUSALS)
}

impl From<GenerateError> for Problem {
    fn from(error: GenerateError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.code(), error.to_string())
    }
}
