//! The ports of the process: pages and API, S3, and webhooks.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use steadfast_store::Clock;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::{
    failure::Failure,
    guard::{OfWebhooksPort, WEBHOOKS, no_route},
    listener::{self, DrainResult, ErrorFormat},
    pipeline::ServerRoutes,
    s3,
    server::Server,
    transport::Transport,
};

/// Backlog of connections that wait to be accepted. With a smaller system limit, further clients
/// wait one second.
const BACKLOG: u32 = 4_096;

/// The bound ports.
pub(crate) struct Ports {
    listener: TcpListener,
    s3: Option<TcpListener>,
    webhooks: Option<TcpListener>,
    /// Their addresses.
    pub(crate) addresses: Addresses,
}

/// The addresses of ports: those to listen on, or those that are bound.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    /// Pages and API.
    pub(crate) http: SocketAddr,
    /// The S3 API.
    pub(crate) s3: Option<SocketAddr>,
    /// The port for webhooks.
    pub(crate) webhooks: Option<SocketAddr>,
}

impl Addresses {
    /// All of them.
    pub(crate) fn all(self) -> impl Iterator<Item = SocketAddr> {
        [Some(self.http), self.s3, self.webhooks].into_iter().flatten()
    }
}

impl Ports {
    /// Binds them. Unbinding has no side effects.
    pub(crate) fn bind(listen: Addresses, transport: &Transport) -> Result<Self, Failure> {
        let bind = |flag, address| {
            transport.check_listen(flag, address)?;
            bind(flag, address)
        };
        let listener = bind("--listen", listen.http)?;
        let s3 = listen.s3.map(|it| bind("--s3-listen", it)).transpose()?;
        let webhooks = listen.webhooks.map(|it| bind("--webhooks-listen", it)).transpose()?;
        let addresses = Addresses {
            http: listener.local_addr()?,
            s3: s3.as_ref().map(TcpListener::local_addr).transpose()?,
            webhooks: webhooks.as_ref().map(TcpListener::local_addr).transpose()?,
        };
        Ok(Self { listener, s3, webhooks, addresses })
    }

    /// Serves until `stop`, then finishes the requests in flight.
    pub(crate) async fn serve(
        self,
        routes: ServerRoutes,
        server: &Arc<Server>,
        clock: &Arc<dyn Clock>,
        stop: &CancellationToken,
    ) -> DrainResult {
        let serve = async |listener: Option<TcpListener>,
                           app: ServerRoutes,
                           errors: ErrorFormat| {
            let transport = server.transport.clone();
            match listener {
                Some(it) => {
                    listener::serve(it, (app, errors), transport, clock.clone(), stop.clone()).await
                }
                None => DrainResult::All,
            }
        };
        let other = |router| ServerRoutes { pipeline: None, router };
        let (http, s3, webhooks) = tokio::join!(
            serve(Some(self.listener), routes.clone(), ErrorFormat::Problem),
            serve(self.s3, other(s3::router(server)), ErrorFormat::S3),
            serve(self.webhooks, other(webhooks(routes.router)), ErrorFormat::Problem),
        );
        http.and(s3).and(webhooks)
    }
}

/// The router of the port for webhooks: providers reach it from the internet, so it serves nothing
/// else.
pub(crate) fn webhooks(routes: Router) -> Router {
    Router::new().fallback(async move |mut request: Request| -> Response {
        if !request.uri().path().starts_with(WEBHOOKS) {
            return not_found(request.uri().path());
        }
        request.extensions_mut().insert(OfWebhooksPort);
        match routes.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    })
}

/// The same problem as elsewhere, but never as a page of the console.
fn not_found(path: &str) -> Response {
    let body = serde_json::to_string(&no_route().body(path, "")).unwrap_or_default();
    let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
    (StatusCode::NOT_FOUND, content_type, body).into_response()
}

fn listen_at(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Allows binding a port that was in use a moment ago.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind(flag: &str, listen: SocketAddr) -> Result<TcpListener, Failure> {
    listen_at(listen).map_err(|error| {
        Failure::new(format!(
            "{flag} {listen} cannot be bound: {error}; stop the process that listens there, or \
             choose another port: {flag} 127.0.0.1:0 takes a free one"
        ))
    })
}
