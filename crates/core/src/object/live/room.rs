//! The lines of the connections of one object. It exists while there are any, whether the object is
//! awake or not.
//!
//! What turns lead to comes in the order of the turns, because it is queued while the object is
//! locked. Telling it to thousands takes long, so that happens in a task, one at a time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{self as store, EntityId, StoreError};
use tokio::{runtime::Handle as Tokio, sync::Notify};

use super::{Closed, ConnectionId, Event, Line};
use crate::object::{CallError, ObjectOptions};

/// What a turn leads to for the connections of its object.
#[derive(Debug)]
pub(in crate::object) enum Op {
    /// It was accepted.
    Join { id: ConnectionId, line: Arc<Line> },
    /// It has these tags from now on.
    Tag { id: ConnectionId, tags: Box<[Box<str>]> },
    /// Something is told.
    Tell { to: To, event: Event },
    /// It is to end.
    Close { id: ConnectionId, closed: Closed },
    /// All are to end.
    CloseAll { closed: Closed },
    /// It has ended.
    Leave { id: ConnectionId },
}

impl Op {
    /// What it takes in memory, about.
    pub(in crate::object) fn bytes(&self) -> usize {
        if let Op::Tell { event, .. } = self { event.text.len() } else { 0 }
    }
}

/// To whom.
#[derive(Debug)]
pub(in crate::object) enum To {
    All,
    Tagged(Box<str>),
    One(ConnectionId),
}

/// The lines of one object.
struct Room {
    entity: EntityId,
    rooms: Weak<Rooms>,
    /// Connections that there are, come, or go.
    places: AtomicUsize,
    queue: Mutex<Queue>,
    members: Mutex<HashMap<ConnectionId, Member>>,
}

#[derive(Default)]
struct Queue {
    ops: VecDeque<Op>,
    /// Somebody is at it.
    busy: bool,
}

struct Member {
    line: Arc<Line>,
    tags: Box<[Box<str>]>,
}

impl Room {
    fn push(self: &Arc<Self>, ops: impl IntoIterator<Item = Op>, tokio: &Tokio) {
        let mut queue = self.queue.lock();
        queue.ops.extend(ops);
        if !queue.ops.is_empty() && !std::mem::replace(&mut queue.busy, true) {
            let room = self.clone();
            tokio.spawn(async move { room.work() });
        }
    }

    /// Does what is queued, until nothing is.
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
                if let Op::Join { line, .. } = &op
                    && self.rooms.upgrade().is_none_or(|it| it.is_stopping())
                {
                    line.end(Closed::stopping());
                }
                apply(&mut members, op);
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(rooms) = self.rooms.upgrade() {
            let mut part = rooms.part(self.entity);
            // Another one may have taken the place since.
            if part.get(&self.entity).is_some_and(|it| it.strong_count() == 0) {
                part.remove(&self.entity);
            }
        }
    }
}

fn apply(members: &mut HashMap<ConnectionId, Member>, op: Op) {
    match op {
        Op::Join { id, line } => {
            members.insert(id, Member { line, tags: Box::default() });
        }
        Op::Tag { id, tags } => {
            if let Some(member) = members.get_mut(&id) {
                member.tags = tags;
            }
        }
        Op::Tell { to: To::All, event } => {
            members.values().for_each(|it| it.line.push(event.clone()));
        }
        Op::Tell { to: To::Tagged(tag), event } => {
            let tagged = members.values().filter(|it| it.tags.contains(&tag));
            tagged.for_each(|it| it.line.push(event.clone()));
        }
        Op::Tell { to: To::One(id), event } => {
            members.get(&id).into_iter().for_each(|it| it.line.push(event.clone()));
        }
        Op::Close { id, closed } => {
            members.get(&id).into_iter().for_each(|it| it.line.end(closed.clone()));
        }
        Op::CloseAll { closed } => {
            members.values().for_each(|it| it.line.end(closed.clone()));
        }
        Op::Leave { id } => {
            members.remove(&id);
        }
    }
}

/// The lines of all objects.
pub(in crate::object) struct Rooms {
    rooms: [Mutex<HashMap<EntityId, Weak<Room>>>; 16],
    tokio: Tokio,
    /// Ids of this process begin here: those before are of connections that ended with another.
    first: ConnectionId,
    next: AtomicI64,
    places: AtomicUsize,
    fewer: Notify,
    stopping: AtomicBool,
}

impl Rooms {
    /// The lines of the process that owns the store as its `epoch`th owner.
    pub(in crate::object) fn new(epoch: i64, tokio: Tokio) -> Arc<Self> {
        let first = epoch << 32;
        Arc::new(Self {
            rooms: Default::default(),
            tokio,
            first: ConnectionId(first),
            next: AtomicI64::new(first),
            places: AtomicUsize::new(0),
            fewer: Notify::new(),
            stopping: AtomicBool::new(false),
        })
    }

    /// The first id of this process.
    pub(in crate::object) fn first(&self) -> ConnectionId {
        self.first
    }

    pub(super) fn next_id(&self) -> ConnectionId {
        ConnectionId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// How many connections there are.
    pub(in crate::object) fn count(&self) -> usize {
        self.places.load(Ordering::SeqCst)
    }

    /// A place for a connection, if there is one.
    pub(super) fn enter(
        self: &Arc<Self>,
        object: &store::Address,
        options: &ObjectOptions,
    ) -> Result<Place, CallError> {
        if self.is_stopping() {
            return Err(StoreError::Closed.into());
        }
        let room = self.room(object.id());
        let place = Place { room, rooms: self.clone() };
        let here = place.room.places.fetch_add(1, Ordering::SeqCst) + 1;
        let all = self.places.fetch_add(1, Ordering::SeqCst) + 1;
        let max = options.connections_max;
        if max < here || options.all_connections_max < all {
            let (object, max) = (object.to_string(), max.min(options.all_connections_max));
            return Err(CallError::TooManyConnections { object, max });
        }
        Ok(place)
    }

    fn room(self: &Arc<Self>, entity: EntityId) -> Arc<Room> {
        let mut part = self.part(entity);
        if let Some(room) = part.get(&entity).and_then(Weak::upgrade) {
            return room;
        }
        let room = Arc::new(Room {
            entity,
            rooms: Arc::downgrade(self),
            places: AtomicUsize::new(0),
            queue: Mutex::default(),
            members: Mutex::default(),
        });
        part.insert(entity, Arc::downgrade(&room));
        room
    }

    /// Queues what a turn led to. Without a connection there is nothing to do.
    pub(in crate::object) fn push(&self, entity: EntityId, ops: Vec<Op>) {
        if ops.is_empty() {
            return;
        }
        let room = self.part(entity).get(&entity).and_then(Weak::upgrade);
        if let Some(room) = room {
            room.push(ops, &self.tokio);
        }
    }

    /// Ends all connections, takes no new ones, and waits until their objects have heard of it.
    pub(in crate::object) async fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for part in &self.rooms {
            let rooms: Vec<_> = part.lock().values().filter_map(Weak::upgrade).collect();
            for room in rooms {
                room.push([Op::CloseAll { closed: Closed::stopping() }], &self.tokio);
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

    /// Who comes now is told so at once.
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn part(&self, entity: EntityId) -> MutexGuard<'_, HashMap<EntityId, Weak<Room>>> {
        self.rooms[usize::from(entity.shard()) % self.rooms.len()].lock()
    }
}

/// The place of one connection, until its object has heard of its end.
pub(super) struct Place {
    room: Arc<Room>,
    rooms: Arc<Rooms>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.places.fetch_sub(1, Ordering::SeqCst);
        self.rooms.places.fetch_sub(1, Ordering::SeqCst);
        self.rooms.fewer.notify_waiters();
    }
}
