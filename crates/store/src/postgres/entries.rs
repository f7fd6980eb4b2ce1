//! Entries, and their lists.

use async_trait::async_trait;

use super::{Params, PostgresStore};
use crate::{
    AgeCursor, EntityId, Entries, Entry, EntryKey, EntryRange, StoreError, Timestamp,
    sql::{count, entries},
};

const REFERENCED: &str = "SELECT DISTINCT ON (reference) reference, space, key FROM entry \
     WHERE reference = ANY (?1::bytea[]) AND reference IS NOT NULL ORDER BY reference, space, key";

#[async_trait]
impl Entries for PostgresStore {
    async fn entry(&self, entry: &EntryKey) -> Result<Option<Entry>, StoreError> {
        let params: Params<'_> = &[&entry.space(), &entry.key()];
        Ok(self.list(entries::ENTRY, params, entries::entry).await?.pop())
    }

    async fn entries(
        &self,
        space: &str,
        range: EntryRange,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let limit = count(limit);
        let (statement, from, until) = entries::list(range);
        match until {
            Some(until) => {
                let params: Params<'_> = &[&space, &from, &limit, &until];
                self.list(statement, params, entries::entry).await
            }
            None => self.list(statement, &[&space, &from, &limit], entries::entry).await,
        }
    }

    async fn entries_by_age(
        &self,
        space: &str,
        after: &AgeCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let AgeCursor { changed_at, key } = after;
        let params: Params<'_> = &[&space, &changed_at.0, key, &until.0, &count(limit)];
        self.list(entries::BY_AGE, params, entries::entry).await
    }

    async fn expired_entries(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<EntryKey>, StoreError> {
        let params: Params<'_> = &[&at.0, &count(limit)];
        let found = self.list(entries::EXPIRED, params, entries::entry).await?;
        Ok(found.into_iter().map(|it| it.entry).collect())
    }

    async fn referenced(&self, ids: &[EntityId]) -> Result<Vec<(EntityId, EntryKey)>, StoreError> {
        let ids: Vec<&[u8]> = ids.iter().map(|it| it.0.as_slice()).collect();
        self.list(REFERENCED, &[&ids], entries::reference).await
    }
}
