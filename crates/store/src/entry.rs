//! Entries: small values under sorted keys, each with a revision.

use std::{fmt, ops::Bound, sync::Arc};

use crate::{EntityId, InvalidInput, Json, Timestamp, limits};

/// Identifies one entry: a list, and a key in it. The order of a list is the byte order of its
/// keys.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryKey {
    space: Arc<str>,
    key: Arc<[u8]>,
}

impl EntryKey {
    /// Checks the lengths and builds a key.
    pub fn new(space: &str, key: &[u8]) -> Result<Self, InvalidInput> {
        let fits = 1..=limits::SPACE_BYTES_MAX;
        if !fits.contains(&space.len()) || space.contains('\0') {
            return Err(InvalidInput::Space { len: space.len() });
        }
        if limits::ENTRY_KEY_BYTES_MAX < key.len() {
            return Err(InvalidInput::EntryKey { len: key.len() });
        }
        Ok(Self { space: space.into(), key: key.into() })
    }

    /// Builds a key that was read from a store.
    pub(crate) fn stored(space: &str, key: Vec<u8>) -> Self {
        Self { space: space.into(), key: key.into() }
    }

    /// The list.
    pub fn space(&self) -> &str {
        &self.space
    }

    /// The key in the list.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl fmt::Debug for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.space, self.key.escape_ascii())
    }
}

/// A change of an entry. It increases the revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The entry.
    pub entry: EntryKey,
    /// The new value; `None` removes the entry, and its revision stays.
    pub value: Option<Json>,
    /// The resource outside of the store that it refers to; `referenced` of `dyn Store` finds it.
    pub reference: Option<EntityId>,
    /// The time after which the row may be deleted; `None` keeps it.
    pub expires: Option<std::time::Duration>,
}

/// A change of a counter: of an entry whose value is a number. It increases the revision, and
/// leaves the time of the last change and the expiry as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The entry. Without a value it begins at 0.
    pub entry: EntryKey,
    /// The difference.
    pub delta: i64,
    /// The commit is rejected if the counter would be above this.
    pub max: Option<i64>,
    /// The time after which the row may be deleted, for a counter that begins; `None` keeps it.
    pub expires: Option<std::time::Duration>,
}

impl Count {
    /// Adds to a counter that has no limit and is kept.
    pub fn of(entry: EntryKey, delta: i64) -> Self {
        Self { entry, delta, max: None, expires: None }
    }
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The entry.
    pub entry: EntryKey,
    /// The number of its last change, from 1.
    pub revision: i64,
    /// The value; `None` if it was removed.
    pub value: Option<Json>,
    /// The resource outside of the store that it refers to.
    pub reference: Option<EntityId>,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// The time after which the row may be deleted.
    pub expires_at: Option<Timestamp>,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRange {
    /// The first key.
    pub from: Bound<Vec<u8>>,
    /// Before this key.
    pub until: Option<Vec<u8>>,
}

impl EntryRange {
    /// All keys that begin with this.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self { from: Bound::Included(prefix.to_vec()), until: behind(prefix) }
    }

    /// Only keys after this one.
    pub fn after(mut self, key: &[u8]) -> Self {
        let is_later = match &self.from {
            Bound::Included(from) | Bound::Excluded(from) => from.as_slice() <= key,
            Bound::Unbounded => true,
        };
        if is_later {
            self.from = Bound::Excluded(key.to_vec());
        }
        self
    }

    /// Only keys from this one on.
    pub fn from(mut self, key: Vec<u8>) -> Self {
        let is_later = match &self.from {
            Bound::Included(from) => *from < key,
            Bound::Excluded(from) => *from < key,
            Bound::Unbounded => true,
        };
        if is_later {
            self.from = Bound::Included(key);
        }
        self
    }
}

/// The first key after all that begin with `prefix`; `None` if there is none.
pub fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

/// A cursor in the order of age: after the entry with this change time, and among those of the same
/// time after this key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgeCursor {
    /// The time of the last change.
    pub changed_at: Timestamp,
    /// The key.
    pub key: Vec<u8>,
}

impl AgeCursor {
    /// Before all entries.
    pub const START: AgeCursor = AgeCursor { changed_at: Timestamp::MIN, key: Vec::new() };

    /// After this entry.
    pub fn behind(entry: &Entry) -> Self {
        Self { changed_at: entry.changed_at, key: entry.entry.key().to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_a_prefix_end_before_the_key_after_it() {
        assert_eq!(behind(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind(b"\xff"), None);
        assert_eq!(behind(b""), None);
    }

    #[test]
    fn a_range_never_begins_before_its_prefix() {
        let photos = || EntryRange::prefix(b"photos/");
        assert_eq!(photos().after(b"a"), photos());
        assert_eq!(photos().after(b"photos/x").from, Bound::Excluded(b"photos/x".to_vec()));
        assert_eq!(photos().from(b"photos/x".to_vec()).from, Bound::Included(b"photos/x".to_vec()));
        assert_eq!(photos().from(b"a".to_vec()), photos());
    }
}
