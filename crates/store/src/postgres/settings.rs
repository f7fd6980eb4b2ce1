//! The settings of a PostgreSQL server that our promises depend on.

use crate::{Setting, StoreError, sql::Fields};

pub(super) const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN ( \
     'server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'max_connections', \
     'default_transaction_read_only', 'autovacuum') ORDER BY name";

pub(super) fn setting(row: &dyn Fields) -> Result<Setting, StoreError> {
    let (name, value) = (row.text(0)?, row.text(1)?);
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
