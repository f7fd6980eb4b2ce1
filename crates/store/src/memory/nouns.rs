//! The tables of objects, runs and entries, in memory.

use std::{
    cmp::Reverse,
    ops::{Bound, RangeInclusive},
};

use super::map::Map;
use crate::{
    AgeCursor, EntityId, Entry, EntryKey, EntryRange, Head, Json, OldTurn, PageImage, Position,
    RecordedTurn, RunPage, RunStatus, RunSummary, Timestamp, TurnSummary,
    plan::{Facts, Needs, Plan, TurnBrief},
    sort::sort_by_key,
};

#[derive(Debug, Default)]
pub(super) struct Objects {
    heads: Map<EntityId, Head>,
    turns: Map<Position, RecordedTurn>,
    images: Map<(EntityId, u32), PageImage>,
}

impl Objects {
    pub(super) fn facts(&self, needs: &Needs, facts: &mut Facts) {
        for id in &needs.heads {
            if let Some(head) = self.heads.get(id) {
                facts.heads.load(*id, *head);
            }
        }
        for position in &needs.turns {
            if let Some(turn) = self.turns.get(position) {
                let entity = turn.entity;
                if let Some(head) = self.heads.get(&entity) {
                    facts.heads.load(entity, *head);
                }
                let (bytes, is_history) = (turn.delta.len() as i64, self.is_history(turn));
                facts.turns.load(*position, TurnBrief { entity, bytes, is_history });
            }
        }
    }

    fn is_history(&self, turn: &RecordedTurn) -> bool {
        self.heads.get(&turn.entity).is_none_or(|head| {
            turn.position <= head.base.position || turn.position < head.base.number
        })
    }

    pub(super) fn apply(&mut self, plan: &Plan) {
        if !plan.heads_gone.is_empty() {
            self.heads.retain(|_, head| !plan.heads_gone.contains(&head.base.number));
        }
        self.heads.extend(plan.heads.iter().map(|head| (head.base.entity, *head)));
        self.turns.extend(plan.turns.iter().map(|turn| (turn.position, turn.clone())));
        for (entity, pages) in &plan.images_cut {
            self.images.take((*entity, pages.saturating_add(1))..=(*entity, u32::MAX));
        }
        for (entity, image) in &plan.images {
            self.images.insert((*entity, image.page), image.clone());
        }
        for position in &plan.turns_forgotten {
            self.turns.remove(position);
        }
    }

    pub(super) fn head(&self, entity: EntityId) -> Option<Head> {
        self.heads.get(&entity).copied()
    }

    pub(super) fn heads(&self, history_over: i64, after: Position, limit: usize) -> Vec<Head> {
        let mut heads: Vec<Head> = self.heads.values().copied().collect();
        heads.retain(|it| history_over < it.base.history_bytes && after < it.base.number);
        sort_by_key(&mut heads, |it| it.base.number);
        heads.truncate(limit);
        heads
    }

    pub(super) fn images(&self, entity: EntityId, pages: &[RangeInclusive<u32>]) -> Vec<PageImage> {
        let parts = pages.iter().filter(|it| !it.is_empty());
        let images =
            parts.flat_map(|it| self.images.range((entity, *it.start())..=(entity, *it.end())));
        images.map(|(_, image)| image.clone()).collect()
    }

    pub(super) fn turns_back(&self, from: Position, limit: usize) -> Vec<RecordedTurn> {
        let next = |turn: &&RecordedTurn| self.turns.get(&turn.prev);
        let walk = std::iter::successors(self.turns.get(&from), next);
        walk.take(limit).cloned().collect()
    }

    pub(super) fn turn_summaries(&self, from: Position, limit: usize) -> Vec<TurnSummary> {
        let turns = self.turns_back(from, limit).into_iter();
        let summary = |it: RecordedTurn| TurnSummary {
            position: it.position,
            entity: it.entity,
            seq: it.seq,
            prev: it.prev,
            at: it.at,
            cause: it.cause,
            sent: it.sent,
            input: it.input,
            bytes: it.delta.len() as i64,
        };
        turns.map(summary).collect()
    }

    pub(super) fn old_turns(&self, after: Position, limit: usize) -> Vec<OldTurn> {
        let behind = self.turns.range(after.saturating_add(1)..).take(limit);
        behind
            .map(|(_, turn)| OldTurn {
                position: turn.position,
                entity: turn.entity,
                at: turn.at,
                is_history: self.is_history(turn),
            })
            .collect()
    }

    pub(super) fn dump(&self) -> impl Iterator<Item = String> {
        let mut heads: Vec<&Head> = self.heads.values().collect();
        sort_by_key(&mut heads, |it| it.base.number);
        let heads = heads.into_iter().map(|it| format!("{it:?}"));
        let turns = self.turns.values().map(|it| format!("{it:?}"));
        let images = self.images.iter().map(|((id, _), it)| format!("{:?}", (id, it)));
        heads.chain(turns).chain(images)
    }
}

#[derive(Debug, Default)]
pub(super) struct Runs {
    rows: Map<EntityId, RunSummary>,
}

impl Runs {
    pub(super) fn apply(&mut self, plan: &Plan) {
        for (_, row) in &plan.runs {
            let before = self.rows.get(&row.run.id());
            let created_at = before.map_or(row.created_at, |it| it.created_at);
            self.rows.insert(row.run.id(), RunSummary { created_at, ..row.clone() });
        }
        for (run, at) in &plan.runs_kept {
            let kept = self.rows.get_mut(run).and_then(|it| it.expires_at.as_mut());
            if let Some(expires_at) = kept {
                *expires_at = *at;
            }
        }
    }

    pub(super) fn erase(&mut self, run: EntityId) {
        self.rows.remove(&run);
    }

    pub(super) fn get(&self, run: EntityId) -> Option<RunSummary> {
        self.rows.get(&run).cloned()
    }

    pub(super) fn list(&self, page: &RunPage, limit: usize) -> Vec<RunSummary> {
        let is_meant = |it: &&RunSummary| {
            it.run.class() == page.workflow
                && page.status.is_none_or(|status| status == it.status)
                && it.run.name().starts_with(&page.prefix)
                && page.since.is_none_or(|since| since <= it.created_at)
                && page.until.is_none_or(|until| it.created_at < until)
                && page.after.is_none_or(|at| (it.created_at, it.run.id()) < (at.created_at, at.id))
        };
        let mut found: Vec<&RunSummary> = self.rows.values().filter(is_meant).collect();
        sort_by_key(&mut found, |it| Reverse((it.created_at, it.run.id())));
        found.into_iter().take(limit).cloned().collect()
    }

    pub(super) fn count(&self, workflow: &str, status: Option<RunStatus>, max: usize) -> i64 {
        let of = |it: &&RunSummary| {
            it.run.class() == workflow && status.is_none_or(|status| status == it.status)
        };
        self.rows.values().filter(of).take(max).count() as i64
    }

    pub(super) fn expired(&self, at: Timestamp, limit: usize) -> Vec<RunSummary> {
        let timed = self.rows.values().filter_map(|it| Some((it.expires_at?, it)));
        let mut found: Vec<_> = timed.filter(|(expires_at, _)| *expires_at <= at).collect();
        sort_by_key(&mut found, |(expires_at, it)| (*expires_at, it.run.id()));
        found.into_iter().take(limit).map(|(_, it)| it.clone()).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &RunSummary> {
        self.rows.values()
    }
}

#[derive(Debug, Default)]
pub(super) struct EntryTable {
    rows: Map<EntryKey, Entry>,
    references: Map<(EntityId, EntryKey), ()>,
}

impl EntryTable {
    pub(super) fn facts(&self, needs: &Needs, facts: &mut Facts) {
        for key in &needs.entries {
            if let Some(row) = self.rows.get(key) {
                facts.entries.load(key.clone(), row.clone());
            }
        }
        let range = || EntryRange::prefix(b"");
        let occupied = needs.spaces.iter().filter(|it| !self.list(it, range(), 1).is_empty());
        facts.spaces.extend(occupied.cloned());
    }

    pub(super) fn apply(&mut self, plan: &Plan) {
        for row in &plan.entries {
            self.remove(&row.entry);
            self.references.extend(row.reference.map(|it| ((it, row.entry.clone()), ())));
            self.rows.insert(row.entry.clone(), row.clone());
        }
        for (key, counted) in &plan.counts {
            let Some(row) = self.rows.get_mut(key) else { continue };
            let before = row.value.as_ref().and_then(|it| it.as_str().parse::<i64>().ok());
            let next = before.unwrap_or(0).saturating_add(counted.delta);
            row.value = Some(Json::stored(&next.to_string()));
            row.revision += counted.times;
        }
        plan.entries_gone.iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: &EntryKey) {
        let reference = self.rows.remove(key).and_then(|it| it.reference);
        if let Some(reference) = reference {
            self.references.remove(&(reference, key.clone()));
        }
    }

    pub(super) fn list(&self, space: &str, range: EntryRange, limit: usize) -> Vec<Entry> {
        let key = |key: Vec<u8>| EntryKey::stored(space, key);
        let from = match range.from {
            Bound::Included(it) => Bound::Included(key(it)),
            Bound::Excluded(it) => Bound::Excluded(key(it)),
            Bound::Unbounded => Bound::Included(key(Vec::new())),
        };
        let is_over = |it: &Entry| range.until.as_ref().is_some_and(|end| **end <= *it.entry.key());
        let found = self.rows.range((from, Bound::Unbounded)).map(|(_, row)| row);
        let found = found.take_while(|it| it.entry.space() == space && !is_over(it));
        found.filter(|it| it.value.is_some()).take(limit).cloned().collect()
    }

    pub(super) fn get(&self, key: &EntryKey) -> Option<Entry> {
        self.rows.get(key).cloned()
    }

    pub(super) fn by_age(
        &self,
        space: &str,
        after: &AgeCursor,
        until: Timestamp,
        limit: usize,
    ) -> Vec<Entry> {
        let first = EntryKey::stored(space, Vec::new());
        let rows = self.rows.range(first..).map(|(_, row)| row);
        let rows = rows.take_while(|it| it.entry.space() == space);
        let is_behind =
            |it: &Entry| (after.changed_at, after.key.as_slice()) < (it.changed_at, it.entry.key());
        let is_meant = |it: &&Entry| it.value.is_some() && it.changed_at <= until && is_behind(it);
        let mut found: Vec<&Entry> = rows.filter(is_meant).collect();
        sort_by_key(&mut found, |it| (it.changed_at, &it.entry));
        found.into_iter().take(limit).cloned().collect()
    }

    pub(super) fn expired(&self, at: Timestamp, limit: usize) -> Vec<Entry> {
        let timed = self.rows.values().filter_map(|it| Some((it.expires_at?, &it.entry, it)));
        let mut found: Vec<_> = timed.filter(|(expires_at, ..)| *expires_at <= at).collect();
        sort_by_key(&mut found, |(expires_at, key, _)| (*expires_at, *key));
        found.into_iter().take(limit).map(|(.., entry)| entry.clone()).collect()
    }

    pub(super) fn referenced(&self, ids: &[EntityId]) -> Vec<(EntityId, EntryKey)> {
        let by = |id: &EntityId| {
            let from = (*id, EntryKey::stored("", Vec::new()));
            let (first, ()) = self.references.range(from..).next()?;
            (first.0 == *id).then(|| first.clone())
        };
        ids.iter().filter_map(by).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.rows.values()
    }
}
