//! The application over HTTP: an API for programs, and a page for people.

mod api;
mod artifacts;
mod bench;
mod cards;
mod create;
mod files;
mod list;
mod page;
mod problem;
mod site;
mod tags;
mod webhook;
mod workspace;

use steadfast_web::{Needs, Role, Routes};

pub use self::site::Site;

const NOTHING: Needs = Needs::NOTHING;

/// Bytes of a request, and of what a provider tells.
const BODY_BYTES: usize = 1 << 20;

/// The routes of the application.
pub fn routes() -> Routes<Site> {
    let generation = "/api/generations/{id}";
    let artifact = "/api/artifacts/{id}";
    let (viewer, member) = (Role::Viewer, Role::Member);
    let tag = &format!("{generation}/tags/{{tag}}");
    let artifact_tag = &format!("{artifact}/tags/{{tag}}");
    // Each address of a webhook has a secret of its own.
    let webhook = "/webhooks/{provider}/{generation}/{task}/{token}";
    Routes::new("generations")
        .get("/api/generations", viewer, "Lists generations, newest first", api::list)
        .post("/api/generations", member, "Asks for pictures or clips", create::create)
        .answers(202)
        .get(generation, viewer, "Shows a generation", api::show)
        .delete(generation, member, "Deletes it, with all that came of it", api::delete)
        .answers(202)
        .post(&format!("{generation}/cancel"), member, "Gives up what is not done", api::cancel)
        .post(&format!("{generation}/retry"), member, "Tries failed tasks again", api::retry)
        .get(&format!("{generation}/events"), viewer, "A WebSocket, or events", api::events)
        .put(tag, member, "Tags a generation", tags::tag_generation)
        .answers(204)
        .delete(tag, member, "Removes a tag", tags::untag_generation)
        .answers(204)
        .get("/api/artifacts", viewer, "Lists artifacts, newest first", artifacts::list)
        .get(artifact, viewer, "Shows an artifact", artifacts::show)
        .delete(artifact, member, "Deletes an artifact", artifacts::delete)
        .answers(202)
        .put(artifact_tag, member, "Tags an artifact", tags::tag_artifact)
        .answers(204)
        .delete(artifact_tag, member, "Removes a tag", tags::untag_artifact)
        .answers(204)
        .get("/api/tags", viewer, "Lists tags with counts", tags::list)
        .get("/artifacts/{id}/{file}", viewer, "The bytes of an artifact", files::file)
        .post(webhook, NOTHING, "A provider tells", webhook::receive)
        .pages()
        .get("/generations", viewer, "The page", page::show)
        .post("/generations", member, "The forms of the page", page::submit)
        .get("/generations-assets/generations.css", NOTHING, "The style of the page", page::style)
        .get("/generations-assets/generations.js", NOTHING, "The script of the page", page::script)
        .body_limit(BODY_BYTES)
}
