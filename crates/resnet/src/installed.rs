//! Models in their folder: `{models}/resnet-50/manifest.json` names the file beside it.
//!
//! A file is named by what is in it and never written twice; the manifest is exchanged as a whole.
//! A reader finds the old model or the new one, also during a write.

use std::{
    fs::{self, File, Permissions, TryLockError},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::digest::sha256;

/// The name of the model, and of its folder.
pub const NAME: &str = "resnet-50";

/// Counted up when the conversion changes: models of another one are made again.
const FORMAT: u32 = 1;

const MANIFEST: &str = "manifest.json";

/// The prefix of unfinished files.
pub(super) const TEMPORARY: &str = ".pull-";

/// Held by the process that writes models.
const LOCK: &str = ".lock";

/// The installed model.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    source: String,
    source_sha256: String,
    file: String,
    sha256: String,
    labels: Vec<String>,
}

/// A model, whole and as it was written.
pub struct Installed {
    /// The bytes of the ONNX file.
    pub network: Vec<u8>,
    /// The names of its classes.
    pub labels: Vec<String>,
}

/// Where the model is, below the folder of all models.
pub(super) fn folder(models: &Path) -> PathBuf {
    models.join(NAME)
}

/// Whether a model is there, without reading all of it.
pub fn is_there(models: &Path) -> bool {
    matches!(manifest(models), Ok(Some(manifest)) if folder(models).join(&manifest.file).is_file())
}

/// Reads the model; `None` if none is there, or one of another format.
pub fn read(models: &Path) -> Result<Option<Installed>, String> {
    let Some(manifest) = manifest(models)? else { return Ok(None) };
    let file = folder(models).join(&manifest.file);
    let network = match fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| format!("{}: {error}", file.display()))?,
    };
    if sha256(&network) != manifest.sha256 {
        return Err(format!("{} is damaged", file.display()));
    }
    Ok(Some(Installed { network, labels: manifest.labels }))
}

fn manifest(models: &Path) -> Result<Option<Manifest>, String> {
    let path = folder(models).join(MANIFEST);
    let json = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    let manifest: Manifest =
        serde_json::from_slice(&json).map_err(|error| format!("{}: {error}", path.display()))?;
    // A name that leads elsewhere is not ours.
    let is_plain = Path::new(&manifest.file).file_name() == Some(manifest.file.as_ref());
    Ok(Some(manifest).filter(|it| it.format == FORMAT && is_plain))
}

/// Writes a model: durable and all of it, or none.
pub fn write(
    models: &Path,
    source: &str,
    source_sha256: &str,
    network: &[u8],
    labels: Vec<String>,
) -> io::Result<()> {
    let folder = folder(models);
    fs::create_dir_all(&folder)?;
    let sum = sha256(network);
    let file = format!("{}.onnx", &sum[..16]);
    put(&folder, &file, network)?;
    let manifest = Manifest {
        format: FORMAT,
        source: source.into(),
        source_sha256: source_sha256.into(),
        file: file.clone(),
        sha256: sum,
        labels,
    };
    put(&folder, MANIFEST, &serde_json::to_vec_pretty(&manifest)?)?;
    // Models that no manifest names. Should somebody still want one, it is not there for them.
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let is_other = path.file_name().is_some_and(|it| it != file.as_str());
        if is_other && path.extension().is_some_and(|it| it == "onnx") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The right to write models; given back when it is dropped, and by the system if the process ends.
pub(super) struct Turn {
    _lock: File,
}

/// Waits until nobody else writes models. Says whether somebody did.
pub(super) fn take_turn(models: &Path) -> io::Result<(Turn, bool)> {
    let lock = File::options().create(true).append(true).open(models.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => return Ok((Turn { _lock: lock }, false)),
        Err(TryLockError::WouldBlock) => lock.lock()?,
        Err(TryLockError::Error(error)) => return Err(error),
    }
    Ok((Turn { _lock: lock }, true))
}

/// Removes what those left behind who were ended in the middle. Call it in your turn only.
pub(super) fn sweep(models: &Path) -> io::Result<()> {
    for folder in [models.to_owned(), folder(models)] {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            if name.starts_with(TEMPORARY.as_bytes()) {
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }?;
            }
        }
    }
    Ok(())
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    // Other users may read what is in a folder that they share.
    let readable = Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new();
    let mut file = file.prefix(TEMPORARY).permissions(readable).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name))?;
    File::open(folder)?.sync_all()
}
