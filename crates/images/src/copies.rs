//! Copies of images in other sizes that were made already. To make one, an image is decoded.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

/// Bytes of copies that are kept.
const BYTES_MAX: usize = 32 << 20;

/// The newest copies, by a name that says which image and which size. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Copies(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    copies: HashMap<String, Arc<[u8]>>,
    /// The oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

impl Copies {
    /// The copy of this name.
    pub fn find(&self, name: &str) -> Option<Arc<[u8]>> {
        self.kept().copies.get(name).cloned()
    }

    /// Keeps a copy; if there is no room, the oldest ones go.
    pub fn keep(&self, name: &str, copy: Arc<[u8]>) {
        let mut kept = self.kept();
        kept.bytes += copy.len();
        if let Some(before) = kept.copies.insert(name.into(), copy) {
            // Somebody else has made it meanwhile.
            kept.bytes -= before.len();
        } else {
            kept.order.push_back(name.into());
        }
        while BYTES_MAX < kept.bytes {
            let Some(oldest) = kept.order.pop_front() else { return };
            kept.bytes -= kept.copies.remove(&oldest).map_or(0, |it| it.len());
        }
    }

    fn kept(&self) -> parking_lot::MutexGuard<'_, Kept> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_copies_are_kept_and_never_too_many() {
        let copies = Copies::default();
        let copy: Arc<[u8]> = vec![0; BYTES_MAX / 4].into();
        for name in ["1", "2", "2", "3", "4"] {
            copies.keep(name, copy.clone());
        }
        assert!(copies.find("1").is_some());
        copies.keep("5", copy);
        assert!(copies.find("1").is_none());
        assert!(["2", "3", "4", "5"].iter().all(|it| copies.find(it).is_some()));
    }
}
