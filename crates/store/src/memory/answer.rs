//! Answers queries from the tables, in the simplest way.

use super::tables::Tables;
use crate::{
    Answer, DEPTH_SEEN_MAX, DueCursor, EntityId, EntityKind, Lease, Position, Query, QueueDepth,
    QueuedMessage, Recorded, SettledAs, Timestamp, Work, sort::sort_by_key,
};

impl Tables {
    pub(super) fn answer(&self, query: Query) -> Answer {
        use Answer as A;
        use Query as Q;
        match query {
            Q::Stream { stream, from, limit } => A::Messages(self.stream(stream, from, limit)),
            Q::All { after, limit } => A::Messages(self.all(after, limit)),
            Q::Message { position } => A::Messages(Vec::from_iter(self.recorded(position))),
            Q::Pending { stream, after, limit } => A::Messages(self.pending(stream, after, limit)),
            Q::Dead { queue, after, limit } => A::Messages(self.dead(queue, after, limit)),
            Q::Attempts { position } => A::Attempts(self.attempts_of(position).cloned().collect()),
            Q::Version { stream } => A::Numbers(vec![self.version(stream)]),
            Q::Streams { within, after, limit } => {
                A::Streams(self.summaries(within.as_ref(), after.as_ref(), limit))
            }
            Q::Addresses { ids } => A::Addresses(self.addresses(&ids)),
            Q::Snapshot { stream } => A::Snapshots(Vec::from_iter(self.snapshot(stream))),
            Q::Due { after, limit } => A::Works(self.due(after, limit)),
            Q::Backlog { target, ordered, after, limit } => {
                A::Works(self.backlog(target, ordered, after, limit))
            }
            Q::Orphans { epoch, queued, limit } => A::Works(self.orphans(epoch, queued, limit)),
            Q::QueueMessages { queue, after, until, limit } => {
                A::Queued(self.queue_messages(queue, after, until, limit))
            }
            Q::Leased { queue, at, limit } => A::Queued(self.leased(queue, at, limit)),
            Q::QueueDepth { queue, at } => A::Depths(vec![self.queue_depth(queue, at)]),
            Q::NextDue { queue, after } => A::Times(Vec::from_iter(self.next_due(queue, after))),
            Q::Unswept { until, limit } => A::Numbers(self.unswept(until, limit)),
            Q::ExpiryRow { list, until, limit } => A::ExpiryRow(self.expiring(list, until, limit)),
            Q::ExpiredKeys { at, limit } => A::Keys(self.expired_keys(at, limit)),
            Q::Head { entity } => A::Heads(Vec::from_iter(self.objects.head(entity))),
            Q::Heads { history_over, after, limit } => {
                A::Heads(self.objects.heads(history_over, after, limit))
            }
            Q::Classes { kind, after, limit } => A::Texts(self.classes(kind, after, limit)),
            Q::Objects { class, prefix, after, limit } => {
                A::Objects(self.object_summaries(&class, &prefix, after.as_deref(), limit))
            }
            Q::CountObjects { class, max } => {
                A::Numbers(vec![self.object_summaries(&class, "", None, max).len() as i64])
            }
            Q::Images { entity, pages } => A::Images(self.objects.images(entity, &pages)),
            Q::TurnsBack { from, limit } => A::Turns(self.objects.turns_back(from, limit)),
            Q::TurnSummaries { from, limit } => {
                A::TurnSummaries(self.objects.turn_summaries(from, limit))
            }
            Q::OldTurns { after, limit } => A::OldTurns(self.objects.old_turns(after, limit)),
            Q::Run { entity } => A::Runs(Vec::from_iter(self.runs.get(entity))),
            Q::Runs { page, limit } => A::Runs(self.runs.list(&page, limit)),
            Q::CountRuns { workflow, status, max } => {
                A::Numbers(vec![self.runs.count(&workflow, status, max)])
            }
            Q::CountRunNames { workflow, prefix, max } => {
                A::Numbers(vec![self.count_run_names(&workflow, &prefix, max)])
            }
            Q::ExpiredRuns { at, limit } => A::Runs(self.runs.expired(at, limit)),
            Q::Totals => A::Totals(vec![self.totals()]),
            Q::Entry { entry } => A::Entries(Vec::from_iter(self.entries.get(&entry))),
            Q::Entries { space, range, limit } => {
                A::Entries(self.entries.list(&space, range, limit))
            }
            Q::EntriesByAge { space, after, until, limit } => {
                A::Entries(self.entries.by_age(&space, &after, until, limit))
            }
            Q::ExpiredEntries { at, limit } => A::Entries(self.entries.expired(at, limit)),
            Q::Referenced { ids } => A::References(self.entries.referenced(&ids)),
            Q::Dump => A::Texts(self.dump()),
            Q::Violations => A::Texts(self.violations()),
        }
    }

    fn pending(&self, stream: Option<EntityId>, after: Position, limit: usize) -> Vec<Recorded> {
        let pending = self.works.keys().filter(|position| after < **position);
        let recorded = pending.filter_map(|position| self.recorded(*position));
        recorded.filter(|it| stream.is_none_or(|id| id == it.stream)).take(limit).collect()
    }

    fn dead(&self, queue: Option<EntityId>, after: Position, limit: usize) -> Vec<Recorded> {
        let behind = self.outcomes.range(after.saturating_add(1)..);
        let dead = behind.filter(|(_, it)| it.as_ == SettledAs::Dead);
        let meant = dead.filter(|(_, it)| queue.is_none() || queue == it.queue);
        meant.filter_map(|(position, _)| self.recorded(*position)).take(limit).collect()
    }

    fn backlog(
        &self,
        target: EntityId,
        ordered: bool,
        after: DueCursor,
        limit: usize,
    ) -> Vec<Work> {
        let of = |work: &&Work| work.target == target && work.ordered == ordered;
        let mut works: Vec<Work> = self.works.values().filter(of).copied().collect();
        if ordered {
            works.retain(|it| after.position < it.position);
        } else {
            let key = |it: &Work| DueCursor { due_at: it.due_at, position: it.position };
            works.retain(|it| after < key(it));
            sort_by_key(&mut works, key);
        }
        works.truncate(limit);
        works
    }

    fn orphans(&self, epoch: i64, queued: bool, limit: usize) -> Vec<Work> {
        let is_over = |it: (Lease, Timestamp)| 0 < it.0.holder && it.0.holder < epoch;
        let orphaned = |it: &&Work| it.queued == queued && it.claim.is_some_and(is_over);
        self.works.values().filter(orphaned).take(limit).copied().collect()
    }

    fn count_run_names(&self, workflow: &str, prefix: &str, max: usize) -> i64 {
        let ids = self.entities.values().map(|it| &it.address);
        let of = ids.filter(|it| it.kind() == EntityKind::Run && it.class() == workflow);
        of.filter(|it| it.name().starts_with(prefix)).take(max).count() as i64
    }

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
