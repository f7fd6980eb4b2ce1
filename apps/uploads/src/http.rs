//! The application over HTTP: an API for programs, and a page for people.

mod api;
mod forms;
mod images;
mod page;
mod problem;
mod receive;
mod site;

use axum::{extract::DefaultBodyLimit, handler::Handler};
use steadfast_ai::classify::ImageLimits;
use steadfast_web::{Needs, Role, Routes};

use self::forms::FILES_MAX;
pub use self::site::Site;

const NOTHING: Needs = Needs::NOTHING;

/// Bytes of a form beside its files.
const FORM_BYTES: usize = 64 << 10;

/// The routes of the application. An image may be as large as the limits say.
pub fn routes(limits: &ImageLimits) -> Routes<Site> {
    let limit = |files| DefaultBodyLimit::max(files * limits.bytes_max + FORM_BYTES);
    let uploads = "/api/organizations/{organization}/uploads";
    let upload = &format!("{uploads}/{{name}}");
    let create = api::create.layer(limit(1));
    let (viewer, member) = (Role::Viewer, Role::Member);
    Routes::new("uploads")
        .get(uploads, viewer, "Lists images, newest first", api::list)
        .post(uploads, member, "Takes an image: a form with `file` and perhaps `name`", create)
        .answers(202)
        .get(upload, viewer, "Shows an image and what is on it", api::show)
        .delete(upload, member, "Deletes an image", api::delete)
        .answers(202)
        .post(&format!("{upload}/retry"), member, "Classifies again", api::retry)
        .get(&format!("{upload}/image"), viewer, "The image", images::image)
        .get(&format!("{upload}/thumbnail"), viewer, "A small copy", images::thumbnail)
        .get(
            "/api/organizations/{organization}/events",
            viewer,
            "A WebSocket, or events",
            api::events,
        )
        .pages()
        .get("/uploads/{organization}", viewer, "The page of an organization", page::show)
        .post(
            "/uploads/{organization}",
            member,
            "Takes images from the page",
            forms::upload.layer(limit(FILES_MAX)),
        )
        // A login: the token is in its form.
        .post("/uploads/{organization}/token", NOTHING, "Keeps a token", forms::token)
        .post("/uploads/{organization}/{name}/delete", member, "Deletes an image", forms::delete)
        .post("/uploads/{organization}/{name}/retry", member, "Classifies again", forms::retry)
        .get("/uploads-assets/uploads.css", NOTHING, "The style of the page", page::style)
        .get("/uploads-assets/uploads.js", NOTHING, "The script of the page", page::script)
}
