//! The history of a run: a part of it, or all of it while it grows.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use steadfast_core::workflow::HistoryEntry;
use utoipa::IntoParams;

use crate::{
    api::{
        page::{Params, rows},
        problem::{Code, Problem, ProblemBody},
        wire::List,
    },
    listener::Seat,
    live::history::{Watch, answer},
    node::Node,
};

/// The query of a history.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryParams {
    /// The number seen last; the history goes on behind it.
    #[param(value_type = Option<i64>, minimum = 0)]
    after: Option<String>,
    /// Entries at most; a history that is watched has no such end.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 50)]
    limit: Option<String>,
}

impl HistoryParams {
    /// The number seen last.
    pub(crate) fn after(&self) -> Result<i64, Problem> {
        number(self.after.as_deref().unwrap_or("0"), "after")
    }

    /// How many entries.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        rows(self.limit.as_deref())
    }
}

fn number(text: &str, name: &str) -> Result<i64, Problem> {
    text.parse().ok().filter(|it| 0 <= *it).ok_or_else(|| {
        Problem::new(Code::BadQuery, format!("`{name}` must be the number seen last, not `{text}`"))
    })
}

/// Reads what is recorded of a run.
///
/// With `Accept: text/event-stream` it is told as at `…/live`.
#[utoipa::path(get, path = "/v1/workflows/{name}/runs/{id}/history", tag = "workflows",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
        HistoryParams,
    ),
    responses(
        (status = 200, content(
            (List<HistoryEntry> = "application/json"),
            (String = "text/event-stream"),
        )),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn history(
    State(node): State<Arc<Node>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<HistoryParams>,
    headers: HeaderMap,
    seat: Option<Extension<Seat>>,
) -> Result<Response, Problem> {
    if accepts_events(&headers) {
        return live(State(node), Path((name, id)), Params(params), headers, seat).await;
    }
    let (after, limit) = (params.after()?, params.limit()?);
    Ok(Json(read_history(&node, &name, &id, after, limit).await?).into_response())
}

/// Reads a part of a history.
pub(crate) async fn read_history(
    node: &Node,
    name: &str,
    id: &str,
    after: i64,
    limit: usize,
) -> Result<List<HistoryEntry>, Problem> {
    let mut items = node.runtime.runs().history(name, id, after, limit + 1).await?;
    let more = limit < items.len();
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|it| it.number.to_string());
    Ok(List { items, next })
}

/// Tells the history of a run while it grows.
///
/// Server-sent events: each entry with its number as id, so that who comes again goes on behind
/// what was seen. The last one is `end` when the run has ended, and `closed` when the server stops
/// or the client is too slow: then come again.
#[utoipa::path(get, path = "/v1/workflows/{name}/runs/{id}/live", tag = "workflows",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
        HistoryParams,
        ("Last-Event-ID" = Option<i64>, Header, description =
            "The number seen last, as browsers send it when they come again"),
    ),
    responses(
        (status = 200, body = String, content_type = "text/event-stream"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, body = ProblemBody, content_type = "application/problem+json",
            description = "Too many watch runs"),
    ),
)]
pub(crate) async fn live(
    State(node): State<Arc<Node>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<HistoryParams>,
    headers: HeaderMap,
    seat: Option<Extension<Seat>>,
) -> Result<Response, Problem> {
    // A browser that comes again repeats the query of its first visit; the header is newer.
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let after = match last.filter(|it| !it.is_empty()) {
        Some(last) => number(last, "Last-Event-ID")?,
        None => params.after()?,
    };
    // It must be there before the answer begins.
    node.runtime.runs().history(&name, &id, after, 1).await?;
    let place = node.watchers.clone().try_acquire_owned().map_err(|_| {
        Problem::new(Code::TooManyConnections, "too many watch runs; come again, or ask `history`")
    })?;
    let watch = Watch { node, workflow: name, id, after, place };
    Ok(answer(watch, seat.map(|Extension(seat)| seat)))
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    accept.is_some_and(|it| it.contains("text/event-stream"))
}
