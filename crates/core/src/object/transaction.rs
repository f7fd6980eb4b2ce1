//! One turn on the database, in memory: the class whose handler runs, the state of the turn, its
//! transaction, and the recorded replies of idempotency keys. Everything commits, or nothing does.
//!
//! Replies under keys are rows of the object's own database: recorded with the turn, found without
//! a query to the store. The store keeps replies to runs and to requests: see `request.rs`.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use rusqlite::{Params, Row, params};
use steadfast_store::{self as store, Due, InvalidInput, Message, Timestamp};

use super::{
    CallError,
    connection::{Caller, Closed, Connection, ConnectionOp},
    database::{Database, Table, Tables, Template},
    effect::Sending,
    fields::MessageField,
    request::{Key, ReplyRecord, RequestHash},
};
use crate::{Error, Result, name_map::NameMap};

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
pub(crate) struct Registry {
    pub(super) classes: Box<[&'static str]>,
    pub(super) workflows: Box<[&'static str]>,
}

impl Registry {
    pub(crate) fn has_class(&self, name: &str) -> bool {
        self.classes.contains(&name)
    }

    pub(crate) fn has_workflow(&self, name: &str) -> bool {
        self.workflows.contains(&name)
    }
}

/// A turn without its class. Between turns nothing is recorded in it.
pub(crate) struct TurnState {
    pub(super) database: Database,
    pub(super) tables: Tables,
    pub(super) address: store::Address,
    pub(super) now: Timestamp,
    pub(super) seq: i64,
    pub(super) caller: RefCell<Caller>,
    pub(super) fired: RefCell<Option<FiredAlarm>>,
    /// Messages to send.
    pub(crate) outgoing: RefCell<Vec<Message>>,
    /// Stores the reply, if the store keeps it.
    pub(super) reply_record: RefCell<Option<ReplyRecord>>,
    pub(super) connection_ops: RefCell<ConnectionOps>,
    /// The turn recorded something invalid: it fails.
    pub(super) failure: RefCell<Option<Error>>,
    pub(super) alarms_changed: Cell<bool>,
    pub(super) deleted: Cell<bool>,
    /// The classes and workflows of the program; `None` if they are unknown.
    pub(crate) served: Option<Arc<Registry>>,
}

/// Operations on connections, with their size.
#[derive(Default)]
pub(super) struct ConnectionOps {
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
    pub(super) fn attempt<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let (sent, told) = (self.outgoing.borrow().len(), self.connection_ops.borrow().ops.len());
        let (failure, deleted) = (self.failure.borrow().clone(), self.deleted.get());
        self.database.execute("SAVEPOINT attempt /* ours */", ())?;
        // A handler may catch a panic itself: changes of the failed attempt must not stay.
        let result = catch_unwind(AssertUnwindSafe(body));
        if let Ok(Ok(_)) = result {
            self.database.execute("RELEASE attempt /* ours */", ())?;
        } else {
            self.database.execute("ROLLBACK TO attempt /* ours */", ())?;
            self.database.execute("RELEASE attempt /* ours */", ())?;
            self.tables.look_again(&self.database)?;
            self.outgoing.borrow_mut().truncate(sent);
            self.connection_ops.borrow_mut().truncate(told);
            *self.failure.borrow_mut() = failure;
            self.deleted.set(deleted);
        }
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    pub(crate) fn send(&self, sending: Result<Sending, InvalidInput>, due: Due) {
        match sending.and_then(|it| it.message(due)) {
            Ok(message) => self.outgoing.borrow_mut().push(message),
            Err(error) => self.fail(Error::terminal(error).with_code("invalid_input")),
        }
    }

    /// Records an operation on connections; the turn fails if it requests too many.
    pub(super) fn record(&self, op: ConnectionOp) {
        let mut recorded = self.connection_ops.borrow_mut();
        if OPS_MAX <= recorded.ops.len() || OPS_BYTES_MAX < recorded.bytes + op.bytes() {
            let text = format!("a turn sends at most {OPS_MAX} events, {OPS_BYTES_MAX} bytes");
            return self.fail(Error::terminal(text).with_code("too_many_events"));
        }
        recorded.push(op);
    }

    /// Fails the turn when the handler returns.
    pub(crate) fn fail(&self, error: Error) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    /// The error of a turn that SQLite has ended.
    pub(super) fn sql_failed(&self, error: &rusqlite::Error) -> CallError {
        CallError::rolled_back(&self.address, error)
    }

    /// Writes a row of a table of the runtime, which is created with its first row.
    pub(super) fn write(
        &self,
        table: Table,
        sql: &str,
        params: impl Params,
    ) -> rusqlite::Result<()> {
        self.tables.need(table, &self.database)?;
        self.database.execute(sql, params).map(|_| ())
    }

    /// Changes rows of a table of the runtime, and returns their number.
    pub(super) fn change(
        &self,
        table: Table,
        sql: &str,
        params: impl Params,
    ) -> rusqlite::Result<usize> {
        if self.tables.has(table) { self.database.execute(sql, params) } else { Ok(0) }
    }

    /// The first row of a table of the runtime that a query finds.
    pub(super) fn find<T>(
        &self,
        table: Table,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        if self.tables.has(table) { self.database.find(sql, params, read) } else { Ok(None) }
    }

    /// The rows of a table of the runtime that a query finds.
    pub(super) fn list<T>(
        &self,
        table: Table,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        if !self.tables.has(table) {
            return Ok(Vec::new());
        }
        self.database.guard.system(|| {
            let mut list = self.database.connection.prepare(sql)?;
            list.query_map(params, read)?.collect()
        })
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

/// Marks the refusal of a class that takes no connections; callers get `CallError::NotLive`.
pub(super) const NOT_LIVE: &str = "\u{0}not live";

pub(super) struct Class {
    pub(super) methods: Methods,
    pub(super) live: LiveClass,
    pub(super) migrations: &'static [&'static str],
    pub(super) template: Template,
    /// The classes and workflows of the program; `None` if they are unknown.
    pub(super) served: Option<Arc<Registry>>,
}

/// Why a handler gave no reply.
pub(super) enum HandlerError {
    /// The message is malformed.
    Malformed { path: String, detail: String },
    /// It returned an error.
    Refused(Error),
}

type Handler = Box<dyn Fn(&Rc<TurnState>, &str) -> Result<String, HandlerError> + Send + Sync>;

/// One message that a class takes.
#[doc(hidden)]
pub struct ClassMethod {
    pub(super) public: bool,
    pub(super) run: Handler,
    pub(super) fields: fn() -> Option<Vec<MessageField>>,
}

/// The messages of a class by name.
#[doc(hidden)]
#[expect(unreachable_pub, reason = "a hidden method of a public trait returns it")]
pub type Methods = NameMap<ClassMethod>;

type Connected = Box<dyn Fn(&Rc<TurnState>, &Connection) -> Result<()> + Send + Sync>;
type Received = Box<dyn Fn(&Rc<TurnState>, &Connection, &str) -> Result<()> + Send + Sync>;
type Ended = Box<dyn Fn(&Rc<TurnState>, &Connection, &Closed) -> Result<()> + Send + Sync>;

/// The handlers of live connections.
pub(super) struct LiveClass {
    pub(super) connected: Connected,
    pub(super) received: Received,
    pub(super) closed: Ended,
    pub(super) auto_reply: &'static [(&'static str, &'static str)],
}

/// A successful turn, in memory.
pub(super) struct TurnReply {
    pub(super) reply: String,
    /// More alarms are due: the request must run again.
    pub(super) again: bool,
}

impl TurnReply {
    /// Without a reply.
    pub(super) fn nothing() -> Self {
        Self { reply: "null".into(), again: false }
    }
}

/// Runs a turn's body in a transaction, in memory.
pub(super) fn transact(
    state: &Rc<TurnState>,
    woken: Option<Timestamp>,
    body: impl FnOnce(&Rc<TurnState>) -> Result<TurnReply, CallError>,
) -> Result<TurnReply, CallError> {
    state.database.begin().map_err(|error| state.sql_failed(&error))?;
    let done = body(state)?;
    if state.database.guard.timed_out() {
        return Err(too_long(state));
    }
    if state.database.connection.is_autocommit() || state.database.guard.was_undone() {
        let detail = "an error that its handler did not pass on ended its transaction";
        return Err(CallError::rolled_back(&state.address, detail));
    }
    if state.database.guard.was_altered()
        && !state.tables.are_ours(&state.database).map_err(|error| state.sql_failed(&error))?
    {
        return Err(CallError::rolled_back(
            &state.address,
            "names that begin with _steadfast_ are taken",
        ));
    }
    if state.alarms_changed.get() || (woken.is_some() && !done.again) {
        let arrived = woken.filter(|_| !done.again);
        state.arm(arrived).map_err(CallError::Refused)?;
    }
    if let Some(error) = state.failure.take() {
        return Err(CallError::Refused(error));
    }
    match state.database.commit() {
        Ok(true) => Ok(done),
        Ok(false) => {
            Err(CallError::rolled_back(&state.address, "its transaction ended before it did"))
        }
        Err(error) => Err(state.sql_failed(&error)),
    }
}

/// Calls the handler of a message, unless the call was made before under the same key. With the key
/// comes the time by which keys have expired.
pub(super) fn call(
    state: &Rc<TurnState>,
    class: &Class,
    message: &str,
    body: &str,
    key: Option<(&Key, Timestamp)>,
) -> Result<TurnReply, CallError> {
    let Some(method) = class.methods.get(message) else {
        let class = state.address.class().to_owned();
        return Err(CallError::UnknownMessage { class, message: message.into() });
    };
    if let Some((key, expired)) = key
        && let Some(reply) = find_reply(state, key, expired)?
    {
        return Ok(TurnReply { reply, again: false });
    }
    let reply = guarded(state, message, || (method.run)(state, body))?;
    if let Some((key, expired)) = key {
        // No statement of the runtime may follow one that ended the transaction.
        if !state.database.connection.is_autocommit() {
            keep_reply(state, key, expired, &reply)?;
        }
    }
    Ok(TurnReply { reply, again: false })
}

/// Runs user code, and converts its failure.
pub(super) fn guarded<T>(
    state: &TurnState,
    message: &str,
    handler: impl FnOnce() -> Result<T, HandlerError>,
) -> Result<T, CallError> {
    match catch_unwind(AssertUnwindSafe(handler)) {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) if state.database.guard.timed_out() => Err(too_long(state)),
        Ok(Err(HandlerError::Malformed { path, detail })) => {
            Err(CallError::Malformed { message: message.into(), path, detail })
        }
        // SQLite returns this error for a database that has reached its size limit.
        Ok(Err(HandlerError::Refused(error)))
            if error.to_string().contains("database or disk is full") =>
        {
            Err(CallError::rolled_back(&state.address, "its database has reached its limit"))
        }
        Ok(Err(HandlerError::Refused(error))) => Err(CallError::Refused(error)),
        Err(panic) => {
            let detail = crate::dispatch::panic_message(&*panic);
            Err(CallError::Panicked { message: message.into(), detail })
        }
    }
}

fn too_long(state: &TurnState) -> CallError {
    CallError::rolled_back(&state.address, "its SQL took too long")
}

/// Retention of the reply to a call with a key.
const KEEP: Duration = Duration::from_hours(24);

const FIND: &str = "SELECT request, reply FROM _steadfast_key WHERE key = ?1 AND expires_at > ?2";
const INSERT: &str = "INSERT INTO _steadfast_key (key, request, reply, expires_at) \
     VALUES (?1, ?2, ?3, ?4)";
/// Keys expire in the order in which they were recorded: checking the oldest is enough.
const EXPIRE: &str = "DELETE FROM _steadfast_key WHERE id IN (SELECT id FROM \
     (SELECT id, expires_at FROM _steadfast_key ORDER BY id LIMIT 8) WHERE expires_at <= ?1)";

/// The recorded reply of a key.
pub(super) fn find_reply(
    state: &TurnState,
    key: &Key,
    expired: Timestamp,
) -> Result<Option<String>, CallError> {
    if key.stored.is_some() {
        return Ok(None);
    }
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = state.find(Table::Key, FIND, params![key.text, expired.0], row);
    let found: Option<(RequestHash, String)> = found.map_err(|error| state.sql_failed(&error))?;
    found.map(|(request, reply)| key.check(request).map(|()| reply)).transpose()
}

/// Records the reply with the turn.
pub(super) fn keep_reply(
    state: &TurnState,
    key: &Key,
    expired: Timestamp,
    reply: &str,
) -> Result<(), CallError> {
    match key.stored.as_deref() {
        None => insert_reply(state, key, expired, reply).map_err(|error| state.sql_failed(&error)),
        Some(stored) => {
            let record = stored.record(&state.address, key.request, reply)?;
            state.reply_record.replace(Some(record));
            Ok(())
        }
    }
}

fn insert_reply(
    state: &TurnState,
    key: &Key,
    expired: Timestamp,
    reply: &str,
) -> rusqlite::Result<()> {
    let until = state.now.after(KEEP);
    state.change(Table::Key, EXPIRE, [expired.0])?;
    // An expired key that was not among the oldest.
    state.change(Table::Key, "DELETE FROM _steadfast_key WHERE key = ?1", [&key.text])?;
    state.write(Table::Key, INSERT, params![key.text, key.request, reply, until.0])
}
