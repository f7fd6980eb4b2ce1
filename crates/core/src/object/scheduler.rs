//! The scheduler: which object runs on which thread and when, and which objects are in memory. It
//! feeds the actor of each object and performs the actor's outputs.
//!
//! Lock order: part of the table, slot of an object, connection registry, queue of operations. The
//! pool, templates, failures and outboxes are leaves. The store is called without a lock: it may
//! answer on the same thread.

use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_store::{
    self as store, EntityId, Entropy, OpaqueArc, OpaqueWeak, Outcome, Store, StoreClock,
    StoreError, futures::FutureExt,
};
use tokio::{runtime::Handle as Tokio, sync::oneshot};

use super::{
    CallError, ObjectOptions,
    actor::{Actor, Input, Mail, Output, Refusal},
    connection::{Closed, ConnectionOp},
    error::Failures,
    executor::TurnExecutor,
    pool::{Pool, TurnDuration, is_in_turn},
    priority::Priority,
    registry::ConnectionRegistry,
    request::{Reply, Request, Settle},
    table::{Evict, ObjectTable},
    transaction::Class,
};
use crate::idempotency::KeyLocks;

pub(super) struct Scheduler {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<StoreClock>,
    pub(super) options: ObjectOptions,
    pub(super) tokio: Tokio,
    pub(super) connections: Arc<ConnectionRegistry>,
    pub(super) table: ObjectTable<ObjectEntry>,
    pub(super) failures: Failures,
    /// Held by calls for a request, by key.
    pub(super) keyed: KeyLocks,
    pub(super) entropy: Arc<dyn Entropy>,
    pool: Arc<Pool<ObjectEntry>>,
}

/// A class, and how long its turns take.
pub(super) struct ServedClass {
    pub(super) class: Arc<Class>,
    pub(super) duration: TurnDuration,
}

impl ServedClass {
    pub(super) fn new(class: Class) -> Self {
        Self { class: Arc::new(class), duration: TurnDuration::default() }
    }
}

impl Scheduler {
    /// Starts the threads. Objects are read on the async runtime that this is called in.
    pub(super) fn start(
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
        options: ObjectOptions,
    ) -> Result<OpaqueArc<Self>, StoreError> {
        let failed = |error: std::io::Error| StoreError::Unavailable { reason: error.to_string() };
        let tokio = Tokio::current();
        let scheduler = OpaqueArc::new(Self {
            clock: store.clock().clone(),
            connections: ConnectionRegistry::new(store.owner().epoch, tokio.clone()),
            store,
            options,
            tokio,
            table: ObjectTable::default(),
            failures: Failures::default(),
            keyed: KeyLocks::default(),
            entropy,
            pool: Pool::start(options.threads).map_err(failed)?,
        });
        scheduler.tokio.spawn(Self::evict_idle(scheduler.downgrade()).boxed());
        Ok(scheduler)
    }

    /// Puts a request into the mailbox of an object; the reply comes through the channel.
    pub(super) fn request(
        scheduler: &OpaqueArc<Self>,
        address: &store::Address,
        class: &Arc<ServedClass>,
        request: Request,
        settle: Option<Settle>,
    ) -> Result<oneshot::Receiver<Reply>, CallError> {
        if is_in_turn() {
            return Err(CallError::Nested { object: address.to_string() });
        }
        let (reply, replied) = oneshot::channel();
        let mut pending = PendingRequest { request, settle, reply };
        loop {
            let (entry, used) = scheduler.table.entry(address.id(), &scheduler.options, || {
                ObjectEntry::new(address.clone(), class.clone(), scheduler.downgrade())
            });
            match entry.push(scheduler, pending, used) {
                None => return Ok(replied),
                // The entry was evicted since it was looked up.
                Some(back) => pending = back,
            }
        }
    }

    /// The same, and waits for the reply.
    pub(super) async fn call(
        scheduler: &OpaqueArc<Self>,
        address: &store::Address,
        class: &Arc<ServedClass>,
        request: Request,
        settle: Option<Settle>,
    ) -> Reply {
        let replied = Self::request(scheduler, address, class, request, settle)?;
        replied.await.unwrap_or(Err(CallError::Store(StoreError::Closed)))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.pool.stop();
    }
}

/// A request in a mailbox.
pub(super) struct PendingRequest {
    pub(super) request: Request,
    /// The delivery that the commit of the turn settles.
    pub(super) settle: Option<Settle>,
    pub(super) reply: oneshot::Sender<Reply>,
}

impl Mail for PendingRequest {
    fn priority(&self) -> Priority {
        if self.settle.is_some() { Priority::Delivery } else { Priority::Call }
    }

    /// A delivery that was cancelled is delivered again; the caller of a call may have been
    /// dropped.
    fn is_abandoned(&self) -> bool {
        let can_be = self.settle.is_some() || matches!(self.request, Request::Call { .. });
        can_be && self.reply.is_closed()
    }
}

impl PendingRequest {
    /// The engine bounds deliveries, and the limit of connections bounds their ends.
    fn is_bounded(&self) -> bool {
        self.settle.is_none() && !matches!(self.request, Request::Closed { .. })
    }
}

/// Everything that leaves when a turn is durable.
pub(super) struct Completion {
    pub(super) reply: Option<(oneshot::Sender<Reply>, Reply)>,
    pub(super) connection_ops: Vec<ConnectionOp>,
    /// The turn made no commit, so no commit proves that this process still owns the store.
    pub(super) is_read: bool,
}

impl Completion {
    pub(super) fn bytes(&self) -> usize {
        self.connection_ops.iter().map(ConnectionOp::bytes).sum()
    }

    /// Only the error leaves. If the turn may be durable all the same, connections must reconnect,
    /// to read the stored state.
    fn fail(&mut self, error: CallError) {
        let has_ops = !std::mem::take(&mut self.connection_ops).is_empty();
        if has_ops && !error.surely_unapplied() {
            let reason = "events may have been lost; connect again";
            let closed = Closed::new(Closed::TRY_AGAIN, reason);
            self.connection_ops.push(ConnectionOp::CloseAll { closed });
        }
        if let Some((_, reply)) = &mut self.reply {
            *reply = Err(error);
        }
    }
}

/// A turn that has ended, as the actor's input.
pub(super) struct EndedTurn {
    /// The sizes of its commits.
    pub(super) commits: Vec<usize>,
    pub(super) completion: Completion,
    pub(super) requeue: Option<PendingRequest>,
}

/// One object in the table: its actor, and its executor while no thread runs it.
pub(super) struct ObjectEntry {
    pub(super) address: store::Address,
    pub(super) class: Arc<ServedClass>,
    pub(super) scheduler: OpaqueWeak<Scheduler>,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    actor: Actor<PendingRequest, Completion>,
    executor: Option<Box<TurnExecutor>>,
    /// Approximate bytes of the executor.
    memory: usize,
}

/// Outputs that are performed when the slot is unlocked.
#[derive(Default)]
struct DeferredOutputs {
    load: bool,
    replies: Vec<(oneshot::Sender<Reply>, Reply)>,
    turn: Option<PendingRequest>,
    /// Refused because the entry is evicted.
    returned: Option<PendingRequest>,
    /// Closing a database takes a while.
    executor: Option<Box<TurnExecutor>>,
}

impl ObjectEntry {
    pub(super) fn new(
        address: store::Address,
        class: Arc<ServedClass>,
        scheduler: OpaqueWeak<Scheduler>,
    ) -> Self {
        Self { address, class, scheduler, slot: Mutex::default() }
    }

    /// Steps the actor. Connection operations are queued while the slot is locked: only this keeps
    /// broadcasts in turn order. The pool is called under the lock as well: a promotion must not
    /// overtake the run that it promotes.
    fn step(
        self: &Arc<Self>,
        scheduler: &Scheduler,
        slot: &mut Slot,
        input: Input<'_, PendingRequest, Completion>,
        deferred: &mut DeferredOutputs,
    ) {
        let mut outputs = Vec::new();
        slot.actor.step(input, &mut outputs);
        for output in outputs {
            match output {
                Output::Load => deferred.load = true,
                Output::Run(priority) => scheduler.pool.push(self.clone(), priority),
                Output::Promote => scheduler.pool.promote(self),
                Output::RunTurn(pending) => deferred.turn = Some(pending),
                Output::EndBurst => {}
                Output::Complete(completion, result) => {
                    deferred.replies.extend(self.complete(scheduler, completion, result));
                }
                Output::Refuse(pending, Refusal::Evicted) => deferred.returned = Some(pending),
                Output::Refuse(pending, Refusal::Busy) => {
                    let object = self.address.to_string();
                    deferred.replies.push((pending.reply, Err(CallError::Busy { object })));
                }
                Output::Refuse(pending, Refusal::Failed(error)) => {
                    deferred.replies.push((pending.reply, Err(error)));
                }
                Output::Unload => {
                    deferred.executor = slot.executor.take();
                    scheduler.table.weigh(std::mem::take(&mut slot.memory), 0);
                }
                Output::CloseConnections => {
                    let closed = Closed::new(Closed::FAILED, "the object is out of service");
                    let close = vec![ConnectionOp::CloseAll { closed }];
                    scheduler.connections.push(self.address.id(), close);
                }
            }
        }
        debug_assert_eq!(slot.executor.is_some(), slot.actor.holds_executor());
    }

    fn perform(self: &Arc<Self>, scheduler: &OpaqueArc<Scheduler>, deferred: DeferredOutputs) {
        if deferred.load {
            Scheduler::load(scheduler, self.clone());
        }
        for (sender, reply) in deferred.replies {
            // Ignore receivers that were dropped.
            let _ = sender.send(reply);
        }
    }

    /// Releases a completion: its operations on connections here, its reply by the caller.
    fn complete(
        &self,
        scheduler: &Scheduler,
        mut completion: Completion,
        result: Result<(), CallError>,
    ) -> Option<(oneshot::Sender<Reply>, Reply)> {
        // A state that was read from memory is returned only while no other owner can have changed
        // it.
        let owned = if completion.is_read { scheduler.store.check_lease() } else { Ok(()) };
        if let Err(error) = owned.map_err(CallError::Store).and(result) {
            completion.fail(error);
        }
        scheduler.connections.push(self.address.id(), completion.connection_ops);
        completion.reply
    }

    /// Puts a request into the mailbox. It is returned if the entry is evicted.
    pub(super) fn push(
        self: &Arc<Self>,
        scheduler: &OpaqueArc<Scheduler>,
        pending: PendingRequest,
        used: u64,
    ) -> Option<PendingRequest> {
        let limit = pending.is_bounded().then_some(scheduler.options.mailbox_max);
        let mut deferred = DeferredOutputs::default();
        let push = Input::Push { mail: pending, limit, used };
        self.step(scheduler, &mut self.slot.lock(), push, &mut deferred);
        let returned = deferred.returned.take();
        self.perform(scheduler, deferred);
        returned
    }

    /// Takes in the object that was read from the store.
    pub(super) fn loaded(
        self: &Arc<Self>,
        scheduler: &OpaqueArc<Scheduler>,
        loaded: Result<Box<TurnExecutor>, CallError>,
    ) {
        let mut deferred = DeferredOutputs::default();
        let mut slot = self.slot.lock();
        let result = loaded.map(|executor| slot.put(scheduler, executor));
        self.step(scheduler, &mut slot, Input::Loaded(result), &mut deferred);
        drop(slot);
        self.perform(scheduler, deferred);
    }

    /// Begins a burst: the executor leaves its slot.
    pub(super) fn dispatched(self: &Arc<Self>, scheduler: &Scheduler) -> Option<Box<TurnExecutor>> {
        let mut slot = self.slot.lock();
        let executor = slot.executor.take()?;
        self.step(scheduler, &mut slot, Input::Dispatched, &mut DeferredOutputs::default());
        Some(executor)
    }

    /// Whether the next request deletes the object; `None` if no turn can run.
    pub(super) fn is_delete_next(&self) -> Option<bool> {
        let slot = self.slot.lock();
        slot.actor.next_mail().map(|it| matches!(it.request, Request::Delete))
    }

    pub(super) fn take(self: &Arc<Self>, scheduler: &Scheduler) -> Option<PendingRequest> {
        let mut deferred = DeferredOutputs::default();
        self.step(scheduler, &mut self.slot.lock(), Input::TakeMail, &mut deferred);
        deferred.turn
    }

    /// Records a turn, and takes the next request if `takes`. Also returns the number of the
    /// turn's first commit.
    pub(super) fn turn_ended(
        self: &Arc<Self>,
        scheduler: &OpaqueArc<Scheduler>,
        turn: EndedTurn,
        takes: bool,
    ) -> (u64, Option<PendingRequest>) {
        let EndedTurn { commits, completion, requeue } = turn;
        let bytes = completion.bytes();
        let ended = Input::TurnEnded { commits: &commits, completion, bytes, requeue };
        let mut deferred = DeferredOutputs::default();
        let mut slot = self.slot.lock();
        let first = slot.actor.next_commit();
        self.step(scheduler, &mut slot, ended, &mut deferred);
        if takes {
            self.step(scheduler, &mut slot, Input::TakeMail, &mut deferred);
        }
        drop(slot);
        let next = deferred.turn.take();
        self.perform(scheduler, deferred);
        (first, next)
    }

    /// Ends a burst, all commits of which are submitted.
    pub(super) fn burst_ended(
        self: &Arc<Self>,
        scheduler: &OpaqueArc<Scheduler>,
        executor: Box<TurnExecutor>,
        usable: bool,
    ) {
        let damage = if usable { None } else { executor.damage() };
        let mut deferred = DeferredOutputs::default();
        let mut slot = self.slot.lock();
        slot.put(scheduler, executor);
        let ended = Input::BurstEnded { usable, damage };
        self.step(scheduler, &mut slot, ended, &mut deferred);
        drop(slot);
        self.perform(scheduler, deferred);
    }

    /// Takes in the store's answer to a commit.
    pub(super) fn answered(self: &Arc<Self>, commit: u64, result: Result<Outcome, StoreError>) {
        let Some(scheduler) = self.scheduler.upgrade() else { return };
        let lost = |detail| Err(CallError::Lost { object: self.address.to_string(), detail });
        let result = match result {
            Ok(Outcome::Committed(_)) => Ok(()),
            Ok(Outcome::Rejected(rejection)) => lost(rejection.to_string()),
            Ok(Outcome::Duplicate(_)) => lost("the request was carried out before".into()),
            Err(error) => Err(CallError::Store(error)),
        };
        if let Err(error) = &result {
            let object = self.address.to_string();
            tracing::warn!(object, error = %error, "turn was not committed; object is read again");
        }
        let mut deferred = DeferredOutputs::default();
        let answered = Input::Answered { commit, result };
        self.step(&scheduler, &mut self.slot.lock(), answered, &mut deferred);
        self.perform(&scheduler, deferred);
    }
}

impl Evict for ObjectEntry {
    fn id(&self) -> EntityId {
        self.address.id()
    }

    fn idle_since(&self) -> Option<u64> {
        self.slot.lock().actor.idle_since()
    }

    fn evict(&self, used: u64) -> Option<(usize, Option<Box<TurnExecutor>>)> {
        let mut slot = self.slot.lock();
        slot.actor.step(Input::Evict { used }, &mut Vec::new());
        let is_evicted = slot.actor.is_evicted();
        is_evicted.then(|| (std::mem::take(&mut slot.memory), slot.executor.take()))
    }
}

impl Slot {
    fn put(&mut self, scheduler: &Scheduler, executor: Box<TurnExecutor>) {
        let memory = executor.memory();
        scheduler.table.weigh(std::mem::replace(&mut self.memory, memory), memory);
        self.executor = Some(executor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(error: CallError) -> (Completion, Result<Reply, oneshot::error::TryRecvError>) {
        let (sender, mut replied) = oneshot::channel();
        let connection_ops = vec![ConnectionOp::CloseAll { closed: Closed::deleted() }];
        let reply = Some((sender, Ok("null".into())));
        let mut completion = Completion { reply, connection_ops, is_read: false };
        completion.fail(error);
        let (sender, reply) = completion.reply.take().unwrap();
        sender.send(reply).unwrap();
        let reply = replied.try_recv();
        (completion, reply)
    }

    #[test]
    fn a_failed_turn_sends_no_event_and_one_that_may_be_durable_closes_the_connections() {
        let (completion, reply) = failed(CallError::Busy { object: "a".into() });
        assert!(completion.connection_ops.is_empty(), "no event is sent");
        assert!(matches!(reply, Ok(Err(CallError::Busy { .. }))));
        let (completion, reply) = failed(StoreError::Unknown { reason: "x".into() }.into());
        let [ConnectionOp::CloseAll { closed }] = &completion.connection_ops[..] else {
            panic!("{:?}", completion.connection_ops);
        };
        assert_eq!(closed.code, Closed::TRY_AGAIN, "they reconnect");
        assert!(matches!(reply, Ok(Err(CallError::Store(_)))));
    }
}
