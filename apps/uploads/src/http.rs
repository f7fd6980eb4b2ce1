//! The application over HTTP: an API for programs, and a page for people.

mod api;
mod description;
mod forms;
mod images;
mod page;
mod problem;
mod receive;
mod site;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};

use self::forms::FILES_MAX;
pub use self::{description::paths, site::Site};

/// Bytes of a form beside its files.
const FORM_BYTES: usize = 64 << 10;

/// The routes of the application. The site says whom it serves with what.
pub fn router(site: Site) -> Router {
    let limit = |files| DefaultBodyLimit::max(files * site.limits.bytes_max + FORM_BYTES);
    let uploads = "/api/organizations/{organization}/uploads";
    Router::new()
        .route(uploads, get(api::list).post(api::create).layer(limit(1)))
        .route(&format!("{uploads}/{{name}}"), get(api::show).delete(api::delete))
        .route(&format!("{uploads}/{{name}}/retry"), post(api::retry))
        .route(&format!("{uploads}/{{name}}/image"), get(images::image))
        .route(&format!("{uploads}/{{name}}/thumbnail"), get(images::thumbnail))
        .route("/api/organizations/{organization}/events", get(api::events))
        .route(
            "/uploads/{organization}",
            get(page::show).post(forms::upload).layer(limit(FILES_MAX)),
        )
        .route("/uploads/{organization}/token", post(forms::token))
        .route("/uploads/{organization}/{name}/delete", post(forms::delete))
        .route("/uploads/{organization}/{name}/retry", post(forms::retry))
        .route("/uploads-assets/uploads.css", get(page::style))
        .route("/uploads-assets/uploads.js", get(page::script))
        .with_state(site)
}
