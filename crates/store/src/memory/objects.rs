//! The tables of objects, in memory.

use std::ops::RangeInclusive;

use super::map::Map;
use crate::{
    EntityId, Head, OldTurn, PageImage, Position, RecordedTurn, TurnSummary,
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
