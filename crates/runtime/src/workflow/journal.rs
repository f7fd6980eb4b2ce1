//! What is known of a run, folded from its record.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::Value;
use steadfast_store::{Address, Position, Recorded, State, Store, StoreError, Timestamp, Version};

use super::record::{Entry, Key, Progress, Report};
use crate::Error;

/// Entries read at once.
const PAGE: usize = 500;

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
    pub(super) version: Version,
    /// The position of its first message: no other run of this id has it.
    pub(super) first: Position,
    pub(super) input: Value,
    pub(super) status: Status,
    pub(super) known: HashMap<Key, Known>,
    /// Failed attempts of what is not known yet, and when the next one is due.
    pub(super) tried: HashMap<Key, (u32, Timestamp)>,
    /// What is known in each branch, in the order in which it was recorded.
    pub(super) order: HashMap<String, Vec<Key>>,
    /// The same of all branches.
    recorded: Vec<Key>,
    /// Events that nobody has taken, by their name.
    pub(super) events: BTreeMap<String, VecDeque<(Version, Value)>>,
    pub(super) paused_at: Option<Timestamp>,
    /// When it last recorded something that it did.
    pub(super) acted_at: Timestamp,
    /// Grows when the run begins anew.
    pub(super) generation: u32,
    /// The wake-up that is pending for a time that it waits for.
    pub(super) timer: Option<Position>,
    /// What it last said.
    pub(super) progress: Option<Progress>,
    /// By how much pauses have moved what it waits for, all together.
    pub(super) shifted: i64,
}

impl Journal {
    /// A run that was just made.
    pub(super) fn begun(first: Position, input: Value) -> Self {
        Self {
            version: 2,
            first,
            input,
            status: Status::Queued,
            known: HashMap::new(),
            tried: HashMap::new(),
            order: HashMap::new(),
            recorded: Vec::new(),
            events: BTreeMap::new(),
            paused_at: None,
            acted_at: Timestamp(0),
            generation: 0,
            timer: None,
            progress: None,
            shifted: 0,
        }
    }

    /// Of a run of which nothing was read yet.
    pub(super) fn empty() -> Self {
        Self { version: 0, ..Self::begun(0, Value::Null) }
    }

    /// Reads a run; `None` if there is none.
    pub(super) async fn load(store: &dyn Store, run: &Address) -> Result<Option<Self>, StoreError> {
        let mut journal = Self::empty();
        journal.refresh(store, run).await?;
        Ok((0 < journal.first).then_some(journal))
    }

    /// Reads on from where it stands.
    pub(super) async fn refresh(
        &mut self,
        store: &dyn Store,
        run: &Address,
    ) -> Result<(), StoreError> {
        loop {
            let page = store.read_stream(run.id(), self.version + 1, PAGE).await?;
            for message in &page {
                self.take(message)?;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    pub(super) fn take(&mut self, message: &Recorded) -> Result<(), StoreError> {
        self.version = message.version;
        if message.version == 1 {
            self.first = message.position;
        }
        let Some(entry) = Entry::of(message)? else { return Ok(()) };
        let is_timer = matches!(&entry, Entry::Wake { waits } if !waits.is_empty());
        if is_timer && matches!(message.state, Some(State::Pending { .. })) {
            self.timer = Some(message.position);
        }
        self.fold(message.version, message.created_at, entry);
        Ok(())
    }

    /// Takes in one entry.
    pub(super) fn fold(&mut self, version: Version, at: Timestamp, entry: Entry) {
        if entry.is_act() {
            self.acted_at = at;
        }
        match entry {
            Entry::Started { input } => self.input = input,
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
            Entry::Paused { report } => {
                self.paused_at.get_or_insert(at);
                self.status = Status::Paused(report);
            }
            Entry::Resumed { shift_ms } => self.resume(shift_ms),
            Entry::Terminated => self.status = Status::Terminated,
            Entry::Restarted { from } => self.restart(from.as_ref()),
            Entry::Completed { output } => self.status = Status::Complete(output),
            Entry::Errored { error } => self.status = Status::Errored(error),
            Entry::Wake { waits } if waits.is_empty() => self.is_woken(),
            Entry::Wake { .. } | Entry::Waits { .. } => self.waits(),
            Entry::Progress(progress) => self.progress = Some(progress),
        }
    }

    pub(super) fn waits(&mut self) {
        if let Status::Queued = self.status {
            self.status = Status::Waiting;
        }
    }

    fn is_woken(&mut self) {
        if let Status::Waiting = self.status {
            self.status = Status::Queued;
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
        self.paused_at = None;
        self.status = Status::Queued;
    }

    /// How long it has been paused.
    pub(super) fn paused_for(&self, now: Timestamp) -> i64 {
        self.paused_at.map_or(0, |at| now.0.saturating_sub(at.0).max(0))
    }

    /// Forgets everything, or what was recorded from a step on.
    fn restart(&mut self, from: Option<&Key>) {
        self.status = Status::Queued;
        self.paused_at = None;
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
}
