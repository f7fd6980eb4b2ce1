//! Delivery: claims, their ends, and the state of a message afterwards.

use std::time::Duration;

use super::{Brief, Work, decide::Batch};
use crate::{
    Address, Attempt, EntityKind, GrantedClaim, Lease, Position, Rejection, SettledAs, Settlement,
    Timestamp, limits::cut_error,
};

impl Batch {
    pub(super) fn claim(
        &mut self,
        position: Position,
        lease: Lease,
        until: Timestamp,
    ) -> Result<(), Rejection> {
        let mut work = self.work(position)?;
        if self.draft.at < work.due_at {
            return Err(Rejection::NotDue { position, due_at: work.due_at });
        }
        if work.claim.is_some() {
            self.log(&work, "the lease ended without an answer");
        }
        work.attempts += 1;
        work.claim = Some((lease, self.draft.at));
        work.due_at = until;
        self.receipt.claimed.push(GrantedClaim { position, attempt: work.tries(), until });
        self.set_work(position, Some(work));
        Ok(())
    }

    pub(super) fn settle(
        &mut self,
        position: Position,
        lease: Option<Lease>,
        as_: SettledAs,
        error: Option<&str>,
    ) -> Result<(), Rejection> {
        let mut work = match lease {
            Some(_) => self.held(position, lease)?,
            None => self.work(position)?,
        };
        // Without a claim the delivery was not counted yet; a cancelled message had none.
        if work.claim.is_none() && as_ != SettledAs::Cancelled {
            work.attempts += 1;
        }
        let error = error.map(cut_error);
        if as_ == SettledAs::Dead {
            self.log(&work, error.as_deref().unwrap_or("given up"));
        }
        let queue = (work.queued && as_ == SettledAs::Dead).then_some(work.target);
        let settled = Settlement { as_, at: self.draft.at, attempts: work.attempts, error, queue };
        self.set_settled(position, Some(settled));
        self.set_work(position, None);
        if work.ordered {
            self.draft.unblocked.push(work);
        }
        Ok(())
    }

    pub(super) fn retry(
        &mut self,
        position: Position,
        lease: Option<Lease>,
        error: &str,
        due_at: Timestamp,
    ) -> Result<(), Rejection> {
        let mut work = self.held(position, lease)?;
        if work.claim.is_none() {
            work.attempts += 1;
        }
        self.log(&work, &cut_error(error));
        work.claim = None;
        work.due_at = due_at;
        self.set_work(position, Some(work));
        Ok(())
    }

    pub(super) fn release(&mut self, position: Position, lease: Lease) -> Result<(), Rejection> {
        let mut work = self.held(position, Some(lease))?;
        work.attempts = work.attempts.saturating_sub(1);
        work.claim = None;
        work.due_at = self.draft.at;
        self.set_work(position, Some(work));
        Ok(())
    }

    pub(super) fn move_to(
        &mut self,
        position: Position,
        lease: Option<Lease>,
        to: &Address,
        error: Option<&str>,
        after: Duration,
    ) -> Result<(), Rejection> {
        let mut work = self.held(position, lease)?;
        if let Some(error) = error {
            if work.claim.is_none() {
                work.attempts += 1;
            }
            self.log(&work, &cut_error(error));
        }
        self.introduce_target(to);
        if std::mem::take(&mut work.ordered) {
            self.draft.unblocked.push(Work { ordered: true, ..work });
        }
        work.target = to.id();
        work.queued = to.kind() == EntityKind::Queue;
        work.forgiven = work.attempts;
        work.claim = None;
        work.due_at = self.draft.at.after(after);
        self.set_work(position, Some(work));
        Ok(())
    }

    pub(super) fn revive(&mut self, position: Position) -> Result<(), Rejection> {
        let settled = self.facts.settled.get(&position).map(|it| (it.attempts, it.queue));
        let brief = self.facts.messages.get(&position);
        let (Some((attempts, queue)), Some(&Brief { target: Some(target), ordered, queued, .. })) =
            (settled, brief)
        else {
            return Err(Rejection::NotSettled { position });
        };
        let (due_at, forgiven, claim) = (self.draft.at, attempts, None);
        // It is delivered to the queue in which it died, which need not be the one it was sent to.
        let (target, ordered, queued) =
            queue.map_or((target, ordered, queued && !ordered), |it| (it, false, true));
        let work = Work { position, target, ordered, due_at, attempts, forgiven, claim, queued };
        self.set_work(position, Some(work));
        self.set_settled(position, None);
        Ok(())
    }

    fn log(&mut self, work: &Work, error: &str) {
        let started_at = work.claim.map_or(self.draft.at, |(_, at)| at);
        self.draft.attempts.push(Attempt {
            position: work.position,
            number: work.attempts,
            started_at,
            ended_at: self.draft.at,
            error: error.into(),
        });
    }

    pub(super) fn work(&self, position: Position) -> Result<Work, Rejection> {
        self.facts.works.get(&position).copied().ok_or(Rejection::NotPending { position })
    }

    /// The work of a message that is claimed under this lease; without a lease, that is unclaimed.
    pub(super) fn held(&self, position: Position, lease: Option<Lease>) -> Result<Work, Rejection> {
        let work = self.work(position)?;
        match work.claim.map(|(it, _)| it) == lease {
            true => Ok(work),
            false => Err(Rejection::LeaseLost { position }),
        }
    }
}
