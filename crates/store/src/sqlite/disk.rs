//! The disk of a store: space that is kept back in a file, so that deletions are possible when the
//! disk is full, and whether the database file is still the one that was opened. Commits to a file
//! that was deleted would go to a file without a name, which ends with the process.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// The part of a file system that a reserve may take.
const SHARE: u64 = 16;

/// Batches after which a reserve that found no space is tried again.
const TRY_EVERY: u32 = 1_024;

/// Space for deletions.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    state: State,
    /// Batches since the last attempt.
    batches: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There was no space for it yet, or none is wanted.
    None,
    Kept,
    /// Deletions use it. Until it is kept again, the disk counts as full for everything else.
    Spent,
}

impl Reserve {
    /// Keeps a reserve in the folder, if there is space.
    pub(super) fn new(folder: &Path, bytes: u64) -> Self {
        let all = statvfs(folder).map_or(0, |it| it.f_blocks.saturating_mul(it.f_frsize));
        let (path, bytes) = (folder.join("reserve"), bytes.min(all / SHARE));
        let mut reserve = Self { path, bytes, state: State::None, batches: 0 };
        if bytes != 0 {
            reserve.keep();
        }
        reserve
    }

    /// Its size when it is kept.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether only deletions may be written.
    pub(super) fn is_in_use(&self) -> bool {
        self.state == State::Spent
    }

    /// The same, after looking whether there is space again. Called for each batch.
    pub(super) fn is_spent(&mut self) -> bool {
        self.batches = (self.batches + 1) % TRY_EVERY;
        let is_missing = self.state == State::None && self.bytes != 0;
        if self.is_in_use() || (is_missing && self.batches == 0) {
            self.keep();
        }
        self.is_in_use()
    }

    /// Gives the space to the commit that follows. `false` if there is none to give.
    pub(super) fn spend(&mut self) -> bool {
        if self.state != State::Kept || fs::remove_file(&self.path).is_err() {
            return false;
        }
        self.state = State::Spent;
        tracing::warn!("the disk is full: deletions use the space that was kept for them");
        true
    }

    fn keep(&mut self) {
        match self.allocate() {
            Ok(()) => self.state = State::Kept,
            // A part of it would only take space from others.
            Err(_) => _ = fs::remove_file(&self.path),
        }
    }

    fn allocate(&self) -> io::Result<()> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&self.path)?;
        Ok(fallocate(&file, FallocateFlags::empty(), 0, self.bytes)?)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_kept_spent_once_and_kept_again_when_there_is_space() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::new(folder.path(), 1 << 20);
        let size = || fs::metadata(folder.path().join("reserve")).ok().map(|it| it.len());
        assert_eq!((size(), reserve.is_spent()), (Some(1 << 20), false));
        assert!(reserve.spend() && !reserve.spend());
        assert_eq!(size(), None);
        assert!(!reserve.is_spent(), "there is space");
        assert_eq!(size(), Some(1 << 20));
        assert!(!Reserve::new(folder.path(), 0).spend(), "none is wanted");
    }
}
