//! The needs of a batch, keys of rows that are read before it can be decided, and the facts: these
//! rows, overlaid with changes of its earlier commits.

use std::collections::{HashMap, HashSet};

use super::{
    KeyRow, Work,
    table::{Table, Undo},
};
use crate::{
    Base, Commit, EntityId, Entry, EntryKey, Expect, ExpiryList, ExpiryRow, Head, KeyName,
    PageImage, Position, RunSummary, Settlement, Snapshot, Sweep, Timestamp, Version, Write,
    sort::sort_by, store_clock::BatchTime,
};

/// Keys of rows to read, each once, sorted so that every store reads and locks in one order.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) streams: Vec<EntityId>,
    pub(crate) entities: Vec<EntityId>,
    pub(crate) works: Vec<Position>,
    pub(crate) messages: Vec<Position>,
    pub(crate) keys: Vec<(EntityId, Box<str>)>,
    pub(crate) heads: Vec<EntityId>,
    pub(crate) turns: Vec<Position>,
    pub(crate) erasures: Vec<EntityId>,
    pub(crate) entries: Vec<EntryKey>,
    pub(crate) spaces: Vec<Box<str>>,
    /// Queues whose room is checked.
    pub(crate) queues: Vec<EntityId>,
    /// Its candidates are found first, and then what is needed to decide on them is added.
    pub(crate) sweep: Option<Sweep>,
}

impl Needs {
    pub(crate) fn of<'a>(commits: impl IntoIterator<Item = &'a Commit>, time: &BatchTime) -> Self {
        let mut needs = Self::default();
        for commit in commits {
            for expect in &commit.expects {
                match expect {
                    Expect::Version { stream, .. } => needs.streams.push(*stream),
                    Expect::Pending { position } | Expect::Unclaimed { position } => {
                        needs.works.push(*position);
                    }
                    Expect::Settled { position, .. } => needs.messages.push(*position),
                    Expect::Head { entity, .. } => needs.heads.push(*entity),
                    Expect::Revision { entry, .. } => needs.entries.push(entry.clone()),
                    Expect::Vacant { space } => needs.spaces.push(space.clone()),
                    Expect::Room { queue, .. } => needs.queues.push(*queue),
                }
            }
            commit.writes.iter().for_each(|write| needs.add(write));
        }
        needs.sweep = needs.sweep.map(|it| it.at_most(time.keys_expired));
        needs.sort();
        needs
    }

    /// Adds what is needed to decide on the candidates of a sweep.
    pub(crate) fn add_candidates(&mut self, found: &Candidates) {
        self.messages.extend(&found.messages);
        for row in &found.listed {
            match row.list {
                ExpiryList::Ended => self.erasures.push(row.entity),
                ExpiryList::Late | ExpiryList::Dead => self.messages.push(row.position),
            }
        }
        self.works.clone_from(&self.messages);
        self.sort();
    }

    fn sort(&mut self) {
        sort(&mut self.streams);
        sort(&mut self.entities);
        sort(&mut self.works);
        sort(&mut self.messages);
        sort(&mut self.keys);
        sort(&mut self.heads);
        sort(&mut self.turns);
        sort(&mut self.erasures);
        sort(&mut self.entries);
        sort(&mut self.spaces);
        sort(&mut self.queues);
    }

    fn add(&mut self, write: &Write) {
        match write {
            Write::Append { stream, messages } => {
                let id = stream.id();
                self.streams.push(id);
                self.entities.push(id);
                let tasks = messages.iter().filter_map(|it| it.task.as_ref());
                self.entities.extend(tasks.map(|task| task.target.id()));
            }
            Write::Remember(it) => self.keys.push((it.scope, it.key.clone())),
            Write::Claim { position, .. }
            | Write::Settle { position, .. }
            | Write::Retry { position, .. }
            | Write::Release { position, .. } => self.works.push(*position),
            Write::Move { position, to, .. } => {
                self.works.push(*position);
                self.entities.push(to.id());
            }
            Write::Revive { position } => self.messages.push(*position),
            Write::Sweep(sweep) => self.sweep = Some(*sweep),
            Write::Turn(turn) => {
                self.heads.push(turn.object.id());
                self.entities.push(turn.object.id());
            }
            Write::Images(images) => self.heads.push(images.entity),
            Write::Erase { entity } => self.heads.push(*entity),
            Write::ForgetTurns { positions } => self.turns.extend(positions),
            Write::Run { run, .. } => {
                self.streams.push(run.id());
                self.entities.push(run.id());
            }
            Write::EraseRun { run, .. } => self.erasures.push(*run),
            Write::Put(put) => self.entries.push(put.entry.clone()),
            Write::Count(count) => self.entries.push(count.entry.clone()),
            Write::ExpireEntries { entries } => self.entries.extend(entries.iter().cloned()),
            Write::Close { .. } | Write::Snapshot(_) | Write::KeepRun { .. } => {}
        }
    }
}

/// Sorts keys and removes repetitions.
fn sort<K: Ord>(keys: &mut Vec<K>) {
    sort_by(keys, K::cmp);
    keys.dedup();
}

/// The old rows that a step of retention has found, in order.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) messages: Vec<Position>,
    pub(crate) listed: Vec<ExpiryRow>,
    pub(crate) keys: Vec<KeyName>,
}

/// The part of a stored message that is needed to revive or delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Brief {
    pub(crate) stream: EntityId,
    pub(crate) target: Option<EntityId>,
    pub(crate) ordered: bool,
    /// Whether it is for a queue.
    pub(crate) queued: bool,
    /// Whether it is the last of its stream.
    pub(crate) last: bool,
    /// Whether it is of a process or a run, whose record is deleted as a whole.
    pub(crate) recorded: bool,
}

/// The part of a stored turn that is needed to delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnBrief {
    pub(crate) entity: EntityId,
    pub(crate) bytes: i64,
    /// Whether the images contain it. Once they do, they always will.
    pub(crate) is_history: bool,
}

/// The facts about an entity that is to be deleted. An entity that has not ended has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Erasure {
    /// Work for it, or of it.
    pub(crate) work: Option<Position>,
    /// Whether it is a run that was started.
    pub(crate) is_run: bool,
    /// Whether it has only a detached record, which may be deleted at any time.
    pub(crate) is_aside: bool,
    /// Its dead messages.
    pub(crate) dead: Vec<DeadBrief>,
    /// The last version that is deleted now, if its record is too long.
    pub(crate) cut: Option<Version>,
    /// The number of messages that are deleted now.
    pub(crate) messages: usize,
    /// Of its record.
    pub(crate) origin: Option<Position>,
    /// When its last message was written.
    pub(crate) last_at: Option<Timestamp>,
}

/// A dead message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadBrief {
    pub(crate) position: Position,
    pub(crate) version: Version,
    /// The queue in which it died, if it was in one.
    pub(crate) queue: Option<EntityId>,
    pub(crate) at: Timestamp,
}

/// The change of a counter of the store by a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) delta: i64,
    /// The number of commits, by which the revision increases.
    pub(crate) times: i64,
    /// Every commit keeps its limit if the counter was not above this before the batch.
    pub(crate) at_most: i64,
}

/// The rows as the batch sees them. The store loads existing rows; a missing row does not exist.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) position: Position,
    pub(crate) at: Timestamp,
    /// The sweep has passed the messages up to here.
    pub(crate) swept: Position,
    pub(crate) versions: HashMap<EntityId, Version>,
    /// The positions of the last messages of streams.
    pub(crate) lasts: Table<EntityId, Position>,
    /// Of streams that have a message, and of runs.
    pub(crate) origins: Table<EntityId, Position>,
    pub(crate) entities: HashSet<EntityId>,
    pub(crate) works: Table<Position, Work>,
    pub(crate) messages: Table<Position, Brief>,
    pub(crate) settled: Table<Position, Settlement>,
    pub(crate) closed: Table<EntityId, Timestamp>,
    pub(crate) snapshots: Table<EntityId, Snapshot>,
    pub(crate) keys: Table<(EntityId, Box<str>), KeyRow>,
    pub(crate) heads: Table<EntityId, Head>,
    /// Only those that this batch changes.
    pub(crate) bases: Table<EntityId, Base>,
    pub(crate) turns: Table<Position, TurnBrief>,
    /// Only what this batch writes.
    pub(crate) images: Table<(EntityId, u32), PageImage>,
    pub(crate) cuts: Table<EntityId, u32>,
    /// Only what this batch writes.
    pub(crate) runs: Table<EntityId, RunSummary>,
    /// Entities that are to be deleted, if they exist and have ended.
    pub(crate) erasures: Table<EntityId, Erasure>,
    /// The changes of the numbers of pending and dead messages of queues.
    pub(crate) depths: Table<EntityId, (i64, i64)>,
    pub(crate) expiring: Table<ExpiryRow, bool>,
    /// The numbers of pending messages of queues whose room is checked, before this batch.
    pub(crate) waiting: HashMap<EntityId, i64>,
    pub(crate) entries: Table<EntryKey, Entry>,
    /// Only what this batch counts. The entries have it, too.
    pub(crate) counts: Table<EntryKey, Counted>,
    /// Of a sweep.
    pub(crate) candidates: Candidates,
    /// Lists that have an entry in the store.
    pub(crate) spaces: HashSet<Box<str>>,
}

impl Facts {
    /// The tables that commits change.
    pub(super) fn tables(&mut self) -> [&mut dyn Undo; 19] {
        [
            &mut self.lasts,
            &mut self.depths,
            &mut self.expiring,
            &mut self.origins,
            &mut self.works,
            &mut self.messages,
            &mut self.settled,
            &mut self.closed,
            &mut self.snapshots,
            &mut self.keys,
            &mut self.heads,
            &mut self.bases,
            &mut self.turns,
            &mut self.images,
            &mut self.cuts,
            &mut self.runs,
            &mut self.erasures,
            &mut self.entries,
            &mut self.counts,
        ]
    }

    /// Adds the end of a stream whose entity exists.
    pub(crate) fn load_stream(
        &mut self,
        id: EntityId,
        origin: Option<Position>,
        version: Version,
        last: Option<Position>,
    ) {
        self.entities.insert(id);
        self.versions.insert(id, version);
        if let Some(origin) = origin {
            self.origins.load(id, origin);
        }
        if let Some(last) = last {
            self.lasts.load(id, last);
        }
    }
}
