//! The rows that the sweep must process again, and the counters of messages.

use super::{Brief, Work, decide::Batch};
use crate::{
    EntityId, ExpiryList, ExpiryRow, KeyName, Position, Rejection, SettledAs, Settlement, Timestamp,
};

impl Batch {
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

    /// Whether a message is the last of its stream, to which this batch may have added one.
    pub(super) fn is_last(&self, position: Position, brief: &Brief) -> bool {
        self.facts.lasts.get(&brief.stream).map_or(brief.last, |it| *it == position)
    }

    pub(super) fn processed(&mut self, rows: &[ExpiryRow], again: bool) {
        for row in rows {
            self.facts.expiring.set(*row, None);
            if again {
                self.expires(row.list, row.position, row.entity);
            }
        }
    }

    /// The sweep never moves backwards.
    pub(super) fn swept(&mut self, to: Position) {
        if self.facts.swept < to {
            self.facts.swept = to;
            self.draft.swept = Some(to);
        }
    }

    pub(super) fn forget_dead(&mut self, position: Position, until: Timestamp) {
        let Some(brief) = self.facts.messages.get(&position) else { return };
        let (last, recorded) = (self.is_last(position, brief), brief.recorded);
        let settled = self.facts.settled.get(&position);
        let is_old = |it: &&Settlement| it.as_ == SettledAs::Dead && it.at <= until;
        let Some(settled) = settled.filter(is_old).cloned() else { return };
        if recorded || self.facts.works.get(&position).is_some() {
            return;
        }
        if last {
            let cancelled = Settlement { as_: SettledAs::Cancelled, queue: None, ..settled };
            self.set_settled(position, Some(cancelled));
            return;
        }
        self.set_settled(position, None);
        self.facts.messages.set(position, None);
        self.draft.forgotten.push(position);
        self.receipt.forgotten += 1;
    }

    pub(super) fn expire_key(&mut self, name: &KeyName) {
        let key = (name.scope, name.key.clone());
        if self.facts.keys.get(&key).is_some_and(|it| it.expires_at <= self.keys_expired) {
            self.facts.keys.set(key, None);
            self.receipt.forgotten += 1;
        }
    }
}
