//! What a workflow works with while it runs.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use serde_json::Value;
use steadfast_store::{Address, Clock, Entropy, Timestamp};

use super::{
    journal::{Journal, Known},
    record::{Entry, Key, Report, Wait},
};
use crate::{Body, Error, Objects, Result};

/// The context of a run. Cheap to clone.
#[derive(Clone)]
pub struct Ctx(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) around: Around,
    pub(super) state: Mutex<State>,
}

/// What a run needs from outside.
pub(super) struct Around {
    pub(super) run: Address,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) objects: Objects,
}

/// What a run and the one who drives it share.
pub(super) struct State {
    pub(super) journal: Journal,
    /// The branch that is being polled.
    scope: String,
    /// How often each name was used in each branch.
    counts: HashMap<(String, &'static str, String), u32>,
    /// How many of the known keys of each branch were asked for.
    asked: HashMap<String, usize>,
    /// To be recorded.
    pub(super) new: Vec<Entry>,
    /// How many were given to be recorded, and how many of them are durable.
    given: u64,
    pub(super) durable: u64,
    /// Bodies of steps that are under way.
    pub(super) busy: usize,
    in_step: bool,
    /// What was waited for when it was last polled.
    pub(super) waits: Vec<Wait>,
    /// It cannot go on, and why.
    pub(super) stuck: Option<Report>,
}

impl Ctx {
    pub(super) fn new(around: Around, journal: Journal) -> Self {
        let state = State {
            journal,
            scope: String::new(),
            counts: HashMap::new(),
            asked: HashMap::new(),
            new: Vec::new(),
            given: 0,
            durable: 0,
            busy: 0,
            in_step: false,
            waits: Vec::new(),
            stuck: None,
        };
        Self(Arc::new(Inner { around, state: Mutex::new(state) }))
    }

    /// The id of the run.
    pub fn id(&self) -> &str {
        self.0.around.run.name()
    }

    /// The time, as it was when this was first asked for here.
    pub async fn now(&self) -> Result<Timestamp> {
        let now = self.0.around.clock.now().0;
        Ok(Timestamp(self.value("now", || now).await?))
    }

    /// A number by chance, the same in every replay.
    pub async fn random(&self) -> Result<u64> {
        self.value("random", || self.0.around.entropy.next()).await
    }

    /// A UUID by chance, the same in every replay.
    pub async fn uuid(&self) -> Result<String> {
        let (high, low) = (self.0.around.entropy.next(), self.0.around.entropy.next());
        self.value("uuid", || uuid(high, low)).await
    }

    async fn value<T: Body>(&self, kind: &'static str, make: impl FnOnce() -> T) -> Result<T> {
        let key = self.key(kind, "");
        let value = match self.known_value(&key) {
            Some(value) => value,
            None => {
                let value = super::record::encode(&key, &make())?;
                self.record(Entry::Done { key: key.clone(), value: value.clone(), attempt: None })
                    .await;
                value
            }
        };
        decode(&key, value)
    }

    /// Waits for so long, whatever happens meanwhile.
    pub async fn sleep(&self, name: &str, duration: Duration) -> Result<()> {
        self.sleep_to(name, || self.0.around.clock.now().after(duration)).await
    }

    /// Waits until then; a time that is over is no wait.
    pub async fn sleep_until(&self, name: &str, until: Timestamp) -> Result<()> {
        self.sleep_to(name, || until).await
    }

    async fn sleep_to(&self, name: &str, until: impl FnOnce() -> Timestamp) -> Result<()> {
        let key = self.key("sleep", name);
        if self.known(&key).is_none() {
            self.record(Entry::Timer { key: key.clone(), due_at: until().0 }).await;
        }
        // A pause moves it, so it is looked up each time.
        poll_fn(|_| match self.known(&key) {
            Some(Known::Timer(due_at)) => self.wait_until(&key, due_at),
            Some(Known::Value(_) | Known::Failed(_)) | None => Poll::Pending,
        })
        .await;
        Ok(())
    }

    /// The next event of this name: in their order, each taken once. One that came before is there
    /// at once.
    pub async fn event<T: Body>(&self, name: &str) -> Result<T> {
        let key = self.key("event", name);
        let value = poll_fn(|_| {
            if let Some(value) = self.known_value(&key) {
                return Poll::Ready(value);
            }
            let mut state = self.state();
            let takes = |it: &Entry| {
                let Entry::Took { key, event } = it else { return None };
                Some((key.clone(), *event))
            };
            let taken: Vec<(Key, i64)> = state.new.iter().filter_map(takes).collect();
            let waiting = state.journal.events.get(name).into_iter().flatten();
            let next = waiting.map(|it| it.0).find(|at| taken.iter().all(|it| it.1 != *at));
            let is_taking = taken.iter().any(|it| it.0 == key);
            match next {
                Some(event) if !is_taking => {
                    state.give(Entry::Took { key: key.clone(), event });
                }
                Some(_) => {}
                None => state.waits.push(Wait { key: key.clone(), until: None }),
            }
            Poll::Pending
        })
        .await;
        decode(&key, value)
    }

    // ---- for the others in here ----------------------------------------------------------

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes to another branch; returns the one before.
    pub(super) fn enter(&self, scope: String) -> String {
        std::mem::replace(&mut self.state().scope, scope)
    }

    /// The next key of this name in the branch that is being polled. If the record has something
    /// else there, the code has changed: the run stands still.
    pub(super) fn key(&self, kind: &'static str, name: &str) -> Key {
        let mut state = self.state();
        let state = &mut *state;
        let scope = state.scope.clone();
        let count = state.counts.entry((scope.clone(), kind, name.to_owned())).or_default();
        *count += 1;
        let key = Key { scope, kind: kind.into(), name: name.into(), count: *count };
        if state.in_step {
            let reason = format!("{key} is used inside of a step; use the result of the step");
            let found = Some(key.to_string());
            state.stuck.get_or_insert(Report {
                reason,
                position: None,
                expected: None,
                found,
                line: None,
            });
        }
        // These only begin branches; they are not recorded.
        if matches!(kind, "join" | "map") {
            return key;
        }
        // Within a branch one thing comes after the other: recorded in the order of asking.
        let asked = state.asked.entry(key.scope.clone()).or_default();
        let recorded = state.journal.order.get(&key.scope).and_then(|it| it.get(*asked));
        *asked += 1;
        if let Some(expected) = recorded.filter(|it| **it != key) {
            let reason =
                "the code does something else than the record says; deploy code that fits \
                 the record, then resume the run"
                    .into();
            let (expected, found) = (Some(expected.to_string()), Some(key.to_string()));
            state.stuck.get_or_insert(Report {
                reason,
                position: None,
                expected,
                found,
                line: None,
            });
        }
        key
    }

    /// The next key of this name, without using it, and how often the run has begun anew.
    pub(super) fn place_of(&self, kind: &'static str, name: &str) -> (String, u32) {
        let state = self.state();
        let scope = state.scope.clone();
        let before = state.counts.get(&(scope.clone(), kind, name.to_owned()));
        let count = before.copied().unwrap_or(0) + 1;
        let key = Key { scope, kind: kind.into(), name: name.into(), count };
        (key.to_string(), state.journal.generation)
    }

    pub(super) fn known(&self, key: &Key) -> Option<Known> {
        self.state().journal.known.get(key).cloned()
    }

    pub(super) fn known_value(&self, key: &Key) -> Option<Value> {
        match self.known(key) {
            Some(Known::Value(value)) => Some(value),
            Some(Known::Failed(_) | Known::Timer(_)) | None => None,
        }
    }

    /// Has an entry recorded, and waits until it is durable.
    pub(super) async fn record(&self, entry: Entry) {
        let number = self.state().give(entry);
        poll_fn(|_| {
            let is_durable = number <= self.state().durable;
            if is_durable { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Ready when it is time; otherwise the run waits for it.
    pub(super) fn wait_until(&self, key: &Key, due_at: Timestamp) -> Poll<()> {
        if due_at <= self.0.around.clock.now() {
            return Poll::Ready(());
        }
        self.state().waits.push(Wait { key: key.clone(), until: Some(due_at.0) });
        Poll::Pending
    }

    pub(super) fn set_in_step(&self, in_step: bool) {
        self.state().in_step = in_step;
    }
}

impl State {
    /// Has an entry recorded; it is durable when so many are.
    fn give(&mut self, entry: Entry) -> u64 {
        self.new.push(entry);
        self.given += 1;
        self.given
    }

    /// What the record has and the code has not asked for, outside of all branches.
    pub(super) fn unasked(&self) -> Option<&Key> {
        let asked = self.asked.get("").copied().unwrap_or(0);
        self.journal.order.get("")?.get(asked)
    }
}

pub(super) fn decode<T: Body>(key: &Key, value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| {
        Error::terminal(format!("what is recorded of {key} cannot be read: {error}"))
            .with_code("unreadable_record")
    })
}

fn uuid(high: u64, low: u64) -> String {
    let high = (high & !0xf000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
