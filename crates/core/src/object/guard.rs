//! Restricts handlers to their own database and transaction. A turn commits whole or not at all,
//! even if the handler ignores errors.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rusqlite::{
    Connection, Result,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
};

/// Instructions of SQLite between two checks of the clock.
const OPS: i32 = 4_096;

/// The flags of one connection.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// A statement of the runtime is running.
    system: AtomicBool,
    deadline: Mutex<Option<Instant>>,
    timed_out: AtomicBool,
    /// The whole transaction was rolled back while a handler was running.
    undone: AtomicBool,
    /// A table was renamed, perhaps to a name of the runtime.
    altered: AtomicBool,
}

impl Guard {
    /// Sets the guard on a connection. A holder of `&Connection` cannot remove it.
    pub(super) fn install(connection: &mut Connection) -> Result<Arc<Self>> {
        let guard = Arc::new(Self::default());
        let it = guard.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if let AuthAction::AlterTable { .. } = context.action {
                it.altered.store(true, Ordering::Relaxed);
            }
            if it.system.load(Ordering::Relaxed) || is_allowed(&context) {
                Authorization::Allow
            } else {
                Authorization::Deny
            }
        }))?;
        let it = guard.clone();
        // A statement that outlives its transaction must not commit alone.
        connection.commit_hook(Some(move || !it.system.load(Ordering::Relaxed)))?;
        let it = guard.clone();
        // After a rollback the handler must not continue in a new transaction.
        connection.rollback_hook(Some(move || {
            let system = it.system.load(Ordering::Relaxed);
            it.undone.fetch_or(!system, Ordering::Relaxed);
        }))?;
        let it = guard.clone();
        connection.progress_handler(OPS, Some(move || it.is_over()))?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, 16 << 20)?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20)?;
        connection.set_limit(Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 32)?;
        Ok(guard)
    }

    /// Removes the guard of a connection that is about to close: closing rolls back, and rusqlite
    /// has freed the hook by then.
    pub(super) fn remove(connection: &mut Connection) {
        // It fails only where hooks were never set.
        let _ = connection.rollback_hook(None::<fn()>);
    }

    /// Runs statements of the runtime.
    pub(super) fn system<T>(&self, f: impl FnOnce() -> T) -> T {
        let before = self.system.swap(true, Ordering::Relaxed);
        let result = f();
        self.system.store(before, Ordering::Relaxed);
        result
    }

    /// Limits the time of the statements from now on.
    #[expect(clippy::disallowed_methods, reason = "a statement takes real time, in tests as well")]
    pub(super) fn allow(&self, time: Duration) {
        self.timed_out.store(false, Ordering::Relaxed);
        self.undone.store(false, Ordering::Relaxed);
        self.altered.store(false, Ordering::Relaxed);
        *self.deadline.lock() = Instant::now().checked_add(time);
    }

    /// Whether a statement exceeded the time limit since.
    pub(super) fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }

    /// Whether the whole transaction was rolled back since.
    pub(super) fn was_undone(&self) -> bool {
        self.undone.load(Ordering::Relaxed)
    }

    /// Whether a table was altered since.
    pub(super) fn was_altered(&self) -> bool {
        self.altered.load(Ordering::Relaxed)
    }

    #[expect(clippy::disallowed_methods, reason = "a statement takes real time, in tests as well")]
    fn is_over(&self) -> bool {
        let system = self.system.load(Ordering::Relaxed);
        let over = !system && self.deadline.lock().is_some_and(|it| it < Instant::now());
        if over {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        over
    }
}

/// Pragmas that only read.
const READING: &[&str] = &[
    "data_version",
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
const READING_WITHOUT_VALUE: &[&str] =
    &["encoding", "foreign_keys", "page_size", "schema_version", "user_version"];

/// Pragmas of handlers that last for the transaction at most.
const TRANSIENT: &[&str] = &["defer_foreign_keys", "optimize"];

/// Kinds of virtual tables that store everything in the database itself.
const MODULES: &[&str] = &["fts3", "fts4", "fts5", "fts5vocab", "geopoly", "rtree", "rtree_i32"];

/// Functions with effects outside of the database.
const FUNCTIONS: &[&str] =
    &["edit", "fts3_tokenizer", "load_extension", "readfile", "writefile", "zipfile"];

/// Whether a function has effects outside of the database.
pub(super) fn reaches_out(function: &str) -> bool {
    is_among(FUNCTIONS, function)
}

/// Whether a pragma only reads.
pub(super) fn only_reads(pragma: &str, value: Option<&str>) -> bool {
    is_among(READING, pragma) || (value.is_none() && is_among(READING_WITHOUT_VALUE, pragma))
}

/// Whether a name is among others. SQLite ignores the case.
pub(super) fn is_among(list: &[&str], name: &str) -> bool {
    list.iter().any(|it| it.eq_ignore_ascii_case(name))
}

fn is_allowed(context: &AuthContext<'_>) -> bool {
    let action = &context.action;
    let makes = matches!(
        action,
        AuthAction::CreateTable { .. }
            | AuthAction::CreateIndex { .. }
            | AuthAction::CreateTrigger { .. }
            | AuthAction::CreateView { .. }
            | AuthAction::CreateVtable { .. }
    );
    if makes && context.database_name == Some("temp") {
        return false;
    }
    match action {
        AuthAction::Transaction { .. }
        | AuthAction::Savepoint { .. }
        | AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Unknown { .. }
        // They would outlive the turn, but not the process.
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::DropTempIndex { .. }
        | AuthAction::DropTempTable { .. }
        | AuthAction::DropTempTrigger { .. }
        | AuthAction::DropTempView { .. } => false,
        AuthAction::Pragma { pragma_name, pragma_value } => {
            only_reads(pragma_name, *pragma_value) || is_among(TRANSIENT, pragma_name)
        }
        AuthAction::Function { function_name } => !reaches_out(function_name),
        AuthAction::CreateVtable { table_name, module_name }
        | AuthAction::DropVtable { table_name, module_name } => {
            is_among(MODULES, module_name) && !is_ours(table_name)
        }
        AuthAction::CreateIndex { index_name: name, table_name }
        | AuthAction::CreateTrigger { trigger_name: name, table_name }
        | AuthAction::DropIndex { index_name: name, table_name }
        | AuthAction::DropTrigger { trigger_name: name, table_name } => {
            !is_ours(name) && !is_ours(table_name)
        }
        AuthAction::CreateTable { table_name: name }
        | AuthAction::CreateView { view_name: name }
        | AuthAction::Delete { table_name: name }
        | AuthAction::DropTable { table_name: name }
        | AuthAction::DropView { view_name: name }
        | AuthAction::Insert { table_name: name }
        | AuthAction::Update { table_name: name, .. }
        | AuthAction::AlterTable { table_name: name, .. } => !is_ours(name),
        AuthAction::Read { .. }
        | AuthAction::Select
        | AuthAction::Reindex { .. }
        | AuthAction::Analyze { .. }
        | AuthAction::Recursive => true,
        // New kinds of actions are denied until they are reviewed.
        _ => false,
    }
}

/// Handlers may read the tables of the runtime, and nothing else.
fn is_ours(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|it| it.eq_ignore_ascii_case(PREFIX))
}

/// The prefix of the names of the runtime's tables.
pub(super) const PREFIX: &str = "_steadfast_";
