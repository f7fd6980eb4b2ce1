//! ResNet-50 in this process, with weights that are fetched once.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Serialize;
use steadfast_images::{ImageLimits, Pool};
use steadfast_resnet::{NAME, Progress, PullError, Stage, is_there, pull, read};

use super::{
    Classifier, ClassifyError, Label,
    local::{Load, Local},
    network::Network,
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
        /// A description for people, with the next step.
        message: String,
    },
    /// It is there.
    Ready,
}

/// ResNet-50, embedded. Clones share it.
#[derive(Clone)]
pub struct Embedded {
    local: Local<Model>,
}

/// The model in its folder, and the download of it.
struct Model {
    folder: PathBuf,
    pulling: Mutex<Pulling>,
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
        let model = Model { folder: models.to_owned(), pulling: Mutex::default() };
        Self { local: Local::new(model, limits, pool) }
    }

    /// Whether the model is there. Looks into the folder: another process may have fetched it.
    pub fn progress(&self) -> ModelState {
        let Model { folder, pulling } = &*self.local.source;
        match &*pulling.lock() {
            Pulling::Now(progress) => ModelState::Pulling { progress: *progress },
            Pulling::No | Pulling::Failed(_) if is_there(folder) => ModelState::Ready,
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
        let model = &self.local.source;
        let mut pulling = model.pulling.lock();
        if matches!(*pulling, Pulling::Now(_)) || is_there(&model.folder) {
            return;
        }
        let (weak, models) = (Arc::downgrade(model), model.folder.clone());
        let work = move || {
            let told = |progress| {
                if let Some(model) = weak.upgrade() {
                    *model.pulling.lock() = Pulling::Now(progress);
                }
            };
            let end = End { model: weak.clone(), result: None };
            end.is(pull(&models, &told));
        };
        let started = std::thread::Builder::new().name("model-pull".into()).spawn(work);
        *pulling = match started {
            Ok(_) => Pulling::Now(Progress { stage: Stage::Fetching, percent: 0 }),
            Err(error) => Pulling::Failed(PullError::folder(&model.folder, &error)),
        };
    }
}

/// Says how a pull has ended, also when it ended in a panic.
struct End {
    model: std::sync::Weak<Model>,
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
        if let Some(model) = self.model.upgrade() {
            *model.pulling.lock() = match result {
                Ok(()) => Pulling::No,
                Err(error) => Pulling::Failed(error),
            };
        }
    }
}

impl Load for Model {
    fn load(&self) -> Result<Network, ClassifyError> {
        let loaded = read(&self.folder)
            .and_then(|it| it.map(|it| Network::load(it.network, RECIPE, it.labels)).transpose());
        let loaded = loaded.map_err(|reason| {
            let message = format!(
                "model {NAME} cannot be read: {reason}; make it again with `steadfast models pull \
                 {NAME}`"
            );
            ClassifyError::NotReady { message }
        });
        loaded?.ok_or_else(|| self.not_ready())
    }
}

impl Model {
    fn not_ready(&self) -> ClassifyError {
        let message = match &*self.pulling.lock() {
            Pulling::Now(progress) => {
                format!("model {NAME} is being fetched, {} % are done", progress.percent)
            }
            Pulling::Failed(error) => format!("model {NAME} could not be fetched: {error}"),
            Pulling::No => {
                format!("model {NAME} is not there; fetch it with `steadfast models pull {NAME}`")
            }
        };
        ClassifyError::NotReady { message }
    }
}

#[async_trait]
impl Classifier for Embedded {
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        self.local.classify(image).await
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        self.local.ready().await
    }

    fn name(&self) -> String {
        format!("{NAME} (embedded)")
    }
}

#[cfg(test)]
mod tests;
