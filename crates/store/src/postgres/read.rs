//! Reading over connections of a pool.

use deadpool_postgres::{Client, Object, PoolError};
use tokio_postgres::{Row, types::ToSql};

use super::{PostgresStore, trouble::Trouble};
use crate::{
    Letter, Recorded, Store, StoreError,
    sql::{self, Fields, queues},
};

/// A restart of the database can leave several dead connections in the pool.
const READ_ATTEMPTS: usize = 4;

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl PostgresStore {
    /// A connection that is not older than that of the writer: an older one may be to a server that
    /// is no longer the primary.
    async fn reader(&self) -> Result<Client, StoreError> {
        loop {
            let client = match self.pool.get().await {
                Ok(client) => client,
                Err(PoolError::Closed) => return Err(StoreError::Closed),
                Err(error) => return Err(StoreError::Unavailable { reason: error.to_string() }),
            };
            if self.link.is_current(&client) {
                return Ok(client);
            }
            let _ = Object::take(client);
        }
    }

    /// Runs a statement on a pooled connection. A read may be repeated, so connections that turn
    /// out to be dead are replaced. What comes too late to be told is not.
    async fn rows(&self, statement: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.status.count_read();
        let statement = statement.replace('?', "$");
        let mut attempt = 1;
        self.status.check_lease()?;
        loop {
            let client = self.reader().await?;
            let rows = async {
                let prepared = client.prepare_cached(&statement).await?;
                client.query(&prepared, params).await
            };
            match rows.await.map_err(Trouble::from) {
                Ok(rows) if self.link.is_current(&client) => {
                    self.status.check_lease()?;
                    return Ok(rows);
                }
                Ok(_) => {}
                Err(Trouble::Lost(_)) if attempt < READ_ATTEMPTS => attempt += 1,
                Err(trouble) => return Err(trouble.into_store_error(self.owner().epoch)),
            }
        }
    }

    pub(super) async fn list<T>(
        &self,
        statement: &str,
        params: Params<'_>,
        decode: fn(&dyn Fields) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(statement, params).await?;
        rows.iter().map(|row| decode(row)).collect()
    }

    /// The same for messages: each one knows in which history it was written.
    pub(super) async fn messages(
        &self,
        statement: &str,
        params: Params<'_>,
    ) -> Result<Vec<Recorded>, StoreError> {
        let mut found = self.list(statement, params, sql::recorded).await?;
        for message in &mut found {
            message.lineage = self.lineages.of(message.position);
        }
        Ok(found)
    }

    pub(super) async fn letters_of(
        &self,
        statement: &str,
        params: Params<'_>,
    ) -> Result<Vec<Letter>, StoreError> {
        let mut found = self.list(statement, params, queues::letter).await?;
        for letter in &mut found {
            letter.message.lineage = self.lineages.of(letter.message.position);
        }
        Ok(found)
    }

    pub(super) async fn lines<T: std::fmt::Debug>(
        &self,
        statement: &str,
        decode: fn(&dyn Fields) -> Result<T, StoreError>,
    ) -> Result<Vec<String>, StoreError> {
        let rows = self.list(statement, &[], decode).await?;
        Ok(rows.into_iter().map(|row| format!("{row:?}")).collect())
    }
}
