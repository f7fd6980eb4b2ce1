//! Functions of SQLite that may take time proportional to the product of the sizes of their
//! arguments. SQLite is not interrupted within a function, so their arguments have a limit.

use parking_lot::Mutex;
use rusqlite::{
    Connection, Error, Result, ffi,
    functions::{Context, FunctionFlags},
    limits::Limit,
    params_from_iter,
    types::{ToSql, ToSqlOutput, Value, ValueRef},
};

/// Bytes of the first argument times bytes of the second.
const PRODUCT_MAX: usize = 100_000_000;

/// Each with the number of its arguments.
const PRODUCTS: &[(&str, i32)] =
    &[("instr", 2), ("ltrim", 2), ("replace", 3), ("rtrim", 2), ("trim", 2), ("unhex", 2)];

/// Bytes of one value.
pub(super) const LENGTH_MAX: i32 = 4 << 20;

/// Their results are marked as JSON, which a replacement cannot do.
pub(super) fn is_unbounded(function: &str) -> bool {
    let unbounded = ["json_patch", "jsonb_patch", "json_pretty"];
    unbounded.iter().any(|it| it.eq_ignore_ascii_case(function))
}

/// Replaces the functions with bounded ones.
pub(super) fn bound(
    connection: &Connection,
    is_over: impl Fn() -> bool + Clone + Send + 'static,
) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    for &(name, count) in PRODUCTS {
        let is_over = is_over.clone();
        // SQLite's own function is called on a connection where it has not been replaced.
        let plain = Mutex::new(None);
        connection.create_scalar_function(name, count, flags, move |context| {
            if is_over() {
                return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None));
            }
            check(name, context)?;
            let mut plain = plain.lock();
            call(&mut plain, name, context)
        })?;
    }
    Ok(())
}

fn check(name: &str, context: &Context<'_>) -> Result<()> {
    let size = |index| match context.get_raw(index) {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
    };
    let (one, other) = (size(0), size(1));
    if one.saturating_mul(other) <= PRODUCT_MAX {
        return Ok(());
    }
    let detail = format!("{name}() of {one} and {other} bytes takes too long here");
    Err(Error::UserFunctionError(detail.into()))
}

fn call(plain: &mut Option<Connection>, name: &str, context: &Context<'_>) -> Result<Found> {
    let plain = match plain {
        Some(open) => open,
        None => {
            let open = Connection::open_in_memory()?;
            open.set_limit(Limit::SQLITE_LIMIT_LENGTH, LENGTH_MAX)?;
            plain.insert(open)
        }
    };
    let marks = vec!["?"; context.len()].join(", ");
    let arguments = (0..context.len()).map(|index| ToSqlOutput::Borrowed(context.get_raw(index)));
    let mut statement = plain.prepare_cached(&format!("SELECT {name}({marks})"))?;
    statement.query_row(params_from_iter(arguments), |row| match row.get_ref(0)? {
        ValueRef::Text(bytes) => Ok(Found::Text(bytes.to_vec())),
        other @ (ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_)) => {
            Ok(Found::Value(other.try_into()?))
        }
    })
}

/// The result of a function. Text need not be UTF-8.
enum Found {
    Text(Vec<u8>),
    Value(Value),
}

impl ToSql for Found {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Found::Text(bytes) => ValueRef::Text(bytes),
            Found::Value(value) => ValueRef::from(value),
        }))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ErrorCode;

    use super::*;

    #[test]
    fn a_bounded_function_answers_as_that_of_sqlite() {
        let (plain, bounded) =
            (Connection::open_in_memory().unwrap(), Connection::open_in_memory().unwrap());
        bound(&bounded, || false).unwrap();
        for sql in [
            "trim('xxayx', 'yx')",
            "ltrim('ßüa', 'üß')",
            "rtrim(12.50, 0)",
            "trim(NULL, 'a')",
            "trim('  a ')",
            "instr('abcü', 'ü')",
            "instr(x'0102', x'02')",
            "instr(12345, 34)",
            "replace('aXbX', 'X', 'yy')",
            "replace('a', '', 'b')",
            "typeof(replace(1, 1, 2))",
            "hex(unhex('ab cd', ' '))",
            "unhex('zz', ' ') IS NULL",
            "hex(trim(CAST(x'ff61' AS TEXT), 'a'))",
        ] {
            let ask = |it: &Connection| {
                it.query_row(&format!("SELECT {sql}"), (), |row| row.get::<_, Value>(0)).unwrap()
            };
            assert_eq!(ask(&bounded), ask(&plain), "{sql}");
        }
    }

    #[test]
    fn a_costly_call_is_refused_and_one_after_the_end_is_interrupted() {
        let connection = Connection::open_in_memory().unwrap();
        bound(&connection, || false).unwrap();
        for &(name, count) in PRODUCTS {
            let rest = if count == 3 { ", 'x'" } else { "" };
            let sql = format!("SELECT {name}(hex(zeroblob(10000)), hex(zeroblob(10000)){rest})");
            let error = connection.query_row(&sql, (), |_| Ok(())).unwrap_err().to_string();
            assert_eq!(error, format!("{name}() of 20000 and 20000 bytes takes too long here"));
        }
        // The result would be too long, although the product is small.
        let long = "SELECT replace(hex(zeroblob(100)), '0', hex(zeroblob(1000000)))";
        let error = connection.query_row(long, (), |_| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "string or blob too big");
        bound(&connection, || true).unwrap();
        let error = connection.query_row("SELECT trim('a', 'b')", (), |_| Ok(())).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::OperationInterrupted));
    }
}
