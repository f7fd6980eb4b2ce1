//! Who says what is on an image: chosen on the command line.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use steadfast_ai::classify::{
    Classifier, ClassifyError, Embedded, ImageLimits, Label, ModelState, Onnx, OnnxOptions, Pool,
    Recipe, WorkersAi, WorkersAiOptions, default_models_folder,
};

use crate::{
    args::{ClassifierArgs, ClassifierChoice, PullChoice},
    failure::Failure,
};

/// Requests to another service that are under way at a time; they mostly wait.
const REQUESTS: usize = 8;

/// What there is to say about the classifier, if there is something.
pub(crate) type Notice = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A classifier, and what there is to say about it.
#[derive(Clone)]
pub(crate) struct Sight {
    pub(crate) classifier: Arc<dyn Classifier>,
    pub(crate) notice: Notice,
    /// What an image may be.
    pub(crate) limits: ImageLimits,
    /// Who looks at images before they are stored. Those that are classified do not stand in its
    /// way.
    pub(crate) pool: Pool,
}

impl Sight {
    /// None: where only questions are asked, nothing is classified.
    pub(crate) fn none() -> Result<Self, Failure> {
        let (classifier, limits) = (Arc::new(Blind), ImageLimits::default());
        Ok(Self { classifier, notice: Arc::new(|| None), limits, pool: pool("images")? })
    }

    /// The one that the command line chose. Without a home for models they are in the data folder.
    pub(crate) fn of(args: &ClassifierArgs, data: &Path) -> Result<Self, Failure> {
        let limits = ImageLimits {
            bytes_max: usize::try_from(args.image_bytes).unwrap_or(usize::MAX),
            pixels_max: args.image_pixels,
            frames_max: args.image_frames,
            ..ImageLimits::default()
        };
        let nothing: Notice = Arc::new(|| None);
        let (classifier, notice): (Arc<dyn Classifier>, Notice) = match args.classifier {
            ClassifierChoice::Embedded => embedded(args, &limits, data)?,
            ClassifierChoice::WorkersAi => (Arc::new(workers_ai(args, &limits)?), nothing),
            ClassifierChoice::Onnx => (Arc::new(onnx(args, &limits)?), nothing),
        };
        Ok(Self { classifier, notice, limits, pool: pool("images")? })
    }
}

/// Where models are, unless the command line says otherwise.
pub(crate) fn models_folder(given: Option<&PathBuf>) -> Option<PathBuf> {
    given.cloned().or_else(|| default_models_folder(|it| std::env::var(it).ok()))
}

fn embedded(
    args: &ClassifierArgs,
    limits: &ImageLimits,
    data: &Path,
) -> Result<(Arc<dyn Classifier>, Notice), Failure> {
    let models = models_folder(args.models.as_ref()).unwrap_or_else(|| data.join("models"));
    let embedded = Embedded::new(&models, limits.clone(), pool("classify")?);
    let pulls = args.models_pull == PullChoice::Auto;
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
    Ok((Arc::new(Fetching { embedded, pulls }), notice))
}

const MISSING: &str = "Images wait for it. Fetch it with `steadfast models pull resnet-50`, or on \
                       a machine without network with `--from FILE`.";

/// The embedded model, which the first image that needs it has fetched.
struct Fetching {
    embedded: Embedded,
    pulls: bool,
}

#[async_trait]
impl Classifier for Fetching {
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        let answer = self.embedded.classify(image).await;
        if matches!(answer, Err(ClassifyError::NotReady { .. }))
            && self.pulls
            && self.embedded.progress() == ModelState::Missing
        {
            self.embedded.begin_pull();
        }
        answer
    }

    fn name(&self) -> String {
        self.embedded.name()
    }
}

fn workers_ai(args: &ClassifierArgs, limits: &ImageLimits) -> Result<WorkersAi, Failure> {
    let (Some(account), Some(token)) = (&args.workers_ai_account, &args.workers_ai_token) else {
        return Err(Failure::new(
            "--classifier workers-ai needs --workers-ai-account and STEADFAST_WORKERS_AI_TOKEN",
        ));
    };
    let mut options = WorkersAiOptions::new(account, token);
    if let Some(model) = &args.workers_ai_model {
        options.model.clone_from(model);
    }
    if let Some(url) = &args.workers_ai_url {
        options.base_url.clone_from(url);
    }
    let pool = Pool::new("workers-ai", REQUESTS).map_err(|it| Failure::new(it.to_string()))?;
    let classifier = WorkersAi::new(options, limits.clone(), pool);
    classifier.map_err(|it| Failure::new(it.to_string()))
}

fn onnx(args: &ClassifierArgs, limits: &ImageLimits) -> Result<Onnx, Failure> {
    let (Some(file), Some(labels)) = (&args.onnx_file, &args.onnx_labels) else {
        return Err(Failure::new("--classifier onnx needs --onnx-file and --onnx-labels"));
    };
    let recipe = Recipe {
        short_side: args.onnx_size + args.onnx_size / 7,
        edge: args.onnx_size,
        scale: 1.0 / 255.0,
        mean: three("--onnx-mean", &args.onnx_mean)?,
        std: three("--onnx-std", &args.onnx_std)?,
    };
    let options = OnnxOptions { file: file.clone(), labels: labels.clone(), recipe };
    let onnx = Onnx::new(options, limits.clone(), pool("classify")?);
    onnx.check().map_err(|error| Failure::new(format!("--classifier onnx: {error}")))?;
    Ok(onnx)
}

fn three(flag: &str, numbers: &[f32]) -> Result<[f32; 3], Failure> {
    numbers.try_into().map_err(|_| {
        Failure::new(format!("{flag} needs three numbers: red, green, blue, separated by commas"))
    })
}

fn pool(name: &str) -> Result<Pool, Failure> {
    Pool::for_this_machine(name).map_err(|error| Failure::new(error.to_string()))
}

/// Sees nothing.
struct Blind;

#[async_trait]
impl Classifier for Blind {
    async fn classify(&self, _: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        Err(ClassifyError::NotReady { message: "nothing is classified here".into() })
    }

    fn name(&self) -> String {
        "none".into()
    }
}
