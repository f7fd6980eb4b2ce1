//! Files that are inside of the binary.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};

/// A style.
pub fn style(text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], text).into_response()
}

/// A script.
pub fn script(text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], text).into_response()
}

/// An icon.
pub fn icon(text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], text).into_response()
}
