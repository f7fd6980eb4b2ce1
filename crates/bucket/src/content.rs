//! Where the bytes of blobs are: each in a file, or in one for each part, named by an id.

use std::{fmt, io, ops::Range, sync::Arc};

use steadfast_store::{EntityId, Entropy, Timestamp};

use crate::BucketError;

/// Names the content of one blob, for ever: it is never written again. Ids of one time stand
/// together, in folders and in the index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub [u8; 16]);

impl ContentId {
    /// A new one: the time, whose turn it is, and chance.
    pub(crate) fn new(now: Timestamp, epoch: i64, entropy: &dyn Entropy) -> Self {
        let mut id = [0; 16];
        id[..6].copy_from_slice(&now.0.to_be_bytes()[2..]);
        id[6..8].copy_from_slice(&epoch.to_be_bytes()[6..]);
        id[8..].copy_from_slice(&entropy.next().to_be_bytes());
        Self(id)
    }

    /// Reads what `Display` writes.
    pub fn from_hex(text: &str) -> Option<Self> {
        EntityId::from_hex(text).map(|it| Self(it.0))
    }

    /// As entries refer to it.
    pub(crate) fn reference(self) -> EntityId {
        EntityId(self.0)
    }

    /// When it was made, by the clock of then.
    pub(crate) fn made_at(self) -> Timestamp {
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

/// The time in the name of a part is counted in so many milliseconds, and lasts until 2106.
pub(crate) const PART_TIME: i64 = 256_000;

/// Names one file: the whole content, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName {
    /// The content that it belongs to.
    pub content: ContentId,
    /// Tells the parts apart.
    pub part: Option<u64>,
}

impl FileName {
    /// A new part: about when, and chance.
    pub(crate) fn new_part(content: ContentId, now: Timestamp, entropy: &dyn Entropy) -> Self {
        let when = now.0.div_euclid(PART_TIME) as u64;
        Self { content, part: Some(when << 40 | entropy.next() >> 24) }
    }

    /// When it was made at the latest. A part is younger than its upload, a copy than its parts.
    pub(crate) fn made_at(self) -> Timestamp {
        let part = self.part.map_or(0, |it| (it >> 40) as i64 + 1);
        self.content.made_at().max(Timestamp(part * PART_TIME))
    }

    /// Reads what `Display` writes.
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

/// Keeps files. All of it blocks; callers see to it that this is no matter.
pub trait Blobs: Send + Sync + fmt::Debug + 'static {
    /// Begins to write a file, which is not seen under its name before it is sealed.
    fn create(&self, name: FileName) -> io::Result<Box<dyn Draft>>;

    /// Opens a file.
    fn open(&self, name: FileName) -> io::Result<Arc<dyn Content>>;

    /// Gives the content of a file a second name. Durable when it returns.
    fn link(&self, from: FileName, to: FileName) -> io::Result<()>;

    /// Removes files, as far as they are there.
    fn remove(&self, names: &[FileName]) -> io::Result<()>;

    /// The folders that files are in, for a walk, and when each gets no more files.
    fn shelves(&self) -> io::Result<Vec<(String, Timestamp)>>;

    /// Some of these folders in the order of their names, behind one of them.
    fn shelves_after(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> io::Result<Vec<(String, Timestamp)>> {
        let mut shelves = self.shelves()?;
        shelves.sort();
        let is_behind = |it: &(String, Timestamp)| after.is_none_or(|after| after < it.0.as_str());
        Ok(shelves.into_iter().filter(is_behind).take(limit).collect())
    }

    /// The files of a folder.
    fn shelf(&self, shelf: &str) -> io::Result<Vec<FileName>>;

    /// Removes a folder if it is empty.
    fn remove_shelf(&self, shelf: &str);

    /// Removes those folders that are empty, that this process has changed, and that get no more
    /// files after this time.
    fn tidy(&self, _: Timestamp) {}

    /// Takes the names of drafts that were dropped and could not be removed.
    fn left_over(&self) -> Vec<FileName> {
        Vec::new()
    }

    /// The id that [`Blobs::set_session`] wrote last; `None` if it never did.
    fn session(&self) -> io::Result<Option<String>>;

    /// Writes beside the files which session of a store uses them. Durable when it returns.
    fn set_session(&self, id: &str) -> io::Result<()>;

    /// Whether nothing here takes time: then it need not leave the async threads.
    fn is_quick(&self) -> bool;
}

/// A file that is being written. Dropped, it is gone.
pub trait Draft: Send {
    /// Adds to its end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes it durable under its name.
    fn seal(self: Box<Self>) -> io::Result<()>;
}

/// A file that can be read.
pub trait Content: Send + Sync {
    /// Reads a range, which must be there.
    fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>>;
}

/// Works with files, away from the async threads if it may take time. It comes to its end also if
/// nobody waits for it any more.
pub(crate) async fn off<T: Send + 'static>(
    blobs: &Arc<dyn Blobs>,
    work: impl FnOnce(&dyn Blobs) -> Result<T, BucketError> + Send + 'static,
) -> Result<T, BucketError> {
    if blobs.is_quick() {
        return work(&**blobs);
    }
    let blobs = blobs.clone();
    let done = tokio::task::spawn_blocking(move || work(&*blobs)).await;
    done.unwrap_or_else(|error| Err(BucketError::Files { reason: error.to_string() }))
}

#[cfg(test)]
mod tests {
    use steadfast_store::SeededEntropy;

    use super::*;

    #[test]
    fn a_file_name_survives_its_text_and_nothing_else_is_one() {
        let content = ContentId::new(Timestamp(1_700_000_000_123), 7, &SeededEntropy::new(1));
        assert_eq!(content.made_at(), Timestamp(1_700_000_000_123));
        for part in [None, Some(0), Some(u64::MAX)] {
            let name = FileName { content, part };
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
        for other in ["", "..", "a/b", "0", &format!("{content}."), &format!("{content}.12")] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_part_is_as_old_as_itself_and_not_as_its_upload() {
        let entropy = SeededEntropy::new(1);
        let content = ContentId::new(Timestamp(1_700_000_000_000), 1, &entropy);
        let later = Timestamp(1_700_099_000_000);
        let part = FileName::new_part(content, later, &entropy);
        assert!(later <= part.made_at() && part.made_at().0 <= later.0 + PART_TIME);
        let copy = ContentId::new(Timestamp(1_800_000_000_000), 1, &entropy);
        assert_eq!(FileName { content: copy, ..part }.made_at(), copy.made_at());
        assert_ne!(part, FileName::new_part(content, later, &entropy));
    }

    #[test]
    fn ids_of_a_later_time_come_later() {
        let entropy = SeededEntropy::new(1);
        let at = |ms| ContentId::new(Timestamp(ms), 1, &entropy);
        assert!(at(1_000) < at(1_001) && at(1_001) < at(1_700_000_000_000));
    }
}
