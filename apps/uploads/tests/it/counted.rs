//! Blobs in memory whose reads are counted.

use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use steadfast_core::{
    bucket::{Blobs, Content, Draft, FileName, MemoryBlobs},
    store::Timestamp,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct CountedBlobs {
    inner: MemoryBlobs,
    reads: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl CountedBlobs {
    /// Reads since this was last asked, and how many bytes they gave.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.reads.swap(0, Ordering::SeqCst), self.bytes.swap(0, Ordering::SeqCst))
    }
}

struct CountedContent {
    inner: Arc<dyn Content>,
    blobs: CountedBlobs,
}

impl Content for CountedContent {
    fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.blobs.reads.fetch_add(1, Ordering::SeqCst);
        self.blobs.bytes.fetch_add(range.end - range.start, Ordering::SeqCst);
        self.inner.read(range)
    }
}

impl Blobs for CountedBlobs {
    fn create(&self, name: FileName) -> io::Result<Box<dyn Draft>> {
        self.inner.create(name)
    }

    fn open(&self, name: FileName) -> io::Result<Arc<dyn Content>> {
        let inner = self.inner.open(name)?;
        Ok(Arc::new(CountedContent { inner, blobs: self.clone() }))
    }

    fn link(&self, from: FileName, to: FileName) -> io::Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, names: &[FileName]) -> io::Result<()> {
        self.inner.remove(names)
    }

    fn subfolders(&self) -> io::Result<Vec<(String, Timestamp)>> {
        self.inner.subfolders()
    }

    fn files_in(&self, subfolder: &str) -> io::Result<Vec<FileName>> {
        self.inner.files_in(subfolder)
    }

    fn remove_subfolder(&self, subfolder: &str) {
        self.inner.remove_subfolder(subfolder);
    }

    fn session(&self) -> io::Result<Option<String>> {
        self.inner.session()
    }

    fn set_session(&self, id: &str) -> io::Result<()> {
        self.inner.set_session(id)
    }

    fn is_in_memory(&self) -> bool {
        true
    }
}
