//! Makes the entries of a folder durable. Concurrent callers share one flush.

use std::{fs::File, io, path::Path};

use parking_lot::{Condvar, Mutex};

/// Position of a request in the order of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushTicket(u64);

/// Flushes one folder.
#[derive(Debug, Default)]
pub(crate) struct FolderSync {
    state: Mutex<State>,
    flushed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of requests.
    asked: u64,
    /// Number of requests that are durable.
    done: u64,
    is_flushing: bool,
    /// A flush failed. Its entries may be lost, and the next flush would not report it: the folder
    /// is not trusted any more.
    failed: Option<String>,
}

impl FolderSync {
    /// A folder that is not trusted from the beginning.
    pub(crate) fn failed(folder: &Path, error: &io::Error) -> Self {
        let sync = Self::default();
        sync.state.lock().fail(folder, error);
        sync
    }

    /// Requests a flush of the current entries; [`FolderSync::wait`] waits for it.
    pub(crate) fn ask(&self) -> FlushTicket {
        let mut state = self.state.lock();
        state.asked += 1;
        FlushTicket(state.asked)
    }

    /// Waits until the requested entries are durable. One of the callers flushes for all.
    pub(crate) fn wait(&self, FlushTicket(mine): FlushTicket, folder: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(reason) = &state.failed {
                return Err(io::Error::other(reason.clone()));
            }
            if mine <= state.done {
                return Ok(());
            }
            if state.is_flushing {
                self.flushed.wait(&mut state);
                continue;
            }
            let asked = state.asked;
            state.is_flushing = true;
            drop(state);
            let result = sync_folder(folder);
            state = self.state.lock();
            state.is_flushing = false;
            match result {
                Ok(()) => state.done = asked,
                Err(error) => state.fail(folder, &error),
            }
            self.flushed.notify_all();
        }
    }
}

impl State {
    fn fail(&mut self, folder: &Path, error: &io::Error) {
        self.failed = Some(format!("flush of {} failed: {error}", folder.display()));
    }
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_for_a_flush_returns() {
        let folder = tempfile::tempdir().unwrap();
        let sync = FolderSync::default();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| (0..20).for_each(|_| sync.wait(sync.ask(), folder.path()).unwrap()));
            }
        });
        assert_eq!(sync.state.lock().done, 320);
    }

    #[test]
    fn after_a_failed_flush_the_folder_is_not_trusted_again() {
        let folder = tempfile::tempdir().unwrap();
        let sync = FolderSync::default();
        assert!(sync.wait(sync.ask(), &folder.path().join("not there")).is_err());
        assert!(sync.wait(sync.ask(), folder.path()).is_err());
    }

    #[test]
    fn a_flush_serves_all_requests_before_it() {
        let (folder, sync) = (tempfile::tempdir().unwrap(), FolderSync::default());
        let (first, second) = (sync.ask(), sync.ask());
        sync.wait(second, folder.path()).unwrap();
        let gone = folder.path().join("not there");
        sync.wait(first, &gone).unwrap();
        assert!(sync.wait(sync.ask(), &gone).is_err());
    }
}
