//! Records: entries whose values are JSON of one type, changed by compare-and-set; and a cache of
//! rows that few commits change.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, marker::PhantomData, time::Duration};

use parking_lot::RwLock;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Commit, Entry, EntryKey, Expect, InvalidInput, Json, Outcome, Put, Store, StoreError,
    Timestamp, Write,
};

impl Entry {
    /// The value as a type; `None` if the entry was removed.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<Option<T>, StoreError> {
        let Some(value) = &self.value else { return Ok(None) };
        serde_json::from_str(value.as_str()).map(Some).map_err(|error| StoreError::Corrupt {
            reason: format!("entry {:?} has another form: {error}", self.entry),
        })
    }
}

impl Put {
    /// Writes a value that is kept.
    pub fn of(entry: EntryKey, value: &impl Serialize) -> Result<Self, InvalidInput> {
        Ok(Self { entry, value: Some(Json::of(value)?), reference: None, expires: None })
    }

    /// Removes an entry, whose revision is kept for this time.
    pub fn removal(entry: EntryKey, keep: Duration) -> Self {
        Self { entry, value: None, reference: None, expires: Some(keep) }
    }

    /// Sets the time after which the row may be deleted.
    pub fn expires(mut self, after: Duration) -> Self {
        self.expires = Some(after);
        self
    }
}

/// A record as it was read. Commits made of it are rejected if it was changed since.
#[derive(Clone, Debug)]
pub struct Record<T> {
    /// The entry.
    pub entry: EntryKey,
    /// The number of its last change; 0 if it never existed.
    pub revision: i64,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// The value; `None` if it does not exist.
    pub value: Option<T>,
}

impl<T: Serialize + DeserializeOwned> Record<T> {
    /// Reads a record, which need not exist.
    pub async fn read(store: &dyn Store, entry: EntryKey) -> Result<Self, StoreError> {
        match store.entry(&entry).await? {
            Some(found) => Self::of(&found),
            None => Ok(Self { entry, revision: 0, changed_at: Timestamp::MIN, value: None }),
        }
    }

    /// The record of an entry that was read.
    pub fn of(found: &Entry) -> Result<Self, StoreError> {
        let (entry, value) = (found.entry.clone(), found.parse()?);
        Ok(Self { entry, revision: found.revision, changed_at: found.changed_at, value })
    }

    /// Expects that the record was not changed.
    pub fn expect(&self) -> Expect {
        Expect::Revision { entry: self.entry.clone(), revision: self.revision }
    }

    /// The commit that changes it.
    pub fn change(&self, value: &T) -> Result<Commit, InvalidInput> {
        Ok(self.put(Put::of(self.entry.clone(), value)?))
    }

    /// The commit that removes it; its revision is kept for this time.
    pub fn remove(&self, keep: Duration) -> Commit {
        self.put(Put::removal(self.entry.clone(), keep))
    }

    /// The commit that writes it.
    pub fn put(&self, put: Put) -> Commit {
        Commit::of(Write::Put(put)).expect(self.expect())
    }
}

/// The records of one list.
#[derive(Clone, Copy, Debug)]
pub struct Records<T> {
    space: &'static str,
    values: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> Records<T> {
    /// The records of a list.
    pub const fn new(space: &'static str) -> Self {
        Self { space, values: PhantomData }
    }

    /// The entry of a record.
    pub fn entry(&self, key: &[u8]) -> Result<EntryKey, InvalidInput> {
        EntryKey::new(self.space, key)
    }

    /// Reads a record, which need not exist.
    pub async fn find(&self, store: &dyn Store, key: &[u8]) -> Result<Record<T>, StoreError> {
        Record::read(store, self.entry(key)?).await
    }

    /// Writes what `change` makes of a value, unless it is the same, and returns it. If another
    /// commit has changed the record meanwhile, it is decided again from the new value.
    pub async fn update<E: From<StoreError>>(
        &self,
        store: &dyn Store,
        key: &[u8],
        change: impl Fn(Option<T>) -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let entry = self.entry(key).map_err(StoreError::from)?;
            let found = store.entry(&entry).await?;
            let revision = found.as_ref().map_or(0, |it| it.revision);
            let next = change(found.as_ref().map(Entry::parse).transpose()?.flatten())?;
            let put = Put::of(entry.clone(), &next).map_err(StoreError::from)?;
            if found.is_some_and(|it| it.value == put.value) {
                return Ok(next);
            }
            let commit = Commit::of(Write::Put(put)).expect(Expect::Revision { entry, revision });
            if let Outcome::Committed(_) = store.commit(commit).await? {
                return Ok(next);
            }
        }
    }
}

/// Rows that few commits change, by key. A row that was read before an invalidation is not cached
/// after it.
#[derive(Debug)]
pub struct RowCache<K, V>(RwLock<CachedRows<K, V>>);

#[derive(Debug)]
struct CachedRows<K, V> {
    rows: HashMap<K, V>,
    /// Number of invalidations.
    forgotten: u64,
}

impl<K, V> Default for RowCache<K, V> {
    fn default() -> Self {
        Self(RwLock::new(CachedRows { rows: HashMap::new(), forgotten: 0 }))
    }
}

impl<K: Eq + Hash, V: Clone> RowCache<K, V> {
    /// Returns the cached row, or else the number to pass to [`RowCache::learn`].
    pub fn find<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Result<V, u64>
    where
        K: Borrow<Q>,
    {
        let cache = self.0.read();
        cache.rows.get(key).cloned().ok_or(cache.forgotten)
    }

    /// Adds a row whose read began at this number.
    pub fn learn(&self, key: K, row: V, forgotten: u64) {
        let mut cache = self.0.write();
        if cache.forgotten == forgotten {
            cache.rows.insert(key, row);
        }
    }

    /// Removes a row, which was changed or is outdated.
    pub fn forget<Q: Eq + Hash + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let mut cache = self.0.write();
        cache.rows.remove(key);
        cache.forgotten += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{ManualClock, MemoryStore};

    const NUMBERS: Records<Vec<u32>> = Records::new("numbers");

    #[test]
    fn a_row_read_before_a_change_is_not_cached_after_it() {
        let cache = RowCache::<String, u32>::default();
        let forgotten = cache.find("photos").unwrap_err();
        cache.forget("photos");
        cache.learn("photos".into(), 1, forgotten);
        let forgotten = cache.find("photos").unwrap_err();
        cache.learn("photos".into(), 2, forgotten);
        assert_eq!(cache.find("photos"), Ok(2));
    }

    #[tokio::test]
    async fn an_update_is_decided_again_after_another_change() {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000)));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock));
        let before = NUMBERS.find(&*store, b"n").await.unwrap();
        let decided = AtomicUsize::new(0);
        let add = |list: Option<Vec<u32>>| -> Result<Vec<u32>, StoreError> {
            if decided.fetch_add(1, Ordering::Relaxed) == 0 {
                // Commits of one caller are decided in the order in which they were submitted.
                store.submit(before.change(&vec![1]).unwrap(), Box::new(|_| ()));
            }
            Ok(list.into_iter().flatten().chain([2]).collect())
        };
        assert_eq!(NUMBERS.update(&*store, b"n", add).await.unwrap(), [1, 2]);
        assert_eq!(decided.load(Ordering::Relaxed), 2);
        let same = |it: Option<Vec<u32>>| Ok::<_, StoreError>(it.unwrap_or_default());
        assert_eq!(NUMBERS.update(&*store, b"n", same).await.unwrap(), [1, 2]);
        let found = NUMBERS.find(&*store, b"n").await.unwrap();
        assert_eq!((found.revision, found.value), (2, Some(vec![1, 2])));
        let outcome = store.commit(before.remove(Duration::ZERO)).await.unwrap();
        assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    }
}
