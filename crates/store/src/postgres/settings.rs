//! The settings of a PostgreSQL server that durability depends on.

use crate::{Setting, StoreError, sql::RowReader};

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
