//! Deletes runs and other entities as a whole, lists the rows that the sweep must process again,
//! and counts messages.

use super::{DeadBrief, EntityRow, Erasure, Work, decide::Batch};
use crate::{
    Address, EntityId, EntityKind, ExpiryList, ExpiryRow, Position, Rejection, SettledAs,
    Settlement, Timestamp,
};

/// Maximum messages of one entity that are deleted in one commit. A sweep begins no other entity
/// after as many.
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

    /// The facts about an entity that is to be deleted; `None` if it does not exist or has not
    /// ended.
    pub(super) fn erasable(
        &self,
        entity: EntityId,
        until: Timestamp,
    ) -> Result<Option<Erasure>, Rejection> {
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
    }

    pub(super) fn erase_whole(&mut self, entity: EntityId, found: &Erasure) {
        self.uncount(found);
        self.forget_entity(entity);
        self.draft.erased.push(entity);
        self.receipt.forgotten += found.messages;
    }

    /// Subtracts its dead messages. Those that this batch has changed were counted then.
    pub(super) fn uncount(&mut self, found: &Erasure) {
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

    /// Writes or removes work, and counts it.
    pub(super) fn set_work(&mut self, position: Position, work: Option<Work>) {
        let queue = |it: &Work| it.queued.then_some(it.target);
        let before = self.facts.works.get(&position).map(queue);
        let after = work.as_ref().map(queue);
        for (queue, change) in before.map(|it| (it, -1)).into_iter().chain(after.map(|it| (it, 1)))
        {
            self.draft.pending += change;
            self.count_depth(queue, (change, 0));
        }
        self.facts.works.set(position, work);
    }

    /// Writes or removes the end of a delivery, counts dead messages, and adds them to the list of
    /// the sweep.
    pub(super) fn set_settled(&mut self, position: Position, settled: Option<Settlement>) {
        let queue = |it: &Settlement| (it.as_ == SettledAs::Dead).then_some(it.queue);
        let before = self.facts.settled.get(&position).and_then(queue);
        let after = settled.as_ref().and_then(queue);
        if let Some(queue) = before {
            self.count_dead(queue, -1);
        }
        if let Some(queue) = after {
            self.count_dead(queue, 1);
            self.expires(ExpiryList::Dead, position, EntityId::NONE);
        } else if settled.is_some() {
            self.is_free(position);
        }
        self.facts.settled.set(position, settled);
    }

    pub(super) fn count_dead(&mut self, queue: Option<EntityId>, change: i64) {
        self.draft.dead += change;
        self.count_depth(queue, (0, change));
    }

    /// Whether a queue has room for more messages, after the earlier commits of the batch.
    pub(super) fn check_room(&self, queue: EntityId, more: u64, max: u64) -> Result<(), Rejection> {
        let before = self.facts.waiting.get(&queue).copied().unwrap_or(0);
        let change = self.facts.depths.get(&queue).map_or(0, |it| it.0);
        let waiting = u64::try_from(before + change).unwrap_or(0);
        if max < waiting.saturating_add(more) {
            return Err(Rejection::Full { queue, waiting, max });
        }
        Ok(())
    }

    fn count_depth(&mut self, queue: Option<EntityId>, (waiting, dead): (i64, i64)) {
        let Some(queue) = queue else { return };
        let (before, dead_before) = self.facts.depths.get(&queue).copied().unwrap_or_default();
        self.facts.depths.set(queue, Some((before + waiting, dead_before + dead)));
    }

    /// A message is not needed any more: if the sweep has passed it already, the message is added
    /// to a list.
    pub(super) fn is_free(&mut self, position: Position) {
        if position <= self.facts.swept {
            self.expires(ExpiryList::Late, position, EntityId::NONE);
        }
    }

    pub(super) fn ends(&mut self, entity: EntityId) {
        self.expires(ExpiryList::Ended, 0, entity);
    }

    /// The same, as if it had ended at that time.
    pub(super) fn ended_at(&mut self, entity: EntityId, since: Timestamp) {
        let (list, position) = (ExpiryList::Ended, 0);
        self.facts.expiring.set(ExpiryRow { list, since, position, entity }, Some(true));
    }

    fn expires(&mut self, list: ExpiryList, position: Position, entity: EntityId) {
        let row = ExpiryRow { list, since: self.draft.at, position, entity };
        self.facts.expiring.set(row, Some(true));
    }
}
