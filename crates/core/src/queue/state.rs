//! One queue in this process: its settings, its window of messages, and its counters.

use std::{
    collections::{HashMap, HashSet},
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use steadfast_store::{
    Address, Clock, Commit, EntityId, Entropy, Expect, InvalidInput, Json, Message, Outcome,
    Position, QueuedMessage, Rejection, State, Store, StoreClock, StoreError, Timestamp, Version,
    Work, queue_address,
};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    ConsumeOptions, QueueError, QueueSettings,
    consumer::Consume,
    meter::{MessageEvent, Meter, Samples},
    window::QueueWindow,
};
use crate::{
    Client, Objects, RequestKey,
    body::read_stored,
    dispatch::{
        attempt::Leases,
        suspects::{Isolation, Suspects},
        waker::LoopWaker,
        window::End,
    },
    idempotency::KeyLocks,
    name_map::NameMap,
    on_drop::on_drop,
};

/// All queues in this process.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<StoreClock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) objects: Objects,
    pub(super) client: Client,
    pub(super) declared: NameMap<QueueSettings>,
    pub(super) consumed: NameMap<ConsumeOptions>,
    /// Consumers that have not started.
    pub(super) consumers: Mutex<Consumers>,
    pub(super) open: Mutex<HashMap<EntityId, Arc<QueueState>>>,
    /// The last position of a process that ended without a clean shutdown. A message up to here may
    /// have caused that, so its attempts are counted before they begin.
    pub(super) careful_until: Position,
    /// Messages that were in flight when a process crashed.
    pub(super) blamed: Mutex<HashSet<Position>>,
    /// The suspect messages that are in flight.
    pub(super) suspects: Suspects,
    pub(super) leases: Leases,
    /// Held by operations of several commits, by key.
    pub(super) keyed: KeyLocks,
    /// Held while the settings of a queue change.
    pub(super) configuring: tokio::sync::Mutex<()>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    /// The isolation that the delivery of a message needs.
    pub(super) fn isolation(&self, queued: &QueuedMessage, settings: &QueueSettings) -> Isolation {
        let position = queued.message.position;
        if self.blamed.lock().contains(&position) {
            Isolation::Blamed { is_last: settings.attempts_max() <= queued.tries() + 1 }
        } else if position <= self.careful_until
            || matches!(queued.message.state, Some(State::InFlight { .. }))
        {
            Isolation::Counted
        } else {
            Isolation::Plain
        }
    }
}

/// The consumers of queues that are declared.
pub(super) type Consumers = NameMap<(Arc<dyn Consume>, ConsumeOptions)>;

/// The settings of a queue, recorded in a stream of their own each time they change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rules {
    pub(super) settings: QueueSettings,
    pub(super) paused: bool,
}

impl Rules {
    /// The last record, if there is one.
    async fn last(
        store: &dyn Store,
        record: &Address,
    ) -> Result<(Version, Option<Self>), StoreError> {
        let version = store.version(record.id()).await?;
        let last = store.read_stream(record.id(), version, 1).await?.pop();
        Ok((version, last.map(|it| read_stored(it.data.as_str())).transpose()?))
    }
}

pub(super) struct QueueState {
    pub(super) name: Arc<str>,
    /// The target of its messages.
    pub(super) address: Address,
    /// The stream of its settings.
    record: Address,
    rules: Mutex<(Version, Rules)>,
    window: Mutex<QueueWindow>,
    pub(super) leases: Leases,
    clock: Arc<StoreClock>,
    /// Held while due messages are read from the store.
    pub(super) reader: tokio::sync::Mutex<()>,
    pub(super) meter: Meter,
    pub(super) samples: Samples,
    /// The average size of its messages.
    message_bytes: AtomicUsize,
    /// Wakes its loop, if it is consumed here.
    pub(super) waker: Arc<LoopWaker>,
}

impl QueueState {
    /// Opens a queue with its recorded settings, or else with the declared ones.
    pub(super) async fn open(
        store: &dyn Store,
        name: &str,
        declared: Option<&QueueSettings>,
        leases: Leases,
    ) -> Result<Self, StoreError> {
        let address = queue_address(name).map_err(InvalidInput::from)?;
        let record = Address::new(address.kind(), name, "settings").map_err(InvalidInput::from)?;
        let (version, rules) = Rules::last(store, &record).await?;
        let declared = || Rules { settings: declared.cloned().unwrap_or_default(), paused: false };
        let rules = rules.unwrap_or_else(declared);
        Ok(Self {
            name: name.into(),
            address,
            record,
            rules: Mutex::new((version, rules)),
            window: Mutex::default(),
            leases,
            clock: store.clock().clone(),
            reader: tokio::sync::Mutex::default(),
            meter: Meter::default(),
            samples: Samples::default(),
            // Until the average is known, the maximum.
            message_bytes: AtomicUsize::new(128 << 10),
            waker: Arc::default(),
        })
    }

    pub(super) fn rules(&self) -> Rules {
        self.rules.lock().1.clone()
    }

    /// Checks the size of a message, one of several that are sent.
    pub(super) fn check_size(&self, index: usize, body: &Json) -> Result<(), QueueError> {
        let (len, max) = (body.as_str().len(), self.rules().settings.max_message_bytes);
        if len <= max {
            return Ok(());
        }
        Err(QueueError::TooLarge { queue: self.name.to_string(), index, len, max })
    }

    /// Whether an operator has created or changed it.
    pub(super) fn is_recorded(&self) -> bool {
        0 < self.rules.lock().0
    }

    /// Records other settings; `None` leaves them as they are. A key is recorded even then: a
    /// repetition must not change the settings after another operator did.
    pub(super) async fn change(
        &self,
        store: &dyn Store,
        what: &'static str,
        key: Option<&RequestKey>,
        change: impl Fn(&Rules) -> Option<Rules>,
    ) -> Result<(), QueueError> {
        loop {
            let (version, before) = self.rules.lock().clone();
            let rules = change(&before);
            let mut commit = match &rules {
                Some(rules) => {
                    let message = Message::new(what, Json::of(rules)?)?.event().input();
                    Commit::append(&self.record, version, vec![message])
                }
                None if key.is_none() => return Ok(()),
                None => {
                    let stream = self.record.id();
                    Commit::default().expect(Expect::Version { stream, version })
                }
            };
            if let Some(key) = key {
                commit = commit.write(key.write());
            }
            let outcome = store.commit(commit).await;
            if outcome.as_ref().is_err_and(|it| !it.surely_unapplied()) {
                // The change may have been recorded; if the read fails, the next change reads
                // again.
                let _ = self.read_again(store).await;
                self.wake();
            }
            match outcome? {
                Outcome::Committed(_) => {
                    let mut now = self.rules.lock();
                    if let Some(rules) = rules
                        && now.0 <= version
                    {
                        *now = (version + 1, rules);
                    }
                    drop(now);
                    self.wake();
                    return Ok(());
                }
                Outcome::Duplicate(_) => return Ok(()),
                Outcome::Rejected(Rejection::KeyReused { key }) => {
                    return Err(QueueError::KeyReused { key });
                }
                // Another operator changed them: decide again on the new settings.
                Outcome::Rejected(_) => self.read_again(store).await?,
            }
        }
    }

    async fn read_again(&self, store: &dyn Store) -> Result<(), StoreError> {
        let (version, rules) = Rules::last(store, &self.record).await?;
        let mut now = self.rules.lock();
        if let Some(rules) = rules
            && now.0 < version
        {
            *now = (version, rules);
        }
        Ok(())
    }

    pub(super) fn window(&self) -> MutexGuard<'_, QueueWindow> {
        self.window.lock()
    }

    /// Announces written work, in its order. The store does so by its notices.
    pub(super) fn announce(&self, works: &[Work]) {
        let now = self.clock.now();
        let sent = works.iter().filter(|it| it.attempts == 0 && it.claim.is_none()).count();
        self.meter.count(MessageEvent::Sent, sent, now);
        let mut window = self.window();
        works.iter().for_each(|it| window.on_work(it, now));
        drop(window);
        self.wake();
    }

    /// Announces messages that this process has written, with their due times: a consumer that
    /// pulls now finds them before the notice arrives.
    pub(super) fn expect(&self, written: impl IntoIterator<Item = (Position, Timestamp)>) {
        let (mut window, now) = (self.window(), self.clock.now());
        written.into_iter().for_each(|(position, due_at)| window.expect(position, due_at, now));
    }

    /// Reads up to `wanted` due messages, if the window has room; `false` if it has none.
    pub(super) async fn fill(
        &self,
        store: &dyn Store,
        clock: &dyn Clock,
        wanted: usize,
        page: usize,
    ) -> Result<bool, StoreError> {
        let _reader = self.reader.lock().await;
        let now = clock.now();
        let Some(cursor) = self.window().wants_read(wanted, now) else { return Ok(false) };
        // If the read fails or is dropped, it is repeated.
        let guard = on_drop(|| self.window().read_failed());
        let queue = self.address.id();
        let messages = store.queue_messages(queue, cursor, now, page).await?;
        let next = match messages.len() < page {
            true => Some(store.next_due(queue, now).await?.unwrap_or(Timestamp::MAX)),
            false => None,
        };
        let bytes: usize = messages.iter().map(|it| it.message.data.as_str().len()).sum();
        if let Some(each) = bytes.checked_div(messages.len()) {
            self.message_bytes.store(each, Ordering::Relaxed);
        }
        self.window().read(messages, now, next);
        std::mem::forget(guard);
        Ok(true)
    }

    /// The number of messages of a page that fit into the memory for one queue.
    pub(super) fn fitting(&self, page: usize) -> usize {
        const BYTES: usize = 8 << 20;
        page.min((BYTES / self.message_bytes.load(Ordering::Relaxed).max(1)).max(1))
    }

    /// Wakes its loop.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}

/// Messages of a queue that a task delivers or changes. Messages that are not finished when it is
/// dropped are read again.
pub(super) struct HeldMessages<D: Deref<Target = QueueState>> {
    queue: D,
    positions: Vec<Position>,
}

impl<D: Deref<Target = QueueState>> HeldMessages<D> {
    pub(super) fn new(queue: D, positions: Vec<Position>) -> Self {
        Self { queue, positions }
    }

    /// Takes a message that is not in flight; `false` if it is.
    pub(super) fn hold(&mut self, queued: &QueuedMessage) -> bool {
        let is_held = self.queue.window().hold(queued);
        if is_held {
            self.positions.push(queued.message.position);
        }
        is_held
    }

    /// Finishes one. A message of another holder is not changed.
    pub(super) fn finish(&mut self, position: Position, end: End) {
        if let Some(at) = self.positions.iter().position(|it| *it == position) {
            self.positions.swap_remove(at);
            self.queue.window().finish(position, end, self.queue.clock.now());
        }
    }
}

impl<D: Deref<Target = QueueState>> Drop for HeldMessages<D> {
    fn drop(&mut self) {
        if self.positions.is_empty() {
            return;
        }
        let now = self.queue.clock.now();
        let mut window = self.queue.window();
        self.positions.iter().for_each(|it| window.finish(*it, End::Unknown, now));
        drop(window);
        self.queue.wake();
    }
}
