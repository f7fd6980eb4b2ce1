//! What the handlers of one process share.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use steadfast::{App, Buckets, Runtime};
use steadfast_store::Store;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    budget::Budget, catalog, classifier::Sight, drift::Drift, failure::Failure, generations,
    metrics::Metrics, place::Place, request_id::RequestIds,
};

/// Who watches runs at one time; half of the connections are left for others.
const WATCHERS_MAX: usize = 512;

/// One process and the program that it serves.
pub(crate) struct Node {
    /// The program.
    pub(crate) runtime: Runtime,
    /// Its buckets.
    pub(crate) buckets: Buckets,
    /// Where the S3 port is, if there is one.
    pub(crate) s3_address: OnceLock<SocketAddr>,
    /// Where it is.
    pub(crate) place: Place,
    /// What is counted here.
    pub(crate) metrics: Metrics,
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
    draining: AtomicBool,
}

impl Node {
    /// The program of this server, whose applications have nobody to ask but this one.
    pub(crate) fn small(drift: Drift) -> Result<App, Failure> {
        Ok(catalog::app(Sight::none()?, generations::small()?, drift))
    }

    /// A node that serves this program on a store; it delivers nothing yet.
    pub(crate) async fn prepare(
        mut app: App,
        store: Arc<dyn Store>,
        place: Place,
    ) -> Result<Arc<Self>, Failure> {
        crate::app::claim_routes(&mut app);
        let runtime = app.prepare(store).await?;
        let buckets = runtime.buckets();
        let buckets = buckets.ok_or_else(|| Failure::new("the program has no buckets"))?;
        Ok(Arc::new(Self {
            runtime,
            buckets,
            s3_address: OnceLock::new(),
            place,
            metrics: Metrics::new(),
            request_ids: RequestIds::new(),
            budget: Budget::default(),
            openapi: OnceLock::new(),
            examination: Mutex::new(()),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            stopping: CancellationToken::new(),
            draining: AtomicBool::new(false),
        }))
    }

    /// Says that no more requests should come.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.runtime.drain();
        self.stopping.cancel();
    }

    /// Whether the node is on its way out.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
