//! Makes the commit of a turn.

use std::sync::Arc;

use steadfast_store::{self as store, Commit, Expect, Message, Turn as TurnRow, Write, limits};

use super::{TurnExecutor, TurnResult, database::Database, transaction::TurnReply};
use crate::object::{
    CallError,
    call_key::ReplyRecord,
    connections::{Closed, ConnectionOp},
    request::Settle,
    storage::{CheckpointTail, chain},
};

/// Messages that one turn may send.
const SENT_MAX: usize = 5_000;

impl TurnExecutor {
    /// Makes the commit of a turn; `None` if the turn has no effects. If the store keeps the reply,
    /// it is in the commit.
    pub(super) fn seal(
        &mut self,
        label: &str,
        done: &TurnReply,
        settle: Option<Settle>,
    ) -> Result<Option<Commit>, CallError> {
        let reply = self.state().reply_record.take();
        let reply_bytes = reply.as_ref().map_or(0, |it| it.bytes);
        let mut commit = self.seal_changes(label, done, settle, reply_bytes)?;
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
    fn seal_changes(
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
    pub(super) fn expecting(&self) -> Commit {
        let entity = self.address.id();
        Commit::default().expect(Expect::Head { entity, seq: self.seq, chk: self.chk })
    }
}
