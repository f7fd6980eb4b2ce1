//! The rows that a batch needs before it can be decided.

use crate::{Commit, EntityId, EntryKey, Expect, Position, Write, sort::sort_by};

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
}

impl Needs {
    pub(crate) fn of<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Self {
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
        needs.sort();
        needs
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
            Write::Forget { positions } | Write::ForgetDead { positions, .. } => {
                self.works.extend(positions);
                self.messages.extend(positions);
            }
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
            Write::EraseEnded { entity, .. } => {
                self.erasures.push(*entity);
                self.heads.push(*entity);
            }
            Write::ExpireKeys { keys } => {
                self.keys.extend(keys.iter().map(|it| (it.scope, it.key.clone())));
            }
            Write::Put(put) => self.entries.push(put.entry.clone()),
            Write::Count(count) => self.entries.push(count.entry.clone()),
            Write::ExpireEntries { entries } => self.entries.extend(entries.iter().cloned()),
            Write::Close { .. }
            | Write::Snapshot(_)
            | Write::KeepRun { .. }
            | Write::Swept { .. }
            | Write::Processed { .. } => {}
        }
    }
}

/// Sorts keys and removes repetitions.
fn sort<K: Ord>(keys: &mut Vec<K>) {
    sort_by(keys, K::cmp);
    keys.dedup();
}
