//! Connects to an object, as an operation and for the routes of applications.

use std::sync::Arc;

use axum::{
    extract::{
        FromRequestParts, Path, Query, Request, State,
        ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::{Extensions, HeaderMap},
    response::{IntoResponse, Response},
};
use steadfast_api::Code;
use steadfast_core::ConnectParams;
use steadfast_store::{Clock, SystemClock};
use steadfast_web::{Connect, Problem};

use crate::{
    access::Admission,
    facts::{RequestId, accepts},
    listener::{ConnectionInfo, ConnectionSlot},
    live::{
        TEXT_BYTES_MAX, events,
        websocket::{self, Request as Asked},
    },
    operation::caller_of,
    server::Server,
};

/// Errors of a connection: it is a turn.
pub(crate) const ERRORS: [Code; 9] = [
    Code::InvalidName,
    Code::ClassNotFound,
    Code::Conflict,
    Code::UpgradeRequired,
    Code::Refused,
    Code::TurnRolledBack,
    Code::HandlerPanicked,
    Code::MigrationFailed,
    Code::TurnLost,
];

/// Read buffer of a WebSocket in bytes. Every connection holds it, idle or not.
const READ_BYTES: usize = 4 << 10;

/// Connect to an object.
///
/// As a WebSocket: text in both directions. With `Accept: text/event-stream`: server-sent events.
/// The object accepts or refuses in a turn; its messages arrive when they are durable. Query
/// parameters are for the object; `after` is the last number seen: events continue after it.
#[utoipa::path(get, path = "/v1/objects/{class}/{name}/connect", tag = "objects",
    params(
        ("class" = String, Path, description = "A class that accepts connections"),
        ("name" = String, Path, description = "The object"),
        ("after" = Option<i64>, Query, description = "The last number seen"),
        ("Last-Event-ID" = Option<i64>, Header, description =
            "The same, as browsers send it when they reconnect"),
    ),
    responses(
        (status = 101, description = "A WebSocket; closed with 1001 when the server stops or the \
             object is deleted, 1003 after binary data, 1009 after a text of more than 1 MiB, 1011 \
             when something failed, 1013 when it read too slowly or the object has no time: \
             connect again. A text that the object refuses, or beyond the rate of the token, is \
             answered with `{\"problem\": …}`"),
        (status = 200, body = String, content_type = "text/event-stream",
            description = "Server-sent events; the last one is `closed`"),
    ),
)]
pub(crate) async fn connect(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
    query: Result<Query<Vec<(String, String)>>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
    connect_to(&server, &class, &name, query, request).await
}

/// Connects a request to an object, with the protocol that it asks for.
pub(crate) async fn connect_to(
    server: &Arc<Server>,
    class: &str,
    name: &str,
    query: Vec<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let caller = caller_of(request.extensions());
    let token = caller.principal().map(|it| it.token.clone());
    let arrival = arrival(query, request.headers())?.by(caller);
    let access_ended = access_ended(server, request.extensions())?;
    let id = request.extensions().get().map_or("", RequestId::as_str).to_owned();
    let wants_events = accepts(request.headers(), "text/event-stream");
    let (mut parts, _) = request.into_parts();
    let upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection> =
        WebSocketUpgrade::from_request_parts(&mut parts, server).await;
    match upgrade {
        Ok(upgrade) => {
            let live = server.runtime.objects().connect(class, name, arrival).await?;
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            let asked = Asked { path: parts.uri.path().into(), id };
            // Each text is a request of the token.
            let of_rates = server.clone();
            let check_rate = Box::new(move || {
                token.as_ref().map_or(Ok(()), |token| of_rates.rates.check(token))
            });
            let upgrade = upgrade
                .read_buffer_size(READ_BYTES)
                .write_buffer_size(0)
                .max_message_size(2 * TEXT_BYTES_MAX)
                .max_frame_size(2 * TEXT_BYTES_MAX);
            Ok(upgrade.on_upgrade(|socket| {
                websocket::serve(socket, live, clock, asked, check_rate, access_ended)
            }))
        }
        Err(_) if wants_events => {
            let live = server.runtime.objects().connect(class, name, arrival).await?;
            // Live connections last long: they have a limit of their own.
            let connection = parts.extensions.remove::<ConnectionInfo>();
            let slot = connection.map(|it| it.slot);
            slot.iter().for_each(ConnectionSlot::release);
            Ok(events::answer(live, slot, access_ended))
        }
        Err(error) => {
            let detail = format!(
                "connect with a WebSocket ({error}), or ask for `Accept: text/event-stream`"
            );
            Err(Problem::of(Code::UpgradeRequired, detail))
        }
    }
}

/// Waits until the access of a request has ended.
fn access_ended(
    server: &Arc<Server>,
    extensions: &Extensions,
) -> Result<impl Future<Output = ()> + Send + 'static, Problem> {
    // Every request passes admission; one that did not is refused.
    let detail = "the request was not admitted; serve the routes of the program with `router`";
    let admission = extensions.get::<Admission>().cloned();
    let admission = admission.ok_or_else(|| Problem::of(Code::Internal, detail))?;
    Ok(admission.ended(server.clone()))
}

fn arrival(query: Vec<(String, String)>, headers: &HeaderMap) -> Result<ConnectParams, Problem> {
    let mut arrival = ConnectParams::new();
    // A browser that reconnects repeats the query of its first request; the header is newer.
    let mut after = headers.get("last-event-id").and_then(|it| it.to_str().ok()).map(str::to_owned);
    for (name, value) in query {
        if name == "after" {
            after.get_or_insert(value);
        } else {
            arrival = arrival.param(name, value);
        }
    }
    match after.filter(|it| !it.is_empty()).map(|it| it.parse()).transpose() {
        Ok(Some(number)) => Ok(arrival.after(number)),
        Ok(None) => Ok(arrival),
        Err(_) => Err(Problem::of(Code::BadRequest, "`after` must be the last number seen")),
    }
}

/// Connects as the routes of objects do.
pub(crate) fn connector(server: &Arc<Server>) -> Connect {
    // Weak, because the server owns the routes.
    let server = Arc::downgrade(server);
    Arc::new(move |class, name, request: Request| {
        let server = server.clone();
        Box::pin(async move {
            let Some(server) = server.upgrade() else {
                return Problem::of(Code::Closed, "the server is stopping").into_response();
            };
            match connect_route(&server, class, &name, request).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            }
        })
    })
}

async fn connect_route(
    server: &Arc<Server>,
    class: &str,
    name: &str,
    request: Request,
) -> Result<Response, Problem> {
    let query = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let Query(query) = query.map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
    connect_to(server, class, name, query, request).await
}
