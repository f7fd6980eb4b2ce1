//! Deletes runs and other entities as a whole.

use super::{DeadBrief, EntityRow, Erasure, decide::Batch};
use crate::{Address, EntityId, EntityKind, Position, Rejection, Timestamp};

/// Maximum messages of one entity that are deleted in one commit.
pub(crate) const ERASED_MAX: i64 = 2_000;

/// The class of entities with detached records, each under its origin.
pub(crate) const ERASED: &str = "erased";

impl Batch {
    pub(super) fn erase_run(&mut self, run: EntityId, until: Timestamp) -> Result<(), Rejection> {
        let Some(found) = self.erasable(run, until)? else { return Ok(()) };
        match found.origin.filter(|_| found.cut.is_some()) {
            Some(origin) => self.put_aside(run, origin),
            None => self.erase_whole(run, &found),
        }
        Ok(())
    }

    pub(super) fn erase_ended(
        &mut self,
        entity: EntityId,
        until: Timestamp,
        dead_until: Timestamp,
    ) -> Result<(), Rejection> {
        if self.facts.heads.get(&entity).is_some() {
            return Ok(());
        }
        let Some(found) = self.erasable(entity, dead_until)? else { return Ok(()) };
        if found.is_run {
            return Ok(());
        }
        if !found.is_aside && found.last_at.is_some_and(|it| until < it) {
            return Err(Rejection::JustWritten { entity });
        }
        let Some(version) = found.cut else {
            self.erase_whole(entity, &found);
            return Ok(());
        };
        // Facts about its messages from before and after the deletion would mix.
        if self.facts.messages.iter().any(|(_, brief)| brief.stream == entity) {
            return Err(Rejection::JustWritten { entity });
        }
        self.uncount(&found);
        self.facts.erasures.set(entity, None);
        self.draft.cut.push((entity, version));
        self.receipt.forgotten += found.messages;
        Ok(())
    }

    /// The facts about an entity that is to be deleted; `None` if it does not exist or has not
    /// ended.
    fn erasable(&self, entity: EntityId, until: Timestamp) -> Result<Option<Erasure>, Rejection> {
        if self.has_moved(entity) {
            return Err(Rejection::JustWritten { entity });
        }
        let Some(found) = self.facts.erasures.get(&entity) else { return Ok(None) };
        let is_young = |it: &&DeadBrief| !found.is_aside && until < it.at;
        let young = found.dead.iter().find(is_young).map(|it| it.position);
        match found.work.or(young) {
            Some(position) => Err(Rejection::HasWork { entity, position }),
            None => Ok(Some(found.clone())),
        }
    }

    /// Moves a long record to an entity of its own, which no query finds. The name is free
    /// immediately, and the sweep deletes the record in parts.
    fn put_aside(&mut self, entity: EntityId, origin: Position) {
        let to = Address::new(EntityKind::System, ERASED, &origin.to_string());
        let to = to.expect("a number is a name");
        self.forget_entity(entity);
        self.draft.put_aside.push((entity, to.id()));
        let (created_at, closed_at) = (self.draft.at, None);
        let row = EntityRow { address: to.clone(), created_at, closed_at, origin: Some(origin) };
        self.facts.entities.insert(to.id());
        self.draft.entities.push(row);
        self.ended_at(to.id(), Timestamp::MIN);
        self.receipt.erased = true;
    }

    fn erase_whole(&mut self, entity: EntityId, found: &Erasure) {
        self.uncount(found);
        self.forget_entity(entity);
        self.draft.erased.push(entity);
        self.receipt.forgotten += found.messages;
        self.receipt.erased = true;
    }

    /// Subtracts its dead messages. Those that this batch has changed were counted then.
    fn uncount(&mut self, found: &Erasure) {
        for dead in &found.dead {
            let goes = found.cut.is_none_or(|it| dead.version <= it);
            if goes && !self.facts.settled.has_changed(&dead.position) {
                self.count_dead(dead.queue, -1);
            }
        }
    }

    fn forget_entity(&mut self, entity: EntityId) {
        let known = self.facts.messages.iter().filter(|(_, brief)| brief.stream == entity);
        let known: Vec<Position> = known.map(|(position, _)| *position).collect();
        for position in known {
            self.facts.messages.hide(&position);
            self.facts.settled.hide(&position);
        }
        let before = self.version(entity);
        self.moved.entry(entity).or_insert(before);
        self.facts.versions.insert(entity, 0);
        self.facts.lasts.set(entity, None);
        self.facts.origins.set(entity, None);
        self.facts.entities.remove(&entity);
        self.facts.erasures.set(entity, None);
        self.facts.closed.set(entity, None);
        self.facts.snapshots.set(entity, None);
        self.facts.runs.set(entity, None);
    }

    /// Whether this batch has changed an entity in a way that the rows of the store do not show. A
    /// message that is settled here was pending there, so it need not be checked.
    fn has_moved(&self, entity: EntityId) -> bool {
        let is_for = |target: Option<EntityId>| target == Some(entity);
        let works = &self.facts.works;
        self.draft.entities.iter().any(|it| it.address.id() == entity)
            || self.draft.messages.iter().any(|it| it.stream == entity || is_for(it.target))
            || works.iter().any(|(position, it)| it.target == entity && works.has_changed(position))
            || self.facts.messages.iter().any(|(position, it)| {
                (it.stream == entity || is_for(it.target)) && works.has_changed(position)
            })
    }
}
