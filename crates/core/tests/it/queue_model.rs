//! Random operations on queues, with crashes in between, against a small model: every message is
//! always in exactly one place, and nothing is done twice without a reason.

mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_core::{
    App, Consumer, Delivery, Error, Queue, QueueError, Result, Runtime, Settled,
    queue::LeaseId,
    store::{
        Clock, DueCursor, EntityKind, Entropy, ManualClock, MemoryStore, Moment, Position,
        QueuedMessage, SeededEntropy, SettledAs, State, Store, Timestamp,
    },
};

use crate::{
    lab::{Lab, START, address_of},
    play::Pace,
};

/// Consumed in the process, pulled from outside, and the dead letters of both.
const INSIDE: Queue<u64> = Queue::named("inside");
const OUTSIDE: Queue<u64> = Queue::named("outside");
const DEAD: Queue<u64> = Queue::named("dead");
const ALL: [&str; 3] = ["inside", "outside", "dead"];
const RETRIES: u32 = 2;
const LEASE: Duration = Duration::from_secs(30);

/// Does what the number says, and records which it settled as done.
#[derive(Clone, Default)]
struct Fate(Arc<Mutex<BTreeMap<Position, u32>>>);

impl Consumer for Fate {
    type Message = u64;

    async fn deliver(&self, delivery: Delivery<u64>) -> Result<Settled> {
        match delivery.message % 6 {
            0 => Err(Error::retryable("never")),
            1 => Ok(delivery.bury("buried")),
            2 if delivery.attempt() <= RETRIES => Err(Error::retryable("not yet")),
            3 if delivery.attempt() == 1 => panic!("not yet"),
            4 if delivery.attempt() == 1 => Ok(delivery.retry_after(Duration::ZERO)),
            _ => {
                let position = delivery.id().parse().unwrap();
                *self.0.lock().unwrap().entry(position).or_default() += 1;
                Ok(delivery.done())
            }
        }
    }
}

/// The place of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// In a queue: due then, after this many attempts, under a lease or not.
    In {
        queue: &'static str,
        due_at: Timestamp,
        tries: u32,
        lease: Option<LeaseId>,
    },
    Done,
    Cancelled,
    /// It was in flight in the process, or in a crashed one: the store determines its place.
    Unknown,
}

struct World {
    app: Option<Runtime>,
    store: Arc<dyn Store>,
    /// The same, if it can crash.
    memory: Option<Arc<MemoryStore>>,
    clock: ManualClock,
    chance: SeededEntropy,
    fate: Fate,
    sent: u64,
    places: BTreeMap<Position, Place>,
    leases: Vec<(LeaseId, Position)>,
    paused: bool,
    /// The number of crashes.
    ends: u32,
}

async fn start(store: Arc<dyn Store>, fate: &Fate) -> Runtime {
    App::new("test")
        .entropy(SeededEntropy::new(1))
        .queue(INSIDE.retries(RETRIES).dead_letters(DEAD))
        .queue(OUTSIDE.retries(RETRIES).dead_letters(DEAD))
        .queue(DEAD)
        .consume(INSIDE, fate.clone())
        .start(store)
        .await
        .unwrap()
}

impl World {
    async fn new(
        store: Arc<dyn Store>,
        memory: Option<Arc<MemoryStore>>,
        clock: ManualClock,
        seed: u64,
    ) -> Self {
        let fate = Fate::default();
        let app = Some(start(store.clone(), &fate).await);
        let chance = SeededEntropy::new(seed);
        let (sent, places, leases) = (0, BTreeMap::new(), Vec::new());
        let (paused, ends) = (false, 0);
        Self { app, store, memory, clock, chance, fate, sent, places, leases, paused, ends }
    }

    fn app(&self) -> &Runtime {
        self.app.as_ref().unwrap()
    }

    fn below(&self, limit: u64) -> u64 {
        self.chance.next() % limit
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn letters(&self, queue: &str) -> Result<Vec<QueuedMessage>, QueueError> {
        let id = address_of(EntityKind::Queue, queue, "0").id();
        Ok(self.store.queue_messages(id, DueCursor::START, Timestamp::MAX, 10_000).await?)
    }

    /// The messages of a queue that are not in flight, according to the model.
    fn free(&self, of: &str) -> BTreeSet<Position> {
        let now = self.now();
        let is_free = |it: &Place| match it {
            Place::In { queue, due_at, lease, .. } => {
                *queue == of && (lease.is_none() || *due_at <= now)
            }
            Place::Done | Place::Cancelled | Place::Unknown => false,
        };
        self.places.iter().filter(|it| is_free(it.1)).map(|it| *it.0).collect()
    }

    fn has_crashed(&self) -> bool {
        self.memory.as_ref().is_some_and(|it| it.has_crashed())
    }

    async fn begin(&mut self) {
        self.app = Some(start(self.store.clone(), &self.fate).await);
    }

    /// The next process; the model is updated from the store.
    async fn recover(&mut self) {
        tokio::spawn(self.app.take().unwrap().stop());
        let next = Arc::new(self.memory.take().unwrap().restart());
        self.store = next.clone();
        self.memory = Some(next);
        self.ends += 1;
        self.begin().await;
        self.learn().await;
    }

    /// Operations in progress at a crash may have happened or not: the store determines it.
    /// Answered operations have happened.
    async fn learn(&mut self) {
        let mut found = BTreeMap::new();
        for queue in ["outside", "dead"] {
            for it in self.letters(queue).await.unwrap() {
                let position = it.message.position;
                let lease = match it.message.state {
                    Some(State::InFlight { lease, .. }) => {
                        Some(format!("{position}-{:016x}", lease.number).parse().unwrap())
                    }
                    _ => None,
                };
                let (due_at, tries) = (it.due_at(), it.tries());
                let is_outside = it.message.message_type == "outside";
                let place = Place::In { queue, due_at, tries, lease };
                found.insert(position, if is_outside { place } else { Place::Unknown });
            }
        }
        for (position, place) in &mut self.places {
            if matches!(place, Place::In { .. }) && !found.contains_key(position) {
                *place = Place::Unknown;
            }
        }
        for (position, place) in found {
            let before = self.places.insert(position, place);
            let is_over = matches!(before, Some(Place::Done | Place::Cancelled));
            assert!(!is_over, "{position} came back: {before:?}, {place:?}");
        }
    }

    /// Waits until the consumer in the process has no work; `false` if the process crashed.
    async fn quiet(&self) -> bool {
        let mut pace = Pace::new();
        loop {
            match self.app().queues().show("inside").await {
                Ok(it) if (it.paused || it.ready == 0) && it.running == 0 => {
                    return !self.has_crashed();
                }
                Err(_) if self.has_crashed() => return false,
                _ => pace.wait("the consumer rests").await,
            }
        }
    }

    /// Everything is in one place, and the views agree.
    async fn check(&self) -> Result<(), QueueError> {
        let now = self.now();
        let mut seen = BTreeMap::new();
        for queue in ALL {
            let view = self.app().queues().show(queue).await?;
            let letters = self.letters(queue).await?;
            let count =
                |is: &dyn Fn(&QueuedMessage) -> bool| letters.iter().filter(|it| is(it)).count();
            let held =
                |it: &QueuedMessage| matches!(it.message.state, Some(State::InFlight { .. }));
            let figures = [
                count(&|it| it.due_at() <= now),
                count(&|it| now < it.due_at() && !held(it)),
                count(&|it| now < it.due_at() && held(it)),
            ];
            assert_eq!([view.ready, view.delayed, view.in_flight], figures.map(|it| it as u64));
            assert_eq!(view.dead, 0);
            let oldest = letters.iter().map(|it| it.message.position).min();
            assert_eq!(view.oldest_age_ms.is_some(), oldest.is_some());
            for it in letters {
                let twice = seen.insert(it.message.position, (queue, it));
                assert!(twice.is_none(), "{twice:?} is in two queues");
            }
        }
        for (position, place) in &self.places {
            let state = self.store.message(*position).await?.and_then(|it| it.state);
            match (&state, seen.get(position)) {
                (Some(State::Settled(it)), None) => match place {
                    Place::Done => assert_eq!(it.as_, SettledAs::Done, "{position}"),
                    Place::Cancelled => assert_eq!(it.as_, SettledAs::Cancelled, "{position}"),
                    Place::Unknown => assert_ne!(it.as_, SettledAs::Dead, "{position}"),
                    Place::In { .. } => panic!("{position} is gone: {place:?}, {it:?}"),
                },
                (Some(State::Pending { .. } | State::InFlight { .. }), Some((queue, it))) => {
                    let found = (*queue, it.due_at(), it.tries());
                    match place {
                        Place::In { queue, due_at, tries, .. } => {
                            assert_eq!(found, (*queue, *due_at, *tries), "{position}");
                        }
                        Place::Unknown => {}
                        Place::Done | Place::Cancelled => panic!("{position} came back: {found:?}"),
                    }
                }
                other => panic!("{position} is lost: {place:?}, {other:?}"),
            }
        }
        Ok(())
    }

    /// A step, and the checks after it.
    async fn go(&mut self) {
        let stepped = self.step().await;
        let mut ended = !self.quiet().await;
        if !ended {
            ended = self.check().await.is_err();
        }
        if ended || self.has_crashed() {
            self.recover().await;
            assert!(self.quiet().await);
            self.check().await.unwrap();
        } else {
            stepped.unwrap();
        }
    }

    /// Time passes, and everything is settled.
    async fn end(&mut self) {
        if let Some(memory) = &self.memory {
            memory.crash_at(usize::MAX, Moment::Before);
        }
        self.app().queues().resume("inside").await.unwrap();
        for _ in 0..40 {
            assert!(self.quiet().await);
            self.clock.advance(LEASE);
        }
        assert!(self.quiet().await);
        self.check().await.unwrap();
        let left = self.letters("inside").await.unwrap();
        assert_eq!(left, [], "no wake-up is pending for them");
        for (position, times) in &*self.fate.0.lock().unwrap() {
            assert!(*times <= 1 + self.ends, "{position} was done {times} times");
        }
        assert_eq!(self.store.violations().await.unwrap(), Vec::<String>::new());
        self.app.take().unwrap().stop().await;
    }
}

/// The seed is in the message of a failure.
async fn play(mut world: World, seed: u64, steps: usize) {
    let played = tokio::spawn(async move {
        for _ in 0..steps {
            world.go().await;
        }
        world.end().await;
    });
    assert!(played.await.is_ok(), "seed {seed}: see above");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_each_message_is_in_one_place_on_memory() {
    let seeds = std::env::var_os("STEADFAST_SOAK").map_or(100, |_| 2_000);
    for seed in 0..seeds {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        play(World::new(store.clone(), Some(store), clock, seed).await, seed, 80).await;
    }
}

async fn on(lab: Lab, seed: u64) {
    play(World::new(lab.store, None, lab.clock, seed).await, seed, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_each_message_is_in_one_place_on_sqlite() {
    for seed in 1_000..1_003 {
        on(Lab::sqlite().await, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_each_message_is_in_one_place_on_postgres() {
    for seed in 2_000..2_002 {
        on(Lab::postgres().await, seed).await;
    }
}
