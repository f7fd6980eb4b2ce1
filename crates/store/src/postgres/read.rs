//! Reads over pooled connections.

use std::time::Duration;

use deadpool_postgres::{Client, Object, PoolError};
use tokio::time::timeout;
use tokio_postgres::{Error, IsolationLevel, Row, types::ToSql};

use super::{PostgresStore, batch_error::BatchError};
use crate::{
    Answer, Query, Recorded, Store, StoreError,
    sql::{Dialect, Param, RowReader, Statement},
};

/// Interval at which a read that waits looks at the lease.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A restart of the database can leave several dead connections in the pool.
const READ_ATTEMPTS: usize = 4;

impl PostgresStore {
    /// A connection that is not older than that of the writer: an older one may be to a former
    /// primary.
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

    /// Runs statements on a pooled connection. A read may be repeated, so dead connections are
    /// replaced. A result that arrives after the lease is not returned.
    async fn rows(&self, statements: &[Statement]) -> Result<Vec<Vec<Row>>, StoreError> {
        self.status.count_read();
        let mut attempt = 1;
        self.status.check_lease()?;
        loop {
            let mut client = self.in_lease(self.reader()).await??;
            let read = match self.in_lease(query(&mut client, statements)).await {
                Ok(read) => read,
                Err(error) => {
                    // Its answer may still arrive, and belongs to nobody.
                    let _ = Object::take(client);
                    return Err(error);
                }
            };
            match read.map_err(BatchError::from) {
                Ok(rows) if self.link.is_current(&client) => {
                    self.status.check_lease()?;
                    return Ok(rows);
                }
                Ok(_) => {}
                Err(BatchError::Lost(_)) if attempt < READ_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error.into_store_error(self.owner().epoch)),
            }
        }
    }

    /// Waits for a read until the lease ends: a database that is silent cannot renew it.
    async fn in_lease<T>(&self, read: impl Future<Output = T>) -> Result<T, StoreError> {
        let mut read = std::pin::pin!(read);
        loop {
            match timeout(LOOK_EVERY, &mut read).await {
                Ok(done) => return Ok(done),
                Err(_) => self.status.check_lease()?,
            }
        }
    }

    /// Runs the statements of a query.
    pub(super) async fn answer(&self, query: Query) -> Result<Answer, StoreError> {
        let mut answer = query.no_rows();
        let statements = query.statements(Dialect::Postgres);
        let found = self.rows(&statements).await?;
        for (statement, rows) in statements.iter().zip(&found) {
            for row in rows {
                answer.add(row, statement.text)?;
            }
        }
        // The position determines the history of a message.
        let set = |it: &mut Recorded| it.lineage = self.lineages.of(it.position);
        if let Answer::Messages(found) = &mut answer {
            found.iter_mut().for_each(set);
        } else if let Answer::Queued(found) = &mut answer {
            found.iter_mut().for_each(|it| set(&mut it.message));
        }
        Ok(answer)
    }

    /// Reads information about the server.
    pub(super) async fn list<T>(
        &self,
        sql: &'static str,
        decode: fn(&mut RowReader<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let found = self.rows(&[Statement::of(sql, vec![])]).await?;
        found.iter().flatten().map(|row| decode(&mut RowReader::new(row))).collect()
    }
}

/// Runs statements; several run in one transaction, so that all rows are of one snapshot.
async fn query(client: &mut Client, statements: &[Statement]) -> Result<Vec<Vec<Row>>, Error> {
    if let [statement] = statements {
        let prepared = client.prepare_cached(&numbered(statement)).await?;
        return Ok(vec![client.query(&prepared, &params(statement)).await?]);
    }
    let moment = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let transaction = moment.read_only(true).start().await?;
    let mut found = Vec::new();
    for statement in statements {
        let prepared = transaction.prepare_cached(&numbered(statement)).await?;
        found.push(transaction.query(&prepared, &params(statement)).await?);
    }
    transaction.commit().await?;
    Ok(found)
}

/// The statement with the parameter numbers of PostgreSQL.
fn numbered(statement: &Statement) -> String {
    statement.sql.replace('?', "$")
}

fn params(statement: &Statement) -> Vec<&(dyn ToSql + Sync)> {
    statement.params.iter().map(param).collect()
}

fn param(it: &Param) -> &(dyn ToSql + Sync) {
    match it {
        Param::Int(it) => it,
        Param::Text(it) => it,
        Param::Bytes(it) => it,
        Param::ManyInts(it) => it,
        Param::ManyBytes(it) => it,
    }
}
