//! Contents in use. Files stay until the last reader is done, or until the store has decided on the
//! write.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::content::{ContentId, FileName};

#[derive(Debug, Default)]
pub(crate) struct Readers(Mutex<HashMap<ContentId, ContentUse>>);

#[derive(Debug, Default)]
struct ContentUse {
    count: usize,
    /// Files that the last reader removes.
    doomed: Vec<FileName>,
}

impl Readers {
    pub(crate) fn enter(&self, content: ContentId) {
        self.0.lock().entry(content).or_default().count += 1;
    }

    /// Returns the files to remove, if this was the last reader of the content.
    pub(crate) fn leave(&self, content: ContentId) -> Vec<FileName> {
        let mut in_use = self.0.lock();
        let Some(entry) = in_use.get_mut(&content) else { return Vec::new() };
        entry.count -= 1;
        if 0 < entry.count {
            return Vec::new();
        }
        in_use.remove(&content).unwrap_or_default().doomed
    }

    /// Lets the last reader remove a file. Returns `false` if the content is not in use.
    pub(crate) fn leave_to_last(&self, file: FileName) -> bool {
        let mut in_use = self.0.lock();
        let Some(entry) = in_use.get_mut(&file.content) else { return false };
        entry.doomed.push(file);
        true
    }

    pub(crate) fn is_in_use(&self, content: ContentId) -> bool {
        self.0.lock().contains_key(&content)
    }

    /// Returns whether a reader has files to remove at its end.
    pub(crate) fn has_doomed(&self) -> bool {
        self.0.lock().values().any(|it| !it.doomed.is_empty())
    }
}
