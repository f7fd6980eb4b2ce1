//! Reads over pooled connections: rows, values, and the settings of the server.

use std::time::Duration;

use bytes::BytesMut;
use deadpool_postgres::{Client, Object, PoolError};
use tokio::time::timeout;
use tokio_postgres::{
    Error, IsolationLevel, Row,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};

use super::{
    PostgresStore,
    batch_error::{BatchError, text},
};
use crate::{
    Answer, Query, Recorded, Setting, Store, StoreError,
    sql::{Dialect, Fields, Param, RowReader, Statement, Value},
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
pub(super) fn numbered(statement: &Statement) -> String {
    statement.sql.replace('?', "$")
}

pub(super) fn params(statement: &Statement) -> Vec<&(dyn ToSql + Sync)> {
    statement.params.iter().map(param).collect()
}

fn param(it: &Param) -> &(dyn ToSql + Sync) {
    match it {
        Param::One(it) => it,
        Param::Text(it) => it,
        Param::Bytes(it) => it,
        Param::Many(it) => it,
    }
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| StoreError::corrupt(text(&error)))
}

impl Fields for Row {
    fn maybe_int(&self, index: usize) -> Result<Option<i64>, StoreError> {
        match *self.columns()[index].type_() {
            Type::INT2 => Ok(get::<Option<i16>>(self, index)?.map(i64::from)),
            Type::INT4 => Ok(get::<Option<i32>>(self, index)?.map(i64::from)),
            Type::BOOL => Ok(get::<Option<bool>>(self, index)?.map(i64::from)),
            _ => get(self, index),
        }
    }

    fn maybe_text(&self, index: usize) -> Result<Option<String>, StoreError> {
        get(self, index)
    }

    fn maybe_bytes(&self, index: usize) -> Result<Option<Vec<u8>>, StoreError> {
        get(self, index)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (self, kind) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Int(it), &Type::INT2) => i16::try_from(*it)?.to_sql(kind, out),
            (Value::Int(it), &Type::INT4) => i32::try_from(*it)?.to_sql(kind, out),
            (Value::Int(it), &Type::BOOL) => (*it != 0).to_sql(kind, out),
            (Value::Int(it), _) => it.to_sql(kind, out),
            (Value::Text(it), _) => it.to_sql(kind, out),
            (Value::Bytes(it), _) => it.to_sql(kind, out),
            (Value::Id(it), _) => it.0.as_slice().to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(
            *kind,
            Type::INT2 | Type::INT4 | Type::INT8 | Type::BOOL | Type::TEXT | Type::BYTEA
        )
    }

    to_sql_checked!();
}

pub(super) const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN ( \
     'server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'max_connections', \
     'default_transaction_read_only', 'autovacuum') ORDER BY name";

/// Age of a snapshot, in transactions, that causes a warning.
const OLD: i64 = 50_000;

/// The oldest snapshot of another client, and that client: it keeps dead rows from being removed.
pub(super) const OLDEST: &str = "SELECT who, age FROM ( \
     SELECT 'process ' || pid || ' (' || coalesce(nullif(application_name, ''), usename::text, \
     'unknown') || ')' AS who, greatest(age(backend_xmin), age(backend_xid))::bigint AS age \
     FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
     AND backend_type IS DISTINCT FROM 'autovacuum worker' \
     UNION ALL SELECT 'prepared transaction ' || gid, age(transaction)::bigint \
     FROM pg_prepared_xacts \
     UNION ALL SELECT 'replication slot ' || slot_name, \
     greatest(age(xmin), age(catalog_xmin))::bigint FROM pg_replication_slots) AS it \
     WHERE age IS NOT NULL ORDER BY age DESC LIMIT 1";

pub(super) fn oldest(row: &mut RowReader<'_>) -> Result<Setting, StoreError> {
    let (who, age) = (row.text()?, row.int()?);
    let concern = (OLD <= age).then(|| {
        format!(
            "{who} keeps PostgreSQL from cleaning up, and everything slows down; end it, \
             for example with pg_terminate_backend"
        )
    });
    let value = format!("{age} transactions old");
    Ok(Setting { name: "oldest_snapshot".into(), value, concern })
}

pub(super) fn setting(row: &mut RowReader<'_>) -> Result<Setting, StoreError> {
    let (name, value) = (row.text()?, row.text()?);
    let concern = match (name.as_str(), value.as_str()) {
        ("fsync", "off") => Some("acknowledged commits are lost when the machine fails; set it on"),
        ("full_page_writes", "off") => Some("a crash can damage pages; set it on"),
        ("synchronous_commit", "off") => {
            Some("we overrule it for our writer; others lose acknowledged commits")
        }
        ("default_transaction_read_only", "on") => Some("we cannot write; is this a standby?"),
        ("autovacuum", "off") => Some("delivery slows down behind dead rows; set it on"),
        _ => None,
    };
    Ok(Setting { name, value, concern: concern.map(String::from) })
}
