//! Figures for Prometheus.

use std::sync::{Arc, atomic::Ordering};

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use steadfast_store::Health;

use super::problem::{Code, Problem};
use crate::{metrics::Figures, node::Node};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes the figures in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations", responses(
    (status = 200, body = String, content_type = CONTENT_TYPE),
))]
pub(crate) async fn metrics(State(node): State<Arc<Node>>) -> Result<Response, Problem> {
    let figures = Figures {
        activity: node.store.activity(),
        // A store that is away must not take the other figures with it.
        totals: node.store.totals().await.ok(),
        ready: node.store.health() == Health::Ready,
        awake: node.objects.awake(),
        connections: node.objects.connections(),
        malformed_uploads: node.apps.sight.malformed.load(Ordering::Relaxed),
        queues: node.queues.list().await.unwrap_or_default(),
    };
    let text = node.metrics.write(&figures);
    let text = text.map_err(|error| Problem::new(Code::Internal, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}
