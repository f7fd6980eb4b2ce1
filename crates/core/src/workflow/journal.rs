//! What is known of a run, folded from its record.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::Value;
use steadfast_store::{Address, Position, Recorded, Store, StoreError, Timestamp, Version};

use super::{
    head::RunHead,
    record::{Entry, Key, Progress, Report},
};
use crate::Error;

/// Entries read at once.
pub(super) const PAGE: usize = 500;

/// About what a value takes in memory beside its text, and the same of what is recorded of a key.
const VALUE_BYTES: usize = 48;
const KEY_BYTES: usize = 400;

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is to go on as soon as there is room.
    Queued,
    /// It is going on right now.
    Running,
    /// It waits for a time or an event.
    Waiting,
    /// It stands still until somebody resumes it; the report says why if nobody has paused it.
    Paused(Option<Report>),
    /// It has ended well, with this.
    Complete(Value),
    /// It has failed, with this.
    Errored(Error),
    /// It was ended from outside.
    Terminated,
}

impl Status {
    /// Whether it will never go on.
    pub fn is_final(&self) -> bool {
        match self {
            Status::Complete(_) | Status::Errored(_) | Status::Terminated => true,
            Status::Queued | Status::Running | Status::Waiting | Status::Paused(_) => false,
        }
    }

    /// Whether it stands still until somebody resumes it.
    pub fn is_paused(&self) -> bool {
        matches!(self, Status::Paused(_))
    }

    /// As it is written.
    pub fn tag(&self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Paused(_) => "paused",
            Status::Complete(_) => "complete",
            Status::Errored(_) => "errored",
            Status::Terminated => "terminated",
        }
    }
}

/// What came of one thing that the run did.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Value(Value),
    Failed(Error),
    Timer(Timestamp),
}

/// A run as its record tells it.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) head: RunHead,
    pub(super) input: Value,
    pub(super) known: HashMap<Key, Known>,
    /// Failed attempts of what is not known yet, and when the next one is due.
    pub(super) tried: HashMap<Key, (u32, Timestamp)>,
    /// What is known in each branch, in the order in which it was recorded.
    pub(super) order: HashMap<String, Vec<Key>>,
    /// The same of all branches.
    recorded: Vec<Key>,
    /// Events that nobody has taken, by their name.
    pub(super) events: BTreeMap<String, VecDeque<(Version, Value)>>,
    /// When it last recorded something that it did.
    pub(super) acted_at: Timestamp,
    /// Grows when the run begins anew.
    pub(super) generation: u32,
    /// What it last said.
    pub(super) progress: Option<Progress>,
    /// By how much pauses have moved what it waits for, all together.
    pub(super) shifted: i64,
}

impl Journal {
    /// A run that was just made.
    pub(super) fn begun(first: Position, last: Position, input: Value) -> Self {
        Self {
            head: RunHead::begun(first, last),
            input,
            known: HashMap::new(),
            tried: HashMap::new(),
            order: HashMap::new(),
            recorded: Vec::new(),
            events: BTreeMap::new(),
            acted_at: Timestamp(0),
            generation: 0,
            progress: None,
            shifted: 0,
        }
    }

    /// Of a run of which nothing was read yet.
    pub(super) fn empty() -> Self {
        Self { head: RunHead::empty(), ..Self::begun(0, 0, Value::Null) }
    }

    /// Reads a run; `None` if there is none.
    pub(super) async fn load(store: &dyn Store, run: &Address) -> Result<Option<Self>, StoreError> {
        let mut journal = Self::empty();
        journal.refresh(store, run).await?;
        Ok((0 < journal.head.first).then_some(journal))
    }

    /// Reads on from where it stands.
    pub(super) async fn refresh(
        &mut self,
        store: &dyn Store,
        run: &Address,
    ) -> Result<(), StoreError> {
        loop {
            let page = store.read_stream(run.id(), self.head.version + 1, PAGE).await?;
            for message in &page {
                self.take(message)?;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    pub(super) fn take(&mut self, message: &Recorded) -> Result<(), StoreError> {
        let entry = Entry::of(message)?;
        self.head.reach(message, entry.as_ref());
        if let Some(entry) = entry {
            self.fold(message.version, message.created_at, entry);
        }
        Ok(())
    }

    /// Takes in one entry.
    pub(super) fn fold(&mut self, version: Version, at: Timestamp, entry: Entry) {
        if entry.is_act() {
            self.acted_at = at;
        }
        self.head.fold(at, &entry);
        match entry {
            Entry::Started { input, .. } => self.input = input,
            Entry::Done { key, value, .. } => self.know(key, Known::Value(value)),
            Entry::Failed { key, error, .. } => self.know(key, Known::Failed(error)),
            Entry::Timer { key, due_at } => self.know(key, Known::Timer(Timestamp(due_at))),
            Entry::Tried { key, attempt, retry_at, .. } => {
                self.tried.insert(key, (attempt.number, Timestamp(retry_at)));
            }
            Entry::Event { name, payload } => {
                self.events.entry(name).or_default().push_back((version, payload));
            }
            Entry::Took { key, event } => self.took(key, event),
            Entry::Resumed { shift_ms } => self.resume(shift_ms),
            Entry::Retried => {
                self.tried.values_mut().for_each(|(_, due)| *due = Timestamp(due.0.min(at.0)));
            }
            Entry::Restarted { from } => self.restart(from.as_ref()),
            Entry::Progress(progress) => self.progress = Some(progress),
            Entry::Paused { .. }
            | Entry::Terminated
            | Entry::Completed { .. }
            | Entry::Errored { .. }
            | Entry::Wake { .. }
            | Entry::Waits { .. } => {}
        }
    }

    fn know(&mut self, key: Key, known: Known) {
        self.tried.remove(&key);
        self.order.entry(key.scope.clone()).or_default().push(key.clone());
        self.recorded.push(key.clone());
        self.known.insert(key, known);
    }

    fn took(&mut self, key: Key, event: Version) {
        let taken = self.events.values_mut().find_map(|waiting| {
            let index = waiting.iter().position(|it| it.0 == event)?;
            waiting.remove(index)
        });
        if let Some((_, payload)) = taken {
            self.know(key, Known::Value(payload));
        }
    }

    /// Timers and retries are as far away as they were when it was paused.
    fn resume(&mut self, shift_ms: i64) {
        let later = |at: &mut Timestamp| at.0 = at.0.saturating_add(shift_ms);
        for known in self.known.values_mut() {
            if let Known::Timer(due_at) = known {
                later(due_at);
            }
        }
        self.tried.values_mut().for_each(|(_, retry_at)| later(retry_at));
        self.shifted = self.shifted.saturating_add(shift_ms);
    }

    /// Forgets everything, or what was recorded from a step on.
    fn restart(&mut self, from: Option<&Key>) {
        self.generation += 1;
        self.tried.clear();
        self.progress = None;
        // Outside of branches nothing goes on beside a step: what was recorded before it came
        // before it.
        let kept = from.and_then(|key| self.recorded.iter().position(|it| it == key));
        for key in self.recorded.split_off(kept.unwrap_or(0)) {
            self.known.remove(&key);
        }
        let known = &self.known;
        self.order.values_mut().for_each(|keys| keys.retain(|it| known.contains_key(it)));
    }

    /// About what it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let known = self.known.iter().map(|(key, it)| {
            let value = match it {
                Known::Value(value) => bytes(value),
                Known::Failed(error) => VALUE_BYTES + error.to_string().len(),
                Known::Timer(_) => VALUE_BYTES,
            };
            KEY_BYTES + 3 * (key.scope.len() + key.kind.len() + key.name.len()) + value
        });
        let events = self.events.values().flatten().map(|(_, it)| VALUE_BYTES + bytes(it));
        bytes(&self.input) + known.sum::<usize>() + events.sum::<usize>()
    }
}

/// About what a value takes in memory.
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
