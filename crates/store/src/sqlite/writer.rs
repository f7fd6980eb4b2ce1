//! The one thread that writes: it takes a batch, decides it, and makes it durable with one fsync.

use std::{fs::File, sync::Arc};

use rusqlite::Connection;

use super::{
    batch::{self, WriterCache},
    checkpoint::Checkpointer,
    disk::Reserve,
    file::write_owner,
    row::{WriteError, take_steps},
};
use crate::{
    Health, StoreError, crash,
    plan::{self, Needs, Plan},
    writer::{Request, Requests, Status},
};

/// Changes a byte: SQLite does not write unchanged values.
const TOUCH: &str = "UPDATE node SET owner = CASE WHEN owner LIKE '% ' THEN rtrim(owner) \
     ELSE owner || ' ' END";

pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) requests: Requests,
    pub(super) status: Arc<Status>,
    pub(super) epoch: i64,
    /// The epoch is not in the file yet: the disk was full or the log in use when it was opened.
    pub(super) is_unwritten: bool,
    pub(super) checkpointer: Checkpointer,
    pub(super) known: WriterCache,
    pub(super) reserve: Reserve,
    /// Held as long as this process may write.
    pub(super) lock: File,
}

impl Writer {
    pub(super) fn run(mut self) {
        if let Err(error) = self.checkpointer.watch(&mut self.connection) {
            self.status.set_health(Health::Failed { reason: error.to_string() });
        }
        let panicked = self.status.fail_if_dropped();
        while let Some(batch) = self.requests.next_batch_blocking() {
            self.commit_batch(batch);
            self.checkpointer.after_batch(&self.connection, self.reserve.is_in_use());
        }
        panicked.disarm();
        self.finish();
    }

    fn commit_batch(&mut self, batch: Vec<Request>) {
        if !self.reserve.is_spent() {
            return self.write_batch(batch);
        }
        let (batch, others): (Vec<Request>, _) =
            batch.into_iter().partition(|it| it.commit.is_deletion());
        self.refuse(others, &StoreError::DiskFull);
        if !batch.is_empty() {
            self.write_batch(batch);
        }
    }

    fn write_batch(&mut self, batch: Vec<Request>) {
        // Some of a batch may have been written, with the space that was kept for deletions.
        if self.reserve.is_in_use() && !batch.iter().all(|it| it.commit.is_deletion()) {
            return self.refuse(batch, &StoreError::DiskFull);
        }
        if let Health::Failed { reason } = self.status.health() {
            let failed = StoreError::Failed { reason };
            return batch.into_iter().for_each(|it| it.answer(Err(failed.clone())));
        }
        let room = self.checkpointer.make_room(&self.connection);
        match room.and_then(|()| self.transact(&batch)) {
            Ok(plan) => {
                self.is_unwritten = false;
                self.known.learn(&plan);
                self.answer(batch, plan);
            }
            Err(WriteError::Fatal(reason)) => self.fail(batch, &reason),
            // One commit may be at fault; the others must not fail with it.
            Err(WriteError::Full | WriteError::Bug(_)) if 1 < batch.len() => {
                batch.into_iter().for_each(|request| self.write_batch(vec![request]));
            }
            Err(WriteError::Full)
                if batch.iter().all(|it| it.commit.is_deletion()) && self.reserve.spend() =>
            {
                // First the log, so that its space can be used again.
                self.checkpointer.after_batch(&self.connection, true);
                self.write_batch(batch);
            }
            Err(error) => self.refuse(batch, &error.into_store_error()),
        }
    }

    fn refuse(&self, batch: Vec<Request>, error: &StoreError) {
        if error.is_retryable() && !batch.is_empty() {
            self.status.set_health(Health::Degraded { reason: error.to_string() });
        }
        batch.into_iter().for_each(|it| it.answer(Err(error.clone())));
    }

    /// Decides and writes a batch in one transaction.
    fn transact(&self, batch: &[Request]) -> Result<Plan, WriteError> {
        let connection = &self.connection;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        let result = self.write(batch);
        if result.is_err() && !connection.is_autocommit() {
            let undone = connection.execute_batch("ROLLBACK");
            undone.map_err(|error| WriteError::Fatal(format!("rollback failed ({error})")))?;
        }
        result
    }

    fn write(&self, batch: &[Request]) -> Result<Plan, WriteError> {
        let connection = &self.connection;
        crash::point("commit.begun");
        if self.is_unwritten {
            // This owner may follow only the owner that was found when the store was opened.
            if !write_owner(connection, self.epoch)? {
                return Err(self.fenced());
            }
        }
        let mut fence = connection.prepare_cached("SELECT epoch FROM node")?;
        let epoch: i64 = fence.query_row((), |row| row.get(0))?;
        if epoch != self.epoch {
            return Err(self.fenced());
        }
        let time = self.status.clock.batch_time();
        let commits = || batch.iter().map(|it| &it.commit);
        let facts = batch::read(connection, Needs::of(commits(), &time), &self.known)?;
        self.status.count_steps(take_steps());
        let plan = plan::plan(facts, time, commits());
        crash::point("commit.planned");
        if !plan.is_empty() {
            batch::write(connection, &plan)?;
        } else if self.status.health() != Health::Ready {
            // Only a commit that writes shows that there is space again.
            connection.execute(TOUCH, ())?;
        }
        crash::point("commit.written");
        flushed()?;
        connection.prepare_cached("COMMIT")?.execute(())?;
        crash::point("commit.durable");
        Ok(plan)
    }

    fn fenced(&self) -> WriteError {
        WriteError::Fatal(StoreError::Fenced { epoch: self.epoch }.to_string())
    }

    fn answer(&self, batch: Vec<Request>, plan: Plan) {
        if !self.reserve.is_in_use() {
            self.status.set_health(Health::Ready);
        }
        if plan.frees_space() {
            self.give_space_back();
        }
        // Readers of the count may rely on the notices.
        self.status.notices.publish(&plan);
        self.status.count_batch(batch.len());
        for (request, answer) in batch.into_iter().zip(plan.answers) {
            request.answer(Ok(answer));
        }
        crash::point("commit.answered");
    }

    /// Returns pages that retention emptied to the disk, a few at a time.
    fn give_space_back(&self) {
        let vacuum = "PRAGMA incremental_vacuum(256)";
        let vacuumed = self.connection.execute_batch(vacuum).map_err(WriteError::from);
        match vacuumed.and_then(|()| flushed()) {
            Ok(()) => {}
            // The previous batch is durable and will be answered; nothing follows it.
            Err(WriteError::Fatal(reason)) => self.status.set_health(Health::Failed { reason }),
            Err(error) => {
                tracing::warn!(error = ?error, "free pages were not returned to the disk")
            }
        }
    }

    /// After a failed flush the state of the disk is unknown: never retry, let the node stop.
    fn fail(&self, batch: Vec<Request>, reason: &str) {
        self.status.set_health(Health::Failed { reason: reason.into() });
        let error = StoreError::Failed { reason: reason.into() };
        batch.into_iter().for_each(|it| it.answer(Err(error.clone())));
    }

    fn finish(self) {
        let Self { connection, checkpointer, lock, status, is_unwritten, .. } = self;
        let gone = checkpointer.look().cloned();
        drop(checkpointer);
        // An owner that wrote nothing changes nothing.
        if gone.is_none() && !is_unwritten && !matches!(status.health(), Health::Failed { .. }) {
            let closed = connection.execute("UPDATE node SET clean = 1", ());
            if let Err(error) = closed {
                tracing::warn!(error = %error, "store could not be marked as closed");
            }
        }
        // Closing the last connection does a checkpoint.
        drop(connection);
        if let Some(file) = gone {
            file.remove_log();
        }
        // Unlock explicitly: a child that was just forked may still hold the same file.
        if let Err(error) = lock.unlock() {
            tracing::warn!(error = %error, "lock file was not unlocked");
        }
    }
}

/// A test may have the flush fail.
fn flushed() -> Result<(), WriteError> {
    match crash::disk_fails() {
        true => Err(WriteError::Fatal("flush to disk failed (injected)".into())),
        false => Ok(()),
    }
}
