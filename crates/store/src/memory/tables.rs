//! The tables of the store in memory: the simplest form of the tables of the SQL stores.

use std::collections::BTreeSet;

use super::{
    map::Map,
    nouns::{EntryTable, Objects, Runs},
};
use crate::{
    Address, Attempt, DueCursor, EntityId, EntityKind, ExpiryList, ExpiryRow, KeyName,
    ObjectSummary, Position, Query, Recorded, SettledAs, Settlement, Snapshot, State,
    StreamSummary, Timestamp, Totals, Version, Work,
    plan::{
        Brief, DeadBrief, ERASED, ERASED_MAX, EntityRow, Erasure, Facts, KeyRow, MessageRow, Needs,
        Plan,
    },
    sort::sort_by_key,
    store_clock::ClockRecord,
};

#[derive(Debug, Default)]
pub(super) struct Tables {
    position: Position,
    at: Timestamp,
    delete_from: Timestamp,
    swept: Position,
    /// Messages that are pending and dead, in all and in each queue.
    counts: (i64, i64),
    pub(super) depths: Map<EntityId, (i64, i64)>,
    expiring: Map<ExpiryRow, ()>,
    pub(super) entities: Map<EntityId, EntityRow>,
    messages: Map<Position, MessageRow>,
    streams: Map<(EntityId, Version), Position>,
    pub(super) works: Map<Position, Work>,
    due: Map<(Timestamp, Position), ()>,
    pub(super) outcomes: Map<Position, Settlement>,
    attempts: Map<(Position, u32), Attempt>,
    snapshots: Map<EntityId, Snapshot>,
    keys: Map<(EntityId, Box<str>), KeyRow>,
    pub(super) objects: Objects,
    pub(super) runs: Runs,
    pub(super) entries: EntryTable,
}

impl Tables {
    pub(super) fn clock(&self) -> ClockRecord {
        ClockRecord { at: self.at, delete_from: self.delete_from }
    }

    pub(super) fn facts(&self, mut needs: Needs) -> Facts {
        let (position, at, swept) = (self.position, self.at, self.swept);
        let mut facts = Facts { position, at, swept, ..Facts::default() };
        if let Some(sweep) = needs.sweep {
            facts.candidates =
                self.answer(Query::candidates(sweep, sweep.list.page())).into_candidates();
            needs.add_candidates(&facts.candidates);
        }
        for stream in &needs.streams {
            facts.versions.insert(*stream, self.version(*stream));
            if let Some(origin) = self.entities.get(stream).and_then(|it| it.origin) {
                facts.origins.load(*stream, origin);
            }
            if let Some((_, position)) = self.last(*stream) {
                facts.lasts.load(*stream, position);
            }
        }
        facts.entities =
            needs.entities.iter().filter(|id| self.entities.contains_key(*id)).copied().collect();
        for position in &needs.works {
            if let Some(work) = self.works.get(position) {
                facts.works.load(*position, *work);
            }
        }
        for position in &needs.messages {
            if let Some(row) = self.messages.get(position) {
                let last = self.version(row.stream) == row.version;
                let (stream, target, ordered) = (row.stream, row.target, row.ordered);
                let queued = target.is_some_and(|it| self.is_queue(it));
                let recorded = self.is_recorded(stream);
                let brief = Brief { stream, target, ordered, queued, last, recorded };
                facts.messages.load(*position, brief);
            }
            if let Some(settled) = self.outcomes.get(position) {
                facts.settled.load(*position, settled.clone());
            }
        }
        self.objects.facts(&needs, &mut facts);
        self.entries.facts(&needs, &mut facts);
        let queues = needs.queues.iter();
        facts.waiting.extend(queues.filter_map(|it| Some((*it, self.depths.get(it)?.0))));
        for id in &needs.erasures {
            if let Some(found) = self.erasure(*id) {
                facts.erasures.load(*id, found);
            }
        }
        for key in &needs.keys {
            if let Some(row) = self.keys.get(key) {
                facts.keys.load(key.clone(), row.clone());
            }
        }
        facts
    }

    pub(super) fn apply(&mut self, plan: &Plan) {
        if plan.is_empty() {
            return;
        }
        self.position = plan.position;
        (self.at, self.delete_from) = (plan.at, plan.delete_from);
        self.swept = plan.swept.unwrap_or(self.swept);
        self.counts = (self.counts.0 + plan.pending, self.counts.1 + plan.dead);
        for (queue, waiting, dead) in &plan.depths {
            let before = self.depths.get(queue).copied().unwrap_or_default();
            self.depths.insert(*queue, (before.0 + waiting, before.1 + dead));
        }
        plan.processed.iter().for_each(|it| _ = self.expiring.remove(it));
        self.expiring.extend(plan.expiring.iter().map(|it| (*it, ())));
        plan.cut.iter().for_each(|(id, version)| self.cut(*id, *version));
        plan.put_aside.iter().for_each(|(id, to)| self.put_aside(*id, *to));
        plan.erased.iter().for_each(|id| self.erase(*id));
        for row in &plan.entities {
            self.entities.insert(row.address.id(), row.clone());
        }
        for (id, origin) in &plan.origins {
            if let Some(row) = self.entities.get_mut(id) {
                row.origin = Some(*origin);
            }
        }
        for row in &plan.messages {
            self.streams.insert((row.stream, row.version), row.position);
            self.messages.insert(row.position, row.clone());
        }
        for work in &plan.works {
            self.remove_work(work.position);
            if !work.queued {
                self.due.insert((work.due_at, work.position), ());
            }
            self.works.insert(work.position, *work);
        }
        plan.works_gone.iter().for_each(|position| self.remove_work(*position));
        self.outcomes.extend(plan.settled.iter().cloned());
        for position in &plan.unsettled {
            self.outcomes.remove(position);
        }
        for row in &plan.attempts {
            self.attempts.insert((row.position, row.number), row.clone());
        }
        for (id, at) in &plan.closed {
            if let Some(row) = self.entities.get_mut(id) {
                row.closed_at = Some(*at);
            }
        }
        self.objects.apply(plan);
        self.runs.apply(plan);
        self.entries.apply(plan);
        for snapshot in &plan.snapshots {
            self.snapshots.insert(snapshot.stream, snapshot.clone());
        }
        for row in &plan.keys {
            self.keys.insert((row.scope, row.key.clone()), row.clone());
        }
        for KeyName { scope, key } in &plan.keys_gone {
            self.keys.remove(&(*scope, key.clone()));
        }
        for position in &plan.forgotten {
            if let Some(row) = self.messages.remove(position) {
                self.streams.remove(&(row.stream, row.version));
            }
            self.outcomes.remove(position);
            self.attempts.take((*position, 0)..=(*position, u32::MAX));
        }
    }

    /// The facts about an entity that is to be deleted, if it has ended.
    fn erasure(&self, id: EntityId) -> Option<Erasure> {
        let entity = self.entities.get(&id)?;
        let is_aside = entity.address.class() == ERASED;
        let has_ended = match entity.address.kind() {
            EntityKind::Run => true,
            EntityKind::Process => entity.closed_at.is_some() || entity.origin.is_none(),
            EntityKind::Object => self.objects.head(id).is_none(),
            EntityKind::System => is_aside,
            EntityKind::Stream | EntityKind::Queue | EntityKind::Bucket => false,
        };
        if !has_ended {
            return None;
        }
        let own = || self.streams.range((id, Version::MIN)..=(id, Version::MAX));
        let work = own().map(|(_, position)| *position).find(|it| self.works.contains_key(it));
        let for_it = || self.works.values().find(|it| it.target == id).map(|it| it.position);
        let dead = own().filter_map(|((_, version), position)| {
            let it = self.outcomes.get(position).filter(|it| it.as_ == SettledAs::Dead)?;
            let (position, version, queue, at) = (*position, *version, it.queue, it.at);
            Some(DeadBrief { position, version, queue, at })
        });
        let max = ERASED_MAX as usize;
        Some(Erasure {
            work: work.or_else(for_it),
            is_run: self.runs.get(id).is_some(),
            is_aside: entity.address.kind() == EntityKind::System,
            dead: dead.collect(),
            cut: own().nth(max).map(|((_, version), _)| *version - 1),
            messages: own().take(max).count(),
            origin: entity.origin,
            last_at: own()
                .next_back()
                .and_then(|(_, it)| self.messages.get(it))
                .map(|it| it.created_at),
        })
    }

    fn cut(&mut self, id: EntityId, version: Version) {
        for (_, position) in self.streams.take((id, Version::MIN)..=(id, version)) {
            self.messages.remove(&position);
            self.outcomes.remove(&position);
            self.attempts.take((position, 0)..=(position, u32::MAX));
        }
    }

    /// Moves a record to an entity that no query finds.
    fn put_aside(&mut self, id: EntityId, to: EntityId) {
        let all = (id, Version::MIN)..=(id, Version::MAX);
        let record = self.streams.take(all);
        self.streams.extend(record.map(|((_, version), it)| ((to, version), it)));
        self.erase(id);
    }

    fn erase(&mut self, id: EntityId) {
        self.cut(id, Version::MAX);
        self.snapshots.remove(&id);
        self.runs.erase(id);
        self.entities.remove(&id);
    }

    fn remove_work(&mut self, position: Position) {
        if let Some(old) = self.works.remove(&position) {
            self.due.remove(&(old.due_at, position));
        }
    }

    pub(super) fn version(&self, stream: EntityId) -> Version {
        self.last(stream).map_or(0, |(version, _)| version)
    }

    /// The version and the position of the last message of a stream.
    fn last(&self, stream: EntityId) -> Option<(Version, Position)> {
        let all = (stream, Version::MIN)..=(stream, Version::MAX);
        self.streams.range(all).next_back().map(|((_, version), position)| (*version, *position))
    }

    /// Whether it is a process or a run.
    fn is_recorded(&self, stream: EntityId) -> bool {
        self.entities.get(&stream).is_some_and(|it| it.address.kind().has_state())
    }

    pub(super) fn recorded(&self, position: Position) -> Option<Recorded> {
        let row = self.messages.get(&position)?;
        let last_error = self.attempts_of(position).last().map(|it| it.error.clone());
        Some(row.clone().recorded(self.state(position), last_error))
    }

    fn state(&self, position: Position) -> Option<State> {
        if let Some(work) = self.works.get(&position) {
            let (due_at, attempts) = (work.due_at, work.tries());
            return Some(match work.claim {
                Some((lease, _)) => State::InFlight { lease, until: due_at, attempts },
                None => State::Pending { due_at, attempts },
            });
        }
        self.outcomes.get(&position).cloned().map(State::Settled)
    }

    pub(super) fn stream(&self, stream: EntityId, from: Version, limit: usize) -> Vec<Recorded> {
        let range = self.streams.range((stream, from)..=(stream, Version::MAX));
        range.filter_map(|(_, position)| self.recorded(*position)).take(limit).collect()
    }

    pub(super) fn all(&self, after: Position, limit: usize) -> Vec<Recorded> {
        let range = self.messages.range(after.saturating_add(1)..);
        range.filter_map(|(position, _)| self.recorded(*position)).take(limit).collect()
    }

    pub(super) fn addresses(&self, ids: &[EntityId]) -> Vec<Address> {
        let known = ids.iter().filter_map(|id| self.entities.get(id));
        known.map(|row| row.address.clone()).collect()
    }

    pub(super) fn snapshot(&self, stream: EntityId) -> Option<Snapshot> {
        self.snapshots.get(&stream).cloned()
    }

    pub(super) fn attempts_of(&self, position: Position) -> impl Iterator<Item = &Attempt> {
        self.attempts.range((position, 0)..=(position, u32::MAX)).map(|(_, row)| row)
    }

    pub(super) fn summaries(
        &self,
        within: Option<&(EntityKind, String)>,
        after: Option<&Address>,
        limit: usize,
    ) -> Vec<StreamSummary> {
        let after = after.map(ToString::to_string);
        let is_of = |(kind, class): &(EntityKind, String), it: &Address| {
            *kind == it.kind() && class == it.class()
        };
        let mut rows: Vec<&EntityRow> = self.entities.values().collect();
        rows.retain(|row| after.as_ref().is_none_or(|after| *after < row.address.to_string()));
        rows.retain(|row| within.is_none_or(|it| is_of(it, &row.address)));
        rows.sort_by_cached_key(|row| row.address.to_string());
        let summaries = rows.into_iter().filter_map(|row| {
            let id = row.address.id();
            let version = self.version(id);
            let last = self.messages.get(self.streams.get(&(id, version))?)?;
            let (address, created_at) = (row.address.clone(), row.created_at);
            let (updated_at, closed_at) = (last.created_at, row.closed_at);
            Some(StreamSummary { address, version, created_at, updated_at, closed_at })
        });
        summaries.take(limit).collect()
    }

    fn is_queue(&self, id: EntityId) -> bool {
        self.entities.get(&id).is_some_and(|it| it.address.kind() == EntityKind::Queue)
    }

    pub(super) fn classes(
        &self,
        kind: EntityKind,
        after: Option<String>,
        limit: usize,
    ) -> Vec<String> {
        let of = self.entities.values().filter(|it| it.address.kind() == kind);
        // In the order of addresses, in which a slash follows.
        let classes: BTreeSet<String> = of.map(|it| format!("{}/", it.address.class())).collect();
        let after = after.map(|it| format!("{it}/"));
        let behind = classes.into_iter().filter(|it| after.as_ref().is_none_or(|at| at < it));
        behind.take(limit).map(|it| it.trim_end_matches('/').into()).collect()
    }

    pub(super) fn object_summaries(
        &self,
        class: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<ObjectSummary> {
        let is_meant = |it: &&EntityRow| {
            let address = &it.address;
            (address.kind(), address.class()) == (EntityKind::Object, class)
                && address.name().starts_with(prefix)
                && after.is_none_or(|after| after < address.name())
        };
        let mut rows: Vec<&EntityRow> = self.entities.values().filter(is_meant).collect();
        sort_by_key(&mut rows, |row| row.address.name());
        let found = rows.into_iter().filter_map(|row| {
            let head = self.objects.head(row.address.id())?;
            let updated_at = self.objects.turn_summaries(head.position, 1).first().map(|it| it.at);
            let (address, created_at) = (row.address.clone(), row.created_at);
            Some(ObjectSummary { address, created_at, updated_at, head })
        });
        found.take(limit).collect()
    }

    pub(super) fn due(&self, after: DueCursor, limit: usize) -> Vec<Work> {
        let behind = self.due.range((
            std::ops::Bound::Excluded((after.due_at, after.position)),
            std::ops::Bound::Unbounded,
        ));
        behind
            .filter_map(|((_, position), ())| self.works.get(position))
            .take(limit)
            .copied()
            .collect()
    }

    pub(super) fn expiring(
        &self,
        list: ExpiryList,
        until: Timestamp,
        limit: usize,
    ) -> Vec<ExpiryRow> {
        let of = self.expiring.keys().filter(|it| it.list == list && it.since < until);
        of.take(limit).copied().collect()
    }

    pub(super) fn expired_keys(&self, at: Timestamp, limit: usize) -> Vec<KeyName> {
        let mut over: Vec<&KeyRow> = self.keys.values().filter(|it| it.expires_at <= at).collect();
        sort_by_key(&mut over, |it| it.expires_at);
        let name = |it: &KeyRow| KeyName { scope: it.scope, key: it.key.clone() };
        over.into_iter().take(limit).map(name).collect()
    }

    pub(super) fn unswept(&self, until: Timestamp, limit: usize) -> Vec<Position> {
        let next = self.messages.range(self.swept + 1..).take(limit);
        next.filter(|(_, row)| row.created_at < until).map(|(position, _)| *position).collect()
    }

    pub(super) fn totals(&self) -> Totals {
        Totals { position: self.position, pending: self.counts.0, dead: self.counts.1 }
    }

    pub(super) fn dump(&self) -> Vec<String> {
        let (position, at, delete_from) = (self.position, self.at, self.delete_from);
        let mut rows = vec![format!("counter {position} {at} {delete_from} {}", self.swept)];
        rows.extend(self.entities.values().map(|it| format!("{it:?}")));
        rows.extend(self.messages.values().map(|it| format!("{it:?}")));
        rows.extend(self.works.values().map(|it| format!("{it:?}")));
        rows.extend(self.outcomes.iter().map(|it| format!("{it:?}")));
        rows.extend(self.attempts.values().map(|it| format!("{it:?}")));
        rows.extend(self.snapshots.values().map(|it| format!("{it:?}")));
        rows.extend(self.keys.values().map(|it| format!("{it:?}")));
        rows.extend(self.objects.dump());
        rows.extend(self.runs.all().map(|it| format!("{it:?}")));
        rows.extend(self.entries.all().map(|it| format!("{it:?}")));
        rows.extend(self.expiring.keys().map(|it| format!("{it:?}")));
        let depths = self.depths.iter().filter(|(_, it)| **it != (0, 0));
        rows.extend(depths.map(|(id, it)| format!("{:?}", (id, it.0, it.1))));
        rows
    }

    pub(super) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (position, row) in self.messages.iter() {
            let (work, outcome) =
                (self.works.contains_key(position), self.outcomes.contains_key(position));
            if row.target.is_some() && work == outcome {
                found.push(format!("message {position}: pending {work}, settled {outcome}"));
            }
        }
        let lost = self.works.keys().filter(|it| !self.messages.contains_key(*it));
        found.extend(lost.map(|position| format!("work {position} without its message")));
        let dead = self.outcomes.values().filter(|it| it.as_ == SettledAs::Dead).count() as i64;
        if self.counts != (self.works.len() as i64, dead) {
            found.push(format!("counted {:?}, dead are {dead}", self.counts));
        }
        for (queue, depth) in self.depths.iter() {
            let waiting = self.works.values().filter(|it| it.queued && it.target == *queue).count();
            let dead = self.outcomes.values().filter(|it| it.queue == Some(*queue)).count();
            if *depth != (waiting as i64, dead as i64) {
                found.push(format!("queue {queue}: counted {depth:?}, not {waiting}, {dead}"));
            }
        }
        let unknown = self.runs.all().map(|it| it.run.id());
        let unknown = unknown.filter(|it| !self.entities.contains_key(it));
        found.extend(unknown.map(|run| format!("run {run} of an unknown entity")));
        found
    }
}
