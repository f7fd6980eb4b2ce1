//! The tables of an object, and the keys of their rows.

use rusqlite::{Connection, Result};
use steadfast_store::sort::sort_by_key;

/// A table that holds rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    /// The key of a row: its primary key, or its row id. Empty if columns use all names of the row
    /// id.
    pub(super) key: Vec<String>,
    /// Whether it is virtual: then other tables hold its rows.
    pub(super) is_virtual: bool,
}

const TABLES: &str = "SELECT name, type = 'virtual', wr FROM pragma_table_list \
     WHERE schema = 'main' AND type IN ('table', 'virtual') AND name NOT LIKE 'sqlite\\_%' \
     ESCAPE '\\' ORDER BY name LIMIT 1000";

/// Hidden columns of virtual tables (1) are not shown.
const COLUMNS: &str = "SELECT name, type, pk FROM pragma_table_xinfo(?1) WHERE hidden <> 1";

impl Table {
    /// All tables of a database, by name, without the shadow tables of virtual ones.
    pub(super) fn all(connection: &Connection) -> Result<Vec<Self>> {
        let mut list = connection.prepare(TABLES)?;
        let found = list.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let found: Vec<(String, bool, bool)> = found.collect::<Result<_>>()?;
        found
            .into_iter()
            .map(|(name, is_virtual, without_rowid)| {
                let mut list = connection.prepare_cached(COLUMNS)?;
                let columns =
                    list.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                let columns: Vec<(String, String, usize)> = columns.collect::<Result<_>>()?;
                let key = key(&columns, without_rowid);
                let columns = columns.into_iter().map(|(name, ..)| name).collect();
                Ok(Self { name, columns, key, is_virtual })
            })
            .collect()
    }

    /// A statement that returns all rows: the key, then the columns.
    pub(super) fn rows(&self) -> String {
        let cells = self.key.iter().chain(&self.columns);
        let cells: Vec<String> = cells.map(|it| quoted(it)).collect();
        format!("SELECT {} FROM {}", cells.join(", "), quoted(&self.name))
    }

    /// A statement that returns the same of one row, by its key.
    pub(super) fn row(&self) -> String {
        let key = self.key.iter().enumerate();
        let key: Vec<String> =
            key.map(|(index, it)| format!("{} = ?{}", quoted(it), index + 1)).collect();
        format!("{} WHERE {}", self.rows(), key.join(" AND "))
    }

    /// A statement that counts the rows, up to a number.
    pub(super) fn count(&self, max: usize) -> String {
        format!("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {max})", quoted(&self.name))
    }
}

fn key(columns: &[(String, String, usize)], without_rowid: bool) -> Vec<String> {
    let mut primary: Vec<_> = columns.iter().filter(|(_, _, place)| 0 < *place).collect();
    sort_by_key(&mut primary, |(_, _, place)| *place);
    let is_number = |kind: &str| kind.eq_ignore_ascii_case("integer");
    if without_rowid || (primary.len() == 1 && is_number(&primary[0].1)) {
        return primary.into_iter().map(|(name, ..)| name.clone()).collect();
    }
    let free = |it: &&str| !columns.iter().any(|(name, ..)| name.eq_ignore_ascii_case(it));
    ["rowid", "_rowid_", "oid"].into_iter().find(free).map(Into::into).into_iter().collect()
}

/// A quoted name.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
