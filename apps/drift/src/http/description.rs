//! The routes in the words of OpenAPI, for the document of whoever serves them.

use serde_json::{Map, Value};
use steadfast_web::{Route, describe};

/// Path, method, what it does, and what it answers when all is well.
const ROUTES: &[Route] = &[
    ("/api/compare", "post", "Compares two environments", "202"),
    ("/api/compare/{id}", "get", "Shows a comparison", "200"),
    ("/api/compare/{id}/events", "get", "A WebSocket, or events", "200"),
    ("/api/pairs", "get", "Lists pairs, the latest first", "200"),
    ("/api/pairs/{pair}/comparisons", "get", "The history of a pair", "200"),
    ("/api/demo/staging", "get", "An environment to try", "200"),
    ("/api/demo/production", "get", "Another one, which differs", "200"),
];

/// Pages and their assets; the document leaves them out.
const PAGES: &[Route] = &[
    ("/drift", "get", "The page", "200"),
    ("/drift", "post", "The form of the page", "303"),
    ("/drift/{id}", "get", "The page of a comparison", "200"),
    ("/drift-assets/drift.css", "get", "The style of the page", "200"),
    ("/drift-assets/drift.js", "get", "The script of the page", "200"),
];

/// The `paths` of an OpenAPI document.
pub fn paths() -> Map<String, Value> {
    let mut paths = describe("drift", ROUTES);
    paths.extend(describe("pages", PAGES));
    paths
}
