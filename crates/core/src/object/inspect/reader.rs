//! A read-only connection to a stored object, for a bounded time, and the values that it gives.
//!
//! Some functions of SQLite may take time proportional to the product of the sizes of their
//! arguments. SQLite is not interrupted within a function, so their arguments have a limit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use parking_lot::Mutex;
use rusqlite::{
    Connection, ErrorCode, ffi,
    functions::{Context, FunctionFlags},
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    params_from_iter,
    types::{ToSql, ToSqlOutput, Value as Sql, ValueRef},
};
use serde_json::{Number, Value, json};
use steadfast_store::{AddressError, Code, StoreError};

use crate::object::{
    CallError,
    guard::{is_among, only_reads, reaches_out},
    history::{HistoryError, Past},
};

/// Why an object cannot be inspected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InspectError {
    /// No object of the class exists, and it is not served here.
    #[error("class `{class}` is neither registered here nor has it objects in this store")]
    UnknownClass {
        /// The requested name.
        class: String,
    },
    /// It does not exist.
    #[error("`{object}` does not exist; the first call that changes it creates it")]
    UnknownObject {
        /// The requested address.
        object: String,
    },
    /// The name cannot be one of an object.
    #[error(transparent)]
    Name(#[from] AddressError),
    /// That state cannot be restored.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The statement is not read-only.
    #[error("statement refused: {detail}; only statements that read are run here")]
    Refused {
        /// The denied action.
        detail: String,
    },
    /// SQLite rejected the statement.
    #[error("statement failed: {detail}")]
    Failed {
        /// The message of SQLite.
        detail: String,
    },
    /// The statement took too long.
    #[error("statement was stopped after {seconds} s; query less, or export the object")]
    TooLong {
        /// The limit.
        seconds: u64,
    },
    /// Too many statements or exports are in progress.
    #[error("{places} statements or exports are in progress, which is the limit; try again")]
    Busy {
        /// The maximum.
        places: usize,
    },
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InspectError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            InspectError::UnknownClass { .. } => Code::ClassNotFound,
            InspectError::UnknownObject { .. } => Code::ObjectNotFound,
            InspectError::Name(_) => Code::InvalidName,
            InspectError::History(HistoryError::NoTurn { .. } | HistoryError::Forgotten { .. }) => {
                Code::TurnNotFound
            }
            InspectError::History(HistoryError::Call(error)) => error.kind(),
            InspectError::Refused { .. }
            | InspectError::Failed { .. }
            | InspectError::TooLong { .. } => Code::SqlFailed,
            InspectError::Busy { .. } => Code::Busy,
            InspectError::Store(error) => error.kind(),
        }
    }

    /// The stable code as text.
    pub fn code(&self) -> &'static str {
        self.kind().tag()
    }
}

impl From<CallError> for InspectError {
    fn from(error: CallError) -> Self {
        InspectError::History(error.into())
    }
}

/// Instructions of SQLite between two checks of the clock. Each may process 4 MiB.
const OPS: i32 = 10;

/// Real time for the statements of one query.
pub(super) const TIME: Duration = Duration::from_secs(2);

/// More pragmas that only read, which handlers cannot use.
const READING: &[&str] = &["collation_list", "compile_options", "database_list"];

pub(super) struct Reader {
    pub(super) connection: Connection,
    timed_out: Arc<AtomicBool>,
    refused: Arc<AtomicBool>,
}

impl Reader {
    /// Opens it. The time limit begins now.
    pub(super) fn open(past: Past) -> rusqlite::Result<Self> {
        Self::open_until(past, Arc::default())
    }

    /// Opens it. The time limit begins now, and ends early when `stopped` is set.
    #[expect(clippy::disallowed_methods, reason = "a statement takes real time, in tests as well")]
    pub(super) fn open_until(past: Past, stopped: Arc<AtomicBool>) -> rusqlite::Result<Self> {
        let mut connection = past.open()?;
        connection.execute_batch("PRAGMA query_only = ON")?;
        // Together with the maximum of columns, this bounds the memory of one row.
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LENGTH_MAX)?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20)?;
        // One instruction is not interrupted: a comparison, or a function of all its arguments.
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200)?;
        // The object's own triggers and views are parsed before: they may call functions with more
        // arguments.
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
        connection.set_limit(Limit::SQLITE_LIMIT_FUNCTION_ARG, 32)?;
        connection.set_prepared_statement_cache_capacity(32);
        let timed_out = Arc::new(AtomicBool::new(false));
        let (over, deadline) = (timed_out.clone(), Instant::now() + TIME);
        let is_over = move || {
            let is_over = stopped.load(Ordering::Relaxed) || deadline < Instant::now();
            over.fetch_or(is_over, Ordering::Relaxed);
            is_over
        };
        bound(&connection, is_over.clone())?;
        connection.progress_handler(OPS, Some(is_over))?;
        let refused = Arc::new(AtomicBool::new(false));
        let denied = refused.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if reads(&context) {
                return Authorization::Allow;
            }
            denied.store(true, Ordering::Relaxed);
            Authorization::Deny
        }))?;
        Ok(Self { connection, timed_out, refused })
    }

    /// Whether a statement exceeded the time limit.
    pub(super) fn has_timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }

    /// Converts an error of a statement.
    pub(super) fn error(&self, error: &rusqlite::Error) -> InspectError {
        let detail = text(error);
        let writes = error.sqlite_error_code() == Some(ErrorCode::ReadOnly);
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
            // The text of SQLite speaks of a disk, which has nothing to do with it.
            let detail = "it needs more space for its intermediate results than a statement may \
                use; sort or join less, or export the object";
            return InspectError::Failed { detail: detail.into() };
        }
        if self.has_timed_out() {
            InspectError::TooLong { seconds: TIME.as_secs() }
        } else if writes || self.refused.load(Ordering::Relaxed) {
            InspectError::Refused { detail }
        } else {
            InspectError::Failed { detail }
        }
    }
}

/// The message of SQLite, without the statement, which may be long.
fn text(error: &rusqlite::Error) -> String {
    if let rusqlite::Error::SqliteFailure(_, Some(text)) = error {
        return text.clone();
    }
    if let rusqlite::Error::SqlInputError { msg, offset, .. } = error {
        return if *offset < 0 { msg.clone() } else { format!("{msg}, at byte {offset}") };
    }
    if let rusqlite::Error::MultipleStatement = error {
        return "there is more than one statement".into();
    }
    error.to_string()
}

/// All other actions change something, or leave the database.
fn reads(context: &AuthContext<'_>) -> bool {
    if let AuthAction::Function { function_name } = context.action {
        return !reaches_out(function_name) && !is_unbounded(function_name);
    }
    if let AuthAction::Pragma { pragma_name, pragma_value } = context.action {
        return only_reads(pragma_name, pragma_value)
            || is_among(READING, pragma_name)
            || (pragma_value.is_none() && is_among(&["application_id"], pragma_name));
    }
    matches!(context.action, AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive)
}

/// Bytes of the first argument times bytes of the second.
const PRODUCT_MAX: usize = 100_000_000;

/// Each with the number of its arguments.
const PRODUCTS: &[(&str, i32)] =
    &[("instr", 2), ("ltrim", 2), ("replace", 3), ("rtrim", 2), ("trim", 2), ("unhex", 2)];

/// Bytes of one value.
const LENGTH_MAX: i32 = 4 << 20;

/// Their results are marked as JSON, which a replacement cannot do.
fn is_unbounded(function: &str) -> bool {
    is_among(&["json_patch", "jsonb_patch", "json_pretty"], function)
}

/// Replaces the functions with bounded ones.
fn bound(
    connection: &Connection,
    is_over: impl Fn() -> bool + Clone + Send + 'static,
) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    for &(name, count) in PRODUCTS {
        let is_over = is_over.clone();
        // SQLite's own function is called on a connection where it has not been replaced.
        let plain = Mutex::new(None);
        connection.create_scalar_function(name, count, flags, move |context| {
            if is_over() {
                return Err(rusqlite::Error::SqliteFailure(
                    ffi::Error::new(ffi::SQLITE_INTERRUPT),
                    None,
                ));
            }
            check(name, context)?;
            let mut plain = plain.lock();
            call(&mut plain, name, context)
        })?;
    }
    Ok(())
}

fn check(name: &str, context: &Context<'_>) -> rusqlite::Result<()> {
    let size = |index| match context.get_raw(index) {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
    };
    let (one, other) = (size(0), size(1));
    if one.saturating_mul(other) <= PRODUCT_MAX {
        return Ok(());
    }
    let detail = format!("{name}() of {one} and {other} bytes takes too long here");
    Err(rusqlite::Error::UserFunctionError(detail.into()))
}

fn call(
    plain: &mut Option<Connection>,
    name: &str,
    context: &Context<'_>,
) -> rusqlite::Result<Found> {
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
    Value(Sql),
}

impl ToSql for Found {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Found::Text(bytes) => ValueRef::Text(bytes),
            Found::Value(value) => ValueRef::from(value),
        }))
    }
}

pub(super) fn to_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => match Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => json!({ "real": if number < 0.0 { "-Inf" } else { "Inf" } }),
        },
        ValueRef::Text(bytes) => match str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => json!({ "text": HEXLOWER.encode(bytes) }),
        },
        ValueRef::Blob(bytes) => json!({ "blob": HEXLOWER.encode(bytes) }),
    }
}

/// Approximate bytes as JSON.
pub(super) fn size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) => bytes.len() + 3,
        ValueRef::Blob(bytes) => 2 * bytes.len() + 12,
    }
}

/// Reads a parameter; the error describes the expected form.
pub(super) fn from_json(value: &Value) -> Result<Sql, &'static str> {
    match value {
        Value::Null => Ok(Sql::Null),
        Value::Bool(it) => Ok(Sql::Integer((*it).into())),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Ok(Sql::Integer(integer)),
            (None, Some(real)) if !number.is_u64() => Ok(Sql::Real(real)),
            (None, _) => Err("a number of 64 bits with a sign"),
        },
        Value::String(text) => Ok(Sql::Text(text.clone())),
        Value::Object(fields) => {
            let digits = fields.get("blob").filter(|_| fields.len() == 1).and_then(Value::as_str);
            let bytes = digits.and_then(|it| HEXLOWER_PERMISSIVE.decode(it.as_bytes()).ok());
            let bytes = bytes.ok_or("{\"blob\": \"<hexadecimal digits>\"}")?;
            Ok(Sql::Blob(bytes))
        }
        Value::Array(_) => Err("null, a number, a text, a boolean or {\"blob\": \"<hex>\"}"),
    }
}

#[cfg(test)]
mod tests {
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
                it.query_row(&format!("SELECT {sql}"), (), |row| row.get::<_, Sql>(0)).unwrap()
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

    #[test]
    fn every_value_has_a_form_in_json() {
        let cases = [
            (ValueRef::Null, json!(null)),
            (ValueRef::Integer(i64::MIN), json!(i64::MIN)),
            (ValueRef::Real(0.5), json!(0.5)),
            (ValueRef::Real(f64::INFINITY), json!({"real": "Inf"})),
            (ValueRef::Real(f64::NEG_INFINITY), json!({"real": "-Inf"})),
            (ValueRef::Text("ü\0".as_bytes()), json!("ü\0")),
            (ValueRef::Text(b"\xff"), json!({"text": "ff"})),
            (ValueRef::Blob(b""), json!({"blob": ""})),
            (ValueRef::Blob(b"\x00\xab"), json!({"blob": "00ab"})),
        ];
        for (value, expected) in cases {
            assert_eq!(to_json(value), expected);
        }
    }

    #[test]
    fn a_parameter_is_what_it_says_or_is_refused() {
        for value in [json!(null), json!(i64::MAX), json!(1.5), json!("x"), json!({"blob": "00AB"})]
        {
            let back = to_json(ValueRef::from(&from_json(&value).unwrap()));
            assert_eq!(back.to_string().to_lowercase(), value.to_string().to_lowercase());
        }
        assert_eq!(from_json(&json!(true)), Ok(Sql::Integer(1)));
        for bad in [json!(u64::MAX), json!([]), json!({}), json!({"blob": "a"}), json!({"blob": 1})]
        {
            assert!(from_json(&bad).is_err(), "{bad}");
        }
        assert!(from_json(&json!({"blob": "zz"})).is_err());
        assert!(from_json(&json!({"blob": "", "x": 1})).is_err());
    }
}
