//! Folds the record of a run into what it looks like.
//!
//! What is known, tried and forgotten is the journal's, so that a view cannot say anything else
//! than what a replay finds. Here are only the times, and what was waited for.

use std::collections::HashMap;

use steadfast_store::{Address, Recorded, StoreError, Timestamp, Version};

use super::{
    AttemptView, EventView, FailureView, Phase, Present, ProgressView, RunView, StepStatus,
    StepView, Time, UnderWay, order, why,
};
use crate::{
    Error,
    workflow::{
        Status, branch,
        journal::{Journal, Known},
        record::{Attempt, Entry, Key, Progress, Wait},
    },
};

/// A run, as far as its record was read.
pub(in crate::workflow) struct Story {
    pub(super) journal: Journal,
    created_at: Timestamp,
    changed_at: Timestamp,
    ended_at: Option<Timestamp>,
    pub(super) told: Vec<Told>,
    places: HashMap<Key, usize>,
    /// When each event came.
    came: HashMap<Version, Timestamp>,
    /// What it waited for when it was last put to sleep.
    pub(super) waits: Vec<Wait>,
    progress: Option<Progress>,
}

/// One thing that it did, with its times.
pub(super) struct Told {
    pub(super) key: Key,
    began_at: Timestamp,
    ended_at: Option<Timestamp>,
    pub(super) attempts: Vec<AttemptView>,
}

impl Story {
    /// Of which nothing was read yet.
    pub(in crate::workflow) fn new() -> Self {
        Self {
            journal: Journal::empty(),
            created_at: Timestamp(0),
            changed_at: Timestamp(0),
            ended_at: None,
            told: Vec::new(),
            places: HashMap::new(),
            came: HashMap::new(),
            waits: Vec::new(),
            progress: None,
        }
    }

    /// The number of the entry that was read last.
    pub(in crate::workflow) fn version(&self) -> Version {
        self.journal.head.version
    }

    /// Takes in one message of the run's stream.
    pub(in crate::workflow) fn take(&mut self, message: &Recorded) -> Result<(), StoreError> {
        if let Some(entry) = Entry::of(message)? {
            self.fold(message.version, message.created_at, entry);
        }
        self.journal.head.version = message.version;
        Ok(())
    }

    pub(super) fn fold(&mut self, version: Version, at: Timestamp, entry: Entry) {
        self.changed_at = at;
        self.journal.head.version = version;
        match &entry {
            Entry::Started { .. } => self.created_at = at,
            Entry::Done { key, attempt, .. } => self.end(key, at, *attempt, None),
            Entry::Failed { key, error, attempt } => {
                self.end(key, at, Some(*attempt), Some(error));
            }
            Entry::Tried { key, error, attempt, .. } => {
                self.tried(key, at, *attempt, Some(error));
            }
            Entry::Timer { key, .. } => _ = self.told(key, at),
            Entry::Event { .. } => _ = self.came.insert(version, at),
            Entry::Took { key, .. } => self.end(key, at, None, None),
            Entry::Wake { waits } | Entry::Waits { waits } if !waits.is_empty() => {
                waits.iter().for_each(|it| _ = self.told(&it.key, at));
                self.waits.clone_from(waits);
            }
            // The wake-up of a retry follows, after which the waits are not shown.
            Entry::Wake { .. } | Entry::Waits { .. } | Entry::Paused { .. } | Entry::Retried => {}
            Entry::Resumed { shift_ms } => {
                let until = self.waits.iter_mut().filter_map(|it| it.until.as_mut());
                until.for_each(|it| *it = it.saturating_add(*shift_ms));
            }
            Entry::Completed { .. } | Entry::Errored { .. } | Entry::Terminated => {
                self.ended_at = Some(at);
            }
            Entry::Restarted { .. } => {
                self.ended_at = None;
                self.waits.clear();
                self.progress = None;
            }
            Entry::Progress(progress) => self.progress = Some(progress.clone()),
        }
        let restarted = matches!(entry, Entry::Restarted { .. });
        self.journal.fold(version, at, entry);
        if restarted {
            let known = &self.journal.known;
            self.told.retain(|it| known.contains_key(&it.key));
            let places = self.told.iter().enumerate().map(|(place, it)| (it.key.clone(), place));
            self.places = places.collect();
        }
    }

    /// What is told of a key; it began then if this is the first of it.
    fn told(&mut self, key: &Key, began_at: Timestamp) -> &mut Told {
        let place = *self.places.entry(key.clone()).or_insert_with(|| {
            let (key, attempts) = (key.clone(), Vec::new());
            self.told.push(Told { key, began_at, ended_at: None, attempts });
            self.told.len() - 1
        });
        &mut self.told[place]
    }

    fn tried(&mut self, key: &Key, at: Timestamp, attempt: Attempt, error: Option<&Error>) {
        let began_at = Timestamp(attempt.began_at);
        let told = self.told(key, began_at);
        told.attempts.push(AttemptView {
            number: attempt.number,
            started_at: Time(began_at),
            ended_at: Some(Time(at)),
            error: error.map(FailureView::of),
        });
    }

    fn end(&mut self, key: &Key, at: Timestamp, attempt: Option<Attempt>, error: Option<&Error>) {
        if let Some(attempt) = attempt {
            self.tried(key, at, attempt, error);
        }
        self.told(key, at).ended_at = Some(at);
    }

    /// What it looks like.
    pub(in crate::workflow) fn view(&self, run: &Address, around: &Present) -> RunView {
        let status = self.phase(around);
        let waiting = why::waiting(self, run, around);
        let steps = self.steps(around);
        let underway = around.under_way.iter().flatten().map(|it| label(&it.key)).next();
        let waited = || {
            let named = waiting.iter().find(|it| !it.name.is_empty());
            named.map(|it| it.name.clone())
        };
        let last = || self.told.last().map(|it| label(&it.key));
        let own = around.progress.as_ref().or(self.progress.as_ref());
        let progress = ProgressView {
            status,
            step: underway.or_else(waited).or_else(last),
            message: own.map(|it| it.message.clone()),
            percent: own.and_then(|it| it.percent),
        };
        let (output, error, report) = match &self.journal.head.status {
            Status::Complete(output) => (Some(output.clone()), None, None),
            Status::Errored(error) => (None, Some(FailureView::of(error)), None),
            Status::Paused(report) => (None, None, report.clone()),
            Status::Queued | Status::Running | Status::Waiting | Status::Terminated => {
                (None, None, None)
            }
        };
        RunView {
            id: run.name().into(),
            workflow: run.class().into(),
            status,
            input: self.journal.input.clone(),
            output,
            error,
            report,
            created_at: Time(self.created_at),
            changed_at: Time(self.changed_at),
            ended_at: self.ended_at.map(Time),
            progress,
            steps,
            waiting,
            events: self.events(),
            restarts: self.journal.generation,
            version: self.journal.head.version,
        }
    }

    /// How far it is, in one word.
    pub(in crate::workflow) fn phase(&self, around: &Present) -> Phase {
        let goes_on = matches!(self.journal.head.status, Status::Queued | Status::Waiting);
        match goes_on && around.under_way.is_some() {
            true => Phase::Running,
            false => Phase::of(&self.journal.head.status),
        }
    }

    fn events(&self) -> Vec<EventView> {
        let waiting = self.journal.events.iter();
        let mut all: Vec<(Version, EventView)> = waiting
            .flat_map(|(name, queue)| queue.iter().map(move |it| (name, it)))
            .map(|(name, (version, payload))| {
                let at = self.came.get(version).copied().unwrap_or(self.changed_at);
                let (name, payload) = (name.clone(), payload.clone());
                (*version, EventView { name, at: Time(at), payload })
            })
            .collect();
        all.sort_by_key(|it| it.0);
        all.into_iter().map(|it| it.1).collect()
    }

    fn steps(&self, around: &Present) -> Vec<StepView> {
        let under_way = || around.under_way.iter().flatten().filter(|it| !self.has_ended(it));
        let mut steps: Vec<StepView> = self
            .told
            .iter()
            .map(|it| self.step(it, around, under_way().find(|now| now.key == it.key)))
            .collect();
        for it in under_way().filter(|it| !self.places.contains_key(&it.key)) {
            let (key, attempts) = (it.key.clone(), Vec::new());
            let told = Told { key, began_at: it.began_at, ended_at: None, attempts };
            steps.push(self.step(&told, around, Some(it)));
        }
        let mut steps = order::arrange(steps);
        steps.iter_mut().for_each(|it| it.branch.truncate(it.branch.trim_end_matches('/').len()));
        steps
    }

    /// Whether an attempt that was under way a moment ago is in the record meanwhile.
    fn has_ended(&self, now: &UnderWay) -> bool {
        let told = self.places.get(&now.key).and_then(|it| self.told.get(*it));
        let is_it = |it: &AttemptView| (it.number, it.started_at.0) == (now.attempt, now.began_at);
        told.is_some_and(|it| it.attempts.iter().any(is_it))
    }

    fn step(&self, told: &Told, around: &Present, now: Option<&UnderWay>) -> StepView {
        let key = &told.key;
        let (status, until, ended_at) = self.stand(told, around, now.is_some());
        let (output, failed) = match self.journal.known.get(key) {
            Some(Known::Value(value)) => (Some(value.clone()), None),
            Some(Known::Failed(error)) => (None, Some(FailureView::of(error))),
            Some(Known::Timer(_)) | None => (None, None),
        };
        let mut attempts = told.attempts.clone();
        let last = || attempts.last().and_then(|it| it.error.clone());
        let error = failed.or_else(last);
        attempts.extend(now.map(|it| AttemptView {
            number: it.attempt,
            started_at: Time(it.began_at),
            ended_at: None,
            error: None,
        }));
        StepView {
            name: key.name.clone(),
            kind: key.kind.clone(),
            branch: key.scope.clone(),
            count: key.count,
            status,
            started_at: Time(self.began(told)),
            ended_at: ended_at.map(Time),
            until: until.map(Time),
            output,
            error,
            attempts,
        }
    }

    /// How far a step is, what it waits for, and when it ended.
    fn stand(
        &self,
        told: &Told,
        around: &Present,
        is_under_way: bool,
    ) -> (StepStatus, Option<Timestamp>, Option<Timestamp>) {
        let key = &told.key;
        let closed = self.closed(key);
        match self.journal.known.get(key) {
            Some(Known::Value(_)) => return (StepStatus::Done, None, told.ended_at),
            Some(Known::Failed(_)) => return (StepStatus::Failed, None, told.ended_at),
            Some(Known::Timer(due)) => {
                // While it is paused its time stands still.
                let now = closed.or(self.journal.head.paused_at).unwrap_or(around.now);
                let later = self.later(key);
                if *due <= now || later.is_some() {
                    let ended = later.map_or(*due, |it| it.min(*due));
                    return (StepStatus::Done, Some(*due), Some(ended));
                }
                let status = closed.map_or(StepStatus::Waiting, |_| StepStatus::Dropped);
                return (status, Some(*due), closed);
            }
            None => {}
        }
        let tried = self.journal.tried.get(key).map(|it| it.1);
        match (is_under_way, closed, tried) {
            (true, _, _) => (StepStatus::Running, None, None),
            (false, Some(at), _) => (StepStatus::Dropped, None, Some(at)),
            (false, None, Some(at)) => (StepStatus::Retrying, Some(at), None),
            (false, None, None) => (StepStatus::Waiting, None, None),
        }
    }

    /// When the run ended, or the combination around a branch was decided.
    fn closed(&self, key: &Key) -> Option<Timestamp> {
        let decides = |it: &&Told| {
            it.key.kind == "select"
                && it.ended_at.is_some()
                && key.scope.starts_with(&branch::within(&it.key))
        };
        let decided = match key.scope.is_empty() {
            true => None,
            false => self.told.iter().filter(decides).filter_map(|it| it.ended_at).min(),
        };
        decided.or(self.ended_at)
    }

    /// When something was recorded in its branch that came after it.
    fn later(&self, key: &Key) -> Option<Timestamp> {
        let order = self.journal.order.get(&key.scope)?;
        let next = order.iter().skip_while(|it| *it != key).nth(1)?;
        self.places.get(next).map(|place| self.told[*place].began_at)
    }

    /// When it began: a combination with the first of what is in it.
    fn began(&self, told: &Told) -> Timestamp {
        if told.key.kind != "select" {
            return told.began_at;
        }
        let scope = branch::within(&told.key);
        let inner = self.told.iter().filter(|it| it.key.scope.starts_with(&scope));
        inner.map(|it| it.began_at).min().map_or(told.began_at, |it| it.min(told.began_at))
    }
}

/// What a key is called in short.
pub(super) fn label(key: &Key) -> String {
    if key.name.is_empty() { key.kind.clone() } else { key.name.clone() }
}
