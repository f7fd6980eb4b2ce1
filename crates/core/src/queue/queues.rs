//! The queues of a program: those that it declares or consumes, and all with messages.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use steadfast_store::{
    Commit, EntityId, EntityKind, Entropy, InvalidInput, OpaqueArc, Store, StoreError, Work, Write,
    futures::FutureExt, queue_address,
};
use tokio::sync::watch;

use super::{
    ConsumeOptions, QueueError, QueueSettings,
    consumer::{Consume, ScriptedConsumer},
    source::ConsumedQueue,
    state::{Consumers, QueueState, Shared},
};
use crate::{
    Client, Objects, RequestKey,
    commit::commit_each,
    dispatch::{
        QueueListener,
        attempt::{self, Ending, Leases},
        engine::Engine,
        suspects::Suspects,
    },
    idempotency::KeyLocks,
    name_map::NameMap,
    script::Script,
};

/// The queue declarations of a program.
#[derive(Default)]
pub(crate) struct QueueDeclarations {
    pub(super) settings: NameMap<QueueSettings>,
    pub(super) consumers: Consumers,
}

/// The queues of a program. Cloning is cheap.
#[derive(Clone)]
pub struct Queues {
    pub(super) shared: OpaqueArc<Shared>,
    pub(super) key: Option<RequestKey>,
}

impl QueueDeclarations {
    pub(crate) fn queue(&mut self, name: &'static str, settings: QueueSettings) {
        self.settings.insert(name, settings);
    }

    /// Deliveries end as scripted.
    pub(crate) fn scripted(mut self, script: &Script) -> Self {
        if script.is_written() {
            for (queue, (consumer, options)) in std::mem::take(&mut self.consumers) {
                let script = script.clone();
                let scripted = Arc::new(ScriptedConsumer { queue, consumer, script });
                self.consumers.insert(queue, (scripted, options));
            }
        }
        self
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.settings.extend(other.settings);
        self.consumers.extend(other.consumers);
    }

    pub(crate) fn consume(
        &mut self,
        name: &'static str,
        consumer: Arc<dyn Consume>,
        options: ConsumeOptions,
    ) {
        self.consumers.insert(name, (consumer, options));
    }

    /// Finds cycles of dead-letter queues.
    pub(crate) fn cycles(&self) -> Vec<String> {
        let after = |name: &str| self.settings.get(name)?.dead_letter_queue.as_deref();
        let comes_back = |name: &str| {
            let path = std::iter::successors(after(name), |it| after(it));
            path.take(self.settings.len()).any(|it| it == name)
        };
        let cycles = self.settings.keys().filter(|it| comes_back(it));
        cycles.map(|it| format!("dead-letter cycle through queue `{it}`")).collect()
    }
}

impl Queues {
    /// The declared queues. Nothing is consumed yet.
    pub(crate) fn new(
        declared: QueueDeclarations,
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
        objects: Objects,
        client: Client,
    ) -> Self {
        let QueueDeclarations { settings, consumers } = declared;
        let shared = OpaqueArc::new(Shared {
            careful_until: store.owner().unclean_until.unwrap_or(0),
            clock: store.clock().clone(),
            store,
            entropy,
            objects,
            client,
            declared: settings,
            consumed: consumers.iter().map(|(name, it)| (*name, it.1)).collect(),
            consumers: Mutex::new(consumers),
            open: Mutex::default(),
            blamed: Mutex::default(),
            suspects: Suspects::default(),
            leases: Leases::default(),
            keyed: KeyLocks::default(),
            configuring: tokio::sync::Mutex::default(),
            stop: watch::channel(false).0,
            tasks: Mutex::default(),
        });
        Self { shared, key: None }
    }

    /// Records the next change under a key: pause, resume, pull, ack, purge, redrive or edit. A
    /// repetition with the same key changes nothing and returns the same answer.
    pub fn keyed(&self, key: impl Into<Option<RequestKey>>) -> Self {
        Self { shared: self.shared.clone(), key: key.into() }
    }

    /// Whether the program declares or consumes a queue.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.shared.declared.contains_key(name) || self.shared.consumed.contains_key(name)
    }

    /// Opens the known queues, takes over the unfinished work of earlier owners, and starts the
    /// consumers.
    pub(crate) async fn begin(&self, grace: Duration) -> Result<(), StoreError> {
        // Listen before the first read, so that no notice is missed.
        self.shared.store.notices().listen();
        self.open_known().await?;
        self.take_over().await?;
        let consumers = std::mem::take(&mut *self.shared.consumers.lock());
        for (name, (consumer, options)) in consumers {
            let queue = self.open(name).await?;
            let waker = queue.waker.clone();
            self.shared.suspects.add_loop(waker.clone());
            let queue = ConsumedQueue::new(self.shared.clone(), queue, consumer, options);
            let engine = Engine::new(queue, self.shared.store.clone(), waker);
            let task = tokio::spawn(engine.run(self.shared.stop.subscribe(), grace).boxed());
            self.shared.tasks.lock().push(task);
        }
        let watch = tokio::spawn(self.clone().watch().boxed());
        self.shared.tasks.lock().push(watch);
        Ok(())
    }

    /// Counts the attempts that ended with their process. Those messages are delivered again, each
    /// without another suspect message in flight, or become dead letters.
    async fn take_over(&self) -> Result<(), StoreError> {
        let (store, entropy) = (&self.shared.store, &*self.shared.entropy);
        loop {
            let orphans = store.orphans(store.owner().epoch, true, 500).await?;
            if orphans.is_empty() {
                return Ok(());
            }
            // No other suspect message was in flight when the process ended.
            let is_alone = orphans.len() == 1 && self.shared.blamed.lock().is_empty();
            let ids: Vec<EntityId> = orphans.iter().map(|it| it.target).collect();
            let names = store.addresses(&ids).await?;
            let mut commits = Vec::new();
            for work in &orphans {
                let Some(queue) = names.get(&work.target) else {
                    let reason = format!("message {} is in an unknown queue", work.position);
                    return Err(StoreError::Corrupt { reason });
                };
                let settings = self.open(queue.class()).await?.rules().settings;
                self.shared.blamed.lock().insert(work.position);
                // Its last attempt, concurrent with others: those may have caused the crash, so it
                // is not given up.
                if let Some((lease, _)) = work.claim
                    && !is_alone
                    && settings.attempts_max() <= work.tries()
                {
                    commits.push(Commit::of(Write::Release { position: work.position, lease }));
                    continue;
                }
                // Most were in flight only by coincidence: retry immediately.
                let ending = Ending::crashed(work, Some(Duration::ZERO));
                commits.extend(attempt::write(&ending, &settings.policy(), entropy).commit);
            }
            commit_each(&**store, &commits).await?;
        }
    }

    async fn open_known(&self) -> Result<(), StoreError> {
        const PART: usize = 1_000;
        let mut last = None;
        loop {
            let names = self.names_behind(last.as_deref(), PART).await?;
            for name in &names {
                self.open(name).await?;
            }
            if names.len() < PART {
                return Ok(());
            }
            last = names.last().cloned();
        }
    }

    /// The names of queues after one, in the order of addresses: `a-b` comes before `a`, because a
    /// slash follows.
    #[steadfast_store::boxed]
    pub async fn names_behind(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let key = |name: &str| format!("{name}/");
        let mut names = self.shared.store.classes(EntityKind::Queue, after, limit).await?;
        let declared = self.shared.declared.keys().chain(self.shared.consumed.keys());
        let behind = declared.filter(|it| after.is_none_or(|at| key(at) < key(it)));
        names.extend(behind.map(|it| (*it).to_owned()));
        names.sort_unstable_by_key(|it| key(it));
        names.dedup();
        names.truncate(limit);
        Ok(names)
    }

    /// A queue, which need not exist yet.
    pub(super) async fn queue(&self, name: &str) -> Result<Arc<QueueState>, QueueError> {
        queue_address(name).map_err(|error| QueueError::name(name, &error))?;
        Ok(self.open(name).await?)
    }

    /// A queue with a valid name.
    pub(super) async fn open(&self, name: &str) -> Result<Arc<QueueState>, StoreError> {
        let id = queue_address(name).map_err(InvalidInput::from)?.id();
        if let Some(queue) = self.shared.open.lock().get(&id) {
            return Ok(queue.clone());
        }
        let declared = self.shared.declared.get(name);
        let leases = self.shared.leases.with_other_numbers();
        let queue = Arc::new(QueueState::open(&*self.shared.store, name, declared, leases).await?);
        // Another task may have opened it meanwhile.
        Ok(self.shared.open.lock().entry(id).or_insert(queue).clone())
    }

    /// A queue that exists.
    pub(super) async fn known(&self, name: &str) -> Result<Arc<QueueState>, QueueError> {
        let queue = self.queue(name).await?;
        let id = queue.address.id();
        if queue.is_recorded()
            || self.declares(name)
            || self.shared.store.addresses(&[id]).await?.contains_key(&id)
        {
            return Ok(queue);
        }
        // Inspecting a queue that does not exist leaves no state behind.
        self.shared.open.lock().remove(&queue.address.id());
        Err(QueueError::UnknownQueue { queue: name.into() })
    }

    pub(super) fn open_queues(&self) -> Vec<Arc<QueueState>> {
        self.shared.open.lock().values().cloned().collect()
    }

    /// Waits until the consumers have no work.
    pub(crate) async fn settled(&self) {
        while !self.is_settled() {
            for queue in self.consumed_queues() {
                queue.waker.settled(&self.shared.clock).await;
            }
        }
    }

    /// Whether the consumers have no work.
    pub(crate) fn is_settled(&self) -> bool {
        let now = self.shared.clock.now();
        self.consumed_queues().iter().all(|it| it.waker.is_settled(now))
    }

    /// The next time at which the consumers have work.
    pub(crate) fn next_wake(&self) -> Option<steadfast_store::Timestamp> {
        self.consumed_queues().iter().filter_map(|it| it.waker.wake_at()).min()
    }

    fn consumed_queues(&self) -> Vec<Arc<QueueState>> {
        let is_consumed = |it: &Arc<QueueState>| self.shared.consumed.contains_key(&it.name);
        self.open_queues().into_iter().filter(is_consumed).collect()
    }

    /// Stops the consumers without waiting.
    pub(crate) fn let_go(&self) {
        self.shared.stop.send_replace(true);
    }

    /// Stops the consumers, and waits for deliveries in flight.
    #[steadfast_store::boxed]
    pub async fn stop(&self) {
        self.shared.stop.send_replace(true);
        let tasks = std::mem::take(&mut *self.shared.tasks.lock());
        for task in tasks {
            // A panic has been reported; there is nothing left to stop.
            let _ = task.await;
        }
    }
}

impl QueueListener for Queues {
    fn on_work(&self, works: &[Work]) {
        // Most commits have messages for one queue.
        for works in works.chunk_by(|one, next| one.target == next.target) {
            let queue = self.shared.open.lock().get(&works[0].target).cloned();
            if let Some(queue) = queue {
                queue.announce(works);
            }
        }
    }

    fn on_lost_notices(&self) {
        for queue in self.open_queues() {
            queue.window().start_over();
            queue.wake();
        }
    }
}
