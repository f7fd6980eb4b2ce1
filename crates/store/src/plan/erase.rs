//! The end of runs and of other entities, as if they had never been.

use super::decide::Batch;
use crate::{EntityId, Position, Rejection, Timestamp, Version};

/// Messages of one entity that go in one commit, at most.
pub(crate) const ERASED_MAX: i64 = 2_000;

/// What is known of an entity that is to be erased. There is none of one that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Erasure {
    /// Work for it, or of it.
    pub(crate) work: Option<Position>,
    /// Whether it is a run that was started.
    pub(crate) is_run: bool,
    /// Its messages that were given up.
    pub(crate) dead: Vec<DeadBrief>,
    /// Where its record is too long: up to this version the messages go at once.
    pub(crate) cut: Option<Version>,
    /// How many messages go at once.
    pub(crate) messages: usize,
}

/// A message that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadBrief {
    pub(crate) position: Position,
    pub(crate) version: Version,
    /// The queue that it died in, if it did in one.
    pub(crate) queue: Option<EntityId>,
    pub(crate) at: Timestamp,
}

impl Batch {
    pub(super) fn erase_run(&mut self, run: EntityId, until: Timestamp) -> Result<(), Rejection> {
        self.erase_entity(run, until)
    }

    pub(super) fn erase_ended(&mut self, id: EntityId, until: Timestamp) -> Result<(), Rejection> {
        let is_run = self.facts.erasures.get(&id).is_some_and(|it| it.is_run);
        let is_there = self.facts.heads.get(&id).is_some();
        if is_run || is_there { Ok(()) } else { self.erase_entity(id, until) }
    }

    fn erase_entity(&mut self, entity: EntityId, until: Timestamp) -> Result<(), Rejection> {
        if self.has_moved(entity) {
            return Err(Rejection::JustWritten { entity });
        }
        // It is not there.
        let Some(found) = self.facts.erasures.get(&entity).cloned() else { return Ok(()) };
        let young = found.dead.iter().find(|it| until < it.at).map(|it| it.position);
        if let Some(position) = found.work.or(young) {
            return Err(Rejection::HasWork { entity, position });
        }
        let known = self.facts.messages.iter().filter(|(_, brief)| brief.stream == entity);
        let known: Vec<Position> = known.map(|(position, _)| *position).collect();
        for dead in &found.dead {
            let goes = found.cut.is_none_or(|it| dead.version <= it);
            if goes && !self.facts.settled.has_changed(&dead.position) {
                self.count_dead(dead.queue, -1);
            }
        }
        for position in known {
            self.facts.messages.set(position, None);
            self.facts.settled.set(position, None);
        }
        self.receipt.forgotten += found.messages;
        self.facts.erasures.set(entity, None);
        if let Some(version) = found.cut {
            self.draft.cut.push((entity, version));
            return Ok(());
        }
        let before = self.version(entity);
        self.moved.entry(entity).or_insert(before);
        self.facts.versions.insert(entity, 0);
        self.facts.lasts.set(entity, None);
        self.facts.origins.set(entity, None);
        self.facts.entities.remove(&entity);
        self.facts.closed.set(entity, None);
        self.facts.snapshots.set(entity, None);
        self.facts.runs.set(entity, None);
        self.draft.erased.push(entity);
        self.receipt.erased = true;
        Ok(())
    }

    /// Whether this batch has done something with an entity that the rows read from the store do
    /// not tell. What is settled here was pending there, so that need not be looked for.
    fn has_moved(&self, entity: EntityId) -> bool {
        let is_for = |target: Option<EntityId>| target == Some(entity);
        self.draft.entities.iter().any(|it| it.address.id() == entity)
            || self.draft.messages.iter().any(|it| it.stream == entity || is_for(it.target))
            || self.facts.messages.iter().any(|(position, it)| {
                (it.stream == entity || is_for(it.target)) && self.facts.works.has_changed(position)
            })
    }
}
