//! The commits of an object: the commit of a turn, page images and vacuum after it, and migrations
//! before it.

use std::sync::Arc;

use steadfast_store::{
    self as store, Commit, Expect, Message, Timestamp, Turn as TurnRow, Write, limits,
};

use super::{DatabaseState, TurnExecutor, TurnResult};
use crate::object::{
    CallError,
    connection::{Closed, ConnectionOp},
    database::{Database, TableSet, Tables},
    request::{ReplyRecord, Settle},
    storage::{CheckpointTail, chain},
    transaction::TurnReply,
};

/// Messages that one turn may send.
const SENT_MAX: usize = 5_000;

impl TurnExecutor {
    /// Makes the commit of a turn; `None` if the turn has no effects. If the store keeps the reply,
    /// it is in the commit.
    pub(super) fn commit_turn(
        &mut self,
        label: &str,
        done: &TurnReply,
        settle: Option<Settle>,
    ) -> Result<Option<Commit>, CallError> {
        let reply = self.state().reply_record.take();
        let reply_bytes = reply.as_ref().map_or(0, |it| it.bytes);
        let mut commit = self.commit_changes(label, done, settle, reply_bytes)?;
        if commit.is_none() && !self.state().connection_ops.borrow().is_empty() {
            commit = reply.as_ref().map(|_| self.expecting());
        }
        Ok(commit.map(|commit| match reply {
            Some(ReplyRecord { expect, write, .. }) => match expect {
                Some(expect) => commit.expect(expect).write(write),
                None => commit.write(write),
            },
            None => commit,
        }))
    }

    /// Makes a commit of the changes of the turn; `None` if there are none.
    fn commit_changes(
        &mut self,
        label: &str,
        done: &TurnReply,
        settle: Option<Settle>,
        reply_bytes: usize,
    ) -> Result<Option<Commit>, CallError> {
        let settle = settle.filter(|_| !done.again);
        let messages = self.state().outgoing.take();
        self.state().alarms_changed.set(false);
        if SENT_MAX < messages.len() {
            let detail = format!("it sends {} messages, limit is {SENT_MAX}", messages.len());
            return Err(CallError::rolled_back(&self.address, &detail));
        }
        if self.state().deleted.take() {
            let erased = self.erase(messages, settle);
            return erased.map_err(|error| self.state().sql_failed(&error));
        }
        let database = &self.state().database;
        // Migrations that no commit holds yet leave with the first turn that has an effect.
        let has_effect = database.wrote() || !messages.is_empty();
        let changes = if has_effect { database.changes() } else { None };
        if changes.is_none() && messages.is_empty() {
            return Ok(settle.map(|settle| self.expecting().write(settle.write())));
        }
        let (delta, touched) = changes.map_or_else(Default::default, |it| (it.delta, it.touched));
        self.check_size(&delta, &messages, reply_bytes)?;
        self.state().database.accept();
        let delta: Arc<[u8]> = delta.into();
        let chk = chain(self.chk, self.seq + 1, &delta);
        self.tail.add(&touched, delta.len());
        let mut commit = self.expecting().write(Write::Turn(TurnRow {
            object: self.address.clone(),
            cause: settle.map(|it| it.position),
            sent: u32::try_from(messages.len()).unwrap_or(u32::MAX),
            chk,
            input: label.into(),
            delta,
        }));
        (self.seq, self.chk) = (self.seq + 1, chk);
        if !messages.is_empty() {
            commit = commit.write(Write::Append { stream: self.address.clone(), messages });
        }
        if let Some(settle) = settle {
            commit = commit.write(settle.write());
        }
        Ok(Some(commit))
    }

    fn check_size(
        &self,
        delta: &[u8],
        messages: &[Message],
        reply_bytes: usize,
    ) -> Result<(), CallError> {
        let (len, max) = (delta.len(), self.options.delta_bytes_max);
        if max < len {
            let detail = format!("it changes {len} bytes, limit is {max}");
            return Err(CallError::rolled_back(&self.address, &detail));
        }
        let size = messages.iter().map(Message::bytes).sum::<usize>();
        let size = size + len + reply_bytes + 4_096;
        let max = limits::COMMIT_BYTES_MAX;
        if max < size {
            let detail = format!("it changes and sends {size} bytes, limit is {max}");
            return Err(CallError::rolled_back(&self.address, &detail));
        }
        Ok(())
    }

    /// Deletes the object, in a turn of its own.
    pub(super) fn delete(&mut self, settle: Option<Settle>) -> TurnResult {
        let existed = self.seq != 0;
        match self.erase(Vec::new(), settle) {
            Ok(commit) => {
                let connection_ops = self.state().connection_ops.take().into_vec();
                let commits = Vec::from_iter(commit);
                let reply = TurnResult::reply(Ok(existed.to_string()));
                TurnResult { commits, connection_ops, ..reply }
            }
            Err(error) => TurnResult::unusable(self.state().sql_failed(&error)),
        }
    }

    fn erase(
        &mut self,
        messages: Vec<store::Message>,
        settle: Option<Settle>,
    ) -> rusqlite::Result<Option<Commit>> {
        let mut commit = self.expecting();
        if self.seq != 0 {
            commit = commit.write(Write::Erase { entity: self.address.id() });
        }
        if !messages.is_empty() {
            let stream = self.address.clone();
            commit = commit.write(Write::Append { stream, messages });
        }
        if let Some(settle) = settle {
            commit = commit.write(settle.write());
        }
        self.state_mut().database = Database::empty(self.options.limits())?;
        self.state().tables.look_again(&self.state().database)?;
        (self.seq, self.chk, self.migrated) = (0, 0, false);
        (self.tail, self.source) = (CheckpointTail::default(), None);
        let close = ConnectionOp::CloseAll { closed: Closed::deleted() };
        self.state().connection_ops.borrow_mut().push(close);
        Ok((!commit.writes.is_empty()).then_some(commit))
    }

    /// Settles a delivery without a turn.
    pub(super) fn settle(&self, settle: Option<Settle>) -> TurnResult {
        let commit = settle.map(|settle| self.expecting().write(settle.write()));
        let commits = Vec::from_iter(commit);
        TurnResult { commits, ..TurnResult::reply(Ok("null".into())) }
    }

    /// A commit on top of everything that is in flight.
    fn expecting(&self) -> Commit {
        let entity = self.address.id();
        Commit::default().expect(Expect::Head { entity, seq: self.seq, chk: self.chk })
    }
}

/// Empty pages from which on a database is vacuumed.
const VACUUM_PAGES: i64 = 256;

impl TurnExecutor {
    /// Images, when enough turns have changed pages since the last ones. After an error the
    /// database in memory is not valid any more.
    pub(super) fn checkpoint(&mut self) -> Result<Vec<Commit>, CallError> {
        if !self.tail.is_long(self.state().database.page_count()) {
            return Ok(Vec::new());
        }
        let vacuum =
            self.vacuum().map_err(|error| CallError::rolled_back(&self.address, &error))?;
        let mut commits = Vec::from_iter(vacuum);
        let Self { database: DatabaseState::Open(state), tail, address, .. } = self else {
            return Ok(commits);
        };
        let page = |number: u32| state.database.page(number);
        // They are in memory: turns have changed them.
        let images = tail.images(address.id(), state.database.page_count(), page);
        let images = images.map_err(|error| CallError::rolled_back(&self.address, &error))?;
        commits.extend(images.into_iter().map(|it| self.expecting().write(Write::Images(it))));
        Ok(commits)
    }

    /// A turn of the runtime that vacuums a large database that is mostly empty. If that would
    /// change too much for a turn, the database stays as it is.
    fn vacuum(&mut self) -> rusqlite::Result<Option<Commit>> {
        let database = &self.state().database;
        let free = database.number("PRAGMA freelist_count")?.unwrap_or(0);
        if free < VACUUM_PAGES || 2 * free < i64::from(database.page_count()) {
            return Ok(None);
        }
        let done = TurnReply::nothing();
        let vacuumed = database.vacuum().map_err(|error| self.state().sql_failed(&error));
        match vacuumed.and_then(|()| self.commit_turn("vacuum", &done, None)) {
            Ok(commit) => Ok(commit),
            Err(error) => {
                let object = self.address.to_string();
                tracing::warn!(object, error = %error, "vacuum of an object failed");
                self.undo()?;
                Ok(None)
            }
        }
    }
}

impl TurnExecutor {
    /// Migrates the tables to the version of the class. The next turn that commits includes the
    /// migration; until then it is only in memory, so inspecting an object writes nothing.
    pub(super) fn migrate(&mut self, now: Timestamp) -> Result<(), CallError> {
        if self.migrated {
            return Ok(());
        }
        let fails =
            |detail: String| CallError::Migration { object: self.address.to_string(), detail };
        let database = &self.state().database;
        let version = database.number("PRAGMA user_version").map_err(|it| fails(it.to_string()))?;
        let version = usize::try_from(version.unwrap_or(0)).unwrap_or(usize::MAX);
        let Some(scripts) = self.class.migrations.get(version..) else {
            let known = self.class.migrations.len();
            return Err(fails(format!("it is at version {version}, this code knows {known}")));
        };
        if !scripts.is_empty() {
            let is_template = version == 0 && self.seq == 0 && is_always_the_same(scripts);
            let needed =
                if is_template { self.class.template.tables() } else { TableSet::default() };
            let tables = (&self.state().tables, needed);
            let migrated = database
                .at(now, self.options.migration_time, || run(database, scripts, version, tables));
            if let Err(detail) = migrated {
                let error = fails(detail);
                self.undo().map_err(|it| self.state().sql_failed(&it))?;
                return Err(error);
            }
            if is_template && let Ok(pages) = self.state().database.pages() {
                self.class.template.keep(pages, needed);
            }
        }
        self.migrated = true;
        Ok(())
    }
}

/// Runs migrations in one transaction, in memory, and creates these tables of the runtime.
fn run(
    database: &Database,
    scripts: &[&str],
    from: usize,
    tables: (&Tables, TableSet),
) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    database.begin().map_err(text)?;
    for (index, script) in scripts.iter().enumerate() {
        let number = from + index + 1;
        // It is user code, with the rights of user code.
        let run = database.connection.execute_batch(script);
        run.map_err(|error| format!("migration {number} fails: {error}"))?;
    }
    tables.0.need_all(tables.1, database).map_err(text)?;
    let version = format!("PRAGMA user_version = {}", from + scripts.len());
    database.execute_batch(&version).map_err(text)?;
    match database.commit() {
        Ok(true) => Ok(()),
        Ok(false) => Err("a migration ended its transaction".into()),
        Err(error) => Err(text(error)),
    }
}

/// Functions that return the time or a random value.
const VARYING: &[&str] = &[
    "changes",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "julianday",
    "now",
    "random",
    "randomblob",
    "strftime",
    "time",
    "timediff",
    "total_changes",
    "unixepoch",
];

/// Whether the migrations are deterministic, so that the result can be reused for new objects. A
/// false positive of the word search is harmless.
fn is_always_the_same(scripts: &[&str]) -> bool {
    let is_part = |it: char| it.is_alphanumeric() || it == '_';
    let varies = |word: &str| VARYING.iter().any(|it| it.eq_ignore_ascii_case(word));
    !scripts.iter().any(|script| script.split(|it| !is_part(it)).any(varies))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_with_time_or_chance_run_for_each_object() {
        assert!(is_always_the_same(&["CREATE TABLE t (x); INSERT INTO t VALUES (0)"]));
        assert!(is_always_the_same(&["CREATE TABLE t (timeoutMs INTEGER, updatedAt INTEGER)"]));
        for varying in ["datetime('now')", "CURRENT_TIMESTAMP", "unixepoch()", "randomblob(16)"] {
            let script = format!("CREATE TABLE t (x); INSERT INTO t VALUES ({varying})");
            assert!(!is_always_the_same(&["CREATE TABLE u (y)", &script]), "{varying}");
        }
    }
}
