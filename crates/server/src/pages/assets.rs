//! The style, the scripts and the icon, inside of the binary.

use std::sync::LazyLock;

use axum::{http::HeaderMap, response::Response};
use steadfast_web::{
    Asset,
    console::{ICON, STYLE},
};

/// Keeps a part of a page fresh.
pub(super) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/live.js", include_str!("../../assets/live.js")));

/// Shows the progress of an upload.
pub(super) static BUCKETS: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/buckets.js", include_str!("../../assets/buckets.js")));

/// Offers the last statements of the SQL form again.
pub(super) static SQL: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/sql.js", include_str!("../../assets/sql.js")));

/// The style of all pages.
#[utoipa::path(get, path = "/assets/steadfast.css", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/css"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn style(headers: HeaderMap) -> Response {
    STYLE.response(&headers)
}

/// The script that keeps a part of a page fresh.
#[utoipa::path(get, path = "/assets/live.js", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/javascript"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn script(headers: HeaderMap) -> Response {
    SCRIPT.response(&headers)
}

/// The script that shows the progress of an upload.
#[utoipa::path(get, path = "/assets/buckets.js", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/javascript"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn buckets(headers: HeaderMap) -> Response {
    BUCKETS.response(&headers)
}

/// The script that offers the last statements of the SQL form again.
#[utoipa::path(get, path = "/assets/sql.js", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/javascript"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn sql(headers: HeaderMap) -> Response {
    SQL.response(&headers)
}

/// The icon.
#[utoipa::path(get, path = "/assets/steadfast.svg", tag = "pages", responses(
    (status = 200, body = String, content_type = "image/svg+xml"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn icon(headers: HeaderMap) -> Response {
    ICON.response(&headers)
}
