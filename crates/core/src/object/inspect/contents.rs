//! The contents of an object: its size, tables, alarms and connections, and the rows of one
//! statement that only reads, with limits on time, rows and bytes.

use std::sync::{Arc, atomic::AtomicBool};

use rusqlite::{Connection, Statement};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::{self as store, Head, Store, StoreError, Timestamp, sort::sort_by_key};
use steadfast_vfs::at_time;

use super::reader::{InspectError, Reader, from_json, size, to_json};
use crate::{
    body::{self, Time},
    object::{
        connection::ConnectionId, error::LastFailure, executor::alarms::Alarm, guard::PREFIX,
        history::Past,
    },
};

/// Maximum turns that are read to find the oldest.
const LOOK_BACK: usize = 2_000;

/// Rows of a table that are counted.
const ROWS_MAX: usize = 10_000;

/// Alarms and connections that are shown.
const SHOWN_MAX: usize = 1_000;

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ObjectEntry))]
pub struct ObjectItem {
    /// 32 hexadecimal digits, computed from the address.
    pub id: String,
    /// `object/class/name`.
    #[serde(with = "body::text")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub address: store::Address,
    /// The name within the class.
    pub name: String,
    /// Number of turns.
    pub turns: i64,
    /// Whether it is in memory.
    pub awake: bool,
    /// When its last turn was committed; null if that turn is no longer kept.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub updated_at: Option<Timestamp>,
    /// When its name was first used.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// An object, with all but its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ObjectDetail))]
pub struct ObjectView {
    /// Its entry in the list.
    #[serde(flatten)]
    pub entry: ObjectItem,
    /// Its class.
    pub class: String,
    /// Whether this server serves its class.
    pub served: bool,
    /// The oldest turn whose state can be read, within the last 2,000 turns.
    pub oldest_turn: i64,
    /// Bytes of its database.
    pub bytes: usize,
    /// Its tables, by name; the runtime's own come last.
    pub tables: Vec<TableView>,
    /// Its alarms in due order; failed ones last.
    pub alarms: Vec<Alarm>,
    /// Its live connections.
    pub connections: Vec<ConnectionView>,
    /// The last failure of a turn since the server started. Alarms have their own error.
    pub last_error: Option<LastFailure>,
    /// Damage of its stored data. Its size, tables and alarms are unknown then.
    pub damage: Option<String>,
}

/// A table of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = TableEntry))]
pub struct TableView {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// The number of rows, up to 10,000; null if it could not be counted in time.
    pub rows: Option<usize>,
    /// Whether there are more than that.
    pub more: bool,
    /// Whether it is the runtime's own.
    pub system: bool,
}

/// A live connection of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ConnectionEntry))]
pub struct ConnectionView {
    /// Its number.
    pub id: i64,
    /// Its tags.
    pub tags: Vec<String>,
    /// When it was accepted.
    pub connected_at: Time,
    /// Its attachment.
    pub attachment: Value,
}

/// The oldest turn whose state can be read.
pub(super) async fn oldest(store: &dyn Store, head: &Head) -> Result<i64, StoreError> {
    let turns = store.turn_summaries(head.position, LOOK_BACK).await?;
    // The changes of a turn lead back to the state before it.
    Ok(turns.last().map_or(head.seq, |it| (it.seq - 1).max(1)))
}

/// Reads the contents of an object into its view; an error describes the damage.
pub(super) fn fill(view: &mut ObjectView, past: Past, first: ConnectionId) -> Result<(), String> {
    let bytes = past.bytes_len();
    let reader = Reader::open(past).map_err(|error| error.to_string())?;
    let tables = Table::all(&reader.connection).map_err(|error| error.to_string())?;
    let has = |name: &str| tables.iter().any(|it| it.name == name);
    let alarms = if has("_steadfast_alarm") {
        Alarm::list(&reader.connection, SHOWN_MAX).map_err(|error| error.to_string())?
    } else {
        Vec::new()
    };
    let connections = if has("_steadfast_connection") {
        connections(&reader, first).map_err(|error| error.to_string())?
    } else {
        Vec::new()
    };
    view.tables = tables.iter().map(|it| table_view(&reader, it)).collect();
    sort_by_key(&mut view.tables, |it| it.system);
    (view.bytes, view.alarms, view.connections) = (bytes, alarms, connections);
    Ok(())
}

fn table_view(reader: &Reader, table: &Table) -> TableView {
    let count = table.count(ROWS_MAX + 1);
    let counted: Option<usize> = reader.connection.query_row(&count, (), |row| row.get(0)).ok();
    TableView {
        name: table.name.clone(),
        columns: table.columns.clone(),
        rows: counted.map(|it| it.min(ROWS_MAX)),
        more: counted.is_some_and(|it| ROWS_MAX < it),
        system: is_system(&table.name),
    }
}

/// Whether a table is the runtime's own.
pub(super) fn is_system(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Connections of this process; the object has not yet processed the ends of others.
fn connections(reader: &Reader, first: ConnectionId) -> rusqlite::Result<Vec<ConnectionView>> {
    let sql = format!(
        "SELECT id, tags, connected_at, attachment FROM _steadfast_connection \
         WHERE id >= {first} AND NOT closing ORDER BY id LIMIT {SHOWN_MAX}"
    );
    let mut list = reader.connection.prepare(&sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let tags: String = row.get(1)?;
        let attachment: Option<String> = row.get(3)?;
        Ok(ConnectionView {
            id: row.get(0)?,
            tags: serde_json::from_str(&tags).unwrap_or_default(),
            connected_at: Time(Timestamp(row.get(2)?)),
            attachment: attachment.map_or(Value::Null, |text| {
                serde_json::from_str(&text).unwrap_or(Value::String(text))
            }),
        })
    };
    let found = list.query_map((), read)?;
    found.collect()
}

/// Maximum columns of a result: a row is in memory as a whole.
const COLUMNS_MAX: usize = 100;

/// Maximum rows of a result.
const RESULT_MAX: usize = 1_000;

/// Approximate maximum bytes of a result.
pub(super) const BYTES_MAX: usize = 4 << 20;

/// A query of one object.
#[derive(Clone, Debug, Default)]
pub struct SqlQuery {
    /// One statement.
    pub sql: String,
    /// A JSON array for `?`, an object for `:name`, or null.
    pub params: Value,
    /// The turn after which the object is read; without one, its current state.
    pub turn: Option<i64>,
}

/// The result of a statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = SqlRows))]
pub struct Rows {
    /// The turn after which the object was read.
    pub turn: i64,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows. NULL, integers, finite reals and text are as JSON has them; a blob is
    /// `{"blob": "<hex>"}`, an infinite real `{"real": "Inf"}` or `{"real": "-Inf"}`, and text that
    /// is not UTF-8 `{"text": "<hex>"}`.
    pub rows: Vec<Vec<Value>>,
    /// Whether there are more: an answer ends at 1,000 rows, or at about 4 MiB.
    pub truncated: bool,
}

pub(super) fn run(
    past: Past,
    query: &SqlQuery,
    now: Timestamp,
    stopped: Arc<AtomicBool>,
) -> Result<Rows, InspectError> {
    let turn = past.turn;
    let reader = Reader::open_until(past, stopped).map_err(|error| damaged(&error))?;
    at_time(now.0, || read(&reader, query, turn))
}

fn read(reader: &Reader, query: &SqlQuery, turn: i64) -> Result<Rows, InspectError> {
    let fails = |error: rusqlite::Error| reader.error(&error);
    let mut statement = reader.connection.prepare(&query.sql).map_err(fails)?;
    let columns: Vec<String> = statement.column_names().map(Into::into).collect();
    if !statement.readonly() {
        return Err(InspectError::Refused { detail: "it writes".into() });
    }
    if COLUMNS_MAX < columns.len() {
        let detail = format!("an answer has at most {COLUMNS_MAX} columns");
        return Err(InspectError::Refused { detail });
    }
    if columns.is_empty() {
        return Err(failed("there is no statement that gives rows"));
    }
    bind(&mut statement, &query.params)?;
    let mut found = Rows { turn, columns, rows: Vec::new(), truncated: false };
    let mut bytes = 0;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(fails)? {
        let mut cells = Vec::with_capacity(found.columns.len());
        for index in 0..found.columns.len() {
            let value = row.get_ref(index).map_err(fails)?;
            bytes += size(value);
            if BYTES_MAX < bytes || RESULT_MAX <= found.rows.len() {
                found.truncated = true;
                return Ok(found);
            }
            cells.push(to_json(value));
        }
        found.rows.push(cells);
    }
    Ok(found)
}

/// Binds all parameters of the statement: a missing one would silently be NULL.
fn bind(statement: &mut Statement<'_>, params: &Value) -> Result<(), InspectError> {
    let count = statement.parameter_count();
    for index in 1..=count {
        let name = statement.parameter_name(index).map(ToOwned::to_owned);
        let given = match (params, &name) {
            (Value::Array(list), _) => list.get(index - 1),
            (Value::Object(fields), Some(name)) => {
                fields.get(name).or_else(|| fields.get(name.get(1..)?))
            }
            _ => None,
        };
        let shown = name.unwrap_or_else(|| format!("?{index}"));
        let value = given.ok_or_else(|| failed(&format!("parameter `{shown}` is missing")))?;
        let value = from_json(value)
            .map_err(|wanted| failed(&format!("parameter `{shown}` must be {wanted}")))?;
        statement.raw_bind_parameter(index, value).map_err(|error| failed(&error.to_string()))?;
    }
    match params {
        Value::Array(list) if count < list.len() => {
            let detail = format!("it has {count} parameters, {} are given", list.len());
            Err(failed(&detail))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Ok(()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(failed("parameters are an array, or an object of names"))
        }
    }
}

fn failed(detail: &str) -> InspectError {
    InspectError::Failed { detail: detail.into() }
}

/// The stored data is not a database.
pub(super) fn damaged(error: &rusqlite::Error) -> InspectError {
    failed(&format!("the database cannot be opened: {error}"))
}

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
    pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<Self>> {
        let mut list = connection.prepare(TABLES)?;
        let found = list.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let found: Vec<(String, bool, bool)> = found.collect::<rusqlite::Result<_>>()?;
        found
            .into_iter()
            .map(|(name, is_virtual, without_rowid)| {
                let mut list = connection.prepare_cached(COLUMNS)?;
                let columns =
                    list.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                let columns: Vec<(String, String, usize)> =
                    columns.collect::<rusqlite::Result<_>>()?;
                let key = key_columns(&columns, without_rowid);
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

/// The columns that identify a row.
fn key_columns(columns: &[(String, String, usize)], without_rowid: bool) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_without_a_waiting_caller_stops() {
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
             SELECT count(*) FROM n";
        let query = SqlQuery { sql: endless.into(), ..SqlQuery::default() };
        let stopped = Arc::new(AtomicBool::new(true));
        let error = run(Past::nothing(), &query, Timestamp(0), stopped).unwrap_err();
        assert_eq!(error.code(), "sql_failed", "{error}");
    }
}
