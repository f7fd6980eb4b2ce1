//! One statement that only reads, with limits on time, rows and bytes.

use std::sync::{Arc, atomic::AtomicBool};

use rusqlite::Statement;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::Timestamp;
use steadfast_vfs::at_time;

use super::{
    super::storage::Past,
    InspectError,
    reader::Reader,
    value::{from_json, size, to_json},
};

/// Maximum columns of a result: a row is in memory as a whole.
const COLUMNS_MAX: usize = 100;

/// Maximum rows of a result.
const ROWS_MAX: usize = 1_000;

/// Approximate maximum bytes of a result.
pub(super) const BYTES_MAX: usize = 4 << 20;

/// A query of one object.
#[derive(Clone, Debug, Default)]
pub struct Query {
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
    query: &Query,
    now: Timestamp,
    stopped: Arc<AtomicBool>,
) -> Result<Rows, InspectError> {
    let turn = past.turn;
    let reader = Reader::open_until(past, stopped).map_err(|error| damaged(&error))?;
    at_time(now.0, || read(&reader, query, turn))
}

fn read(reader: &Reader, query: &Query, turn: i64) -> Result<Rows, InspectError> {
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
            if BYTES_MAX < bytes || ROWS_MAX <= found.rows.len() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_without_a_waiting_caller_stops() {
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
             SELECT count(*) FROM n";
        let query = Query { sql: endless.into(), ..Query::default() };
        let stopped = Arc::new(AtomicBool::new(true));
        let error = run(Past::nothing(), &query, Timestamp(0), stopped).unwrap_err();
        assert_eq!(error.code(), "sql_failed", "{error}");
    }
}
