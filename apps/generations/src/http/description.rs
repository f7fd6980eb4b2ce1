//! The routes in the words of OpenAPI, for the document of whoever serves them.

use serde_json::{Map, Value};
use steadfast_web::{Route, describe};

/// Path, method, what it does, and what it answers when all is well.
const ROUTES: &[Route] = &[
    ("/api/generations", "get", "Lists generations, newest first", "200"),
    ("/api/generations", "post", "Asks for pictures or clips", "202"),
    ("/api/generations/{id}", "get", "Shows a generation", "200"),
    ("/api/generations/{id}", "delete", "Deletes it, with all that came of it", "202"),
    ("/api/generations/{id}/cancel", "post", "Gives up what is not done", "200"),
    ("/api/generations/{id}/retry", "post", "Tries failed tasks again", "200"),
    ("/api/generations/{id}/events", "get", "A WebSocket, or events", "200"),
    ("/api/generations/{id}/tags/{tag}", "put", "Tags a generation", "204"),
    ("/api/generations/{id}/tags/{tag}", "delete", "Removes a tag", "204"),
    ("/api/artifacts", "get", "Lists artifacts, newest first", "200"),
    ("/api/artifacts/{id}", "get", "Shows an artifact", "200"),
    ("/api/artifacts/{id}", "delete", "Deletes an artifact", "202"),
    ("/api/artifacts/{id}/tags/{tag}", "put", "Tags an artifact", "204"),
    ("/api/artifacts/{id}/tags/{tag}", "delete", "Removes a tag", "204"),
    ("/api/tags", "get", "Lists tags with counts", "200"),
    ("/artifacts/{id}/{file}", "get", "The bytes of an artifact", "200"),
    ("/webhooks/{provider}/{generation}/{task}/{token}", "post", "A provider tells", "200"),
];

/// Pages and their assets; the document leaves them out.
const PAGES: &[Route] = &[
    ("/generations", "get", "The page", "200"),
    ("/generations", "post", "The forms of the page", "303"),
    ("/generations-assets/generations.css", "get", "The style of the page", "200"),
    ("/generations-assets/generations.js", "get", "The script of the page", "200"),
];

/// The `paths` of an OpenAPI document.
pub fn paths() -> Map<String, Value> {
    let mut paths = describe("generations", ROUTES);
    paths.extend(describe("pages", PAGES));
    paths
}
