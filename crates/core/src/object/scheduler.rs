//! The scheduler: which object runs on which thread and when, and which objects are in memory. It
//! feeds the actor of each object and performs the actor's outputs.
//!
//! Lock order: part of the table, slot of an object, connection registry, queue of operations. The
//! pool, templates, failures and outboxes are leaves. The store is called without a lock: it may
//! answer on the same thread.

mod burst;
mod duration;
mod entry;
mod failures;
mod load;
mod pool;
mod sleep;
mod table;

use std::sync::Arc;

use steadfast_store::{self as store, Entropy, Store, StoreClock, StoreError, futures::FutureExt};
use tokio::{runtime::Handle as Tokio, sync::oneshot};

pub use self::failures::LastFailure;
use self::{
    burst::is_in_turn,
    duration::TurnDuration,
    entry::{ObjectEntry, PendingRequest},
    failures::Failures,
    pool::Pool,
    table::ObjectTable,
};
use super::{
    CallError, ObjectOptions,
    connections::ConnectionRegistry,
    executor::Class,
    request::{Reply, Request, Settle},
};
use crate::idempotency::KeyLocks;

pub(super) struct Scheduler {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<StoreClock>,
    pub(super) options: ObjectOptions,
    pub(super) tokio: Tokio,
    pub(super) connections: Arc<ConnectionRegistry>,
    pub(super) table: ObjectTable,
    pub(super) failures: Failures,
    /// Held by calls for a request, by key.
    pub(super) keyed: KeyLocks,
    entropy: Arc<dyn Entropy>,
    pool: Arc<Pool<ObjectEntry>>,
}

/// A class, and how long its turns take.
pub(super) struct ServedClass {
    pub(super) class: Arc<Class>,
    duration: TurnDuration,
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
    ) -> Result<Arc<Self>, StoreError> {
        let failed = |error: std::io::Error| StoreError::Unavailable { reason: error.to_string() };
        let tokio = Tokio::current();
        let scheduler = Arc::new(Self {
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
        scheduler.tokio.spawn(sleep::run(Arc::downgrade(&scheduler)).boxed());
        Ok(scheduler)
    }

    /// Puts a request into the mailbox of an object; the reply comes through the channel.
    pub(super) fn request(
        self: &Arc<Self>,
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
            let (entry, used) = self.table.entry(self, address, class);
            match entry.push(self, pending, used) {
                None => return Ok(replied),
                // The entry was evicted since it was looked up.
                Some(back) => pending = back,
            }
        }
    }

    /// The same, and waits for the reply.
    pub(super) async fn call(
        self: &Arc<Self>,
        address: &store::Address,
        class: &Arc<ServedClass>,
        request: Request,
        settle: Option<Settle>,
    ) -> Reply {
        let replied = self.request(address, class, request, settle)?;
        replied.await.unwrap_or(Err(CallError::Store(StoreError::Closed)))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.pool.stop();
    }
}
