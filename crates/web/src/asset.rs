//! Files embedded in the binary: style sheets, scripts and images.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

/// A file embedded in the binary. Browsers cache it under a URL that changes with its text.
pub struct Asset {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
    tag: String,
}

impl Asset {
    /// A style sheet.
    pub fn css(path: &'static str, text: &'static str) -> Self {
        Self::new(path, "text/css; charset=utf-8", text)
    }

    /// A script.
    pub fn js(path: &'static str, text: &'static str) -> Self {
        Self::new(path, "text/javascript; charset=utf-8", text)
    }

    /// An SVG image.
    pub fn svg(path: &'static str, text: &'static str) -> Self {
        Self::new(path, "image/svg+xml", text)
    }

    fn new(path: &'static str, content_type: &'static str, text: &'static str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self { path, content_type, text, tag: format!("{:016x}", hasher.finish()) }
    }

    /// The path of its route.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The URL for a page.
    pub fn url(&self) -> String {
        format!("{}?v={}", self.path, self.tag)
    }

    /// The response to a request for it.
    pub fn response(&self, headers: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", self.tag);
        let known = headers.get(header::IF_NONE_MATCH).and_then(|it| it.to_str().ok());
        let caching = [
            (header::ETAG, tag.clone()),
            (header::CACHE_CONTROL, "public, max-age=31536000, immutable".into()),
        ];
        if known.is_some_and(|it| it.split(',').any(|one| one.trim() == tag)) {
            return (StatusCode::NOT_MODIFIED, caching).into_response();
        }
        ([(header::CONTENT_TYPE, self.content_type)], caching, self.text).into_response()
    }
}
