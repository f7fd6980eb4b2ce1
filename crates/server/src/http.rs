//! The routes of a program, for an axum server of somebody else's.

use std::sync::Arc;

use axum::Router;
use steadfast_core::Runtime;

use crate::{app, place::Place, server::Server};

/// Which requests the routes answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Those for a name of this machine (`localhost`, `127.0.0.1`, `[::1]`), and no writes from a
    /// page of another origin: what `serve` does.
    Loopback,
    /// All that come. The host program checks callers and origins before it lets them through.
    HostDecides,
}

/// The routes that `serve` has: the API, the console, metrics, and those of the applications.
///
/// Links of the console begin at `/`, so that only the API works below a prefix.
pub fn router(runtime: &Runtime, policy: Policy) -> Router {
    let server = Arc::new(Server::new(runtime.clone(), Place::Host, policy));
    app::router(server)
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request, routing::get};
    use steadfast_core::App;
    use tower::ServiceExt;

    use super::*;

    async fn status(site: &Router, path: &str, host: &str) -> u16 {
        let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
        site.clone().oneshot(request).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn an_axum_program_has_the_routes_beside_its_own() {
        let program = App::new("host").test().await.unwrap();
        let own = Router::new().route("/hello", get(async || "hello"));
        let decides = own.clone().fallback_service(router(&program, Policy::HostDecides));
        for path in ["/hello", "/", "/v1/streams", "/openapi.json", "/metrics", "/healthz"] {
            assert_eq!(status(&decides, path, "shop.example.com").await, 200, "{path}");
        }
        // A program without buckets says so.
        assert_eq!(status(&decides, "/v1/buckets", "shop.example.com").await, 404);
        let below = Router::new().nest("/durable", router(&program, Policy::HostDecides));
        assert_eq!(status(&below, "/durable/v1/streams", "shop.example.com").await, 200);
        let loopback = own.fallback_service(router(&program, Policy::Loopback));
        assert_eq!(status(&loopback, "/v1/streams", "localhost").await, 200);
        assert_eq!(status(&loopback, "/v1/streams", "shop.example.com").await, 403);
    }
}
