//! Figures for Prometheus.

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use steadfast_api::Code;
use steadfast_store::Health;
use steadfast_web::{Problem, Web};

use crate::{metrics::Figures, server::Server};

/// Queues with figures of their own, in the order of their names: each costs reads.
const QUEUES_MAX: usize = 100;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes the figures in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server",
    extensions(("x-needs-role" = json!("viewer"))),
    responses((status = 200, body = String, content_type = CONTENT_TYPE)),
)]
pub(crate) async fn metrics(State(server): State<Arc<Server>>) -> Result<Response, Problem> {
    let figures = Figures {
        activity: server.runtime.store().activity(),
        // A store that is away must not take the other figures with it.
        totals: server.runtime.store().totals().await.ok(),
        ready: server.runtime.store().health() == Health::Ready,
        awake: server.runtime.objects().awake(),
        connections: server.runtime.objects().connections(),
        counters: counters(&server),
        queues: server.runtime.queues().page(None, QUEUES_MAX).await.ok(),
    };
    let text = server.metrics.write(&figures);
    let text = text.map_err(|error| Problem::of(Code::Internal, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// What the applications count.
fn counters(server: &Server) -> Vec<(&'static str, &'static str, u64)> {
    let web = server.runtime.extension::<Web>();
    let counters = web.map_or(&[][..], |it| &it.counters);
    counters.iter().map(|it| (it.name, it.help, (it.value)())).collect()
}
