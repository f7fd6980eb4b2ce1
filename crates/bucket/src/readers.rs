//! Contents that somebody is at: the files that are read stay until the last reader is done, and
//! those that are written until the store has decided on them.

use std::{collections::HashMap, sync::Arc};

use crate::{
    buckets::Shared,
    content::{ContentId, FileName},
};
use parking_lot::{Mutex, MutexGuard};

#[derive(Debug, Default)]
pub(crate) struct Readers(Mutex<HashMap<ContentId, InUse>>);

#[derive(Debug, Default)]
struct InUse {
    count: usize,
    /// What the last reader removes.
    doomed: Vec<FileName>,
    /// How to.
    last: Option<Arc<Shared>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Readers {
    fn in_use(&self) -> MutexGuard<'_, HashMap<ContentId, InUse>> {
        self.0.lock()
    }

    /// Leaves a file to the last of its readers. `false` if nobody reads it.
    pub(crate) fn leave_to_last(&self, shared: &Arc<Shared>, file: FileName) -> bool {
        let mut in_use = self.in_use();
        let Some(entry) = in_use.get_mut(&file.content) else { return false };
        entry.doomed.push(file);
        entry.last = Some(shared.clone());
        true
    }

    pub(crate) fn is_in_use(&self, content: ContentId) -> bool {
        self.in_use().contains_key(&content)
    }

    /// Whether a reader has files to remove when it is done.
    pub(crate) fn has_doomed(&self) -> bool {
        self.in_use().values().any(|it| !it.doomed.is_empty())
    }

    fn leave(&self, content: ContentId) -> InUse {
        let mut in_use = self.in_use();
        let Some(entry) = in_use.get_mut(&content) else { return InUse::default() };
        entry.count -= 1;
        if 0 < entry.count {
            return InUse::default();
        }
        in_use.remove(&content).unwrap_or_default()
    }
}

/// Holds the files of a content.
pub(crate) struct Hold {
    shared: Arc<Shared>,
    pub(crate) content: ContentId,
}

impl Hold {
    pub(crate) fn new(shared: &Arc<Shared>, content: ContentId) -> Self {
        shared.readers.in_use().entry(content).or_default().count += 1;
        Self { shared: shared.clone(), content }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let InUse { doomed, last, .. } = self.shared.readers.leave(self.content);
        let Some(shared) = last else { return };
        // At the very end there may be no runtime any more, or one that does not get to it.
        shared.doubt(&doomed);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { shared.discard(doomed).await });
        }
    }
}
