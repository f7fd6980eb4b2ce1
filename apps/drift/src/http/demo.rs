//! Two environments to try: they differ on purpose.

use std::time::Duration;

use axum::{
    http::{HeaderName, header},
    response::{IntoResponse, Response},
};

use super::Site;

const ORIGIN: HeaderName = header::ACCESS_CONTROL_ALLOW_ORIGIN;
const METHODS: HeaderName = header::ACCESS_CONTROL_ALLOW_METHODS;

pub(super) async fn staging() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, "Accept"),
        (ORIGIN, "*"),
        (METHODS, "GET"),
    ];
    (headers, r#"{"environment":"staging"}"#).into_response()
}

pub(super) async fn production(site: Site) -> Response {
    site.clock.sleep(Duration::from_millis(200)).await;
    let headers = [
        (header::CONTENT_TYPE, "text/json"),
        (header::CACHE_CONTROL, "public, max-age=3600"),
        (header::VARY, "Accept, Accept-Encoding"),
        (header::WWW_AUTHENTICATE, r#"Bearer realm="api""#),
        (ORIGIN, "https://app.example.com"),
        (METHODS, "GET, POST"),
    ];
    (headers, r#"{"environment":"production"}"#).into_response()
}
