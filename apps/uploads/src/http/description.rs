//! The routes in the words of OpenAPI, for the document of whoever serves them.

use serde_json::{Map, Value};
use steadfast_web::{Route, describe};

/// Path, method, what it does, and what it answers when all is well.
const ROUTES: &[Route] = &[
    (UPLOADS, "get", "Lists images, newest first", "200"),
    (UPLOADS, "post", "Takes an image: a form with `file` and perhaps `name`", "202"),
    (UPLOAD, "get", "Shows an image and what is on it", "200"),
    (UPLOAD, "delete", "Deletes an image", "202"),
    ("/api/organizations/{organization}/uploads/{name}/retry", "post", "Classifies again", "200"),
    ("/api/organizations/{organization}/uploads/{name}/image", "get", "The image", "200"),
    ("/api/organizations/{organization}/uploads/{name}/thumbnail", "get", "A small copy", "200"),
    ("/api/organizations/{organization}/events", "get", "A WebSocket, or events", "200"),
];
const UPLOADS: &str = "/api/organizations/{organization}/uploads";
const UPLOAD: &str = "/api/organizations/{organization}/uploads/{name}";

/// Pages and their assets; the document leaves them out.
const PAGES: &[Route] = &[
    ("/uploads/{organization}", "get", "The page of an organization", "200"),
    ("/uploads/{organization}", "post", "Takes images from the page", "303"),
    ("/uploads/{organization}/token", "post", "Keeps a token for the browser", "303"),
    ("/uploads/{organization}/{name}/delete", "post", "Deletes from the page", "303"),
    ("/uploads/{organization}/{name}/retry", "post", "Classifies again from the page", "303"),
    ("/uploads-assets/uploads.css", "get", "The style of the page", "200"),
    ("/uploads-assets/uploads.js", "get", "The script of the page", "200"),
];

/// The `paths` of an OpenAPI document.
pub fn paths() -> Map<String, Value> {
    let mut paths = describe("uploads", ROUTES);
    paths.extend(describe("pages", PAGES));
    paths
}
