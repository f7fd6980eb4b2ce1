//! Disk space kept back in a file, so that deletions are possible when the disk is full.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
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
