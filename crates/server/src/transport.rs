//! The transport of all ports: TLS, trusted proxies, the public URL and connections per peer.

mod client_info;
mod tls;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::{HeaderMap, Uri};
use steadfast_store::{Clock, Timestamp};
use tokio_rustls::rustls::ServerConfig;

pub(crate) use self::client_info::ClientInfo;
use self::tls::Tls;
use crate::{
    args::TransportArgs,
    failure::Failure,
    network::{Network, PublicUrl, Scheme, is_own_name},
};

/// Connections of one client address to one port, by default.
const CONNECTIONS_PER_PEER: usize = 256;

/// Time in which a client has to move a byte, by default.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

/// The settings that all ports share, and the state that depends on them.
pub(crate) struct Transport {
    tls: Option<Tls>,
    /// The networks of trusted proxies.
    pub(crate) proxies: Vec<Network>,
    /// The public URL.
    pub(crate) public_url: Option<PublicUrl>,
    s3_public_url: Option<PublicUrl>,
    /// Whether webhooks have a port of their own.
    pub(crate) has_webhooks_port: bool,
    /// Maximum connections of one client address to one port.
    pub(crate) connections_per_peer: usize,
    /// A client that sends and reads nothing for this time is disconnected.
    pub(crate) client_timeout: Duration,
    is_closed: AtomicBool,
    refused: AtomicU64,
}

/// Plain HTTP without proxies.
impl Default for Transport {
    fn default() -> Self {
        Self {
            tls: None,
            proxies: Vec::new(),
            public_url: None,
            s3_public_url: None,
            has_webhooks_port: false,
            connections_per_peer: CONNECTIONS_PER_PEER,
            client_timeout: CLIENT_TIMEOUT,
            is_closed: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        }
    }
}

impl Transport {
    /// Reads the certificate, if there is one. The error names the flag and the file.
    pub(crate) fn of(args: &TransportArgs) -> Result<Self, Failure> {
        let tls = match (&args.tls_cert, &args.tls_key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(Tls::load(cert, key)?),
            (Some(_), None) => {
                return Err(Failure::new("--tls-cert needs --tls-key, the key of the certificate"));
            }
            (None, Some(_)) => {
                return Err(Failure::new("--tls-key needs --tls-cert, the certificate of the key"));
            }
        };
        Ok(Self {
            tls,
            proxies: args.trusted_proxy.clone(),
            public_url: args.public_url.clone(),
            s3_public_url: args.s3_public_url.clone(),
            has_webhooks_port: args.webhooks_listen.is_some(),
            connections_per_peer: args.connections_per_peer.to_usize(),
            client_timeout: Duration::from_secs(args.client_timeout.get().into()),
            ..Self::default()
        })
    }

    /// Closes access: from now on every request needs a credential, and trusted proxies are
    /// believed.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether access is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether clients of a network can be served: through our own TLS, or by a named proxy. Other
    /// peers are then refused one by one: see [`Self::is_in_the_clear`].
    pub(crate) fn is_safe_for_network(&self) -> bool {
        self.tls.is_some() || !self.proxies.is_empty()
    }

    /// Whether the settings, with these addresses, need closed access.
    pub(crate) fn needs_closed(&self, listen: impl IntoIterator<Item = SocketAddr>) -> bool {
        self.public_url.is_some()
            || self.s3_public_url.is_some()
            || listen.into_iter().any(|it| !is_loopback(it))
    }

    /// Refuses settings that need closed access.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let flags = [("--public-url", &self.public_url), ("--s3-public-url", &self.s3_public_url)];
        for (flag, _) in flags.into_iter().filter(|it| it.1.is_some()) {
            if !self.is_closed() {
                return Err(Failure::new(format!(
                    "{flag} needs --access closed: without credentials the server is for this \
                     machine only. Webhooks need no public URL of the server: give them a port \
                     with --webhooks-listen 127.0.0.1:8789, and the application its URL"
                )));
            }
            if !self.is_safe_for_network() {
                return Err(Failure::new(format!("{flag} {}", Self::UNSAFE)));
            }
        }
        Ok(())
    }

    const UNSAFE: &str = "would send credentials in the clear; add --tls-cert and --tls-key, or \
                          name the proxy that speaks TLS: --trusted-proxy CIDR";

    /// Refuses an address that other machines reach, unless access is closed and the way is safe.
    pub(crate) fn check_listen(&self, flag: &str, listen: SocketAddr) -> Result<(), Failure> {
        if is_loopback(listen) {
            return Ok(());
        }
        if !self.is_closed() {
            return Err(Failure::new(format!(
                "{flag} {listen} is open to other machines, which needs --access closed; or listen \
                 on 127.0.0.1:{port} or [::1]:{port}",
                port = listen.port()
            )));
        }
        match self.is_safe_for_network() {
            true => Ok(()),
            false => Err(Failure::new(format!("{flag} {listen} {}", Self::UNSAFE))),
        }
    }

    /// The scheme of our own ports.
    pub(crate) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// The present certificate, if the ports speak TLS.
    pub(crate) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(Tls::config)
    }

    /// When the certificate expires, if the ports speak TLS.
    pub(crate) fn certificate_expires_at(&self) -> Option<Timestamp> {
        self.tls.as_ref().and_then(Tls::expires_at)
    }

    /// Reads the certificate again whenever its files change. Never returns.
    pub(crate) async fn watch(&self, clock: &dyn Clock) {
        match &self.tls {
            Some(tls) => tls.watch(clock).await,
            None => std::future::pending().await,
        }
    }

    /// Whether a `Host` header names this server: this machine, or the host of the public URL.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        is_own_name(host) || self.public_url.as_ref().is_some_and(|it| it.has_host(host))
    }

    /// The URL of the S3 API for clients, if it listens at this address.
    pub(crate) fn s3_url(&self, address: SocketAddr) -> String {
        let of_port = || format!("{}://{address}", self.scheme());
        self.s3_public_url.as_ref().map_or_else(of_port, |it| it.origin().to_owned())
    }

    /// Whether the address is one of a trusted proxy.
    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|it| it.contains(address))
    }

    /// Whether credentials of this peer would travel through a network unprotected. A peer with the
    /// address of our end of the connection is this machine.
    pub(crate) fn is_in_the_clear(&self, peer: IpAddr, local: Option<IpAddr>) -> bool {
        let is_this_machine = peer.is_loopback() || local == Some(peer);
        self.tls.is_none() && !is_this_machine && !self.is_proxy(peer)
    }

    /// Whether the peer may have any number of connections.
    pub(crate) fn is_exempt(&self, peer: IpAddr) -> bool {
        self.is_proxy(peer) || (!self.is_closed() && peer.is_loopback())
    }

    /// Counts a refused connection.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of connections that were refused because their peer had too many.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The client of a request that came from this peer.
    pub(crate) fn client_info(&self, peer: IpAddr, uri: &Uri, headers: &HeaderMap) -> ClientInfo {
        let direct = ClientInfo::direct(peer, self.scheme(), uri, headers);
        if self.is_proxy(peer) { direct.forwarded(headers, |it| self.is_proxy(it)) } else { direct }
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests;
