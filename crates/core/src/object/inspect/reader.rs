//! A read-only connection to a stored object, for a bounded time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, ErrorCode,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
};

use super::{
    super::{executor::reaches_out, storage::Past},
    InspectError, functions,
};

/// Instructions of SQLite between two checks of the clock. Each may process 4 MiB.
const OPS: i32 = 10;

/// Real time for the statements of one query.
pub(super) const TIME: Duration = Duration::from_secs(2);

/// Pragmas that only read.
const PRAGMAS: &[&str] = &[
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "foreign_key_check",
    "foreign_key_list",
    "freelist_count",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "page_count",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Pragmas that only read if they have no value.
const WITHOUT_VALUE: &[&str] =
    &["application_id", "encoding", "foreign_keys", "page_size", "schema_version", "user_version"];

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
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, functions::LENGTH_MAX)?;
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
        functions::bound(&connection, is_over.clone())?;
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
    let among = |list: &[&str], name: &str| list.iter().any(|it| it.eq_ignore_ascii_case(name));
    if let AuthAction::Function { function_name } = context.action {
        return !reaches_out(function_name) && !functions::is_unbounded(function_name);
    }
    if let AuthAction::Pragma { pragma_name, pragma_value } = context.action {
        return among(PRAGMAS, pragma_name)
            || (pragma_value.is_none() && among(WITHOUT_VALUE, pragma_name));
    }
    matches!(context.action, AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive)
}
