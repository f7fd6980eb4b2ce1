//! A step of retention. It is alone in its batch, so the facts are the rows of the store.

use super::{Candidates, decide::Batch, erase::ERASED_MAX};
use crate::{EntityId, ExpiryList, Position, Rejection, SettledAs, Settlement, Sweep};

impl Batch {
    /// Deletes what nothing needs of the rows that were found. A message that is still needed is
    /// added to a list when it is not needed any more.
    pub(super) fn sweep(&mut self, sweep: Sweep) {
        let Candidates { messages, listed, keys } = std::mem::take(&mut self.facts.candidates);
        let found = messages.len() + listed.len() + keys.len();
        self.receipt.more = found == sweep.list.page();
        self.draft.swept = messages.last().copied();
        self.facts.swept = self.draft.swept.unwrap_or(self.facts.swept);
        messages.into_iter().for_each(|it| self.forget(it));
        for row in listed {
            let is_done = match row.list {
                ExpiryList::Late => {
                    self.forget(row.position);
                    Ok(true)
                }
                ExpiryList::Dead => {
                    self.forget_dead(row.position, sweep);
                    Ok(true)
                }
                ExpiryList::Ended => self.erase_ended(row.entity, sweep),
            };
            if let Ok(false) = is_done {
                self.receipt.more = true;
                continue;
            }
            self.facts.expiring.set(row, None);
            if is_done.is_err() {
                self.ends(row.entity);
            }
        }
        keys.into_iter().for_each(|it| self.facts.keys.set((it.scope, it.key), None));
    }

    fn forget(&mut self, position: Position) {
        let Some(brief) = self.facts.messages.get(&position) else { return };
        let settled = self.facts.settled.get(&position);
        let dead = settled.is_some_and(|it| it.as_ == SettledAs::Dead);
        let is_needed = brief.last || brief.recorded || dead;
        if !is_needed && self.facts.works.get(&position).is_none() {
            self.delete(position);
        }
    }

    /// It may have been revived since, and may have died again.
    fn forget_dead(&mut self, position: Position, sweep: Sweep) {
        let Some(brief) = self.facts.messages.get(&position) else { return };
        let (last, recorded) = (brief.last, brief.recorded);
        let settled = self.facts.settled.get(&position);
        let is_old = |it: &&Settlement| it.as_ == SettledAs::Dead && it.at <= sweep.until;
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
        self.delete(position);
    }

    fn delete(&mut self, position: Position) {
        self.facts.messages.set(position, None);
        self.draft.forgotten.push(position);
        self.receipt.forgotten += 1;
    }

    /// Deletes an entity that has ended. `false` if there is more of it, for the next step; an
    /// error if something is to be done for it first.
    fn erase_ended(&mut self, entity: EntityId, sweep: Sweep) -> Result<bool, Rejection> {
        if ERASED_MAX <= self.receipt.forgotten as i64 {
            return Ok(false);
        }
        let Some(found) = self.erasable(entity, sweep.dead_until)? else { return Ok(true) };
        if found.is_run {
            return Ok(true);
        }
        if !found.is_aside && found.last_at.is_some_and(|it| sweep.until < it) {
            return Err(Rejection::JustWritten { entity });
        }
        let Some(version) = found.cut else {
            self.erase_whole(entity, &found);
            return Ok(true);
        };
        self.uncount(&found);
        self.facts.erasures.set(entity, None);
        self.draft.cut.push((entity, version));
        self.receipt.forgotten += found.messages;
        Ok(false)
    }
}
