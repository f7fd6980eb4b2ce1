//! The state of one turn: the open database of the object, and everything that the turn records.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use steadfast_store::{self as store, Due, InvalidInput, Message, Timestamp};

use super::{database::Database, tables::Tables};
use crate::{
    Error, Result,
    object::{
        CallError, call_key::ReplyRecord, caller::Caller, connections::ConnectionOp,
        outgoing::Sending,
    },
};

/// Events and other operations of one turn.
const OPS_MAX: usize = 5_000;
const OPS_BYTES_MAX: usize = 8 << 20;

/// The alarm that started a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiredAlarm {
    /// Its name.
    pub name: String,
    /// Its due time; the turn may be later.
    pub due_at: Timestamp,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// The names of the classes and workflows that a program serves.
pub(in crate::object) struct Registry {
    pub(in crate::object) classes: Box<[&'static str]>,
    pub(in crate::object) workflows: Box<[&'static str]>,
}

impl Registry {
    pub(in crate::object) fn has_class(&self, name: &str) -> bool {
        self.classes.contains(&name)
    }

    pub(in crate::object) fn has_workflow(&self, name: &str) -> bool {
        self.workflows.contains(&name)
    }
}

/// A turn without its class. Between turns nothing is recorded in it.
pub(in crate::object) struct TurnState {
    pub(in crate::object) database: Database,
    pub(in crate::object) tables: Tables,
    pub(in crate::object) address: store::Address,
    pub(in crate::object) now: Timestamp,
    pub(in crate::object) seq: i64,
    pub(in crate::object) caller: RefCell<Caller>,
    pub(in crate::object) fired: RefCell<Option<FiredAlarm>>,
    /// Messages to send.
    pub(in crate::object) outgoing: RefCell<Vec<Message>>,
    /// Stores the reply, if the store keeps it.
    pub(in crate::object) reply_record: RefCell<Option<ReplyRecord>>,
    pub(in crate::object) connection_ops: RefCell<ConnectionOps>,
    /// The turn recorded something invalid: it fails.
    pub(in crate::object) failure: RefCell<Option<Error>>,
    pub(in crate::object) alarms_changed: Cell<bool>,
    pub(in crate::object) deleted: Cell<bool>,
    /// The classes and workflows of the program; `None` if they are unknown.
    pub(in crate::object) served: Option<Arc<Registry>>,
}

/// Operations on connections, with their size.
#[derive(Default)]
pub(in crate::object) struct ConnectionOps {
    ops: Vec<ConnectionOp>,
    bytes: usize,
}

impl ConnectionOps {
    pub(super) fn push(&mut self, op: ConnectionOp) {
        self.bytes += op.bytes();
        self.ops.push(op);
    }

    fn truncate(&mut self, len: usize) {
        self.ops.truncate(len);
        self.bytes = self.ops.iter().map(ConnectionOp::bytes).sum();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<ConnectionOp> {
        self.ops
    }
}

impl TurnState {
    pub(super) fn new(
        address: store::Address,
        database: Database,
        served: Option<Arc<Registry>>,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            tables: Tables::of(&database)?,
            database,
            address,
            now: Timestamp::MIN,
            seq: 0,
            caller: Default::default(),
            fired: Default::default(),
            outgoing: Default::default(),
            reply_record: Default::default(),
            connection_ops: Default::default(),
            failure: Default::default(),
            alarms_changed: Default::default(),
            deleted: Default::default(),
            served,
        })
    }

    /// Runs `body`; if it fails, its SQL and everything that it recorded are undone.
    pub(in crate::object) fn attempt<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let (sent, told) = (self.outgoing.borrow().len(), self.connection_ops.borrow().ops.len());
        let (failure, deleted) = (self.failure.borrow().clone(), self.deleted.get());
        self.database.execute("SAVEPOINT attempt /* ours */")?;
        // A handler may catch a panic itself: changes of the failed attempt must not stay.
        let result = catch_unwind(AssertUnwindSafe(body));
        if let Ok(Ok(_)) = result {
            self.database.execute("RELEASE attempt /* ours */")?;
        } else {
            self.database.execute("ROLLBACK TO attempt /* ours */")?;
            self.database.execute("RELEASE attempt /* ours */")?;
            self.tables.look_again(&self.database)?;
            self.outgoing.borrow_mut().truncate(sent);
            self.connection_ops.borrow_mut().truncate(told);
            *self.failure.borrow_mut() = failure;
            self.deleted.set(deleted);
        }
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    pub(in crate::object) fn send(&self, sending: Result<Sending, InvalidInput>, due: Due) {
        match sending.and_then(|it| it.message(due)) {
            Ok(message) => self.outgoing.borrow_mut().push(message),
            Err(error) => self.fail(Error::terminal(error).with_code("invalid_input")),
        }
    }

    /// Records an operation on connections; the turn fails if it requests too many.
    pub(in crate::object) fn record(&self, op: ConnectionOp) {
        let mut recorded = self.connection_ops.borrow_mut();
        if OPS_MAX <= recorded.ops.len() || OPS_BYTES_MAX < recorded.bytes + op.bytes() {
            let text = format!("a turn sends at most {OPS_MAX} events, {OPS_BYTES_MAX} bytes");
            return self.fail(Error::terminal(text).with_code("too_many_events"));
        }
        recorded.push(op);
    }

    /// Fails the turn when the handler returns.
    pub(in crate::object) fn fail(&self, error: Error) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    /// The error of a turn that SQLite has ended.
    pub(super) fn sql_failed(&self, error: &rusqlite::Error) -> CallError {
        CallError::rolled_back(&self.address, error)
    }

    /// Clears everything that a failed turn recorded.
    pub(super) fn clear(&self) {
        self.outgoing.take();
        self.reply_record.take();
        self.connection_ops.take();
        self.failure.take();
        self.alarms_changed.set(false);
        self.deleted.set(false);
    }
}
