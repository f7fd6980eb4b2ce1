//! State that the handlers of one process share.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use steadfast_api::Code;
use steadfast_core::{App, Buckets, Runtime, Unserved};
use steadfast_store::Store;
use steadfast_web::Problem;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    budget::Budget, failure::Failure, history::History, metrics::Metrics, place::Place,
    request_id::RequestIds,
};

/// Who watches runs at one time; half of the connections are left for others.
const WATCHERS_MAX: usize = 512;

/// Which requests the routes answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Those for a name of this machine (`localhost`, `127.0.0.1`, `[::1]`), and no writes from a
    /// page of another origin: what `serve` does.
    Loopback,
    /// All that come. The host program checks callers and origins before it lets them through. It
    /// may say who calls: `steadfast::object::Caller` in the extensions of a request is what turns
    /// learn from `turn.caller()`.
    HostDecides,
}

/// One process and the program that it serves.
pub(crate) struct Server {
    /// The program.
    pub(crate) runtime: Runtime,
    buckets: Option<Buckets>,
    /// Which requests are answered.
    pub(crate) policy: Policy,
    /// The address that it listens on, if it does.
    pub(crate) address: OnceLock<SocketAddr>,
    /// Where the S3 port is, if there is one.
    pub(crate) s3_address: OnceLock<SocketAddr>,
    /// Where it is.
    pub(crate) place: Place,
    /// Counters of this process.
    pub(crate) metrics: Metrics,
    /// Figures of the last hour.
    pub(crate) history: History,
    /// Names of requests.
    pub(crate) request_ids: RequestIds,
    /// The memory for bodies of requests.
    pub(crate) budget: Budget,
    /// The API's description, written when the routes are known.
    pub(crate) openapi: OnceLock<String>,
    /// One examination at a time: it writes to the disk and scans tables.
    pub(crate) examination: Mutex<()>,
    /// Places for those who watch runs: each takes one of the connections that are served.
    pub(crate) watchers: Arc<Semaphore>,
    /// Ends those who would stay on the line.
    pub(crate) stopping: CancellationToken,
    /// Set if the store is only looked at.
    pub(crate) is_read_only: OnceLock<()>,
    /// Stored work that the program does not serve, as it was at the start.
    pub(crate) unserved: OnceLock<Vec<Unserved>>,
    draining: AtomicBool,
}

impl Server {
    /// A server that serves this program, which has claimed the server's routes, on a store; it
    /// delivers nothing yet.
    pub(crate) async fn prepare(
        app: App,
        store: Arc<dyn Store>,
        place: Place,
    ) -> Result<Arc<Self>, Failure> {
        let runtime = app.prepare(store).await?;
        Ok(Arc::new(Self::new(runtime, place, Policy::Loopback)))
    }

    /// A server that serves this program.
    pub(crate) fn new(runtime: Runtime, place: Place, policy: Policy) -> Self {
        Self {
            buckets: runtime.buckets(),
            policy,
            runtime,
            address: OnceLock::new(),
            s3_address: OnceLock::new(),
            place,
            metrics: Metrics::new(),
            history: History::default(),
            request_ids: RequestIds::new(),
            budget: Budget::default(),
            openapi: OnceLock::new(),
            examination: Mutex::new(()),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            stopping: CancellationToken::new(),
            is_read_only: OnceLock::new(),
            unserved: OnceLock::new(),
            draining: AtomicBool::new(false),
        }
    }

    /// The buckets of the program.
    pub(crate) fn buckets(&self) -> Result<&Buckets, Problem> {
        self.buckets.as_ref().ok_or_else(|| {
            let code = Code::BucketNotFound;
            Problem::of(code, "this program has no buckets")
        })
    }

    /// Says that no more requests should come.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.runtime.drain();
        self.stopping.cancel();
    }

    /// Whether the server is on its way out.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
