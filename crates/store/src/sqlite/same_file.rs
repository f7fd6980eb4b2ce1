//! Notices when the database file is deleted or replaced while it is open. Commits would go to a
//! file without a name, which ends with the process.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

/// Interval between two looks.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

const DELETED: &str = "the database file was deleted; commits are refused, because they would be \
    lost with this process; export what is needed, stop it, put a backup back and delete \
    steadfast.db-wal and steadfast.db-shm before the next start";
const REPLACED: &str = "the database file was replaced by another one; commits are refused, \
    because they would be lost with this process; stop it, and delete steadfast.db-wal and \
    steadfast.db-shm before the next start: they belong to the old file";

/// The device and number of a file.
type Identity = (u64, u64);

/// The file that was opened, and what the last look found.
#[derive(Clone, Debug)]
pub(super) struct SameFile {
    path: PathBuf,
    opened: Option<Identity>,
    /// The files beside it: the log and its index.
    beside: Vec<(PathBuf, Identity)>,
    found: Arc<AtomicU8>,
}

impl SameFile {
    /// The file of an open connection.
    pub(super) fn new(path: PathBuf) -> Self {
        let beside = ["-wal", "-shm"].map(|it| {
            let mut name = path.as_os_str().to_owned();
            name.push(it);
            PathBuf::from(name)
        });
        let opened = identity(&path).ok();
        let beside = beside.into_iter().filter_map(|it| Some((it.clone(), identity(&it).ok()?)));
        Self { opened, beside: beside.collect(), path, found: Arc::default() }
    }

    /// Looks at the file, and returns why nothing may be read or written, if it is not the one that
    /// was opened.
    pub(super) fn look(&self) -> Option<&'static str> {
        let opened = self.opened?;
        let found = match identity(&self.path) {
            Ok(found) if found == opened => 0,
            Ok(_) => 2,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 1,
            // The folder cannot be read now; that is no sign of another file.
            Err(_) => return self.concern(),
        };
        self.found.store(found, Ordering::Relaxed);
        self.concern()
    }

    /// The result of the last look.
    pub(super) fn concern(&self) -> Option<&'static str> {
        match self.found.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(DELETED),
            _ => Some(REPLACED),
        }
    }

    /// Removes the log of a file that is gone: SQLite would apply it to the file that takes its
    /// place.
    pub(super) fn remove_log(&self) {
        for (path, opened) in &self.beside {
            if identity(path).is_ok_and(|it| it == *opened)
                && let Err(error) = fs::remove_file(path)
            {
                tracing::error!(%error, path = %path.display(), "delete it before the next start");
            }
        }
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|it| (it.dev(), it.ino()))
}
