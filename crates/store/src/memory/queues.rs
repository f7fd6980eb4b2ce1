//! Queues, in memory.

use super::tables::Tables;
use crate::{
    DEPTH_SEEN_MAX, DueCursor, EntityId, QueueDepth, QueuedMessage, Timestamp, Work,
    sort::sort_by_key,
};

impl Tables {
    /// The messages of a queue in due order: the unordered work of a target, as in the databases.
    fn in_queue(&self, queue: EntityId) -> Vec<Work> {
        let is_in = |it: &&Work| it.target == queue && !it.ordered;
        let mut works: Vec<Work> = self.works.values().filter(is_in).copied().collect();
        sort_by_key(&mut works, |it| (it.due_at, it.position));
        works
    }

    fn queued_message(&self, work: Work) -> Option<QueuedMessage> {
        let message = self.recorded(work.position)?;
        Some(QueuedMessage { message, queue: work.target, attempts: work.attempts })
    }

    pub(super) fn queue_messages(
        &self,
        queue: EntityId,
        after: DueCursor,
        until: Timestamp,
        limit: usize,
    ) -> Vec<QueuedMessage> {
        let is_due = |it: &Work| {
            after < DueCursor { due_at: it.due_at, position: it.position } && it.due_at <= until
        };
        let due = self.in_queue(queue).into_iter().filter(is_due);
        due.filter_map(|it| self.queued_message(it)).take(limit).collect()
    }

    pub(super) fn leased(
        &self,
        queue: EntityId,
        at: Timestamp,
        limit: usize,
    ) -> Vec<QueuedMessage> {
        let works = self.in_queue(queue).into_iter();
        let leased = works.filter(|it| it.claim.is_some() && at < it.due_at);
        leased.filter_map(|it| self.queued_message(it)).take(limit).collect()
    }

    pub(super) fn queue_depth(&self, queue: EntityId, at: Timestamp) -> QueueDepth {
        let works = self.in_queue(queue);
        let due = works.iter().filter(|it| it.due_at <= at).take(DEPTH_SEEN_MAX);
        let later = works.iter().filter(|it| at < it.due_at).take(DEPTH_SEEN_MAX);
        let leased = later.clone().filter(|it| it.claim.is_some()).count() as u64;
        let seen = [due.clone().count() as u64, later.clone().count() as u64, leased];
        let first = due.chain(later).map(|it| it.position).min();
        let oldest = first.and_then(|it| self.recorded(it)).map(|it| it.created_at);
        let (waiting, dead) = self.depths.get(&queue).copied().unwrap_or_default();
        QueueDepth::seen(waiting.unsigned_abs(), dead.unsigned_abs(), seen, oldest)
    }

    pub(super) fn next_due(&self, queue: EntityId, after: Timestamp) -> Option<Timestamp> {
        self.in_queue(queue).iter().map(|it| it.due_at).find(|it| after < *it)
    }
}
