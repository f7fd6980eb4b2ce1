//! The state that a run shares with its driver.
//!
//! The code of a run sees its own operations immediately. All of them are durable before an effect
//! begins: before the body of a step runs, and before the run ends. The code in between runs again
//! after a crash, so it may be ahead of the record.

use std::{collections::HashMap, panic::Location};

use steadfast_store::{Message, Receipt, Recorded, StoreError, Timestamp};

use super::{
    fold::{RunFold, StepResult},
    record::{Entry, Key, Progress, Report, Wait},
};
use crate::object::CallKey;

/// An entry to be recorded, its messages, and the call whose reply it records.
pub(super) struct PendingEntry {
    pub(super) entry: Entry,
    pub(super) sends: Option<Message>,
    pub(super) call: Option<CallKey>,
}

/// An attempt in flight.
#[derive(Clone, Debug)]
pub(super) struct AttemptInFlight {
    pub(super) key: Key,
    pub(super) attempt: u32,
    pub(super) began_at: Timestamp,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) fold: RunFold,
    /// The branch that is being polled.
    pub(super) scope: String,
    /// The number of uses of each name in each branch.
    counts: HashMap<(String, &'static str, String), u32>,
    /// The number of known keys of each branch that the code has requested.
    asked: HashMap<String, usize>,
    /// Entries to be recorded. The fold has them already.
    pub(super) new: Vec<PendingEntry>,
    /// The number of entries given so far, and how many of them are durable.
    pub(super) given: u64,
    pub(super) durable: u64,
    pub(super) in_flight: Vec<AttemptInFlight>,
    pub(super) in_step: bool,
    /// The waits of the last poll, and whether a body would begin if everything were durable.
    pub(super) waits: Vec<Wait>,
    pub(super) wants: bool,
    /// Why it cannot continue, if it cannot.
    pub(super) stuck: Option<Report>,
    /// The last reported progress; the fold has the recorded one.
    pub(super) progress: Option<Progress>,
    /// The number of crashes since the last entry of the record.
    pub(super) cut_off: u32,
}

impl State {
    pub(super) fn new(fold: RunFold, cut_off: u32) -> Self {
        let progress = fold.progress.clone();
        Self { fold, progress, cut_off, ..Self::default() }
    }

    /// Adds an entry to be recorded, with its messages.
    pub(super) fn give(&mut self, at: Timestamp, entry: Entry, sends: Option<Message>) {
        self.give_all(at, PendingEntry { entry, sends, call: None });
    }

    pub(super) fn give_all(&mut self, at: Timestamp, given: PendingEntry) {
        // Its version is known only when it is durable; only events are found by theirs.
        self.fold.apply(0, at, given.entry.clone());
        self.new.push(given);
        self.given += 1;
        self.cut_off = 0;
    }

    /// The next key of this name in the current branch. If the record has another operation there,
    /// the code has changed: the run is paused.
    pub(super) fn key(&mut self, kind: &'static str, name: &str, line: &Location<'_>) -> Key {
        let scope = self.scope.clone();
        let count = self.counts.entry((scope.clone(), kind, name.to_owned())).or_default();
        *count += 1;
        let key = Key { scope, kind: kind.into(), name: name.into(), count: *count };
        let line = || Some(line.to_string());
        if self.in_step {
            let reason = format!("{key} is used inside of a step; use the result of the step");
            let found = Some(key.to_string());
            let report = Report { found, line: line(), ..Report::new(&reason) };
            self.stuck.get_or_insert(report);
            return key;
        }
        // These only open branches; they are not recorded.
        if matches!(kind, "join" | "map") {
            return key;
        }
        // Within a branch operations are sequential: they are recorded in the order of the
        // requests.
        let asked = self.asked.entry(key.scope.clone()).or_default();
        let recorded = self.fold.nth(&key.scope, *asked).map(|it| &it.key);
        *asked += 1;
        let position = Some(*asked);
        if let Some(expected) = recorded.filter(|it| **it != key) {
            let reason = DISAGREES.into();
            let (expected, found) = (Some(expected.to_string()), Some(key.to_string()));
            self.stuck.get_or_insert(Report { reason, position, expected, found, line: line() });
        }
        key
    }

    /// The next key of this name, without using it.
    pub(super) fn next_key(&self, kind: &'static str, name: &str) -> Key {
        let scope = self.scope.clone();
        let before = self.counts.get(&(scope.clone(), kind, name.to_owned()));
        let count = before.copied().unwrap_or(0) + 1;
        Key { scope, kind: kind.into(), name: name.into(), count }
    }

    /// The recorded operations outside of branches that the code has not requested.
    pub(super) fn unasked(&self) -> Option<Report> {
        let asked = self.asked.get("").copied().unwrap_or(0);
        let key = &self.fold.nth("", asked)?.key;
        Some(Report {
            reason: DISAGREES.into(),
            position: Some(asked + 1),
            expected: Some(key.to_string()),
            found: Some("the end of the run".into()),
            line: None,
        })
    }

    /// Whether all operations so far in the current branch are replayed.
    pub(super) fn is_replaying(&self) -> bool {
        let asked = self.asked.get(&self.scope).copied().unwrap_or(0);
        !self.in_step && asked < self.fold.branch(&self.scope).len()
    }

    /// Sets the progress. It is recorded with the next entry: it needs no commit of its own.
    pub(super) fn set_progress(&mut self, progress: Progress) {
        if !self.is_replaying() {
            self.progress = Some(progress);
        }
    }

    /// Progress that is not recorded.
    pub(super) fn unrecorded_progress(&self) -> Option<Progress> {
        self.progress.clone().filter(|it| self.fold.progress.as_ref() != Some(it))
    }

    pub(super) fn is_paused(&self) -> bool {
        self.fold.head.status.is_paused()
    }

    /// Folds messages of others. They may move timers and retries of new entries, which are
    /// recorded behind them.
    pub(super) fn refresh(&mut self, messages: &[Recorded]) -> Result<(), StoreError> {
        for message in messages {
            self.fold.take(message)?;
        }
        for given in &mut self.new {
            if let Entry::Timer { key, due_at } = &mut given.entry
                && let Some(StepResult::Timer(moved)) = self.fold.result(key)
            {
                *due_at = moved.0;
            }
            if let Entry::Tried { key, attempt, retry_at, .. } = &mut given.entry
                && let Some(step) = self.fold.step(key)
                && step.attempts.last().is_some_and(|it| it.attempt == *attempt)
            {
                *retry_at = step.retry_at.map_or(*retry_at, |it| it.0);
            }
        }
        Ok(())
    }

    /// This many of the new entries are durable, with these messages.
    pub(super) fn is_durable(&mut self, count: usize, receipt: &Receipt) {
        self.new.drain(..count);
        self.durable += count as u64;
        if 0 < count {
            self.fold.acted_at = receipt.at;
        }
        if let Some((version, position)) = receipt.appended.last() {
            let head = &mut self.fold.head;
            (head.version, head.last) = (*version, *position);
        }
    }
}

const DISAGREES: &str = "the code does something else than the record says; deploy code that fits \
     the record, then resume the run";
