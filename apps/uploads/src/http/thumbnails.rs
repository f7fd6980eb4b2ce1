//! Small copies that were made already. To make one, an image is decoded, which takes its time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

/// Bytes of small copies that are kept.
const BYTES_MAX: usize = 32 << 20;

/// The newest small copies, by the version of their image. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Thumbnails(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    copies: HashMap<String, Arc<[u8]>>,
    /// The oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

impl Thumbnails {
    pub(super) fn find(&self, version: &str) -> Option<Arc<[u8]>> {
        self.kept().copies.get(version).cloned()
    }

    pub(super) fn keep(&self, version: &str, copy: Arc<[u8]>) {
        let mut kept = self.kept();
        kept.bytes += copy.len();
        if let Some(before) = kept.copies.insert(version.into(), copy) {
            // Somebody else has made it meanwhile.
            kept.bytes -= before.len();
        } else {
            kept.order.push_back(version.into());
        }
        while BYTES_MAX < kept.bytes {
            let Some(oldest) = kept.order.pop_front() else { return };
            kept.bytes -= kept.copies.remove(&oldest).map_or(0, |it| it.len());
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_copies_are_kept_and_never_too_many() {
        let thumbnails = Thumbnails::default();
        let copy: Arc<[u8]> = vec![0; BYTES_MAX / 4].into();
        for version in ["1", "2", "2", "3", "4"] {
            thumbnails.keep(version, copy.clone());
        }
        assert!(thumbnails.find("1").is_some());
        thumbnails.keep("5", copy);
        assert!(thumbnails.find("1").is_none());
        assert!(["2", "3", "4", "5"].iter().all(|it| thumbnails.find(it).is_some()));
    }
}
