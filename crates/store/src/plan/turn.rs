//! Turns of objects: the head advances, the log grows, images replace it. And the rows of runs.

use std::time::Duration;

use super::{TurnBrief, decide::Batch};
use crate::{
    Address, Base, Complete, EntityId, Head, Images, PageImage, Position, RecordedTurn, Rejection,
    RunStatus, RunSummary, Turn,
};

impl Batch {
    pub(super) fn check_head(&self, entity: EntityId, seq: i64, chk: u32) -> Result<(), Rejection> {
        let found = self.facts.heads.get(&entity).map_or((0, 0), |it| (it.seq, it.chk));
        if found == (seq, chk) {
            return Ok(());
        }
        Err(Rejection::Head { entity, expected: seq, actual: found.0 })
    }

    pub(super) fn turn(&mut self, turn: &Turn) {
        self.introduce(&turn.object);
        let entity = turn.object.id();
        self.draft.position += 1;
        let position = self.draft.position;
        let before = self.facts.heads.get(&entity).copied();
        let mut head = before.unwrap_or_else(|| self.found(entity, position));
        let prev = head.position;
        head.seq += 1;
        head.position = position;
        head.chk = turn.chk;
        self.facts.heads.set(entity, Some(head));
        self.draft.turns.push(RecordedTurn {
            position,
            entity,
            seq: head.seq,
            prev,
            at: self.draft.at,
            cause: turn.cause,
            sent: turn.sent,
            chk: turn.chk,
            input: turn.input.clone(),
            delta: turn.delta.clone(),
        });
    }

    /// The head of an object before its first turn.
    fn found(&mut self, entity: EntityId, number: Position) -> Head {
        let base = Base {
            entity,
            number,
            seq: 0,
            position: 0,
            chk: 0,
            pages: 0,
            history_bytes: 0,
            parts_seq: 0,
            parts: 0,
        };
        self.facts.bases.set(entity, Some(base));
        Head { seq: 0, position: 0, chk: 0, base }
    }

    fn set_base(&mut self, mut head: Head, base: Base) {
        head.base = base;
        self.facts.bases.set(base.entity, Some(base));
        self.facts.heads.set(base.entity, Some(head));
    }

    pub(super) fn images(&mut self, it: &Images) -> Result<(), Rejection> {
        let entity = it.entity;
        let absent = Rejection::Head { entity, expected: -1, actual: 0 };
        let head = self.facts.heads.get(&entity).copied().ok_or(absent)?;
        let follows = (head.base.parts_seq, head.base.parts) == (head.seq, it.part);
        if 0 < it.part && !follows {
            return Err(Rejection::Part { entity, part: it.part });
        }
        for image in &it.images {
            let image = PageImage { seq: head.seq, ..image.clone() };
            self.facts.images.set((it.entity, image.page), Some(image));
        }
        if let Some(Complete { pages, tail_bytes }) = it.complete {
            self.cut_images(it.entity, pages);
            let (seq, position, chk) = (head.seq, head.position, head.chk);
            let history_bytes = head.base.history_bytes + tail_bytes;
            let (parts_seq, parts) = (0, 0);
            let base =
                Base { seq, position, chk, pages, history_bytes, parts_seq, parts, ..head.base };
            self.set_base(head, base);
        } else {
            let (parts_seq, parts) = (head.seq, it.part + 1);
            self.set_base(head, Base { parts_seq, parts, ..head.base });
        }
        Ok(())
    }

    pub(super) fn erase(&mut self, entity: EntityId) {
        if let Some(head) = self.facts.heads.get(&entity) {
            self.draft.heads_gone.push(head.base.number);
            self.facts.heads.set(entity, None);
            self.facts.bases.set(entity, None);
            self.cut_images(entity, 0);
            self.ends(entity);
        }
    }

    /// Removes the images of pages beyond a length.
    fn cut_images(&mut self, entity: EntityId, pages: u32) {
        let beyond = |(of, page): &(EntityId, u32)| *of == entity && pages < *page;
        let images = self.facts.images.iter().map(|(key, _)| *key);
        for key in images.filter(beyond).collect::<Vec<_>>() {
            self.facts.images.set(key, None);
        }
        let cut = self.facts.cuts.get(&entity).map_or(pages, |it| pages.min(*it));
        self.facts.cuts.set(entity, Some(cut));
    }

    pub(super) fn forget_turn(&mut self, position: Position) {
        let Some(&TurnBrief { entity, bytes, is_history }) = self.facts.turns.get(&position) else {
            return;
        };
        if !is_history {
            return;
        }
        self.facts.turns.set(position, None);
        self.draft.turns_forgotten.push(position);
        self.receipt.forgotten += 1;
        // A turn of a deleted object does not belong to a new one of the same name.
        if let Some(head) = self.facts.heads.get(&entity).copied()
            && head.base.number <= position
        {
            let history_bytes = head.base.history_bytes - bytes;
            self.set_base(head, Base { history_bytes, ..head.base });
        }
    }

    pub(super) fn run(&mut self, run: &Address, status: RunStatus, expires: Option<Duration>) {
        self.introduce(run);
        let at = self.draft.at;
        let expires_at = expires.map(|it| at.after(it));
        let row =
            RunSummary { run: run.clone(), status, created_at: at, changed_at: at, expires_at };
        self.facts.runs.set(run.id(), Some(row));
    }

    /// The row of a run is found by the origin of its stream. A run without a message reserves a
    /// position for it, after the messages of the commit have theirs.
    pub(super) fn number_run(&mut self, run: EntityId) {
        if self.facts.runs.get(&run).is_some() && self.facts.origins.get(&run).is_none() {
            self.draft.position += 1;
            self.facts.origins.set(run, Some(self.draft.position));
        }
    }

    pub(super) fn keep_run(&mut self, run: EntityId, keep: Duration) {
        self.draft.runs_kept.push((run, self.draft.at.after(keep)));
    }
}
