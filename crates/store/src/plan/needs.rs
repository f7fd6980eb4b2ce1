//! The rows that a batch needs before it can be decided.

use std::collections::BTreeSet;

use crate::{Commit, EntityId, EntryKey, Expect, Position, Write};

/// Keys of rows to read, sorted so that every store reads and locks in one order.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) streams: BTreeSet<EntityId>,
    pub(crate) entities: BTreeSet<EntityId>,
    pub(crate) works: BTreeSet<Position>,
    pub(crate) messages: BTreeSet<Position>,
    pub(crate) keys: BTreeSet<(EntityId, Box<str>)>,
    pub(crate) heads: BTreeSet<EntityId>,
    pub(crate) turns: BTreeSet<Position>,
    pub(crate) erasures: BTreeSet<EntityId>,
    pub(crate) entries: BTreeSet<EntryKey>,
    pub(crate) spaces: BTreeSet<Box<str>>,
}

impl Needs {
    pub(crate) fn of<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Self {
        let mut needs = Self::default();
        for commit in commits {
            for expect in &commit.expects {
                match expect {
                    Expect::Version { stream, .. } => _ = needs.streams.insert(*stream),
                    Expect::Pending { position } | Expect::Unclaimed { position } => {
                        needs.works.insert(*position);
                    }
                    Expect::Settled { position, .. } => _ = needs.messages.insert(*position),
                    Expect::Head { entity, .. } => _ = needs.heads.insert(*entity),
                    Expect::Revision { entry, .. } => _ = needs.entries.insert(entry.clone()),
                    Expect::Vacant { space } => _ = needs.spaces.insert(space.clone()),
                }
            }
            commit.writes.iter().for_each(|write| needs.add(write));
        }
        needs
    }

    fn add(&mut self, write: &Write) {
        match write {
            Write::Append { stream, messages } => {
                let id = stream.id();
                self.streams.insert(id);
                self.entities.insert(id);
                let tasks = messages.iter().filter_map(|it| it.task.as_ref());
                self.entities.extend(tasks.map(|task| task.target.id()));
            }
            Write::Remember(it) => _ = self.keys.insert((it.scope, it.key.clone())),
            Write::Claim { position, .. }
            | Write::Settle { position, .. }
            | Write::Retry { position, .. }
            | Write::Release { position, .. } => _ = self.works.insert(*position),
            Write::Move { position, to, .. } => {
                self.works.insert(*position);
                self.entities.insert(to.id());
            }
            Write::Revive { position } => _ = self.messages.insert(*position),
            Write::Forget { positions } | Write::ForgetDead { positions, .. } => {
                self.works.extend(positions);
                self.messages.extend(positions);
            }
            Write::Turn(turn) => {
                self.heads.insert(turn.object.id());
                self.entities.insert(turn.object.id());
            }
            Write::Images(images) => _ = self.heads.insert(images.entity),
            Write::Erase { entity } => _ = self.heads.insert(*entity),
            Write::ForgetTurns { positions } => self.turns.extend(positions),
            Write::Run { run, .. } => {
                self.streams.insert(run.id());
                self.entities.insert(run.id());
            }
            Write::EraseRun { run, .. } => _ = self.erasures.insert(*run),
            Write::EraseEnded { entity, .. } => {
                self.erasures.insert(*entity);
                self.heads.insert(*entity);
            }
            Write::ExpireKeys { keys } => {
                self.keys.extend(keys.iter().map(|it| (it.scope, it.key.clone())));
            }
            Write::Put(put) => _ = self.entries.insert(put.entry.clone()),
            Write::ExpireEntries { entries } => self.entries.extend(entries.iter().cloned()),
            Write::Close { .. }
            | Write::Snapshot(_)
            | Write::KeepRun { .. }
            | Write::Swept { .. }
            | Write::Processed { .. } => {}
        }
    }
}
