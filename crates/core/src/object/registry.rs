//! The open connections of every object, whether the object is in memory or not.
//!
//! Operations are queued while the object is locked, so they are performed in the order of turns.
//! Sending to thousands of connections takes long, so a task performs them, one at a time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{self as store, EntityId, StoreError, futures::FutureExt};
use tokio::{runtime::Handle as Tokio, sync::Notify};

use super::{
    CallError, ObjectOptions,
    connection::{Closed, ConnectionId, ConnectionOp, Outbox, Recipients},
};

/// The open connections of one object. It exists while the object has any.
struct Connections {
    entity: EntityId,
    registry: Weak<ConnectionRegistry>,
    /// Connections that are open, are being accepted, or are ending.
    slots: AtomicUsize,
    queue: Mutex<Queue>,
    members: Mutex<HashMap<ConnectionId, Member>>,
}

#[derive(Default)]
struct Queue {
    ops: VecDeque<ConnectionOp>,
    /// A task performs the queued operations.
    busy: bool,
}

struct Member {
    outbox: Arc<Outbox>,
    tags: Box<[Box<str>]>,
}

impl Connections {
    fn push(self: &Arc<Self>, ops: impl IntoIterator<Item = ConnectionOp>, tokio: &Tokio) {
        let mut queue = self.queue.lock();
        queue.ops.extend(ops);
        if !queue.ops.is_empty() && !std::mem::replace(&mut queue.busy, true) {
            let connections = self.clone();
            tokio.spawn(async move { connections.work() }.boxed());
        }
    }

    /// Performs the queued operations until there are none.
    fn work(&self) {
        let mut members = self.members.lock();
        loop {
            let ops = {
                let mut queue = self.queue.lock();
                queue.busy = !queue.ops.is_empty();
                std::mem::take(&mut queue.ops)
            };
            if ops.is_empty() {
                return;
            }
            for op in ops {
                if let ConnectionOp::Join { outbox, .. } = &op
                    && self.registry.upgrade().is_none_or(|it| it.is_stopping())
                {
                    outbox.end(Closed::stopping());
                }
                apply(&mut members, op);
            }
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            let mut part = registry.part(self.entity);
            // Another entry may have replaced this one.
            if part.get(&self.entity).is_some_and(|it| it.strong_count() == 0) {
                part.remove(&self.entity);
            }
        }
    }
}

fn apply(members: &mut HashMap<ConnectionId, Member>, op: ConnectionOp) {
    match op {
        ConnectionOp::Join { id, outbox } => {
            members.insert(id, Member { outbox, tags: Box::default() });
        }
        ConnectionOp::Tag { id, tags } => {
            if let Some(member) = members.get_mut(&id) {
                member.tags = tags;
            }
        }
        ConnectionOp::Tell { to: Recipients::All, event } => {
            members.values().for_each(|it| it.outbox.push(event.clone()));
        }
        ConnectionOp::Tell { to: Recipients::Tagged(tag), event } => {
            let tagged = members.values().filter(|it| it.tags.contains(&tag));
            tagged.for_each(|it| it.outbox.push(event.clone()));
        }
        ConnectionOp::Tell { to: Recipients::One(id), event } => {
            members.get(&id).into_iter().for_each(|it| it.outbox.push(event.clone()));
        }
        ConnectionOp::Close { id, closed } => {
            members.get(&id).into_iter().for_each(|it| it.outbox.end(closed.clone()));
        }
        ConnectionOp::CloseAll { closed } => {
            members.values().for_each(|it| it.outbox.end(closed.clone()));
        }
        ConnectionOp::Leave { id } => {
            members.remove(&id);
        }
    }
}

/// The open connections of all objects.
pub(super) struct ConnectionRegistry {
    registry: [Mutex<HashMap<EntityId, Weak<Connections>>>; 16],
    tokio: Tokio,
    /// Ids of this process begin here: lower ids belong to connections of earlier processes.
    first: ConnectionId,
    next: AtomicI64,
    slots: AtomicUsize,
    fewer: Notify,
    stopping: AtomicBool,
}

impl ConnectionRegistry {
    /// The connections of the process that owns the store as its `epoch`th owner.
    pub(super) fn new(epoch: i64, tokio: Tokio) -> Arc<Self> {
        let first = epoch << 32;
        Arc::new(Self {
            registry: Default::default(),
            tokio,
            first: ConnectionId(first),
            next: AtomicI64::new(first),
            slots: AtomicUsize::new(0),
            fewer: Notify::new(),
            stopping: AtomicBool::new(false),
        })
    }

    /// The first id of this process.
    pub(super) fn first(&self) -> ConnectionId {
        self.first
    }

    pub(super) fn next_id(&self) -> ConnectionId {
        ConnectionId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The number of connections.
    pub(super) fn count(&self) -> usize {
        self.slots.load(Ordering::SeqCst)
    }

    /// A slot for a connection, if there is one.
    pub(super) fn enter(
        self: &Arc<Self>,
        object: &store::Address,
        options: &ObjectOptions,
    ) -> Result<ConnectionSlot, CallError> {
        if self.is_stopping() {
            return Err(StoreError::Closed.into());
        }
        let connections = self.connections(object.id());
        let slot = ConnectionSlot { connections, registry: self.clone() };
        let here = slot.connections.slots.fetch_add(1, Ordering::SeqCst) + 1;
        let all = self.slots.fetch_add(1, Ordering::SeqCst) + 1;
        let max = options.connections_max;
        if max < here || options.all_connections_max < all {
            let (object, max) = (object.to_string(), max.min(options.all_connections_max));
            return Err(CallError::TooManyConnections { object, max });
        }
        Ok(slot)
    }

    fn connections(self: &Arc<Self>, entity: EntityId) -> Arc<Connections> {
        let mut part = self.part(entity);
        if let Some(connections) = part.get(&entity).and_then(Weak::upgrade) {
            return connections;
        }
        let connections = Arc::new(Connections {
            entity,
            registry: Arc::downgrade(self),
            slots: AtomicUsize::new(0),
            queue: Mutex::default(),
            members: Mutex::default(),
        });
        part.insert(entity, Arc::downgrade(&connections));
        connections
    }

    /// Queues the operations of a turn. Without a connection there is nothing to do.
    pub(super) fn push(&self, entity: EntityId, ops: Vec<ConnectionOp>) {
        if ops.is_empty() {
            return;
        }
        let connections = self.part(entity).get(&entity).and_then(Weak::upgrade);
        if let Some(connections) = connections {
            connections.push(ops, &self.tokio);
        }
    }

    /// Closes all connections, takes no new ones, and waits until their objects are notified.
    pub(super) async fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for part in &self.registry {
            let registry: Vec<_> = part.lock().values().filter_map(Weak::upgrade).collect();
            for connections in registry {
                connections
                    .push([ConnectionOp::CloseAll { closed: Closed::stopping() }], &self.tokio);
            }
        }
        loop {
            let fewer = self.fewer.notified();
            if self.count() == 0 {
                return;
            }
            fewer.await;
        }
    }

    /// New connections are refused while it stops.
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn part(&self, entity: EntityId) -> MutexGuard<'_, HashMap<EntityId, Weak<Connections>>> {
        self.registry[usize::from(entity.shard()) % self.registry.len()].lock()
    }
}

/// The slot of one connection, until its object is notified of its end.
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    registry: Arc<ConnectionRegistry>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.slots.fetch_sub(1, Ordering::SeqCst);
        self.registry.slots.fetch_sub(1, Ordering::SeqCst);
        self.registry.fewer.notify_waiters();
    }
}
