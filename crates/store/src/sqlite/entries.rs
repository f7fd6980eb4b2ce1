//! Entries: writing them, and their lists.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::{SqliteStore, row::rows};
use crate::{
    AgeCursor, EntityId, Entries, Entry, EntryKey, EntryRange, StoreError, Timestamp,
    plan::{Facts, Needs},
    sql::{count, entries},
};

const PUT: &str = "INSERT INTO entry (space, key, revision, value, reference, changed_at, \
     expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (space, key) DO UPDATE SET \
     revision = ?3, value = ?4, reference = ?5, changed_at = ?6, expires_at = ?7";
const REMOVE: &str = "DELETE FROM entry WHERE space = ?1 AND key = ?2";

pub(super) fn write(
    connection: &Connection,
    put: &[Entry],
    gone: &[EntryKey],
) -> rusqlite::Result<()> {
    if !put.is_empty() {
        let mut statement = connection.prepare_cached(PUT)?;
        for it in put {
            statement.execute(params![
                it.entry.space(),
                it.entry.key(),
                it.revision,
                it.value.as_ref().map(|it| it.as_str()),
                it.reference.map(|it| it.0),
                it.changed_at.0,
                it.expires_at.map(|it| it.0),
            ])?;
        }
    }
    if !gone.is_empty() {
        let mut statement = connection.prepare_cached(REMOVE)?;
        for it in gone {
            statement.execute(params![it.space(), it.key()])?;
        }
    }
    Ok(())
}

fn read(connection: &Connection, entry: &EntryKey) -> Result<Option<Entry>, StoreError> {
    Ok(rows(connection, entries::ENTRY, (entry.space(), entry.key()), entries::entry)?.pop())
}

pub(super) fn facts(
    connection: &Connection,
    needs: &Needs,
    facts: &mut Facts,
) -> Result<(), StoreError> {
    for key in &needs.entries {
        if let Some(entry) = read(connection, key)? {
            facts.entries.load(key.clone(), entry);
        }
    }
    for space in &needs.spaces {
        let occupied = rows(connection, entries::OCCUPIED, (space,), |row| row.text(0))?;
        facts.spaces.extend(occupied.into_iter().map(Into::into));
    }
    Ok(())
}

#[async_trait]
impl Entries for SqliteStore {
    async fn entry(&self, entry: &EntryKey) -> Result<Option<Entry>, StoreError> {
        let entry = entry.clone();
        self.read(move |connection| read(connection, &entry)).await
    }

    async fn entries(
        &self,
        space: &str,
        range: EntryRange,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let (space, limit) = (space.to_owned(), count(limit));
        let (statement, from, until) = entries::list(range);
        self.read(move |connection| match until {
            Some(until) => rows(connection, statement, (space, from, limit, until), entries::entry),
            None => rows(connection, statement, (space, from, limit), entries::entry),
        })
        .await
    }

    async fn entries_by_age(
        &self,
        space: &str,
        after: &AgeCursor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let (space, AgeCursor { changed_at, key }) = (space.to_owned(), after.clone());
        let params = (space, changed_at.0, key, until.0, count(limit));
        self.list(entries::BY_AGE, params, entries::entry).await
    }

    async fn expired_entries(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<EntryKey>, StoreError> {
        let found = self.list(entries::EXPIRED, (at.0, count(limit)), entries::entry).await?;
        Ok(found.into_iter().map(|it| it.entry).collect())
    }

    async fn referenced(&self, ids: &[EntityId]) -> Result<Vec<(EntityId, EntryKey)>, StoreError> {
        let ids = ids.to_vec();
        self.read(move |connection| {
            let mut found = Vec::new();
            for id in ids {
                found.extend(rows(connection, entries::REFERENCED, (id.0,), entries::reference)?);
            }
            Ok(found)
        })
        .await
    }
}
