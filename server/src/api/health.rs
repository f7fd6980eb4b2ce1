//! Whether the process lives, and whether it should get requests.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use steadfast_store::Health;
use utoipa::ToSchema;

use crate::node::Node;

/// The process lives.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Alive {
    /// Always `ok`.
    status: &'static str,
}

/// Whether requests should come here.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// `ready` or `not ready`.
    status: &'static str,
    /// What was looked at.
    checks: Vec<ReadinessCheck>,
}

/// One reason for or against.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadinessCheck {
    /// What was looked at.
    name: &'static str,
    /// Whether it is well.
    ok: bool,
    /// How it is.
    detail: String,
}

/// Says that the process lives. Never touches the store.
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, body = Alive)))]
pub(crate) async fn healthz() -> Json<Alive> {
    Json(Alive { status: "ok" })
}

/// Says whether requests should come here.
#[utoipa::path(get, path = "/readyz", tag = "operations", responses(
    (status = 200, body = Readiness, description = "Ready"),
    (status = 503, body = Readiness, description = "The store cannot write, or the node stops"),
))]
pub(crate) async fn readyz(State(node): State<Arc<Node>>) -> (StatusCode, Json<Readiness>) {
    let (store_ok, store) = match node.store.health() {
        Health::Ready => (true, "can write".into()),
        Health::Degraded { reason } | Health::Failed { reason } => (false, reason),
    };
    let draining = node.is_draining();
    let checks = vec![
        ReadinessCheck { name: "store", ok: store_ok, detail: store },
        ReadinessCheck {
            name: "draining",
            ok: !draining,
            detail: if draining { "the node is stopping" } else { "no" }.into(),
        },
    ];
    let ready = checks.iter().all(|it| it.ok);
    let (code, status) = if ready {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    (code, Json(Readiness { status, checks }))
}

#[cfg(test)]
mod tests {
    use steadfast_bucket::{Buckets, MemoryBlobs};
    use steadfast_store::{MemoryStore, SystemClock};

    use super::*;
    use crate::place::Place;

    #[tokio::test]
    async fn a_node_that_drains_is_not_ready() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let buckets = Buckets::builder(store.clone()).open(Arc::new(MemoryBlobs::default()));
        let buckets = buckets.await.unwrap();
        let node = Node::new(store, Place::Folder("memory".into()), buckets).unwrap();
        assert_eq!(readyz(State(node.clone())).await.0, StatusCode::OK);
        node.drain();
        let (status, Json(body)) = readyz(State(node)).await;
        assert_eq!((status, body.status), (StatusCode::SERVICE_UNAVAILABLE, "not ready"));
    }
}
