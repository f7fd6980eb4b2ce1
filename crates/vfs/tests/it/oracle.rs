//! The contents of a database as text, to compare two of them.

use rusqlite::{Connection, types::Value};

/// The schema, then the rows of every table.
pub(crate) fn dump(connection: &Connection) -> Vec<String> {
    let mut lines = Vec::new();
    let schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";
    lines.extend(rows(connection, schema));
    lines.extend(rows(connection, "PRAGMA user_version"));
    let tables = rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1");
    for table in tables {
        let name = table.trim_start_matches("[Text(\"").trim_end_matches("\")]");
        lines.push(format!("-- {name}"));
        let mut content = rows(connection, &format!("SELECT * FROM \"{name}\""));
        content.sort();
        lines.extend(content);
    }
    lines
}

/// All rows of a query; if it fails, its error.
pub(crate) fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    let read = || {
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let values = (0..columns).map(|column| row.get(column));
            Ok(format!("{:?}", values.collect::<rusqlite::Result<Vec<Value>>>()?))
        };
        statement.query_map([], row)?.collect::<rusqlite::Result<Vec<String>>>()
    };
    read().unwrap_or_else(|error| vec![format!("{error}")])
}

/// Runs statements until one fails. The result is the same on two databases that agree.
pub(crate) fn run(connection: &Connection, sql: &str) -> Result<(), String> {
    connection.execute_batch(sql).map_err(|error| error.to_string())
}

pub(crate) fn assert_sound(connection: &Connection, place: &str) {
    assert_eq!(rows(connection, "PRAGMA integrity_check"), ["[Text(\"ok\")]"], "{place}");
}
