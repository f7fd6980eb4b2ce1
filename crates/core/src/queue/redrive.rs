//! Redrives messages: to the queue they were sent to, or to another one; immediately or at a rate.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Address, Cause, Commit, Due, DueCursor, ENQUEUE, Expect, Json, Lease, Message, Outcome,
    Position, QueuedMessage, Recorded, SettledAs, State, Task, Timestamp, Write, queue_address,
};

use super::{
    QueueError, Queues,
    state::{HeldMessages, QueueState},
};
use crate::dispatch::{attempt::lease_of, cancelled, window::End};

/// Messages read at once.
pub(super) const CHUNK: usize = 200;

/// The selection, the destination and the rate.
#[derive(Clone, Debug, Default)]
pub struct Redrive {
    /// The destination; without it, each message goes to the queue that it was sent to.
    pub to: Option<String>,
    /// Only these.
    pub ids: Option<Vec<Position>>,
    /// Only those whose last error contains this.
    pub error_contains: Option<String>,
    /// The rate at which they become due.
    pub rate_per_second: Option<f64>,
    /// Nothing is moved; only the result is computed.
    pub dry_run: bool,
}

/// The result of a redrive or a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedriveResult {
    /// Messages that matched.
    pub matched: u64,
    /// Messages that were moved.
    pub moved: u64,
    /// Time until the last of them is due.
    pub lasts: Duration,
    /// The first of them.
    pub first: Vec<Position>,
}

/// A message that can be redriven.
pub(super) struct Candidate {
    pub(super) message: Recorded,
    /// The pending message; `None` if it is dead.
    pub(super) queued: Option<QueuedMessage>,
}

impl Candidate {
    /// Its expired lease, if there is one.
    pub(super) fn lease(&self) -> Option<Lease> {
        lease_of(&self.queued.as_ref()?.message)
    }

    fn error(&self) -> &str {
        match &self.message.state {
            Some(State::Settled(it)) => it.error.as_deref().unwrap_or_default(),
            Some(State::Pending { .. } | State::InFlight { .. }) | None => {
                self.message.last_error.as_deref().unwrap_or_default()
            }
        }
    }
}

impl Queues {
    /// Redrives pending and dead messages of a queue.
    ///
    /// The last commit, of at most 100 messages, records the key of this handle. After a crash
    /// before it, a repetition moves the remaining messages and counts only those.
    #[steadfast_store::boxed]
    pub async fn redrive(&self, name: &str, what: &Redrive) -> Result<RedriveResult, QueueError> {
        let queue = self.known(name).await?;
        if what.rate_per_second.is_some_and(|it| !(0.001..=1e6).contains(&it)) {
            let rule = "must be 0.001 to 1000000".into();
            return Err(QueueError::Argument { field: "ratePerSecond", rule });
        }
        if let Some(to) = &what.to {
            queue_address(to).map_err(|error| QueueError::name(to, &error))?;
        }
        // A dry run changes nothing: it needs no lock and ignores the key.
        let _alone = if what.dry_run { None } else { self.alone().await };
        if !what.dry_run
            && let Some(before) = self.before().await?
        {
            return Ok(before);
        }
        let (mut done, mut changes) = (RedriveResult::default(), Vec::new());
        let mut scan = Scan::new(what.ids.as_deref());
        while let Some(page) = self.next_page(&queue, &mut scan).await? {
            let mut fitting = page;
            fitting.retain(|it| fits(it, what) && !stays(it, &queue, what));
            done.matched += fitting.len() as u64;
            let room = 20_usize.saturating_sub(done.first.len());
            done.first.extend(fitting.iter().take(room).map(|it| it.message.position));
            if !what.dry_run {
                self.plan_moves(&queue, fitting, what, &mut done, &mut changes).await?;
                done.moved += self.change_first(&queue, &mut changes).await?;
            }
        }
        if what.dry_run {
            return Ok(done);
        }
        let moved = |last| RedriveResult { moved: done.moved + last, ..done.clone() };
        self.change_last(&queue, &changes, moved).await
    }

    async fn plan_moves(
        &self,
        queue: &QueueState,
        page: Vec<Candidate>,
        what: &Redrive,
        done: &mut RedriveResult,
        changes: &mut Vec<(Candidate, Commit)>,
    ) -> Result<(), QueueError> {
        let messages: Vec<&Recorded> = page.iter().map(|it| &it.message).collect();
        let origins = self.origins(queue, &messages).await?;
        for (candidate, origin) in page.into_iter().zip(origins) {
            let to = what.to.clone().or(origin).unwrap_or_else(|| queue.name.to_string());
            let to = queue_address(&to).map_err(|error| QueueError::name(&to, &error))?;
            let before = done.moved + changes.len() as u64;
            let after = what
                .rate_per_second
                .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(before as f64 / rate));
            let commit = moving(&candidate, to, after);
            done.lasts = after;
            changes.push((candidate, commit));
        }
        Ok(())
    }

    /// Replaces a message by one with another body, which goes to the queue that the first was sent
    /// to, or to another one. Returns the id of the new message; the old one is cancelled, not
    /// deleted.
    #[steadfast_store::boxed]
    pub async fn edit(
        &self,
        name: &str,
        id: Position,
        body: Json,
        to: Option<&str>,
    ) -> Result<Position, QueueError> {
        let _alone = self.alone().await;
        if let Some(before) = self.replaced_before().await? {
            return Ok(before);
        }
        let queue = self.known(name).await?;
        let unknown = || QueueError::UnknownMessage { queue: name.into(), id };
        let found = self.candidate(&queue, id).await?.ok_or_else(unknown)?;
        let origin = self.origins(&queue, &[&found.message]).await?.pop().flatten();
        let to = to.map(str::to_owned).or(origin).unwrap_or_else(|| name.into());
        let target = queue_address(&to).map_err(|error| QueueError::name(&to, &error))?;
        self.queue(&to).await?.check_size(0, &body)?;
        let task = Task { target: target.clone(), ordered: false, due: Due::After(Duration::ZERO) };
        let message = Message::new(&to, body)?.input().action(ENQUEUE).task(task);
        let message = message.cause(Cause::Position(id));
        let error = Some("replaced by an edited message".to_owned());
        let commit = taken_out(&found).write(cancelled(id, found.lease(), error));
        let commit = commit.write(Write::Append { stream: target, messages: vec![message] });
        let commit = match &self.key {
            Some(key) => commit.write(key.write()),
            None => commit,
        };
        let mut held = HeldMessages::new(&*queue, Vec::new());
        if found.queued.as_ref().is_none_or(|it| held.hold(it))
            && let Outcome::Committed(receipt) = self.shared.store.commit(commit).await?
        {
            held.finish(id, End::Gone);
            queue.wake();
            return receipt.appended.first().map(|it| it.1).ok_or_else(unknown);
        }
        self.replaced_before().await?.ok_or_else(unknown)
    }

    /// The message that an edit under the key of this handle made.
    async fn replaced_before(&self) -> Result<Option<Position>, QueueError> {
        let Some(key) = &self.key else { return Ok(None) };
        Ok(key.find(&*self.shared.store).await?.map(|it| it.position))
    }

    /// One pending or dead message of a queue, by its id.
    pub(super) async fn candidate(
        &self,
        queue: &QueueState,
        id: Position,
    ) -> Result<Option<Candidate>, QueueError> {
        let store = &self.shared.store;
        let Some(message) = store.message(id).await? else { return Ok(None) };
        let here = queue.address.id();
        match &message.state {
            Some(State::Settled(it)) if it.queue == Some(here) => {
                Ok(Some(Candidate { message, queued: None }))
            }
            Some(State::Pending { due_at, .. } | State::InFlight { until: due_at, .. }) => {
                let after = DueCursor { due_at: *due_at, position: id - 1 };
                let found = store.queue_messages(here, after, *due_at, 1).await?.pop();
                let now = self.shared.clock.now();
                let found = found.filter(|it| it.message.position == id && is_free(it, now));
                Ok(found.map(|it| Candidate { message: it.message.clone(), queued: Some(it) }))
            }
            Some(State::Settled(_)) | None => Ok(None),
        }
    }

    /// The next messages of a scan: first the pending, then the dead.
    pub(super) async fn next_page(
        &self,
        queue: &QueueState,
        scan: &mut Scan,
    ) -> Result<Option<Vec<Candidate>>, QueueError> {
        let (store, id) = (&self.shared.store, queue.address.id());
        if let Some(ids) = &mut scan.ids {
            let some: Vec<Position> = ids.drain(..ids.len().min(CHUNK)).collect();
            let mut page = Vec::new();
            for id in &some {
                page.extend(self.candidate(queue, *id).await?);
            }
            return Ok((!some.is_empty()).then_some(page));
        }
        if let Some(after) = scan.waiting {
            // Messages that are sent during the scan are skipped.
            let until = *scan.until.get_or_insert(store.totals().await?.position);
            let page = store.queue_messages(id, after, Timestamp::MAX, CHUNK).await?;
            scan.waiting = page
                .last()
                .map(|it| DueCursor { due_at: it.due_at(), position: it.message.position });
            if !page.is_empty() {
                let now = self.shared.clock.now();
                let is_meant = |it: &QueuedMessage| {
                    is_free(it, now)
                        && it.message.position <= until
                        && scan.seen.insert(it.message.position)
                };
                let page = page
                    .into_iter()
                    .filter(is_meant)
                    .map(|it| Candidate { message: it.message.clone(), queued: Some(it) });
                return Ok(Some(page.collect()));
            }
        }
        let dead = store.dead_letters(id, scan.dead, CHUNK).await?;
        let Some(last) = dead.last() else { return Ok(None) };
        scan.dead = last.position;
        let dead = dead.into_iter().filter(|it| scan.seen.insert(it.position));
        Ok(Some(dead.map(|message| Candidate { message, queued: None }).collect()))
    }
}

/// The cursor of a scan of a queue, or the remaining ids.
pub(super) struct Scan {
    ids: Option<Vec<Position>>,
    waiting: Option<DueCursor>,
    dead: Position,
    until: Option<Position>,
    seen: HashSet<Position>,
}

impl Scan {
    /// A scan of all messages, or of only these.
    pub(super) fn new(ids: Option<&[Position]>) -> Self {
        let ids = ids.map(|it| it.iter().copied().collect::<BTreeSet<_>>().into_iter().collect());
        let (waiting, dead, until) = (Some(DueCursor::START), 0, None);
        Self { ids, waiting, dead, until, seen: HashSet::new() }
    }
}

/// Whether no consumer has it: an expired lease does not count.
fn is_free(queued: &QueuedMessage, now: Timestamp) -> bool {
    match queued.message.state {
        Some(State::Pending { .. }) => true,
        Some(State::InFlight { until, .. }) => until <= now,
        Some(State::Settled(_)) | None => false,
    }
}

fn moving(candidate: &Candidate, to: Address, after: Duration) -> Commit {
    let (position, lease, error) = (candidate.message.position, candidate.lease(), None);
    taken_out(candidate).write(Write::Move { position, lease, to, error, after })
}

/// The first writes of a commit that moves a message: it must not be in flight, and a dead one is
/// revived.
pub(super) fn taken_out(candidate: &Candidate) -> Commit {
    let position = candidate.message.position;
    match &candidate.queued {
        // The last lease must still be the last.
        Some(_) if candidate.lease().is_some() => Commit::default(),
        Some(_) => Commit::default().expect(Expect::Unclaimed { position }),
        None => Commit::default()
            .expect(Expect::Settled { position, as_: SettledAs::Dead })
            .write(Write::Revive { position }),
    }
}

/// A message that is pending at its destination is not moved: it would lose its delay and its
/// attempts.
fn stays(candidate: &Candidate, queue: &QueueState, what: &Redrive) -> bool {
    candidate.queued.is_some()
        && match &what.to {
            Some(to) => **to == *queue.name,
            None => candidate.message.target == Some(queue.address.id()),
        }
}

fn fits(candidate: &Candidate, what: &Redrive) -> bool {
    what.error_contains.as_ref().is_none_or(|it| candidate.error().contains(it.as_str()))
}
