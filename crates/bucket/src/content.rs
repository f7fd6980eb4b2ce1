//! Storage of blob contents: one file per content or per part, named by its id. Tests keep the
//! files in memory.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt, io,
    ops::Range,
    sync::Arc,
};

use parking_lot::Mutex;
use steadfast_store::{EntityId, Entropy, Timestamp};

use crate::BucketError;

/// Identifies the content of one blob. A content is never overwritten. Ids of the same time are
/// adjacent, in folders and in the index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub [u8; 16]);

impl ContentId {
    /// A new id from the time, the epoch of the owner and randomness.
    pub(crate) fn new(now: Timestamp, epoch: i64, entropy: &dyn Entropy) -> Self {
        let mut id = [0; 16];
        id[..6].copy_from_slice(&now.0.to_be_bytes()[2..]);
        id[6..8].copy_from_slice(&epoch.to_be_bytes()[6..]);
        id[8..].copy_from_slice(&entropy.next().to_be_bytes());
        Self(id)
    }

    /// Parses the text form.
    pub fn from_hex(text: &str) -> Option<Self> {
        EntityId::from_hex(text).map(|it| Self(it.0))
    }

    /// The id as entries refer to it.
    pub(crate) fn reference(self) -> EntityId {
        EntityId(self.0)
    }

    /// Time of creation, by the clock at that time.
    pub(crate) fn created_at(self) -> Timestamp {
        let mut at = [0; 8];
        at[2..].copy_from_slice(&self.0[..6]);
        Timestamp(i64::from_be_bytes(at))
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&EntityId(self.0), f)
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Unit of the time in the name of a part, in milliseconds. It lasts until 2106.
pub(crate) const PART_TIME: i64 = 256_000;

/// Names one file: a whole content or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName {
    /// The content that it belongs to.
    pub content: ContentId,
    /// Distinguishes the parts of a content.
    pub part: Option<u64>,
}

impl FileName {
    /// A new part name from the time and randomness.
    pub(crate) fn new_part(content: ContentId, now: Timestamp, entropy: &dyn Entropy) -> Self {
        let when = now.0.div_euclid(PART_TIME) as u64;
        Self { content, part: Some(when << 40 | entropy.next() >> 24) }
    }

    /// Upper bound of the creation time. A part is younger than its upload, a copy than its parts.
    pub(crate) fn created_at(self) -> Timestamp {
        let part = self.part.map_or(0, |it| (it >> 40) as i64 + 1);
        self.content.created_at().max(Timestamp(part * PART_TIME))
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let (content, part) = match text.split_once('.') {
            Some((content, part)) if part.len() == 16 => {
                (content, Some(u64::from_str_radix(part, 16).ok()?))
            }
            Some(_) => return None,
            None => (text, None),
        };
        Some(Self { content: ContentId::from_hex(content)?, part })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Some(part) => write!(f, "{}.{part:016x}", self.content),
            None => write!(f, "{}", self.content),
        }
    }
}

/// Stores files. Every method blocks; callers use a blocking thread.
pub trait Blobs: Send + Sync + fmt::Debug + 'static {
    /// Creates a file. It is complete under its name only after [`Draft::seal`].
    fn create(&self, name: FileName) -> io::Result<Box<dyn Draft>>;

    /// Opens a file.
    fn open(&self, name: FileName) -> io::Result<Arc<dyn Content>>;

    /// Links a file under a second name. Durable when it returns.
    fn link(&self, from: FileName, to: FileName) -> io::Result<()>;

    /// Removes those of the files that exist.
    fn remove(&self, names: &[FileName]) -> io::Result<()>;

    /// Folders that contain files, each with the time after which it gets no new files.
    fn subfolders(&self) -> io::Result<Vec<(String, Timestamp)>>;

    /// A page of these folders in the order of their names, after one of them.
    fn subfolders_after(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> io::Result<Vec<(String, Timestamp)>> {
        let mut subfolders = self.subfolders()?;
        subfolders.sort();
        let is_behind = |it: &(String, Timestamp)| after.is_none_or(|after| after < it.0.as_str());
        Ok(subfolders.into_iter().filter(is_behind).take(limit).collect())
    }

    /// The files of a folder.
    fn files_in(&self, subfolder: &str) -> io::Result<Vec<FileName>>;

    /// Removes a folder if it is empty.
    fn remove_subfolder(&self, subfolder: &str);

    /// Removes empty folders that this process changed and that get no files after this time.
    fn remove_empty_subfolders(&self, _: Timestamp) {}

    /// Takes the names of dropped drafts whose files could not be removed.
    fn abandoned_drafts(&self) -> Vec<FileName> {
        Vec::new()
    }

    /// The id that [`Blobs::set_session`] wrote last; `None` if it never did.
    fn session(&self) -> io::Result<Option<String>>;

    /// Records which session of a store uses the files. Durable when it returns.
    fn set_session(&self, id: &str) -> io::Result<()>;

    /// Whether the methods return without I/O, so that they need no blocking thread.
    fn is_in_memory(&self) -> bool;
}

/// A file being written. Dropping it removes the file.
pub trait Draft: Send {
    /// Appends bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file durable under its name.
    fn seal(self: Box<Self>) -> io::Result<()>;
}

/// An open file.
pub trait Content: Send + Sync {
    /// Reads a range, which must exist.
    fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>>;
}

/// Runs work on files on a blocking thread, unless the storage needs no I/O. The work completes
/// even if the caller is dropped.
pub(crate) async fn run_blocking<T: Send + 'static>(
    blobs: &Arc<dyn Blobs>,
    work: impl FnOnce(&dyn Blobs) -> Result<T, BucketError> + Send + 'static,
) -> Result<T, BucketError> {
    if blobs.is_in_memory() {
        return work(&**blobs);
    }
    let blobs = blobs.clone();
    let work: Box<dyn FnOnce() -> Result<T, BucketError> + Send> = Box::new(move || work(&*blobs));
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(BucketError::Files { reason: error.to_string() }))
}

/// Keeps files in memory; clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs {
    files: Arc<Mutex<BTreeMap<FileName, Arc<[u8]>>>>,
    session: Arc<Mutex<Option<String>>>,
}

impl MemoryBlobs {
    /// Adds a file. Existing files are never replaced.
    fn place(&self, name: FileName, bytes: Arc<[u8]>) -> io::Result<()> {
        match self.files.lock().entry(name) {
            Entry::Vacant(place) => _ = place.insert(bytes),
            Entry::Occupied(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        }
        Ok(())
    }

    fn find(&self, name: FileName) -> io::Result<Arc<[u8]>> {
        let found = self.files.lock().get(&name).cloned();
        found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<FileName> {
        self.files.lock().keys().copied().collect()
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
        let mut files = self.files.lock();
        names.iter().for_each(|it| _ = files.remove(it));
        Ok(())
    }

    fn subfolders(&self) -> io::Result<Vec<(String, Timestamp)>> {
        let is_empty = self.files.lock().is_empty();
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

#[cfg(test)]
mod tests {
    use steadfast_store::SeededEntropy;

    use super::*;

    #[test]
    fn a_file_name_round_trips_and_other_texts_are_refused() {
        let content = ContentId::new(Timestamp(1_700_000_000_123), 7, &SeededEntropy::new(1));
        assert_eq!(content.created_at(), Timestamp(1_700_000_000_123));
        for part in [None, Some(0), Some(u64::MAX)] {
            let name = FileName { content, part };
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
        for other in ["", "..", "a/b", "0", &format!("{content}."), &format!("{content}.12")] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_part_has_its_own_age() {
        let entropy = SeededEntropy::new(1);
        let content = ContentId::new(Timestamp(1_700_000_000_000), 1, &entropy);
        let later = Timestamp(1_700_099_000_000);
        let part = FileName::new_part(content, later, &entropy);
        assert!(later <= part.created_at() && part.created_at().0 <= later.0 + PART_TIME);
        let copy = ContentId::new(Timestamp(1_800_000_000_000), 1, &entropy);
        assert_eq!(FileName { content: copy, ..part }.created_at(), copy.created_at());
        assert_ne!(part, FileName::new_part(content, later, &entropy));
    }

    #[test]
    fn ids_are_ordered_by_time() {
        let entropy = SeededEntropy::new(1);
        let at = |ms| ContentId::new(Timestamp(ms), 1, &entropy);
        assert!(at(1_000) < at(1_001) && at(1_001) < at(1_700_000_000_000));
    }
}
