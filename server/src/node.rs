//! What the handlers of one process share.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use steadfast_store::Store;
use tokio::sync::Mutex;

use crate::{metrics::Metrics, place::Place, request_id::RequestIds};

/// One process and the store it serves.
pub(crate) struct Node {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// Where it is.
    pub(crate) place: Place,
    /// What is counted here.
    pub(crate) metrics: Metrics,
    /// Names of requests.
    pub(crate) request_ids: RequestIds,
    /// The API's description, written when the routes are known.
    pub(crate) openapi: OnceLock<String>,
    /// One examination at a time: it writes to the disk and scans tables.
    pub(crate) examination: Mutex<()>,
    draining: AtomicBool,
}

impl Node {
    /// A node that takes requests.
    pub(crate) fn new(store: Arc<dyn Store>, place: Place) -> Arc<Self> {
        Arc::new(Self {
            store,
            place,
            metrics: Metrics::new(),
            request_ids: RequestIds::new(),
            openapi: OnceLock::new(),
            examination: Mutex::new(()),
            draining: AtomicBool::new(false),
        })
    }

    /// Says that no more requests should come.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the node is on its way out.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
