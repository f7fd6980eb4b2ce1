//! State that the handlers of one process share.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use steadfast_api::Code;
use steadfast_core::{App, Buckets, Runtime, Unserved, object};
use steadfast_store::Store;
use steadfast_web::Problem;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{
        admin::{self, AdminError, AdminToken},
        key_uses::KeyUses,
        rate::{Rates, RefusedCredentials},
    },
    budget::{ANONYMOUS_BYTES_MAX, Budget},
    facts::RequestIds,
    failure::Failure,
    history::History,
    listener::{self, network_of},
    location::Location,
    metrics::Metrics,
    transport::{ClientInfo, Transport},
    waiting::{WaitPlace, WaitPlaces, Waiter},
};

/// Policy for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Accepts requests for a name of this machine (`localhost`, `127.0.0.1`, `[::1]`), and no
    /// writes from a page of another origin. From the first token on, requests need a credential
    /// with the role of their route. `serve` uses it.
    Loopback,
    /// Accepts all requests. The host program checks callers and origins first. It may set the
    /// caller: turns see `steadfast::object::Caller` in the extensions of a request as
    /// `turn.caller()`.
    HostDecides,
}

/// The OpenAPI document of a program, written when somebody asks for it.
pub(crate) type Openapi = LazyLock<String, Box<dyn FnOnce() -> String + Send>>;

/// One process and the program that it serves.
pub(crate) struct Server {
    /// The program.
    pub(crate) runtime: Runtime,
    buckets: Option<Buckets>,
    /// The policy for requests.
    pub(crate) policy: Policy,
    /// The address that it listens on, if any.
    pub(crate) address: Option<SocketAddr>,
    /// The address of the S3 port, if any.
    pub(crate) s3_address: Option<SocketAddr>,
    /// The data folder, if the server writes its admin token there.
    pub(crate) data: Option<PathBuf>,
    /// TLS, proxies and limits of connections, if it listens.
    pub(crate) transport: Arc<Transport>,
    /// The rates of tokens.
    pub(crate) rates: Rates,
    /// The last uses of access keys.
    pub(crate) key_uses: KeyUses,
    /// Requests with a wrong credential, on all ports.
    pub(crate) refused: RefusedCredentials,
    /// The location of the store.
    pub(crate) location: Location,
    /// Counters of this process.
    pub(crate) metrics: Metrics,
    /// Metrics of the last hour.
    pub(crate) history: History,
    /// Makes request ids.
    pub(crate) request_ids: RequestIds,
    /// The memory for request bodies.
    pub(crate) budget: Budget,
    /// The memory for bodies of requests without a credential, while access is closed.
    pub(crate) anonymous_budget: Budget,
    /// The description of the API, set when the routes are known.
    pub(crate) openapi: OnceLock<Openapi>,
    /// Allows one examination at a time: it writes to the disk and scans tables.
    pub(crate) examination: Mutex<()>,
    /// Places of requests that wait by design; a quarter of the connections is left for others.
    waiting: Arc<WaitPlaces>,
    /// Ends long-lived connections.
    pub(crate) stopping: CancellationToken,
    /// One change of the admin token at a time.
    renewal: Mutex<()>,
    /// Whether the store is read-only.
    pub(crate) is_read_only: bool,
    /// Files of secret settings that other users may read.
    pub(crate) open_secrets: Vec<String>,
    /// Stored work that the program does not serve, at the start.
    pub(crate) unserved: OnceLock<Vec<Unserved>>,
    draining: AtomicBool,
}

impl Server {
    /// Prepares a server for a program that has claimed the server's routes. It delivers nothing
    /// yet.
    pub(crate) async fn prepare(
        app: App,
        store: Arc<dyn Store>,
        location: Location,
        policy: Policy,
    ) -> Result<Self, Failure> {
        let runtime = app.prepare(store).await?;
        Ok(Self::new(runtime, location, policy))
    }

    /// A server that serves this program.
    pub(crate) fn new(runtime: Runtime, location: Location, policy: Policy) -> Self {
        Self {
            buckets: runtime.buckets(),
            policy,
            runtime,
            address: None,
            s3_address: None,
            data: None,
            rates: Rates::per_second(0),
            key_uses: KeyUses::default(),
            refused: RefusedCredentials::default(),
            transport: Arc::default(),
            location,
            metrics: Metrics::new(),
            history: History::default(),
            request_ids: RequestIds::new(),
            budget: Budget::default(),
            anonymous_budget: Budget::of(ANONYMOUS_BYTES_MAX),
            openapi: OnceLock::new(),
            examination: Mutex::new(()),
            waiting: WaitPlaces::new(listener::places() / 4 * 3),
            stopping: CancellationToken::new(),
            renewal: Mutex::new(()),
            is_read_only: false,
            open_secrets: Vec::new(),
            unserved: OnceLock::new(),
            draining: AtomicBool::new(false),
        }
    }

    /// A place for a request that waits by design.
    pub(crate) fn wait_place(
        &self,
        caller: &object::Caller,
        client: Option<&ClientInfo>,
    ) -> Result<WaitPlace, Problem> {
        let token = caller.principal().map(|it| Waiter::Token(it.token.clone()));
        // Requests from a proxy itself have no other address.
        let address = client.map(|it| network_of(it.address));
        let address = address.filter(|it| self.transport.is_closed() || !it.is_loopback());
        let waiters = token.into_iter().chain(address.map(Waiter::Address)).collect();
        self.waiting.take(waiters).ok_or_else(|| {
            let detail = "too many requests wait, in all or of this token or address; try again, \
                or ask without waiting";
            Problem::of(Code::Busy, detail)
        })
    }

    /// The URL for clients: the public one, or that of the port.
    pub(crate) fn url(&self) -> Option<String> {
        let of_port = |it: &SocketAddr| format!("{}://{it}", self.transport.scheme());
        let public = self.transport.public_url.as_ref().map(|it| it.origin().to_owned());
        public.or_else(|| self.address.as_ref().map(of_port))
    }

    /// The buckets of the program.
    pub(crate) fn buckets(&self) -> Result<&Buckets, Problem> {
        self.buckets.as_ref().ok_or_else(|| {
            let code = Code::BucketNotFound;
            Problem::of(code, "this program has no buckets")
        })
    }

    /// Reports that no more requests should arrive.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.runtime.drain();
        self.stopping.cancel();
    }

    /// Whether requests need no credential.
    pub(crate) fn is_open(&self) -> bool {
        self.policy == Policy::Loopback && !self.transport.is_closed()
    }

    /// Applies closed access: proxies are believed, and the data folder, if there is one, has a
    /// valid admin token that lasts for weeks.
    pub(crate) async fn close_access(&self) -> Result<Option<AdminToken>, AdminError> {
        self.transport.close();
        let _one_at_a_time = self.renewal.lock().await;
        match &self.data {
            Some(data) => admin::ensure(&self.runtime, data).await.map(Some),
            None => Ok(None),
        }
    }

    /// Whether the server is shutting down.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
