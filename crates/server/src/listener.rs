//! The accept loop: every connection has limits, and a shutdown finishes requests in flight.
//!
//! `axum::serve` sets no timeout, so half a request would hold its connection for ever.

mod handshake;
mod peers;
mod slots;
mod strict;
#[cfg(test)]
mod tests;
mod timeouts;

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Method, Request, StatusCode, header},
    response::Response,
};
use hyper::{
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use steadfast_store::Clock;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

pub(crate) use self::{handshake::ErrorFormat, peers::network_of, slots::ConnectionSlot};
use self::{
    handshake::tls_needed,
    peers::{PeerCounts, PeerGuard},
    slots::ConnectionSlots,
    strict::{Framing, StrictLines},
    timeouts::{ResponseBody, TimedBody, TimedStream},
};
use crate::{
    process::file_limit,
    transport::{ClientInfo, Transport},
};

/// Timeout of a TLS handshake, of a request head, and of an idle connection.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of connections of a port; fewer if the process may open few files. When all
/// places are taken, the longest waits for clients end; a further request is answered with 503,
/// unless it is a health check or one of an operator.
pub(crate) const CONNECTIONS_MAX: usize = 1_024;

/// When all places are taken, a new connection that has sent no request for this time may be
/// closed.
const SILENCE: Duration = Duration::from_millis(100);
const TLS_SILENCE: Duration = Duration::from_secs(2);

/// Grace period of requests in flight at a shutdown.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Idle time after which a connection is probed.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Send buffer per connection in the system, in bytes.
#[cfg(target_os = "linux")]
const SEND_BUFFER_BYTES: u32 = 32 << 10;

/// Interval between probes; three of them.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Pause after a failed accept, which usually lacks file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The result of a shutdown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DrainResult {
    /// Every request was answered.
    All,
    /// This many connections were closed at the deadline.
    CutOff(usize),
}

impl DrainResult {
    /// Combines two results.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (DrainResult::All, it) | (it, DrainResult::All) => it,
            (DrainResult::CutOff(one), DrainResult::CutOff(other)) => {
                DrainResult::CutOff(one + other)
            }
        }
    }
}

/// The connection of a request that came through a port.
#[derive(Clone)]
pub(crate) struct ConnectionInfo {
    /// The client.
    pub(crate) client: ClientInfo,
    /// The slot of the connection.
    pub(crate) slot: ConnectionSlot,
    /// Whether it has no place: unless it gets one, only health checks and operators are served.
    pub(crate) is_crowded: bool,
}

/// Answers the requests of a port.
pub(crate) trait Answer: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn answer(
        &self,
        connection: ConnectionInfo,
        request: Request<Body>,
    ) -> impl Future<Output = Response> + Send;
}

/// Handlers of a router find the connection in the extensions of a request.
impl Answer for Router {
    async fn answer(&self, connection: ConnectionInfo, mut request: Request<Body>) -> Response {
        request.extensions_mut().insert(connection);
        match self.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Serves until `stop`, then finishes the requests in flight.
pub(crate) async fn serve(
    listener: TcpListener,
    (app, errors): (impl Answer, ErrorFormat),
    transport: Arc<Transport>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> DrainResult {
    let connections = TaskTracker::new();
    let silence = if transport.tls().is_some() { TLS_SILENCE } else { SILENCE };
    let (slots, peers) = (ConnectionSlots::new(places(), silence), Arc::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &transport, &peers, &slots) => accepted,
        };
        match accepted {
            Ok(Some(accepted)) => {
                let local = accepted.stream.local_addr().ok().map(|it| it.ip().to_canonical());
                let (app, transport, peer) = (app.clone(), transport.clone(), accepted.peer);
                let served = Arc::new(Served { app, errors, transport, peer, local });
                connections.spawn(connection(accepted, served, stop.clone()));
            }
            // Its peer has too many.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    match tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await {
        Ok(()) => DrainResult::All,
        Err(_) => DrainResult::CutOff(connections.len()),
    }
}

/// An accepted connection with its slot.
struct Accepted {
    stream: TcpStream,
    peer: IpAddr,
    counted: Option<PeerGuard>,
    slot: ConnectionSlot,
}

/// The routes and the transport of a port, and both ends of one of its connections.
struct Served<A> {
    app: A,
    errors: ErrorFormat,
    transport: Arc<Transport>,
    peer: IpAddr,
    local: Option<IpAddr>,
}

/// Accepts a connection and takes its slot. Closes it if its peer has too many: it must not
/// take the slots of others.
async fn accept(
    listener: &TcpListener,
    transport: &Transport,
    peers: &Arc<PeerCounts>,
    slots: &Arc<ConnectionSlots>,
) -> io::Result<Option<Accepted>> {
    let (stream, address) = listener.accept().await?;
    let peer = address.ip().to_canonical();
    let counted = if transport.is_exempt(peer) {
        None
    } else if let Some(counted) = peers.take(peer, transport.connections_per_peer) {
        Some(counted)
    } else {
        transport.count_refused();
        tracing::debug!(%peer, "connection refused: its peer has too many");
        return Ok(None);
    };
    Ok(Some(Accepted { stream, peer, counted, slot: slots.take().await }))
}

async fn connection<A: Answer>(
    accepted: Accepted,
    served: Arc<Served<A>>,
    stop: CancellationToken,
) {
    let Accepted { stream, peer, counted, slot } = accepted;
    // Small responses must not wait for the acknowledgement of the last one.
    let _ = stream.set_nodelay(true);
    if let Err(error) = set_options(&stream) {
        tracing::debug!(%error, "options of a socket not set");
    }
    slot.waits_for_head();
    let _release = ReleaseOnDrop(slot.clone());
    let timeout = served.transport.client_timeout;
    let Some(tls) = served.transport.tls() else {
        let stream = TimedStream::new(stream, counted, timeout);
        return serve_http(stream, served, &slot, &stop).await;
    };
    let timed = |stream| TimedStream::new(stream, counted, timeout);
    let is_own_host = |host: &str| served.transport.is_own_host(host);
    let secured = tokio::select! {
        secured = handshake::accept(stream, tls, timed, is_own_host, served.errors) => secured,
        () = slot.evicted() => return,
        () = stop.cancelled() => return,
    };
    match secured {
        Ok(Some(stream)) => serve_http(stream, served, &slot, &stop).await,
        Ok(None) => {}
        Err(error) => tracing::debug!(%peer, %error, "no TLS handshake"),
    }
}

/// Serves the requests of a connection.
async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    served: Arc<Served<impl Answer>>,
    slot: &ConnectionSlot,
    stop: &CancellationToken,
) {
    let (of_request, framing) = (slot.clone(), Framing::default());
    let stream = StrictLines::new(stream, framing.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        framing.note(&request);
        let is_last = framing.has_open_end();
        answer(served.clone(), request, of_request.clone(), is_last)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let serving = async {
        tokio::select! {
            ended = &mut connection => ended,
            () = ended_soon(slot, stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        // A request that has just arrived is read first, and then answered.
        biased;
        ended = &mut serving => ended,
        () = slot.evicted() => {
            if slot.is_silent() {
                return;
            }
            tokio::select! {
                ended = serving => ended,
                () = slot.closed() => Ok(()),
            }
        }
        () = slot.closed() => Ok(()),
    };
    // A disconnected client is not an error of the server.
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

/// Returns when the connection gets no further request.
async fn ended_soon(slot: &ConnectionSlot, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = slot.finished() => {}
    }
}

/// Open files of the store, the ports and the log.
const OTHER_FILES: usize = 64;

/// The port of the server, and that of S3. Others are rarely full at the same time.
const PORTS: usize = 2;

/// Places of a port: each connection is an open file, and so is the blob that a request reads.
pub(crate) fn places() -> usize {
    let files = file_limit().saturating_sub(OTHER_FILES) / PORTS;
    // With the connections without a place, there are five for four places.
    CONNECTIONS_MAX.min((files * 4 / 9).max(1))
}

/// Releases the slot when the connection ends.
struct ReleaseOnDrop(ConnectionSlot);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Answers one request of a connection.
async fn answer(
    served: Arc<Served<impl Answer>>,
    request: Request<Incoming>,
    slot: ConnectionSlot,
    is_last: bool,
) -> ServeResult {
    slot.has_head();
    let Served { app, errors, transport, peer, local } = &*served;
    if is_in_the_clear(transport, (*peer, *local), &request) {
        let refused = tls_needed(*errors, IN_THE_CLEAR).await;
        return Ok(refused.map(|body| ResponseBody::new(body, slot)));
    }
    let request = request.map(|body| {
        if body.is_end_stream() {
            return Body::empty();
        }
        Body::new(TimedBody::new(body, slot.clone(), transport.client_timeout))
    });
    let client = transport.client_info(*peer, request.uri(), request.headers());
    let is_crowded = !slot.has_place();
    let connection = ConnectionInfo { client, slot: slot.clone(), is_crowded };
    let mut response = app.answer(connection, request).await;
    if (is_last || !slot.has_place()) && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| ResponseBody::new(body, slot)))
}

const IN_THE_CLEAR: &str = "this port speaks plain HTTP and serves only the proxies of \
    --trusted-proxy: a credential would be sent in the clear; use the URL of the proxy, or start \
    the server with --tls-cert and --tls-key";

/// Whether a request is refused because its credential would travel through a network in the
/// clear. Health checks without a credential may come from a machine that is no proxy.
fn is_in_the_clear<B>(
    transport: &Transport,
    (peer, local): (IpAddr, Option<IpAddr>),
    request: &Request<B>,
) -> bool {
    transport.is_in_the_clear(peer, local) && !is_bare_health_check(request)
}

/// Whether a request is a health check without a credential. A bucket may have the same name.
fn is_bare_health_check<B>(request: &Request<B>) -> bool {
    let (uri, headers) = (request.uri(), request.headers());
    matches!(uri.path(), "/healthz" | "/readyz")
        && uri.query().is_none()
        && matches!(*request.method(), Method::GET | Method::HEAD)
        && !headers.contains_key(header::AUTHORIZATION)
        && !headers.contains_key(header::COOKIE)
}

type ServeResult = Result<axum::http::Response<ResponseBody<Body>>, std::convert::Infallible>;

/// Sets options that detect a dead peer and bound the send buffer.
fn set_options(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keep_alive.with_retries(3))?;
    // Otherwise the system buffers megabytes, and a slow client seems to read nothing.
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(SEND_BUFFER_BYTES)?;
    Ok(())
}

#[cfg(test)]
impl ConnectionInfo {
    /// A connection of a client, with a place.
    pub(crate) async fn of(client: ClientInfo) -> Self {
        let slot = ConnectionSlots::new(1, SILENCE).take().await;
        Self { client, slot, is_crowded: false }
    }
}
