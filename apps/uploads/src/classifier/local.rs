//! A network in this process, loaded when the first image needs it.

use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_images::{ImageLimits, Pool};

use super::{ClassifyError, Label, network::Network};

/// A source of a network: the installed model, or a file.
pub(super) trait Load: Send + Sync + 'static {
    /// Reads the network. It keeps a thread busy for a second or so.
    fn load(&self) -> Result<Network, ClassifyError>;
}

/// A network and the threads that run it. Clones share both.
pub(super) struct Local<L> {
    pub(super) source: Arc<L>,
    shared: Arc<Shared>,
}

struct Shared {
    limits: ImageLimits,
    pool: Pool,
    /// Locked while the network is loaded, so that it is loaded once.
    network: Mutex<Option<Arc<Network>>>,
}

impl<L> Clone for Local<L> {
    fn clone(&self) -> Self {
        Self { source: Arc::clone(&self.source), shared: Arc::clone(&self.shared) }
    }
}

impl<L: Load> Local<L> {
    pub(super) fn new(source: L, limits: ImageLimits, pool: Pool) -> Self {
        let shared = Shared { limits, pool, network: Mutex::default() };
        Self { source: Arc::new(source), shared: Arc::new(shared) }
    }

    /// The network; loads it on this thread if no image needed it yet.
    pub(super) fn network(&self) -> Result<Arc<Network>, ClassifyError> {
        let mut network = self.shared.network.lock();
        if let Some(network) = &*network {
            return Ok(Arc::clone(network));
        }
        Ok(Arc::clone(network.insert(Arc::new(self.source.load()?))))
    }

    pub(super) async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        self.run(|it| {
            let image = image.to_vec();
            move || it.network()?.classify(&image, &it.shared.limits)
        })
        .await
    }

    pub(super) async fn ready(&self) -> Result<(), ClassifyError> {
        self.run(|it| move || it.network().map(drop)).await
    }

    async fn run<T, W>(&self, work: impl FnOnce(Self) -> W) -> Result<T, ClassifyError>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, ClassifyError> + Send + 'static,
    {
        let done = self.shared.pool.run(|| work(self.clone())).await;
        done.unwrap_or_else(|error| Err(ClassifyError::Unavailable { message: error.to_string() }))
    }
}
