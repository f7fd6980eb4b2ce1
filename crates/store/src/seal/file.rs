//! The file of the key: 64 hexadecimal digits. Further lines are earlier keys, which only open.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use crate::{private, secret::random_bytes};

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;

/// Bytes of a key file: room for many earlier keys, and none for a wrong file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Where the key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealFile {
    pub(super) path: PathBuf,
    /// Whether a missing file is created.
    creates: bool,
    /// Whether its key replaces a lost one.
    pub(super) replaces: bool,
}

impl SealFile {
    /// The file `seal.key` of a data folder. It is created for a store that has no key yet.
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join("seal.key"), creates: true, replaces: false }
    }

    /// A file that must exist: its owner distributes it.
    pub fn named(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), creates: false, replaces: false }
    }

    /// The same, never created.
    pub fn read_only(self) -> Self {
        Self { creates: false, ..self }
    }

    /// The same, and the store gives up its recorded key: what that one sealed stays unreadable.
    pub fn replacing(self) -> Self {
        Self { replaces: true, ..self }
    }

    /// The text for a key that cannot be used.
    pub(super) fn missing(&self, expected: Option<&str>, problem: &str) -> String {
        let path = self.path.display();
        match expected {
            Some(key) => format!(
                "the secrets of this store are sealed with key {key}; it is looked for in {path}, \
                 but {problem}; put that key there, or name its file with --seal-key-file"
            ),
            None => format!(
                "secrets cannot be sealed: the key is looked for in {path}, but \
                 {problem}; create it with `openssl rand -hex 32`, mode 0600"
            ),
        }
    }

    /// The keys of the file. A missing file is created if the store has no key.
    pub(super) fn read_or_create(&self, is_first: bool) -> Result<Vec<[u8; KEY_BYTES]>, String> {
        match self.read() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if !self.creates || !is_first {
                    return Err("it does not exist".into());
                }
                let key = random_bytes().map_err(|error| error.to_string())?;
                self.create(&key).map_err(|error| format!("it cannot be created: {error}"))?;
                Ok(vec![key])
            }
            Err(error) => Err(format!("it cannot be read: {error}")),
            Ok(text) => {
                parse(&text).ok_or_else(|| "it is not lines of 64 hexadecimal digits".into())
            }
        }
    }

    fn read(&self) -> std::io::Result<String> {
        let mut text = String::new();
        File::open(&self.path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    }

    /// The file and its name are durable before anything is sealed with the key. A crash leaves
    /// no part of a key under its name.
    fn create(&self, key: &[u8; KEY_BYTES]) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        if !folder.is_dir() {
            private::make_folder(folder)?;
        }
        let new = self.path.with_extension("key.new");
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(format!("{}\n", HEXLOWER.encode(key)).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(folder)?.sync_all()
    }
}

fn parse(text: &str) -> Option<Vec<[u8; KEY_BYTES]>> {
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    let key = |it: &str| HEXLOWER_PERMISSIVE.decode(it.as_bytes()).ok()?.try_into().ok();
    let keys: Option<Vec<_>> = lines.map(key).collect();
    keys.filter(|it| !it.is_empty())
}
