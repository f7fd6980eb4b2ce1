//! One run, folded from its record. Drivers replay the code on the fold and views show it, so that
//! a view always agrees with a replay.
//!
//! The inputs of the steps of a run, for views: a driver does not need them. The input of a call is
//! recorded with its first attempt, and that of a send is the message that follows its entry.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::Value;
use steadfast_store::{
    Address, EntityId, Position, Recorded, Store, StoreError, Timestamp, Version,
};

use super::{
    record::{Attempt, Entry, Key, Progress, StepInput, Wait},
    status::RunHead,
};
use crate::Error;

/// Entries read at once.
pub(super) const PAGE: usize = 500;

/// Approximate size of a value without its text, of an attempt and of a step in all maps.
const VALUE_BYTES: usize = 48;
const ATTEMPT_BYTES: usize = 100;
const STEP_BYTES: usize = 400;

/// The outcome of one operation of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StepResult {
    Value(Value),
    Failed(Error),
    Timer(Timestamp),
}

/// An attempt that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AttemptRecord {
    pub(super) attempt: Attempt,
    pub(super) ended_at: Timestamp,
    pub(super) error: Option<Error>,
}

/// One operation of the run, finished or in progress.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepRecord {
    pub(super) key: Key,
    pub(super) began_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) attempts: Vec<AttemptRecord>,
    pub(super) result: Option<StepResult>,
    /// When the next attempt is due, if the last one failed.
    pub(super) retry_at: Option<Timestamp>,
    /// The number of steps that had a result before this one.
    number: Option<usize>,
}

/// An event that the run has not taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UntakenEvent {
    pub(super) version: Version,
    pub(super) at: Timestamp,
    pub(super) payload: Value,
}

/// By default that of an empty record.
#[derive(Debug, Default)]
pub(super) struct RunFold {
    pub(super) head: RunHead,
    pub(super) input: Value,
    /// In the order in which the record first mentions them.
    pub(super) steps: Vec<StepRecord>,
    by_key: HashMap<Key, usize>,
    /// The steps of each branch that have a result, in the order of their results.
    by_branch: HashMap<String, Vec<usize>>,
    /// The number of steps with a result.
    results: usize,
    /// Events by their name.
    pub(super) events: BTreeMap<String, VecDeque<UntakenEvent>>,
    /// The waits of the run when it last went to sleep.
    pub(super) waits: Vec<Wait>,
    /// The last recorded progress.
    pub(super) progress: Option<Progress>,
    pub(super) created_at: Timestamp,
    pub(super) changed_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    /// When the code of the run last recorded something.
    pub(super) acted_at: Timestamp,
    /// Increases with each restart.
    pub(super) generation: u32,
    /// The inputs of the steps; only a fold for a view has them.
    inputs: Option<Inputs>,
}

impl RunFold {
    /// A run that was just created.
    pub(super) fn begun(first: Position, last: Position, input: Value) -> Self {
        Self { head: RunHead::begun(first, last), input, ..Self::default() }
    }

    /// The fold of an empty record, for a view.
    pub(super) fn for_view() -> Self {
        Self { inputs: Some(Inputs::default()), ..Self::default() }
    }

    /// Reads the whole record; `None` if there is no such run.
    pub(super) async fn load(store: &dyn Store, run: &Address) -> Result<Option<Self>, StoreError> {
        Self::default().read(store, run, Version::MAX).await
    }

    /// Reads the record up to a version.
    pub(super) async fn read(
        mut self,
        store: &dyn Store,
        run: &Address,
        to: Version,
    ) -> Result<Option<Self>, StoreError> {
        loop {
            let page = store.read_stream(run.id(), self.head.version + 1, PAGE).await?;
            for message in page.iter().filter(|it| it.version <= to) {
                self.take(message)?;
            }
            if page.len() < PAGE || to <= self.head.version {
                self.name_receivers(store).await?;
                return Ok((0 < self.head.version).then_some(self));
            }
        }
    }

    /// Reads the addresses of the receivers of sent messages, which the record has as ids.
    pub(super) async fn name_receivers(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        match &mut self.inputs {
            Some(inputs) => inputs.name_receivers(store).await,
            None => Ok(()),
        }
    }

    /// The input of a step, as far as the record has it.
    pub(super) fn input_of(&self, key: &Key) -> Option<&StepInput> {
        self.inputs.as_ref()?.of(key)
    }

    /// Folds one message of the record.
    pub(super) fn take(&mut self, message: &Recorded) -> Result<(), StoreError> {
        let entry = Entry::of(message)?;
        self.head.reach(message, entry.as_ref());
        if let Some(inputs) = &mut self.inputs {
            inputs.take(message, entry.as_ref());
        }
        if let Some(entry) = entry {
            self.apply(message.version, message.created_at, entry);
        }
        Ok(())
    }

    /// Folds one entry.
    pub(super) fn apply(&mut self, version: Version, at: Timestamp, entry: Entry) {
        if entry.is_act() {
            self.acted_at = at;
        }
        self.changed_at = at;
        self.head.fold(at, &entry);
        match entry {
            Entry::Started { input, .. } => (self.input, self.created_at) = (input, at),
            Entry::Done { key, value, attempt, .. } => {
                self.end(key, at, attempt, StepResult::Value(value));
            }
            Entry::Failed { key, error, attempt, .. } => {
                self.end(key, at, Some(attempt), StepResult::Failed(error));
            }
            Entry::Tried { key, error, attempt, retry_at, .. } => {
                let step = self.begin(key, Timestamp(attempt.began_at));
                let error = Some(error);
                step.attempts.push(AttemptRecord { attempt, ended_at: at, error });
                step.retry_at = Some(Timestamp(retry_at));
            }
            Entry::Timer { key, due_at } => {
                self.know(key, at, StepResult::Timer(Timestamp(due_at)));
            }
            Entry::Event { name, payload } => {
                let event = UntakenEvent { version, at, payload };
                self.events.entry(name).or_default().push_back(event);
            }
            Entry::Took { key, event } => self.take_event(key, at, event),
            Entry::Resumed { shift_ms } => self.resume(shift_ms),
            Entry::Retried => {
                let retries = self.steps.iter_mut().filter_map(|it| it.retry_at.as_mut());
                retries.for_each(|due| *due = (*due).min(at));
            }
            Entry::Restarted { from } => self.restart(from.as_ref()),
            Entry::Progress(progress) => self.progress = Some(progress),
            Entry::Wake { waits } | Entry::Waits { waits } => {
                if !waits.is_empty() {
                    waits.iter().for_each(|it| _ = self.begin(it.key.clone(), at));
                    self.waits = waits;
                }
            }
            Entry::Completed { .. } | Entry::Errored { .. } | Entry::Terminated => {
                self.ended_at = Some(at);
            }
            Entry::Paused { .. } => {}
        }
    }

    /// The record of a key, created at this time if this is its first entry.
    fn begin(&mut self, key: Key, began_at: Timestamp) -> &mut StepRecord {
        let place = self.place(key, began_at);
        &mut self.steps[place]
    }

    fn place(&mut self, key: Key, began_at: Timestamp) -> usize {
        if let Some(place) = self.by_key.get(&key) {
            return *place;
        }
        self.by_key.insert(key.clone(), self.steps.len());
        let (ended_at, result, retry_at, number) = (None, None, None, None);
        let attempts = Vec::new();
        self.steps.push(StepRecord { key, began_at, ended_at, attempts, result, retry_at, number });
        self.steps.len() - 1
    }

    fn end(&mut self, key: Key, at: Timestamp, attempt: Option<Attempt>, result: StepResult) {
        let began_at = attempt.map_or(at, |it| Timestamp(it.began_at));
        let error = match &result {
            StepResult::Failed(error) => Some(error.clone()),
            StepResult::Value(_) | StepResult::Timer(_) => None,
        };
        let step = self.know(key, began_at, result);
        step.ended_at = Some(at);
        step.attempts.extend(attempt.map(|it| AttemptRecord { attempt: it, ended_at: at, error }));
    }

    fn know(&mut self, key: Key, began_at: Timestamp, result: StepResult) -> &mut StepRecord {
        let place = self.place(key, began_at);
        let step = &mut self.steps[place];
        let number = Some(self.results);
        (step.result, step.retry_at, step.number) = (Some(result), None, number);
        self.results += 1;
        match self.by_branch.get_mut(&step.key.scope) {
            Some(places) => places.push(place),
            None => _ = self.by_branch.insert(step.key.scope.clone(), vec![place]),
        }
        step
    }

    fn take_event(&mut self, key: Key, at: Timestamp, event: Version) {
        let taken = self.events.values_mut().find_map(|untaken| {
            let index = untaken.iter().position(|it| it.version == event)?;
            untaken.remove(index)
        });
        if let Some(taken) = taken {
            self.end(key, at, None, StepResult::Value(taken.payload));
        }
    }

    /// Shifts timers and retries by the duration of the pause.
    fn resume(&mut self, shift_ms: i64) {
        let later = |at: &mut i64| *at = at.saturating_add(shift_ms);
        for step in &mut self.steps {
            if let Some(StepResult::Timer(due_at)) = &mut step.result {
                later(&mut due_at.0);
            }
            step.retry_at.iter_mut().for_each(|it| later(&mut it.0));
        }
        self.waits.iter_mut().filter_map(|it| it.until.as_mut()).for_each(later);
    }

    /// Removes all steps, or those from one on.
    fn restart(&mut self, from: Option<&Key>) {
        self.generation += 1;
        (self.ended_at, self.progress) = (None, None);
        self.waits.clear();
        // Outside of branches, steps are sequential: results that were recorded before this step
        // precede it.
        self.results = from.and_then(|key| self.step(key)?.number).unwrap_or(0);
        let kept = self.results;
        self.steps.retain(|it| it.number.is_some_and(|it| it < kept));
        let keys = self.steps.iter().map(|it| it.key.clone());
        self.by_key = keys.zip(0..).collect();
        if let Some(inputs) = &mut self.inputs {
            inputs.retain(|key| self.by_key.contains_key(key));
        }
        let steps = &self.steps;
        self.by_branch.clear();
        let mut places: Vec<usize> = (0..steps.len()).collect();
        places.sort_by_key(|it| steps[*it].number);
        for place in places {
            self.by_branch.entry(steps[place].key.scope.clone()).or_default().push(place);
        }
    }

    pub(super) fn step(&self, key: &Key) -> Option<&StepRecord> {
        self.by_key.get(key).map(|it| &self.steps[*it])
    }

    pub(super) fn result(&self, key: &Key) -> Option<&StepResult> {
        self.step(key)?.result.as_ref()
    }

    /// The steps of a branch that have a result, in the order of their results.
    pub(super) fn branch(&self, scope: &str) -> impl ExactSizeIterator<Item = &StepRecord> {
        let places = self.by_branch.get(scope).map_or(&[][..], Vec::as_slice);
        places.iter().map(|it| &self.steps[*it])
    }

    /// One of them, without walking over those before it.
    pub(super) fn nth(&self, scope: &str, index: usize) -> Option<&StepRecord> {
        self.by_branch.get(scope)?.get(index).map(|it| &self.steps[*it])
    }

    /// Approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        let steps = self.steps.iter().map(|it| {
            let key = it.key.scope.len() + it.key.kind.len() + it.key.name.len();
            let result = match &it.result {
                Some(StepResult::Value(value)) => bytes(value),
                Some(StepResult::Failed(error)) => VALUE_BYTES + error.to_string().len(),
                Some(StepResult::Timer(_)) | None => VALUE_BYTES,
            };
            let errors = it
                .attempts
                .iter()
                .map(|it| ATTEMPT_BYTES + it.error.as_ref().map_or(0, |it| it.to_string().len()));
            STEP_BYTES + 2 * key + result + errors.sum::<usize>()
        });
        let events = self.events.values().flatten().map(|it| VALUE_BYTES + bytes(&it.payload));
        bytes(&self.input) + steps.sum::<usize>() + events.sum::<usize>()
    }
}

/// Approximate size of a value in memory.
pub(super) fn bytes(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, it)| VALUE_BYTES + name.len() + bytes(it)).sum()
            }
        }
}

/// The inputs that the record has, by step.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    known: HashMap<Key, StepInput>,
    /// Sends whose receivers are known by id alone.
    unnamed: Vec<(Key, EntityId)>,
    /// The send whose message comes next.
    send: Option<Key>,
}

impl Inputs {
    pub(super) fn of(&self, key: &Key) -> Option<&StepInput> {
        self.known.get(key)
    }

    /// Reads one message of the record, in order.
    pub(super) fn take(&mut self, message: &Recorded, entry: Option<&Entry>) {
        let send = self.send.take();
        let Some(entry) = entry else {
            if let (Some(key), Some(target)) = (send, message.target) {
                let input = StepInput::new(target.to_string(), message.data.as_str());
                self.known.insert(key.clone(), input);
                self.unnamed.push((key, target));
            }
            return;
        };
        if let Entry::Done { key, .. } = entry
            && key.kind == "send"
        {
            self.send = Some(key.clone());
        }
        if let Some((key, input)) = entry.input() {
            self.known.insert(key.clone(), input.clone());
        }
    }

    /// Removes those of other steps.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Key) -> bool) {
        self.known.retain(|key, _| is_kept(key));
        self.unnamed.retain(|it| is_kept(&it.0));
    }

    /// Reads the addresses of receivers.
    pub(super) async fn name_receivers(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let mut ids: Vec<EntityId> = self.unnamed.iter().map(|it| it.1).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(());
        }
        let addresses = store.addresses(&ids).await?;
        for (key, id) in self.unnamed.drain(..) {
            if let (Some(input), Some(address)) = (self.known.get_mut(&key), addresses.get(&id)) {
                input.to = address.to_string();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::record::INPUT_BYTES_MAX;

    #[test]
    fn a_large_or_deep_message_is_left_out_of_the_record() {
        let body = |len: usize| format!("\"{}\"", "x".repeat(len - 2));
        let small = StepInput::new("object/a/b".into(), &body(INPUT_BYTES_MAX));
        assert!(small.message.is_some() && small.bytes == INPUT_BYTES_MAX);
        let large = StepInput::new("object/a/b".into(), &body(INPUT_BYTES_MAX + 1));
        assert_eq!((large.message, large.bytes), (None, INPUT_BYTES_MAX + 1));
        // An entry with it can be recorded, whatever its depth.
        for depth in 120..=127 {
            let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let input = Some(StepInput::new("object/a/b".into(), &deep));
            assert_eq!(input.as_ref().is_some_and(|it| it.message.is_some()), depth <= 125);
            let key: Key =
                serde_json::from_str(r#"{"kind":"call","name":"add","count":1}"#).unwrap();
            let (value, attempt) = (serde_json::Value::Null, None);
            let entry = Entry::Done { key, value, attempt, input };
            assert!(entry.message().is_ok(), "{depth}");
        }
    }
}
