//! The ports of the process: pages and API, and S3.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use steadfast_store::Clock;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

use crate::{
    args::S3Listen,
    failure::Failure,
    listener::{self, DrainResult},
    s3,
    server::Server,
};

/// Backlog of connections that wait to be accepted. With a smaller system limit, further clients
/// wait one second.
const BACKLOG: u32 = 4_096;

/// The bound ports.
pub(crate) struct Ports {
    listener: TcpListener,
    s3: Option<TcpListener>,
    /// Address of pages and API.
    pub(crate) address: SocketAddr,
    /// Address of the S3 API.
    pub(crate) s3_address: Option<SocketAddr>,
}

impl Ports {
    /// Binds them. Unbinding has no side effects.
    pub(crate) fn bind(listen: SocketAddr, s3: S3Listen) -> Result<Self, Failure> {
        let listener = bind("--listen", listen)?;
        let s3 = match s3 {
            S3Listen::At(address) => Some(bind("--s3-listen", address)?),
            S3Listen::Off => None,
        };
        let address = listener.local_addr()?;
        let s3_address = s3.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(Self { listener, s3, address, s3_address })
    }

    /// Serves until `stop`, then finishes the requests in flight.
    pub(crate) async fn serve(
        self,
        routes: Router,
        server: &Arc<Server>,
        clock: &Arc<dyn Clock>,
        stop: &CancellationToken,
    ) -> DrainResult {
        let serve = |listener, app| listener::serve(listener, app, clock.clone(), stop.clone());
        let s3_serving = async {
            match self.s3 {
                Some(listener) => serve(listener, s3::router(server)).await,
                None => DrainResult::All,
            }
        };
        let (one, other) = tokio::join!(serve(self.listener, routes), s3_serving);
        one.and(other)
    }
}

fn listen_at(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Allows binding a port that was in use a moment ago.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind(flag: &str, listen: SocketAddr) -> Result<TcpListener, Failure> {
    if !listen.ip().is_loopback() {
        return Err(Failure::new(format!(
            "{flag} {listen} is open to other machines, which needs access control; listen on \
             127.0.0.1:{port} or [::1]:{port}",
            port = listen.port()
        )));
    }
    listen_at(listen).map_err(|error| {
        Failure::new(format!(
            "{flag} {listen} cannot be bound: {error}; stop the process that listens there, or \
             choose another port: {flag} 127.0.0.1:0 takes a free one"
        ))
    })
}
