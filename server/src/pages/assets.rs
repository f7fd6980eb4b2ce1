//! The style, the scripts and the icon, inside of the binary.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

struct Asset {
    content_type: &'static str,
    text: &'static str,
    /// Changes with the text, so that a browser may keep the file for ever under a URL with it.
    tag: String,
}

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("text/css; charset=utf-8", include_str!("../../assets/steadfast.css"))
});

static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("text/javascript; charset=utf-8", include_str!("../../assets/live.js"))
});

static CHAT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("text/javascript; charset=utf-8", include_str!("../../assets/chat.js"))
});

static BUCKETS: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("text/javascript; charset=utf-8", include_str!("../../assets/buckets.js"))
});

static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("image/svg+xml", include_str!("../../assets/steadfast.svg")));

/// Where the style is.
pub(super) fn style_url() -> String {
    format!("/assets/steadfast.css?v={}", STYLE.tag)
}

/// Where the script is.
pub(super) fn script_url() -> String {
    format!("/assets/live.js?v={}", SCRIPT.tag)
}

/// Where the script of the chat rooms is.
pub(super) fn chat_url() -> String {
    format!("/assets/chat.js?v={}", CHAT.tag)
}

/// Where the script of the buckets is.
pub(super) fn buckets_url() -> String {
    format!("/assets/buckets.js?v={}", BUCKETS.tag)
}

/// Where the icon is.
pub(super) fn icon_url() -> String {
    format!("/assets/steadfast.svg?v={}", ICON.tag)
}

/// The style of all pages.
#[utoipa::path(get, path = "/assets/steadfast.css", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/css"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn style(headers: HeaderMap) -> Response {
    STYLE.answer(&headers)
}

/// What keeps a table fresh.
#[utoipa::path(get, path = "/assets/live.js", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/javascript"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn script(headers: HeaderMap) -> Response {
    SCRIPT.answer(&headers)
}

/// What a chat room does.
#[utoipa::path(get, path = "/assets/chat.js", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/javascript"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn chat(headers: HeaderMap) -> Response {
    CHAT.answer(&headers)
}

/// What shows how far an upload is.
#[utoipa::path(get, path = "/assets/buckets.js", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/javascript"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn buckets(headers: HeaderMap) -> Response {
    BUCKETS.answer(&headers)
}

/// The icon.
#[utoipa::path(get, path = "/assets/steadfast.svg", tag = "pages", responses(
    (status = 200, body = String, content_type = "image/svg+xml"),
    (status = 304, description = "Not changed"),
))]
pub(super) async fn icon(headers: HeaderMap) -> Response {
    ICON.answer(&headers)
}

impl Asset {
    fn new(content_type: &'static str, text: &'static str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self { content_type, text, tag: format!("{:016x}", hasher.finish()) }
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
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
