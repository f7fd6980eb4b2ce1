//! The turn executor: the database of one object in memory, and the turns that run on it. A turn
//! becomes commits; nothing is sent from here. One thread owns an executor while it runs.

pub(super) mod alarms;
mod commit;
mod connected;

use std::{rc::Rc, sync::Arc};

use steadfast_store::{self as store, Commit, Entropy, StoreError, Timestamp};
use steadfast_vfs::{Image, PAGE_SIZE, Page};

use super::{
    CallError, ObjectOptions,
    connection::ConnectionOp,
    database::Database,
    request::{Reply, Request, Settle},
    storage::{CheckpointTail, Restored, StoredPages},
    transaction::{Class, TurnReply, TurnState, call, transact},
};

/// Approximate size of an open database without its pages: schema, prepared statements, a small
/// cache.
const CONNECTION_BYTES: usize = 128 << 10;

/// Maximum lost connections that one turn closes.
const LOST_AT_ONCE: i64 = 200;

pub(super) struct TurnExecutor {
    address: store::Address,
    class: Arc<Class>,
    options: ObjectOptions,
    database: DatabaseState,
    /// Reads the pages that are not in memory.
    source: Option<Arc<StoredPages>>,
    /// The last turn and its checksum, turns in flight included.
    seq: i64,
    chk: u32,
    tail: CheckpointTail,
    migrated: bool,
    /// Connections of an earlier process that one turn closes; 0 if none is left.
    lost_batch: i64,
}

#[expect(clippy::large_enum_variant, reason = "an executor is boxed, and most are open")]
enum DatabaseState {
    /// The first turn opens it, on a thread that may wait for more pages.
    Loaded {
        pages: Vec<Option<Page>>,
        is_new: bool,
    },
    Open(TurnState),
    /// Lent to the turn that runs.
    InTurn,
    Unusable(CallError),
}

/// The outcome of one turn.
pub(super) struct TurnResult {
    pub(super) reply: Reply,
    /// The first carries the reply; vacuum and images follow. Empty if nothing changed.
    pub(super) commits: Vec<Commit>,
    pub(super) connection_ops: Vec<ConnectionOp>,
    /// More alarms are due: the request must run again.
    pub(super) again: bool,
    /// Whether the executor can run another turn.
    pub(super) usable: bool,
}

impl TurnResult {
    /// A reply without a commit.
    fn reply(reply: Reply) -> Self {
        let (commits, connection_ops) = (Vec::new(), Vec::new());
        Self { reply, commits, connection_ops, again: false, usable: true }
    }

    fn unusable(error: CallError) -> Self {
        Self { usable: false, ..Self::reply(Err(error)) }
    }
}

/// Time and randomness of one turn.
#[derive(Clone, Copy)]
pub(super) struct TurnTime<'a> {
    pub(super) now: Timestamp,
    /// Idempotency keys that expire at this time or before are free.
    pub(super) keys_expired: Timestamp,
    pub(super) entropy: &'a dyn Entropy,
}

impl TurnExecutor {
    pub(super) fn new(
        address: store::Address,
        class: Arc<Class>,
        restored: Restored,
        source: Option<Arc<StoredPages>>,
        options: ObjectOptions,
    ) -> Self {
        let Restored { pages, head, stale, tail_bytes } = restored;
        let (seq, chk) = head.map_or((0, 0), |it| (it.seq, it.chk));
        let turns = head.map_or(0, |it| it.seq - it.base.seq);
        let base_pages = head.map_or(0, |it| it.base.pages);
        Self {
            address,
            class,
            options,
            database: DatabaseState::Loaded { pages, is_new: head.is_none() },
            source,
            seq,
            chk,
            tail: CheckpointTail::new(turns, tail_bytes, stale, base_pages),
            migrated: false,
            lost_batch: LOST_AT_ONCE,
        }
    }

    /// Opens the database, unless it is open.
    fn open(&mut self) -> Result<(), CallError> {
        let (pages, is_new) = match &mut self.database {
            DatabaseState::Loaded { pages, is_new } => (std::mem::take(pages), *is_new),
            DatabaseState::Open(_) => return Ok(()),
            DatabaseState::InTurn => return Err(self.kept()),
            DatabaseState::Unusable(error) => return Err(error.clone()),
        };
        match self.open_pages(pages, is_new) {
            Ok(state) => {
                self.database = DatabaseState::Open(state);
                Ok(())
            }
            Err(error) => {
                let (object, detail) = (self.address.to_string(), error.to_string());
                let fault = self.source.as_ref().and_then(|it| it.fault());
                let fault = fault.unwrap_or(CallError::Corrupt { object, detail });
                self.database = DatabaseState::Unusable(fault.clone());
                Err(fault)
            }
        }
    }

    fn open_pages(
        &mut self,
        pages: Vec<Option<Page>>,
        is_new: bool,
    ) -> rusqlite::Result<TurnState> {
        let limits = self.options.limits();
        let template = if is_new { self.class.template.pages() } else { None };
        self.migrated = template.is_some();
        let database = match (template, self.source.clone()) {
            (Some(pages), _) => Database::begun(pages, limits)?,
            (None, Some(source)) => Database::open(Image::lazy(pages, source, limits))?,
            (None, None) => {
                let pages = pages.into_iter().flatten().collect();
                Database::open(Image::new(pages, limits))?
            }
        };
        TurnState::new(self.address.clone(), database, self.class.served.clone())
    }

    /// Approximate size in memory.
    pub(super) fn memory(&self) -> usize {
        CONNECTION_BYTES
            + match &self.database {
                DatabaseState::Loaded { pages, .. } => pages.iter().flatten().count() * PAGE_SIZE,
                DatabaseState::Open(state) => state.database.bytes(),
                DatabaseState::InTurn | DatabaseState::Unusable(_) => 0,
            }
    }

    /// The damage that a turn has found in the stored object.
    pub(super) fn damage(&self) -> Option<CallError> {
        self.fault().filter(|it| matches!(it, CallError::Corrupt { .. }))
    }

    /// Why a page could not be read, if one could not: then the memory of the object is not valid.
    fn fault(&self) -> Option<CallError> {
        let unknown = |state: &TurnState| {
            let fault = state.database.fault()?;
            Some(StoreError::Unavailable { reason: fault.to_string() }.into())
        };
        match &self.database {
            DatabaseState::Unusable(error) => Some(error.clone()),
            DatabaseState::InTurn => Some(self.kept()),
            DatabaseState::Loaded { .. } => None,
            DatabaseState::Open(state) => {
                self.source.as_ref().and_then(|it| it.fault()).or_else(|| unknown(state))
            }
        }
    }

    /// A handler must not keep its turn: its connection could not be reused safely.
    fn kept(&self) -> CallError {
        CallError::rolled_back(&self.address, "its turn was kept by the handler")
    }

    fn state(&self) -> &TurnState {
        let DatabaseState::Open(state) = &self.database else {
            unreachable!("turns run on an open database")
        };
        state
    }

    fn state_mut(&mut self) -> &mut TurnState {
        let DatabaseState::Open(state) = &mut self.database else {
            unreachable!("turns run on an open database")
        };
        state
    }

    /// Runs the turn of a request. The commit of the turn settles the delivery of the request.
    pub(super) fn run(
        &mut self,
        request: &Request,
        settle: Option<Settle>,
        at: TurnTime<'_>,
    ) -> TurnResult {
        if let Err(fault) = self.open() {
            return TurnResult::unusable(fault);
        }
        let is_first = self.seq == 0;
        let result = self.run_open(request, settle, at);
        if let DatabaseState::Open(state) = &self.database
            && is_first
            && 0 < self.seq
        {
            self.class.template.learn(state.tables.present());
        }
        match self.fault() {
            // The commits are complete; the failure came after them.
            Some(_) if !result.commits.is_empty() => TurnResult { usable: false, ..result },
            Some(fault) => TurnResult::unusable(fault),
            None => result,
        }
    }

    fn run_open(
        &mut self,
        request: &Request,
        settle: Option<Settle>,
        at: TurnTime<'_>,
    ) -> TurnResult {
        self.state().caller.replace(request.caller());
        // A wake-up of a deleted object: do not create the object again.
        if self.seq == 0 && matches!(request, Request::Wake { .. }) {
            return self.settle(settle);
        }
        let is_end = matches!(request, Request::Delete | Request::Closed { .. });
        if !is_end && let Err(error) = self.migrate(at.now) {
            return TurnResult::reply(Err(error));
        }
        match request {
            Request::Call { message, body, key, .. } => {
                let class = self.class.clone();
                let key = key.as_ref().map(|it| (it, at.keys_expired));
                let call = |state: &Rc<TurnState>| call(state, &class, message, body, key);
                self.turn(message, settle, at.now, None, call)
            }
            Request::Wake { due_at } => self.wake(*due_at, settle, at),
            Request::Connected(new) => self.connected(new, at.now),
            Request::Received { id, text, .. } => self.received(*id, text, at.now),
            Request::Closed { id, closed } => self.closed(*id, closed, at.now),
            Request::Delete => self.delete(settle),
        }
    }

    /// Runs one turn: everything in `body` commits, or nothing does.
    fn turn(
        &mut self,
        label: &str,
        settle: Option<Settle>,
        now: Timestamp,
        woken: Option<Timestamp>,
        body: impl FnOnce(&Rc<TurnState>) -> Result<TurnReply, CallError>,
    ) -> TurnResult {
        let open = std::mem::replace(&mut self.database, DatabaseState::InTurn);
        let DatabaseState::Open(mut state) = open else {
            self.database = open;
            return TurnResult::unusable(CallError::rolled_back(&self.address, "it is not open"));
        };
        state.now = now;
        state.seq = self.seq + 1;
        state.fired.take();
        let state = Rc::new(state);
        let time = self.options.turn_time;
        let result = state.database.at(now, time, || transact(&state, woken, body));
        if let Some(state) = Rc::into_inner(state) {
            self.database = DatabaseState::Open(state);
        }
        // This counts even if the handler ignored the error.
        if let Some(fault) = self.fault() {
            return TurnResult::unusable(fault);
        }
        match result.and_then(|done| Ok((self.commit_turn(label, &done, settle)?, done))) {
            Ok((commit, done)) => {
                let after = if commit.is_some() { self.checkpoint() } else { Ok(Vec::new()) };
                let usable = after.is_ok();
                let mut commits = Vec::from_iter(commit);
                commits.extend(after.unwrap_or_default());
                let connection_ops = self.state().connection_ops.take().into_vec();
                TurnResult {
                    reply: Ok(done.reply),
                    commits,
                    connection_ops,
                    again: done.again,
                    usable,
                }
            }
            Err(error) => {
                let usable = self.undo().is_ok();
                TurnResult { usable, ..TurnResult::reply(Err(error)) }
            }
        }
    }

    /// Restores the end of the last successful turn.
    fn undo(&mut self) -> rusqlite::Result<()> {
        self.state().clear();
        self.state_mut().database.rollback()?;
        // Migrations that were never committed are undone as well.
        self.migrated = false;
        self.state().tables.look_again(&self.state().database)
    }
}
