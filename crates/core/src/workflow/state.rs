//! What a run and the one who drives it share.
//!
//! What the code of a run has done is known to it at once, and recorded before anything can leave:
//! the body of a step begins, and the run ends, only with all of it durable. The code between is
//! run again anyway after a crash, so it may be ahead of the record.

use std::{collections::HashMap, panic::Location};

use steadfast_store::{Message, Receipt, Recorded, StoreError, Timestamp};

use super::{
    fold::{RunFold, StepResult},
    record::{Entry, Key, Progress, Report, Wait},
};
use crate::object::CallKey;

/// Something to be recorded, what is sent with it, and the call whose reply it records.
pub(super) struct Given {
    pub(super) entry: Entry,
    pub(super) sends: Option<Message>,
    pub(super) call: Option<CallKey>,
}

/// An attempt that is being made right now.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    pub(super) key: Key,
    pub(super) attempt: u32,
    pub(super) began_at: Timestamp,
}

pub(super) struct State {
    pub(super) fold: RunFold,
    /// The branch that is being polled.
    pub(super) scope: String,
    /// How often each name was used in each branch.
    counts: HashMap<(String, &'static str, String), u32>,
    /// How many of the known keys of each branch were asked for.
    asked: HashMap<String, usize>,
    /// To be recorded. The fold has it already.
    pub(super) new: Vec<Given>,
    /// How many were given to be recorded, and how many of them are durable.
    pub(super) given: u64,
    pub(super) durable: u64,
    pub(super) under_way: Vec<UnderWay>,
    pub(super) in_step: bool,
    /// What was waited for when it was last polled, and whether a body would begin if everything
    /// were durable.
    pub(super) waits: Vec<Wait>,
    pub(super) wants: bool,
    /// It cannot go on, and why.
    pub(super) stuck: Option<Report>,
    /// What it last said; the fold has what is recorded of that.
    pub(super) progress: Option<Progress>,
    /// How often a process has ended since the last entry of the record.
    pub(super) cut_off: u32,
}

impl State {
    pub(super) fn new(fold: RunFold, cut_off: u32) -> Self {
        let progress = fold.progress.clone();
        Self {
            fold,
            scope: String::new(),
            counts: HashMap::new(),
            asked: HashMap::new(),
            new: Vec::new(),
            given: 0,
            durable: 0,
            under_way: Vec::new(),
            in_step: false,
            waits: Vec::new(),
            wants: false,
            stuck: None,
            progress,
            cut_off,
        }
    }

    /// Has an entry recorded, and what is sent with it.
    pub(super) fn give(&mut self, at: Timestamp, entry: Entry, sends: Option<Message>) {
        self.give_all(at, Given { entry, sends, call: None });
    }

    pub(super) fn give_all(&mut self, at: Timestamp, given: Given) {
        // Its version is only known when it is durable; only events are found by theirs.
        self.fold.apply(0, at, given.entry.clone());
        self.new.push(given);
        self.given += 1;
        self.cut_off = 0;
    }

    /// The next key of this name in the branch that is being polled. If the record has something
    /// else there, the code has changed: the run stands still.
    pub(super) fn key(&mut self, kind: &'static str, name: &str, line: &Location<'_>) -> Key {
        let scope = self.scope.clone();
        let count = self.counts.entry((scope.clone(), kind, name.to_owned())).or_default();
        *count += 1;
        let key = Key { scope, kind: kind.into(), name: name.into(), count: *count };
        let line = Some(line.to_string());
        if self.in_step {
            let reason = format!("{key} is used inside of a step; use the result of the step");
            let found = Some(key.to_string());
            let report = Report { reason, position: None, expected: None, found, line };
            self.stuck.get_or_insert(report);
            return key;
        }
        // These only begin branches; they are not recorded.
        if matches!(kind, "join" | "map") {
            return key;
        }
        // Within a branch one thing comes after the other: recorded in the order of asking.
        let asked = self.asked.entry(key.scope.clone()).or_default();
        let recorded = self.fold.nth(&key.scope, *asked).map(|it| &it.key);
        *asked += 1;
        let position = Some(*asked);
        if let Some(expected) = recorded.filter(|it| **it != key) {
            let reason = DISAGREES.into();
            let (expected, found) = (Some(expected.to_string()), Some(key.to_string()));
            self.stuck.get_or_insert(Report { reason, position, expected, found, line });
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

    /// What the record has and the code has not asked for, outside of all branches.
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

    /// Whether the branch that is being polled has done all of this before.
    pub(super) fn is_replaying(&self) -> bool {
        let asked = self.asked.get(&self.scope).copied().unwrap_or(0);
        !self.in_step && asked < self.fold.branch(&self.scope).len()
    }

    /// Says how far it is. It is recorded with what comes next: it is worth no commit of its own.
    pub(super) fn tell(&mut self, progress: Progress) {
        if !self.is_replaying() {
            self.progress = Some(progress);
        }
    }

    /// What it has said that is not recorded.
    pub(super) fn untold(&self) -> Option<Progress> {
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

    /// So many of the new entries are durable, with these messages.
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
