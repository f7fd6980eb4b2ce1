//! Naming what is on an image: one trait, and decoding that trusts nothing.
//!
//! An image comes from a stranger. [`inspect`] looks at it in three steps, each cheaper than the
//! next: its first bytes say which format it claims to be, its outline (chunks, markers, blocks)
//! says how large it is and whether it is whole, and only then a decoder reads it.

mod classifier;
mod copies;
mod decode;
mod format;
mod image;
mod image_error;
mod labels;
mod limits;
mod network;
mod onnx;
mod onnx_file;
mod outline;
mod pool;
mod recipe;
mod resnet;
mod scale;
mod workers_ai;

pub use self::{
    classifier::{Classifier, ClassifyError, LABELS_MAX, Label},
    copies::Copies,
    format::ImageFormat,
    image::{Inspected, Upright, decode_upright, inspect, thumbnail},
    image_error::ImageError,
    limits::ImageLimits,
    onnx::{Onnx, OnnxOptions},
    pool::{Pool, PoolError},
    recipe::Recipe,
    resnet::{Embedded, ModelState, Progress, PullError, Stage, default_models_folder, pull},
    workers_ai::{WorkersAi, WorkersAiOptions},
};
