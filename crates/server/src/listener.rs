//! The accept loop: every connection has limits, and a shutdown finishes requests in flight.
//!
//! `axum::serve` sets no timeout, so half a request would hold its connection for ever.

mod slots;
mod timeouts;

use std::{io, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request};
use hyper::{
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use steadfast_store::Clock;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

pub(crate) use self::{slots::ConnectionSlot, timeouts::CLIENT_TIMEOUT};
use self::{
    slots::ConnectionSlots,
    timeouts::{ResponseBody, TimedBody, TimedStream},
};

/// Timeout of a request head, and of an idle connection.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of connections. A further one replaces the one that has kept the server waiting
/// longest.
const CONNECTIONS_MAX: usize = 1_024;

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

/// Serves until `stop`, then finishes the requests in flight.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> DrainResult {
    let connections = TaskTracker::new();
    let slots = ConnectionSlots::new(CONNECTIONS_MAX);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        match accepted {
            Ok((stream, slot)) => {
                connections.spawn(connection(stream, app.clone(), stop.clone(), slot));
            }
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

async fn accept(
    listener: &TcpListener,
    slots: &Arc<ConnectionSlots>,
) -> io::Result<(TcpStream, ConnectionSlot)> {
    let (stream, _) = listener.accept().await?;
    Ok((stream, slots.take().await))
}

async fn connection(stream: TcpStream, app: Router, stop: CancellationToken, slot: ConnectionSlot) {
    // Small responses must not wait for the acknowledgement of the last one.
    let _ = stream.set_nodelay(true);
    if let Err(error) = set_options(&stream) {
        tracing::debug!(%error, "options of a socket not set");
    }
    slot.waits_to_read();
    let socket = TokioIo::new(TimedStream::new(stream, slot.clone()));
    let _release = ReleaseOnDrop(slot.clone());
    let served = slot.clone();
    let service = service_fn(move |request| answer(app.clone(), request, served.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connection = http.serve_connection(socket, service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let serving = async {
        tokio::select! {
            ended = &mut connection => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    let ended = tokio::select! {
        ended = serving => ended,
        () = slot.closed() => Ok(()),
    };
    // A disconnected client is not an error of the server.
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

/// Releases the slot when the connection ends.
struct ReleaseOnDrop(ConnectionSlot);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        self.0.release();
    }
}

async fn answer(app: Router, request: Request<Incoming>, slot: ConnectionSlot) -> ServeResult {
    slot.has_read();
    slot.note_slow(false);
    let mut request = request.map(|body| {
        if body.is_end_stream() {
            return Body::empty();
        }
        Body::new(TimedBody::new(body, slot.clone()))
    });
    request.extensions_mut().insert(slot.clone());
    let response = app.oneshot(request).await?;
    Ok(response.map(|body| ResponseBody::new(body, slot)))
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
mod tests {
    use axum::routing::get;
    use steadfast_store::SystemClock;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::Notify,
    };

    use super::*;

    #[tokio::test]
    async fn a_request_in_flight_is_finished_before_serving_ends() {
        let (arrived, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (notify, waits) = (arrived.clone(), go_on.clone());
        let handler = async move || {
            notify.notify_one();
            waits.notified().await;
            "finished"
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, app) = (CancellationToken::new(), Router::new().route("/", get(handler)));
        let serving = tokio::spawn(serve(listener, app, Arc::new(SystemClock), stop.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        arrived.notified().await;
        stop.cancel();
        go_on.notify_one();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("finished"), "{answer}");
        assert_eq!(serving.await.unwrap(), DrainResult::All);
        assert!(TcpStream::connect(address).await.is_err(), "it must not listen any more");
    }

    /// Notifies when it is dropped.
    struct Dropped(Arc<Notify>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    #[tokio::test]
    async fn a_request_is_dropped_when_its_client_disconnects() {
        let (arrived, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (notify, notify_drop) = (arrived.clone(), dropped.clone());
        // A call in the mailbox of an object is such a future: dropping it removes the call.
        let handler = async move || {
            let _waits = Dropped(notify_drop.clone());
            notify.notify_one();
            std::future::pending::<&str>().await
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, app) = (CancellationToken::new(), Router::new().route("/", get(handler)));
        let serving = tokio::spawn(serve(listener, app, Arc::new(SystemClock), stop.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        arrived.notified().await;
        drop(client);
        dropped.notified().await;
        stop.cancel();
        assert_eq!(serving.await.unwrap(), DrainResult::All);
    }
}
