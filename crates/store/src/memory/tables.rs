//! The tables of the store in memory: the plainest form of what the SQL stores keep.

use std::collections::{BTreeMap, BTreeSet};

use super::{entries::EntryTable, objects::Objects, runs::Runs};
use crate::{
    Address, Attempt, DueCursor, Dump, EntityId, EntityKind, ObjectSummary, Position, Recorded,
    Settled, SettledAs, Snapshot, State, StreamSummary, Timestamp, Totals, Version, Work,
    plan::{Brief, EntityRow, Facts, KeyRow, MessageRow, Needs, Plan},
    store_clock::ClockRecord,
};

#[derive(Debug, Default)]
pub(super) struct Tables {
    position: Position,
    at: Timestamp,
    delete_from: Timestamp,
    pub(super) entities: BTreeMap<EntityId, EntityRow>,
    messages: BTreeMap<Position, MessageRow>,
    streams: BTreeMap<(EntityId, Version), Position>,
    pub(super) works: BTreeMap<Position, Work>,
    due: BTreeMap<(Timestamp, Position), ()>,
    pub(super) outcomes: BTreeMap<Position, Settled>,
    attempts: BTreeMap<(Position, u32), Attempt>,
    pub(super) snapshots: BTreeMap<EntityId, Snapshot>,
    keys: BTreeMap<(EntityId, Box<str>), KeyRow>,
    pub(super) objects: Objects,
    pub(super) runs: Runs,
    pub(super) entries: EntryTable,
}

impl Tables {
    pub(super) fn clock(&self) -> ClockRecord {
        ClockRecord { at: self.at, delete_from: self.delete_from }
    }

    pub(super) fn facts(&self, needs: &Needs) -> Facts {
        let mut facts = Facts { position: self.position, at: self.at, ..Facts::default() };
        for stream in &needs.streams {
            facts.versions.insert(*stream, self.version(*stream));
            if let Some(origin) = self.entities.get(stream).and_then(|it| it.origin) {
                facts.origins.load(*stream, origin);
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
                let brief = Brief { stream, target, ordered, queued, last };
                facts.messages.load(*position, brief);
            }
            if let Some(settled) = self.outcomes.get(position) {
                facts.settled.load(*position, settled.clone());
            }
        }
        self.objects.facts(needs, &mut facts);
        self.entries.facts(needs, &mut facts);
        for run in &needs.erasures {
            if self.entities.get(run).is_some_and(|it| it.address.kind() == EntityKind::Run) {
                facts.erasures.load(*run, self.needed_of(*run));
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
        plan.runs_erased.iter().for_each(|run| self.erase_run(*run));
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
        self.outcomes.retain(|position, _| !plan.unsettled.contains(position));
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
        if plan.keys_expire {
            self.keys.retain(|_, row| plan.at < row.expires_at);
        }
        for position in &plan.forgotten {
            if let Some(row) = self.messages.remove(position) {
                self.streams.remove(&(row.stream, row.version));
            }
            self.outcomes.remove(position);
            self.attempts.retain(|(of, _), _| of != position);
        }
    }

    /// The first message that keeps a run from being erased: one of its own, or work for it.
    fn needed_of(&self, run: EntityId) -> Option<Position> {
        let own = self.streams.range((run, Version::MIN)..=(run, Version::MAX));
        let is_needed = |position: &Position| {
            self.works.contains_key(position)
                || self.outcomes.get(position).is_some_and(|it| it.as_ == SettledAs::Dead)
        };
        let first = own.map(|(_, position)| *position).find(is_needed);
        let work = || self.works.values().find(|it| it.target == run).map(|it| it.position);
        first.or_else(work)
    }

    fn erase_run(&mut self, run: EntityId) {
        let all = (run, Version::MIN)..=(run, Version::MAX);
        for (_, position) in self.streams.extract_if(all, |_, _| true) {
            self.messages.remove(&position);
            self.outcomes.remove(&position);
            self.attempts
                .extract_if((position, 0)..=(position, u32::MAX), |_, _| true)
                .for_each(drop);
        }
        self.snapshots.remove(&run);
        self.runs.erase(run);
        self.entities.remove(&run);
    }

    fn remove_work(&mut self, position: Position) {
        if let Some(old) = self.works.remove(&position) {
            self.due.remove(&(old.due_at, position));
        }
    }

    pub(super) fn version(&self, stream: EntityId) -> Version {
        let all = (stream, Version::MIN)..=(stream, Version::MAX);
        self.streams.range(all).next_back().map_or(0, |((_, version), _)| *version)
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

    pub(super) fn of_stream(
        &self,
        stream: EntityId,
        from: Version,
    ) -> impl Iterator<Item = Recorded> {
        let range = self.streams.range((stream, from)..=(stream, Version::MAX));
        range.filter_map(|(_, position)| self.recorded(*position))
    }

    pub(super) fn behind(&self, after: Position) -> impl Iterator<Item = Recorded> {
        let range = self.messages.range(after.saturating_add(1)..);
        range.filter_map(|(position, _)| self.recorded(*position))
    }

    pub(super) fn attempts_of(&self, position: Position) -> impl Iterator<Item = &Attempt> {
        self.attempts.range((position, 0)..=(position, u32::MAX)).map(|(_, row)| row)
    }

    pub(super) fn summaries(
        &self,
        within: Option<(EntityKind, &str)>,
        after: Option<&Address>,
        limit: usize,
    ) -> Vec<StreamSummary> {
        let after = after.map(ToString::to_string);
        let mut rows: Vec<&EntityRow> = self.entities.values().collect();
        rows.retain(|row| after.as_ref().is_none_or(|after| *after < row.address.to_string()));
        rows.retain(|row| within.is_none_or(|it| it == (row.address.kind(), row.address.class())));
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

    pub(super) fn classes(&self, kind: EntityKind) -> Vec<String> {
        let of = self.entities.values().filter(|it| it.address.kind() == kind);
        let classes: BTreeSet<&str> = of.map(|it| it.address.class()).collect();
        classes.into_iter().map(Into::into).collect()
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
        rows.sort_by_key(|row| row.address.name());
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

    pub(super) fn forgettable(
        &self,
        after: Position,
        limit: usize,
    ) -> Vec<(Position, Timestamp, bool)> {
        let next = self.messages.range(after.saturating_add(1)..).take(limit);
        next.map(|(position, row)| {
            let dead = |it: &Settled| it.as_ == SettledAs::Dead;
            let entity = self.entities.get(&row.stream);
            let open =
                entity.is_some_and(|it| it.address.kind().has_state() && it.closed_at.is_none());
            let needed = open
                || self.works.contains_key(position)
                || self.outcomes.get(position).is_some_and(dead)
                || self.version(row.stream) == row.version;
            (*position, row.created_at, !needed)
        })
        .collect()
    }

    pub(super) fn totals(&self) -> Totals {
        let dead = self.outcomes.values().filter(|it| it.as_ == SettledAs::Dead).count() as i64;
        Totals { position: self.position, pending: self.works.len() as i64, dead }
    }

    pub(super) fn dump(&self) -> Dump {
        let mut rows = vec![format!("counter {} {} {}", self.position, self.at, self.delete_from)];
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
        Dump { rows }
    }

    pub(super) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (position, row) in &self.messages {
            let (work, outcome) =
                (self.works.contains_key(position), self.outcomes.contains_key(position));
            if row.target.is_some() && work == outcome {
                found.push(format!("message {position}: pending {work}, settled {outcome}"));
            }
        }
        let lost = self.works.keys().filter(|it| !self.messages.contains_key(*it));
        found.extend(lost.map(|position| format!("work {position} without its message")));
        let unknown = self.runs.all().map(|it| it.run.id());
        let unknown = unknown.filter(|it| !self.entities.contains_key(it));
        found.extend(unknown.map(|run| format!("run {run} of an unknown entity")));
        found
    }
}
