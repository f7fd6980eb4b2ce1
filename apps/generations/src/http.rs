//! The application over HTTP: an API for programs, and a page for people.

mod api;
mod artifacts;
mod bench;
mod cards;
mod create;
mod description;
mod files;
mod list;
mod page;
mod problem;
mod site;
mod tags;
mod webhook;
mod workspace;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post, put},
};

pub use self::{description::paths, site::Site};

/// Bytes of a request, and of what a provider tells.
const BODY_BYTES: usize = 1 << 20;

/// The routes of the application.
pub fn router(site: Site) -> Router {
    let generation = "/api/generations/{id}";
    let artifact = "/api/artifacts/{id}";
    Router::new()
        .route("/api/generations", get(api::list).post(create::create))
        .route(generation, get(api::show).delete(api::delete))
        .route(&format!("{generation}/cancel"), post(api::cancel))
        .route(&format!("{generation}/retry"), post(api::retry))
        .route(&format!("{generation}/events"), get(api::events))
        .route(
            &format!("{generation}/tags/{{tag}}"),
            put(tags::tag_generation).delete(tags::untag_generation),
        )
        .route("/api/artifacts", get(artifacts::list))
        .route(artifact, get(artifacts::show).delete(artifacts::delete))
        .route(
            &format!("{artifact}/tags/{{tag}}"),
            put(tags::tag_artifact).delete(tags::untag_artifact),
        )
        .route("/api/tags", get(tags::list))
        .route("/artifacts/{id}/{file}", get(files::file))
        .route("/webhooks/{provider}/{generation}/{task}/{token}", post(webhook::receive))
        .route("/generations", get(page::show).post(page::submit))
        .route("/generations-assets/generations.css", get(page::style))
        .route("/generations-assets/generations.js", get(page::script))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(site)
}
