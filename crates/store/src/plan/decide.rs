//! Decides each commit of a batch in order. A rejected one has no effect on the others.

use std::collections::HashMap;

use super::{Facts, KeyRow, Plan, table::Undo};
use crate::{
    Commit, EntityId, Expect, KeyName, Outcome, Position, Receipt, RecordedKey, Rejection,
    Remember, Timestamp, Version, Write, sort::sort_by_key, store_clock::BatchTime,
};

/// Decides a batch at a time of the store's clock.
pub(crate) fn plan<'a>(
    facts: Facts,
    time: BatchTime,
    commits: impl IntoIterator<Item = &'a Commit>,
) -> Plan {
    let mut batch = Batch::new(facts, time);
    let decide = |commit: &Commit| (batch.decide(commit), commit.is_exclusive());
    let (answers, exclusive): (Vec<_>, Vec<bool>) = commits.into_iter().map(decide).unzip();
    debug_assert!(exclusive.len() < 2 || !exclusive.contains(&true), "a sweep is alone");
    batch.finish(answers)
}

pub(super) struct Batch {
    pub(super) facts: Facts,
    /// Keys that expire at this time or before are free, and sweeps delete nothing younger.
    pub(super) keys_expired: Timestamp,
    pub(super) draft: Plan,
    /// Versions of streams that the current commit has changed, with their previous values.
    pub(super) moved: HashMap<EntityId, Version>,
    pub(super) receipt: Receipt,
}

impl Batch {
    fn new(facts: Facts, time: BatchTime) -> Self {
        let BatchTime { record, keys_expired } = time;
        let (at, delete_from) = (record.at.max(facts.at), record.delete_from);
        let draft = Plan { at, delete_from, position: facts.position, ..Plan::default() };
        let (moved, receipt) = (HashMap::new(), Receipt::default());
        Self { facts, keys_expired, draft, moved, receipt }
    }

    fn decide(&mut self, commit: &Commit) -> Outcome {
        match self.find_key(commit) {
            Some(Ok(remembered)) => return Outcome::Duplicate(remembered),
            Some(Err(rejection)) => return Outcome::Rejected(rejection),
            None => {}
        }
        let lengths = self.lengths();
        self.receipt = Receipt { at: self.draft.at, ..Receipt::default() };
        match self.attempt(commit) {
            Ok(()) => {
                self.accept();
                Outcome::Committed(std::mem::take(&mut self.receipt))
            }
            Err(rejection) => {
                self.reject(lengths);
                Outcome::Rejected(rejection)
            }
        }
    }

    /// A key is checked before anything else: a repeated request gets the recorded answer, even if
    /// its expectations no longer hold.
    fn find_key(&self, commit: &Commit) -> Option<Result<RecordedKey, Rejection>> {
        commit.writes.iter().find_map(|write| {
            let Write::Remember(it) = write else { return None };
            let row = self.facts.keys.get(&(it.scope, it.key.clone()))?;
            if row.expires_at <= self.keys_expired {
                return None;
            }
            Some(if row.request_hash == it.request_hash {
                let (position, status, reply) = (row.position, row.status, row.reply.clone());
                Ok(RecordedKey { position, status, reply })
            } else {
                Err(Rejection::KeyReused { key: it.key.to_string() })
            })
        })
    }

    fn attempt(&mut self, commit: &Commit) -> Result<(), Rejection> {
        for expect in &commit.expects {
            self.check(expect)?;
        }
        let first = self.draft.position + 1;
        for write in &commit.writes {
            self.apply(write)?;
        }
        let input = if first <= self.draft.position { first } else { 0 };
        for write in &commit.writes {
            if let Write::Remember(it) = write {
                self.remember(it, input);
            } else if let Write::Run { run, .. } = write {
                self.number_run(run.id());
            }
        }
        Ok(())
    }

    fn check(&self, expect: &Expect) -> Result<(), Rejection> {
        match expect {
            Expect::Version { stream, version } => {
                let actual = self.version(*stream);
                if actual != *version {
                    let (stream, expected) = (*stream, *version);
                    return Err(Rejection::Version { stream, expected, actual });
                }
            }
            Expect::Pending { position } => _ = self.work(*position)?,
            Expect::Unclaimed { position } => _ = self.held(*position, None)?,
            Expect::Settled { position, as_ } => {
                if self.facts.settled.get(position).is_none_or(|it| it.as_ != *as_) {
                    return Err(Rejection::NotSettled { position: *position });
                }
            }
            Expect::Head { entity, seq, chk } => self.check_head(*entity, *seq, *chk)?,
            Expect::Revision { entry, revision } => self.check_revision(entry, *revision)?,
            Expect::Vacant { space } => self.check_vacant(space)?,
            Expect::Room { queue, more, max } => self.check_room(*queue, *more, *max)?,
        }
        Ok(())
    }

    fn apply(&mut self, write: &Write) -> Result<(), Rejection> {
        match write {
            Write::Append { stream, messages } => self.append(stream, messages),
            Write::Claim { position, lease, lasts } => {
                self.claim(*position, *lease, self.draft.at.after(*lasts))?;
            }
            Write::Settle { position, lease, as_, error } => {
                self.settle(*position, *lease, *as_, error.as_deref())?;
            }
            Write::Retry { position, lease, error, after } => {
                self.retry(*position, *lease, error, self.draft.at.after(*after))?;
            }
            Write::Release { position, lease } => self.release(*position, *lease)?,
            Write::Move { position, lease, to, error, after } => {
                self.move_to(*position, *lease, to, error.as_deref(), *after)?;
            }
            Write::Revive { position } => self.revive(*position)?,
            Write::Sweep(sweep) => self.sweep(sweep.at_most(self.keys_expired)),
            Write::Close { stream } => {
                self.facts.closed.set(*stream, Some(self.draft.at));
                self.ends(*stream);
            }
            Write::Snapshot(it) => self.facts.snapshots.set(it.stream, Some(it.clone())),
            Write::Turn(turn) => self.turn(turn),
            Write::Images(images) => self.images(images)?,
            Write::Erase { entity } => self.erase(*entity),
            Write::ForgetTurns { positions } => {
                positions.iter().for_each(|it| self.forget_turn(*it));
            }
            Write::Run { run, status, expires } => self.run(run, *status, *expires),
            Write::KeepRun { run, keep } => self.keep_run(*run, *keep),
            Write::EraseRun { run, dead_until } => self.erase_run(*run, *dead_until)?,
            Write::Put(put) => self.put(put),
            Write::Count(count) => self.count(count)?,
            Write::ExpireEntries { entries } => entries.iter().for_each(|it| self.expire(it)),
            // Recorded at the end, when the position of the input is known.
            Write::Remember(_) => {}
        }
        Ok(())
    }

    fn remember(&mut self, it: &Remember, position: Position) {
        let row = KeyRow {
            scope: it.scope,
            key: it.key.clone(),
            request_hash: it.request_hash,
            position,
            status: it.status,
            reply: it.reply.clone(),
            expires_at: self.draft.at.after(it.keep),
        };
        self.facts.keys.set((it.scope, it.key.clone()), Some(row));
    }

    pub(super) fn version(&self, stream: EntityId) -> Version {
        self.facts.versions.get(&stream).copied().unwrap_or(0)
    }

    /// The lengths of the draft's lists, to truncate them when a commit is rejected. A sweep is
    /// alone and never rejected.
    fn lengths(&self) -> Lengths {
        Lengths {
            position: self.draft.position,
            entities: self.draft.entities.len(),
            messages: self.draft.messages.len(),
            unblocked: self.draft.unblocked.len(),
            attempts: self.draft.attempts.len(),
            turns: self.draft.turns.len(),
            heads_gone: self.draft.heads_gone.len(),
            turns_forgotten: self.draft.turns_forgotten.len(),
            runs_kept: self.draft.runs_kept.len(),
            erased: self.draft.erased.len(),
            put_aside: self.draft.put_aside.len(),
            counts: (self.draft.pending, self.draft.dead),
        }
    }

    fn accept(&mut self) {
        self.moved.clear();
        self.facts.tables().into_iter().for_each(Undo::accept);
    }

    fn reject(&mut self, lengths: Lengths) {
        for (stream, version) in self.moved.drain() {
            self.facts.versions.insert(stream, version);
        }
        for row in self.draft.entities.drain(lengths.entities..) {
            self.facts.entities.remove(&row.address.id());
        }
        // After that: an erased entity may have begun again.
        self.facts.entities.extend(self.draft.erased.drain(lengths.erased..));
        let put_aside = self.draft.put_aside.drain(lengths.put_aside..);
        self.facts.entities.extend(put_aside.map(|(id, _)| id));
        self.facts.tables().into_iter().for_each(Undo::reject);
        self.draft.position = lengths.position;
        self.draft.messages.truncate(lengths.messages);
        self.draft.unblocked.truncate(lengths.unblocked);
        self.draft.attempts.truncate(lengths.attempts);
        self.draft.turns.truncate(lengths.turns);
        self.draft.heads_gone.truncate(lengths.heads_gone);
        self.draft.turns_forgotten.truncate(lengths.turns_forgotten);
        self.draft.runs_kept.truncate(lengths.runs_kept);
        (self.draft.pending, self.draft.dead) = lengths.counts;
    }

    fn finish(self, answers: Vec<Outcome>) -> Plan {
        let Self { facts, mut draft, .. } = self;
        let runs = facts.runs.into_changes().into_iter();
        let number = |id| facts.origins.get(&id).copied();
        draft.runs.extend(runs.filter_map(|(id, it)| Some((number(id)?, it?))));
        sort_by_key(&mut draft.runs, |(number, _)| *number);
        sort_by_key(&mut draft.entities, |row| row.address.id());
        for (id, origin) in facts.origins.into_changes() {
            let row = draft.entities.binary_search_by_key(&id, |row| row.address.id());
            match (row, origin) {
                (Ok(index), _) => draft.entities[index].origin = origin,
                (Err(_), Some(origin)) => draft.origins.push((id, origin)),
                // It was erased.
                (Err(_), None) => {}
            }
        }
        for (position, work) in facts.works.into_changes() {
            match work {
                Some(work) => draft.works.push(work),
                None => draft.works_gone.push(position),
            }
        }
        for (position, settled) in facts.settled.into_changes() {
            match settled {
                Some(settled) => draft.settled.push((position, settled)),
                None => draft.unsettled.push(position),
            }
        }
        let closed = facts.closed.into_changes().into_iter();
        draft.closed.extend(closed.filter_map(|(id, at)| Some((id, at?))));
        let snapshots = facts.snapshots.into_changes().into_iter();
        draft.snapshots.extend(snapshots.filter_map(|(_, it)| it));
        for ((scope, key), row) in facts.keys.into_changes() {
            match row {
                Some(row) => draft.keys.push(row),
                None => draft.keys_gone.push(KeyName { scope, key }),
            }
        }
        for (row, is_new) in facts.expiring.into_changes() {
            let rows = if is_new.is_some() { &mut draft.expiring } else { &mut draft.processed };
            rows.push(row);
        }
        let depths = facts.depths.into_changes().into_iter();
        let depths = depths.filter_map(|(id, it)| it.map(|(waiting, dead)| (id, waiting, dead)));
        draft.depths.extend(depths.filter(|it| (it.1, it.2) != (0, 0)));
        draft.heads.extend(facts.heads.into_changes().into_iter().filter_map(|(_, it)| it));
        sort_by_key(&mut draft.heads, |it| it.base.number);
        draft.bases.extend(facts.bases.into_changes().into_iter().filter_map(|(_, it)| it));
        draft.heads_gone.sort_unstable();
        let images = facts.images.into_changes().into_iter();
        draft.images.extend(images.filter_map(|((entity, _), image)| Some((entity, image?))));
        let cuts = facts.cuts.into_changes().into_iter();
        draft.images_cut.extend(cuts.filter_map(|(entity, pages)| Some((entity, pages?))));
        for (key, entry) in facts.entries.into_changes() {
            match (entry, facts.counts.get(&key)) {
                (Some(_), Some(counted)) => draft.counts.push((key, *counted)),
                (Some(entry), None) => draft.entries.push(entry),
                (None, _) => draft.entries_gone.push(key),
            }
        }
        draft.erased.sort_unstable();
        draft.gone.clone_from(&draft.erased);
        draft.gone.extend(draft.put_aside.iter().map(|(id, _)| *id));
        draft.turns_forgotten.sort_unstable();
        draft.forgotten.sort_unstable();
        draft.answers = answers;
        draft
    }
}

struct Lengths {
    position: Position,
    entities: usize,
    messages: usize,
    unblocked: usize,
    attempts: usize,
    turns: usize,
    heads_gone: usize,
    turns_forgotten: usize,
    runs_kept: usize,
    erased: usize,
    put_aside: usize,
    counts: (i64, i64),
}
