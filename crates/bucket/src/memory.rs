//! Files in memory, for tests.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    ops::Range,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::Timestamp;

use crate::content::{Blobs, Content, Draft, FileName};

/// Keeps files in memory; clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs {
    files: Arc<Mutex<BTreeMap<FileName, Arc<[u8]>>>>,
    session: Arc<Mutex<Option<String>>>,
}

impl MemoryBlobs {
    fn files(&self) -> MutexGuard<'_, BTreeMap<FileName, Arc<[u8]>>> {
        self.files.lock()
    }

    /// Adds a file. Existing files are never replaced.
    fn place(&self, name: FileName, bytes: Arc<[u8]>) -> io::Result<()> {
        match self.files().entry(name) {
            Entry::Vacant(place) => _ = place.insert(bytes),
            Entry::Occupied(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
        Ok(())
    }

    fn find(&self, name: FileName) -> io::Result<Arc<[u8]>> {
        let found = self.files().get(&name).cloned();
        found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<FileName> {
        self.files().keys().copied().collect()
    }
}

impl Blobs for MemoryBlobs {
    fn create(&self, name: FileName) -> io::Result<Box<dyn Draft>> {
        Ok(Box::new(MemoryDraft { blobs: self.clone(), name, bytes: Vec::new() }))
    }

    fn open(&self, name: FileName) -> io::Result<Arc<dyn Content>> {
        Ok(Arc::new(MemoryContent(self.find(name)?)))
    }

    fn link(&self, from: FileName, to: FileName) -> io::Result<()> {
        let bytes = self.find(from)?;
        self.place(to, bytes)
    }

    fn remove(&self, names: &[FileName]) -> io::Result<()> {
        let mut files = self.files();
        names.iter().for_each(|it| _ = files.remove(it));
        Ok(())
    }

    fn subfolders(&self) -> io::Result<Vec<(String, Timestamp)>> {
        let is_empty = self.files().is_empty();
        Ok(if is_empty { Vec::new() } else { vec![("all".into(), Timestamp::MAX)] })
    }

    fn files_in(&self, _: &str) -> io::Result<Vec<FileName>> {
        Ok(self.names())
    }

    fn remove_subfolder(&self, _: &str) {}

    fn session(&self) -> io::Result<Option<String>> {
        Ok(self.session.lock().clone())
    }

    fn set_session(&self, id: &str) -> io::Result<()> {
        *self.session.lock() = Some(id.into());
        Ok(())
    }

    fn is_in_memory(&self) -> bool {
        true
    }
}

struct MemoryDraft {
    blobs: MemoryBlobs,
    name: FileName,
    bytes: Vec<u8>,
}

impl Draft for MemoryDraft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn seal(self: Box<Self>) -> io::Result<()> {
        self.blobs.place(self.name, self.bytes.into())
    }
}

struct MemoryContent(Arc<[u8]>);

impl Content for MemoryContent {
    fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (from, until) = (range.start as usize, range.end as usize);
        let found = self.0.get(from..until);
        Ok(found.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?.to_vec())
    }
}
