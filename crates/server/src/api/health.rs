//! Whether the process lives, and whether it should get requests.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use steadfast_api::server::{Alive, Readiness, ReadinessCheck};
use steadfast_store::Health;

use crate::server::Server;

/// Says that the process lives. Never touches the store.
#[utoipa::path(get, path = "/healthz", tag = "server",
    extensions(("x-needs-role" = json!("none"))),
    responses((status = 200, body = Alive)),
)]
pub(crate) async fn healthz() -> Json<Alive> {
    Json(Alive { status: "ok".into() })
}

/// Says whether requests should come here.
#[utoipa::path(get, path = "/readyz", tag = "server",
    extensions(("x-needs-role" = json!("none"))),
    responses(
        (status = 200, body = Readiness, description = "Ready"),
        (status = 503, body = Readiness,
            description = "The store cannot write, or the server stops"),
    ),
)]
pub(crate) async fn readyz(State(server): State<Arc<Server>>) -> (StatusCode, Json<Readiness>) {
    let (store_ok, store) = match server.runtime.store().health() {
        Health::Ready => (true, "can write".into()),
        Health::Degraded { reason } | Health::Failed { reason } => (false, reason),
    };
    let draining = server.is_draining();
    let checks = vec![
        ReadinessCheck { name: "store".into(), ok: store_ok, detail: store },
        ReadinessCheck {
            name: "draining".into(),
            ok: !draining,
            detail: if draining { "the server is stopping" } else { "no" }.into(),
        },
    ];
    let ready = checks.iter().all(|it| it.ok);
    let (code, status) = if ready {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    (code, Json(Readiness { status: status.into(), checks }))
}

#[cfg(test)]
mod tests {
    use steadfast_bucket::MemoryBlobs;
    use steadfast_core::App;
    use steadfast_store::{MemoryStore, Store, SystemClock};
    use steadfast_web::{Needs, Role, Routes, Serve};

    use super::*;
    use crate::{failure::Failure, place::Place};

    #[tokio::test]
    async fn an_application_with_a_route_of_the_server_does_not_start() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let mut app = App::new("test").routes("", || {
            Routes::<()>::new("own")
                .get("/healthz", Needs::NOTHING, "Says that it is well", async || "")
                .get("/v1/objects/{kind}", Role::Viewer, "Lists them", async || "")
        });
        let place = Place::Folder("memory".into());
        crate::app::claim_routes(&mut app);
        let refused = Server::prepare(app, store.clone(), place).await.err();
        let Some(Failure::Told(text)) = refused else { panic!("it started") };
        assert!(text.contains("route `/healthz` is declared by"), "{text}");
        assert!(text.contains("route `/v1/objects/{}` is declared by"), "{text}");
        assert_eq!(store.activity().commits, 0);
    }

    #[tokio::test]
    async fn a_node_that_drains_is_not_ready() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let app = App::new("test");
        let app = app.blobs(Arc::new(MemoryBlobs::default()));
        let place = Place::Folder("memory".into());
        let server = Server::prepare(app, store, place).await.unwrap();
        assert_eq!(readyz(State(server.clone())).await.0, StatusCode::OK);
        server.drain();
        let (status, Json(body)) = readyz(State(server)).await;
        assert_eq!((status, &*body.status), (StatusCode::SERVICE_UNAVAILABLE, "not ready"));
    }
}
