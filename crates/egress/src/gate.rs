//! The way out: check, resolve, check again, connect to just that.

use std::{collections::BTreeSet, io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{net::TcpStream, time::timeout};
use url::Url;

use crate::{EgressError, Policy, Target};

/// How many addresses of one name are looked at.
const ADDRESSES_MAX: usize = 32;

/// How long one address may take, so that a dead one leaves time for the next.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Finds the addresses of a name.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// All addresses, with the port in each.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// Opens connections.
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// A connection to exactly this address.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// The system's resolver: it knows `/etc/hosts` too.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.take(ADDRESSES_MAX + 1).collect())
    }
}

/// Plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

#[async_trait]
impl Connect for TcpConnector {
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        // Best effort: without it small requests are merely slower.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// A target with the addresses it may be reached at. Only [`Gate::resolve`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    target: Target,
    addresses: Vec<SocketAddr>,
}

impl Pinned {
    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Where: at least one address, each of them checked, in the resolver's order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// A policy with the means to act on it. Clones share them.
#[derive(Clone)]
pub struct Gate {
    policy: Arc<Policy>,
    resolver: Arc<dyn Resolve>,
    connector: Arc<dyn Connect>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate over the system's resolver and plain TCP.
    pub fn new(policy: Policy) -> Self {
        Self::with(policy, Arc::new(SystemResolver), Arc::new(TcpConnector))
    }

    /// A gate over other means.
    pub fn with(policy: Policy, resolver: Arc<dyn Resolve>, connector: Arc<dyn Connect>) -> Self {
        Self { policy: Arc::new(policy), resolver, connector }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Understands a URL and checks what can be told without resolving its name.
    pub fn check(&self, text: &str) -> Result<Target, EgressError> {
        self.policy.check(text)
    }

    /// The same for a URL that is parsed already: the target of a redirect.
    pub fn check_url(&self, url: Url) -> Result<Target, EgressError> {
        self.policy.check_url(url)
    }

    /// Resolves a target and checks every address. One that may not be reached refuses them all: a
    /// name of the public network has no private address.
    pub async fn resolve(&self, target: &Target) -> Result<Pinned, EgressError> {
        let host = target.host();
        let dns = |reason: &str| EgressError::Dns { host: host.clone(), reason: reason.to_owned() };
        let found = match target.literal() {
            Some(address) => vec![SocketAddr::new(address, target.port())],
            None => {
                let found = self.resolver.resolve(&host, target.port()).await;
                found.map_err(|error| dns(&error.to_string()))?
            }
        };
        if found.len() > ADDRESSES_MAX {
            return Err(dns(&format!("it has more than {ADDRESSES_MAX} addresses")));
        }
        let mut seen = BTreeSet::new();
        let mut addresses = Vec::with_capacity(found.len());
        for address in found {
            // The port is ours, whatever a resolver makes of it.
            let address = SocketAddr::new(address.ip(), target.port());
            self.policy.check_address(target, address)?;
            if seen.insert(address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(dns("it has no address"));
        }
        Ok(Pinned { target: target.clone(), addresses })
    }

    /// Connects to the first checked address that answers, and to no other.
    pub async fn connect(&self, pinned: &Pinned) -> io::Result<(TcpStream, SocketAddr)> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in pinned.addresses() {
            match timeout(CONNECT_TIMEOUT, self.connector.connect(*address)).await {
                Ok(Ok(stream)) => return Ok((stream, *address)),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }
}
