//! The classifier that the settings choose.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use steadfast_core::{
    Error, Result,
    store::{Clock, SystemClock, Timestamp, backoff},
};
use steadfast_images::{ImageLimits, Pool};
use steadfast_resnet::default_models_folder;

use super::{
    Classifier, ClassifyError, Embedded, Label, ModelState, Onnx, OnnxOptions, Recipe, WorkersAi,
    WorkersAiOptions,
};
use crate::{
    Parts,
    settings::{ClassifierChoice, PullChoice, Settings},
};

/// How long an upload waits at first for a classifier that is not there yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// A notice about the classifier, if there is one.
type Notice = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Whether a classifier can be used.
type Check = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// The parts that the settings choose, and a check before the application works. A program that
/// only answers questions needs no classifier.
pub(crate) fn parts(settings: &Settings) -> Result<(Parts, Check)> {
    let limits = ImageLimits {
        bytes_max: settings.uploads_image_bytes.to_usize(),
        pixels_max: settings.uploads_image_pixels.get().into(),
        frames_max: settings.uploads_image_frames.get(),
        ..ImageLimits::default()
    };
    let nothing: Notice = Arc::new(|| None);
    let mut check: Check = Box::new(|| Ok(()));
    let chosen: Result<(Arc<dyn Classifier>, Notice)> = match settings.uploads_classifier {
        ClassifierChoice::Embedded => embedded(settings, &limits),
        ClassifierChoice::WorkersAi => {
            workers_ai(settings, &limits).map(|it| (Arc::new(it) as _, nothing.clone()))
        }
        ClassifierChoice::Onnx => onnx(settings, &limits).map(|it| {
            let (classifier, file) = (Arc::new(it), "--uploads-classifier onnx");
            let checked = classifier.clone();
            check = Box::new(move || {
                checked.check().map_err(|error| Error::terminal(format!("{file}: {error}")))
            });
            (classifier as _, nothing.clone())
        }),
    };
    let (classifier, notice) = chosen.unwrap_or_else(|error| {
        check = Box::new(move || Err(error.clone()));
        (Arc::new(Unusable) as _, nothing)
    });
    let pool = pool("images")?;
    Ok((Parts { classifier, patience: PATIENCE, limits, pool, notice }, check))
}

/// Where models are, unless the command line says otherwise.
pub(crate) fn models_folder(given: Option<&PathBuf>) -> Option<PathBuf> {
    given.cloned().or_else(|| default_models_folder(variable))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Where a server has its models: a user without a home has them in the data folder.
fn models_of(settings: &Settings, variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    let shared = || default_models_folder(variable);
    let own = || settings.data.join("models");
    settings.uploads_models.clone().or_else(shared).unwrap_or_else(own)
}

fn embedded(args: &Settings, limits: &ImageLimits) -> Result<(Arc<dyn Classifier>, Notice)> {
    let models = models_of(args, variable);
    let embedded = Embedded::new(&models, limits.clone(), pool("classify")?);
    let pulls = args.uploads_models_pull == PullChoice::Auto;
    let told = embedded.clone();
    let notice: Notice = Arc::new(move || match told.progress() {
        ModelState::Ready => None,
        ModelState::Missing if pulls => {
            Some("The model resnet-50 is fetched when the first image comes.".into())
        }
        ModelState::Missing => Some(MISSING.into()),
        ModelState::Pulling { progress } => Some(format!(
            "The model resnet-50 is being fetched: {} %. Images wait for it.",
            progress.percent
        )),
        ModelState::Failed { message, .. } => {
            Some(format!("The model resnet-50 was not fetched: {message} {MISSING}"))
        }
    });
    let fetched = embedded.clone();
    let begin = move || fetched.begin_pull();
    let pulls = pulls.then(|| Pulls::new(Arc::new(SystemClock), begin));
    Ok((Arc::new(Fetching { embedded, pulls }), notice))
}

const MISSING: &str = "Images wait for it. Fetch it with `steadfast models pull resnet-50`, or on \
                       a machine without network with `--from FILE`.";

/// How long a failed download waits at first before it is tried again; then twice as long each
/// time.
const PULL_AGAIN: Duration = Duration::from_secs(10);
const PULL_AGAIN_MAX: Duration = Duration::from_mins(10);

/// The embedded model, which the first image that needs it has fetched.
struct Fetching {
    embedded: Embedded,
    /// Set if it may be fetched.
    pulls: Option<Pulls>,
}

/// When the model is fetched.
struct Pulls {
    clock: Arc<dyn Clock>,
    /// Begins a download.
    begin: Box<dyn Fn() + Send + Sync>,
    /// Downloads that were begun, and when the next may begin.
    tried: Mutex<(u32, Timestamp)>,
}

impl Pulls {
    fn new(clock: Arc<dyn Clock>, begin: impl Fn() + Send + Sync + 'static) -> Self {
        Self { clock, begin: Box::new(begin), tried: Mutex::new((0, Timestamp(0))) }
    }

    /// Begins a download if the model is missing and the wait after the last failure is over.
    fn begin_if_due(&self, model: &ModelState) {
        if matches!(model, ModelState::Ready | ModelState::Pulling { .. }) {
            return;
        }
        let mut tried = self.tried.lock();
        let now = self.clock.now();
        if tried.1 <= now {
            tried.0 += 1;
            tried.1 = now.after(backoff(PULL_AGAIN, tried.0, PULL_AGAIN_MAX));
            (self.begin)();
        }
    }
}

impl Fetching {
    fn pull_if_missing<T>(&self, answer: &Result<T, ClassifyError>) {
        if let (Err(ClassifyError::NotReady { .. }), Some(pulls)) = (answer, &self.pulls) {
            pulls.begin_if_due(&self.embedded.progress());
        }
    }
}

#[async_trait]
impl Classifier for Fetching {
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        let answer = self.embedded.classify(image).await;
        self.pull_if_missing(&answer);
        answer
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        let answer = self.embedded.ready().await;
        self.pull_if_missing(&answer);
        answer
    }

    fn name(&self) -> String {
        self.embedded.name()
    }
}

fn workers_ai(args: &Settings, limits: &ImageLimits) -> Result<WorkersAi> {
    let (account, token) = (&args.uploads_workers_ai_account, &args.uploads_workers_ai_token);
    let (Some(account), Some(token)) = (account, token) else {
        return Err(Error::terminal(
            "--uploads-classifier workers-ai needs --uploads-workers-ai-account and \
             STEADFAST_UPLOADS_WORKERS_AI_TOKEN",
        ));
    };
    let mut options = WorkersAiOptions::new(account, token.expose());
    if let Some(model) = &args.uploads_workers_ai_model {
        options.model.clone_from(model);
    }
    if let Some(url) = &args.uploads_workers_ai_url {
        options.base_url.clone_from(url);
    }
    WorkersAi::new(options, limits.clone()).map_err(Error::terminal)
}

fn onnx(args: &Settings, limits: &ImageLimits) -> Result<Onnx> {
    let (Some(file), Some(labels)) = (&args.uploads_onnx_file, &args.uploads_onnx_labels) else {
        return Err(Error::terminal(
            "--uploads-classifier onnx needs --uploads-onnx-file and --uploads-onnx-labels",
        ));
    };
    let edge = args.uploads_onnx_size.get();
    let recipe = Recipe {
        short_side: edge + edge / 7,
        edge,
        scale: 1.0 / 255.0,
        mean: three("--uploads-onnx-mean", &args.uploads_onnx_mean)?,
        std: three("--uploads-onnx-std", &args.uploads_onnx_std)?,
    };
    let options = OnnxOptions { file: file.clone(), labels: labels.clone(), recipe };
    let onnx = Onnx::new(options, limits.clone(), pool("classify")?);
    Ok(onnx)
}

fn three(flag: &str, numbers: &[f32]) -> Result<[f32; 3]> {
    numbers.try_into().map_err(|_| {
        Error::terminal(format!(
            "{flag} needs three numbers: red, green, blue, separated by commas"
        ))
    })
}

fn pool(name: &str) -> Result<Pool> {
    Pool::for_this_machine(name).map_err(Error::terminal)
}

/// Stands for a classifier that could not be made.
struct Unusable;

#[async_trait]
impl Classifier for Unusable {
    async fn classify(&self, _: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        self.ready().await.map(|()| Vec::new())
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        Err(ClassifyError::NotReady { message: "the classifier could not be made".into() })
    }

    fn name(&self) -> String {
        "none".into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use clap::{Arg, Args, Command, FromArgMatches};
    use steadfast_core::store::ManualClock;
    use steadfast_resnet::{Progress, Stage};

    use super::*;

    #[test]
    fn a_server_without_a_home_has_its_models_in_its_data_folder() {
        let data = Arg::new("data").long("data").value_parser(clap::value_parser!(PathBuf));
        let read = |line: &[&str]| {
            let command = Settings::augment_args(Command::new("serve")).arg(data.clone());
            let matches = command.get_matches_from([&["serve"], line].concat());
            Settings::from_arg_matches(&matches).unwrap()
        };
        let settings = read(&["--data", "/srv/shop"]);
        assert_eq!(models_of(&settings, |_| None), PathBuf::from("/srv/shop/models"));
        let home = |it: &str| (it == "HOME").then(|| "/home/ada".to_owned());
        assert!(models_of(&settings, home).starts_with("/home/ada"));
        let settings = read(&["--data", "/srv/shop", "--uploads-models", "/m"]);
        assert_eq!(models_of(&settings, |_| None), PathBuf::from("/m"));
    }

    fn clock() -> ManualClock {
        ManualClock::at(Timestamp(1_700_000_000_000))
    }

    /// Counts the downloads that are begun.
    fn counted(clock: &ManualClock) -> (Pulls, Arc<AtomicU64>) {
        let begun = Arc::<AtomicU64>::default();
        let count = begun.clone();
        let begin = move || _ = count.fetch_add(1, Ordering::SeqCst);
        (Pulls::new(Arc::new(clock.clone()), begin), begun)
    }

    #[test]
    fn a_failed_download_is_tried_again_with_growing_waits() {
        let clock = clock();
        let (pulls, begun) = counted(&clock);
        let begins = |model: &ModelState| {
            pulls.begin_if_due(model);
            begun.swap(0, Ordering::SeqCst) == 1
        };
        let failed = ModelState::Failed { code: "npm_missing", message: "as the test says".into() };
        assert!(begins(&ModelState::Missing));
        let progress = Progress { stage: Stage::Fetching, percent: 3 };
        assert!(!begins(&ModelState::Pulling { progress }));
        for wait in [10, 20, 40, 80, 160, 320, 600, 600] {
            assert!(!begins(&failed), "not before {wait} s");
            clock.advance(Duration::from_secs(wait) - Duration::from_millis(1));
            assert!(!begins(&failed), "not before {wait} s");
            clock.advance(Duration::from_millis(1));
            assert!(!begins(&ModelState::Ready));
            assert!(begins(&failed), "after {wait} s");
        }
    }

    /// Runs that wait for the model ask for it, and images are shown to it: both have it fetched,
    /// and the number of downloads depends on the time alone.
    #[tokio::test]
    async fn a_missing_model_is_fetched_again_for_as_long_as_somebody_asks_for_it() {
        let models = tempfile::tempdir().unwrap();
        let pool = pool("classify").unwrap_or_else(|_| panic!("threads"));
        let embedded = Embedded::new(models.path(), ImageLimits::default(), pool);
        let clock = clock();
        let (pulls, begun) = counted(&clock);
        let model = Fetching { embedded: embedded.clone(), pulls: Some(pulls) };
        let mut tries = Vec::new();
        for second in 0..1_900 {
            for asks in 0..3 {
                let answer = match asks {
                    0 => model.classify(b"image").await.map(drop),
                    _ => model.ready().await,
                };
                assert_eq!(answer.unwrap_err().code(), "model_not_ready");
            }
            let now = begun.swap(0, Ordering::SeqCst);
            tries.extend((0..now).map(|_| second));
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(tries, [0, 10, 30, 70, 150, 310, 630, 1_230, 1_830]);
        let never = Fetching { embedded, pulls: None };
        assert_eq!(never.ready().await.unwrap_err().code(), "model_not_ready");
        assert_eq!(begun.load(Ordering::SeqCst), 0, "nothing is fetched that must not be");
    }
}
