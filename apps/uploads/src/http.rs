//! The application over HTTP: an API for programs, and a page for people.

mod api;
mod forms;
mod images;
mod page;
mod receive;
mod site;

use axum::{extract::DefaultBodyLimit, handler::Handler, http::StatusCode};
use steadfast_images::ImageLimits;
use steadfast_web::{Needs, Role, Routes};

use self::forms::FILES_MAX;
pub use self::site::Site;
use crate::IMAGE_NOT_FOUND;

/// Bytes of a form beside its files.
const FORM_BYTES: usize = 64 << 10;

/// The statuses of what an agent refuses.
const REFUSALS: &[(&str, StatusCode)] =
    &[(IMAGE_NOT_FOUND, StatusCode::NOT_FOUND), ("wrong_status", StatusCode::CONFLICT)];

/// The routes of the application. An image may be as large as the limits say.
pub fn routes(limits: &ImageLimits) -> Routes<Site> {
    let limit = |files| DefaultBodyLimit::max(files * limits.bytes_max + FORM_BYTES);
    let uploads = "/api/organizations/{organization}/uploads";
    let upload = &format!("{uploads}/{{name}}");
    let create = api::create.layer(limit(1));
    let (viewer, member) =
        (Needs::of_organization(Role::Viewer), Needs::of_organization(Role::Member));
    Routes::new("uploads")
        .get(uploads, viewer, "List images, newest first", api::list)
        .post(
            uploads,
            member,
            "Upload an image: a multipart form with `file` and optionally `name`",
            create,
        )
        .answers(202)
        .get(upload, viewer, "Show an image and its labels", api::show)
        .delete(upload, member, "Delete an image", api::delete)
        .answers(202)
        .post(&format!("{upload}/retry"), member, "Classify an image again", api::retry)
        .get(&format!("{upload}/image"), viewer, "Read an image", images::image)
        .get(
            &format!("{upload}/thumbnail"),
            viewer,
            "Read the thumbnail of an image",
            images::thumbnail,
        )
        .get(
            "/api/organizations/{organization}/events",
            viewer,
            "Follow the uploads over a WebSocket or server-sent events",
            api::events,
        )
        .streams()
        .pages()
        .get("/uploads/{organization}", viewer, "Show the page of an organization", page::show)
        .post(
            "/uploads/{organization}",
            member,
            "Upload images from the page",
            forms::upload.layer(limit(FILES_MAX)),
        )
        .post("/uploads/{organization}/{name}/delete", member, "Delete an image", forms::delete)
        .post(
            "/uploads/{organization}/{name}/retry",
            member,
            "Classify an image again",
            forms::retry,
        )
        .asset("Style of the page", &page::STYLE)
        .asset("Script of the page", &page::SCRIPT)
        .refusals(REFUSALS)
}
