//! A consumer to experiment on, and a program that serves it on any store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Consumer, Delivery, Error, Queue, Result, Runtime, Settled,
    queue::{PeekState, QueueMessageView},
    store::{Clock, ManualClock, Position, SeededEntropy, State, Timestamp, queue_address},
};

use crate::{
    lab::Lab,
    play::{Stage, until},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) to: String,
}

pub(crate) const MAIL: Queue<Mail> = Queue::named("mail");
pub(crate) const DEAD: Queue<Mail> = Queue::named("mail-dead");
pub(crate) const OTHER: Queue<Mail> = Queue::named("other");

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_hours(1);

pub(crate) fn mail(to: &str) -> Mail {
    Mail { to: to.into() }
}

/// A delivery, as the consumer saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Got {
    pub(crate) to: String,
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) at: Timestamp,
    pub(crate) sent_at: Timestamp,
    pub(crate) queue: String,
}

/// Records its messages, and does what the first word says.
#[derive(Clone)]
pub(crate) struct Post {
    got: Arc<Mutex<Vec<Got>>>,
    pub(crate) stage: Stage,
    clock: ManualClock,
}

impl Post {
    pub(crate) fn by(clock: &ManualClock) -> Self {
        Self { got: Arc::default(), stage: Stage::default(), clock: clock.clone() }
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    pub(crate) fn note<T>(&self, to: &str, delivery: &Delivery<T>) {
        let (id, attempt) = (delivery.id(), delivery.attempt());
        let (to, queue) = (to.to_owned(), delivery.queue().to_owned());
        let (at, sent_at) = (self.clock.now(), delivery.enqueued_at());
        self.got.lock().unwrap().push(Got { to, id, attempt, at, sent_at, queue });
    }

    /// Addressees in the order of their deliveries.
    pub(crate) fn names(&self) -> Vec<String> {
        self.got().into_iter().map(|it| it.to).collect()
    }

    /// The attempts at each, in order.
    pub(crate) fn attempts(&self) -> BTreeMap<String, Vec<u32>> {
        let mut attempts: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        self.got().into_iter().for_each(|it| attempts.entry(it.to).or_default().push(it.attempt));
        attempts
    }

    /// The times at which one was delivered.
    pub(crate) fn times(&self, to: &str) -> Vec<Timestamp> {
        self.got().into_iter().filter(|it| it.to == to).map(|it| it.at).collect()
    }
}

impl Consumer for Post {
    type Message = Mail;

    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        let to = delivery.message.to.clone();
        self.note(&to, &delivery);
        match to.split(' ').next().unwrap_or_default() {
            "fails" => Err(Error::retryable(format!("failure {}", delivery.attempt()))),
            "twice" if delivery.attempt() < 3 => Err(Error::retryable("not yet")),
            "terminal" => Err(Error::terminal("no such town")),
            "panics" => panic!("a bug"),
            "hangs" => std::future::pending().await,
            "waits" => {
                self.stage.pass("door").await;
                Ok(delivery.done())
            }
            "later" if delivery.attempt() < 3 => Ok(delivery.retry_after(Duration::from_secs(60))),
            "buried" => Ok(delivery.bury("dead on arrival")),
            _ => Ok(delivery.done()),
        }
    }
}

/// A program with queues.
pub(crate) struct Office {
    pub(crate) app: Runtime,
    pub(crate) lab: Lab,
    pub(crate) post: Post,
}

impl Office {
    pub(crate) async fn open(lab: Lab, add: impl FnOnce(App, Post) -> App) -> Self {
        let post = Post::by(&lab.clock);
        Self::with(lab, post, add).await
    }

    async fn with(lab: Lab, post: Post, add: impl FnOnce(App, Post) -> App) -> Self {
        let builder = App::new("test").entropy(SeededEntropy::new(1));
        let app = add(builder, post.clone()).start(lab.store.clone()).await.unwrap();
        Self { app, lab, post }
    }

    /// The next process.
    pub(crate) async fn again(self, add: impl FnOnce(App, Post) -> App) -> Self {
        let Self { app, mut lab, post } = self;
        app.stop().await;
        lab.reopen().await;
        Self::with(lab, post, add).await
    }

    pub(crate) async fn send(&self, to: &str) -> Position {
        self.app.queues().send(MAIL, &mail(to)).await.unwrap()
    }

    pub(crate) async fn send_all(&self, to: &[&str]) -> Vec<Position> {
        let all: Vec<Mail> = to.iter().map(|it| mail(it)).collect();
        self.app.queues().send_all(MAIL, &all).await.unwrap()
    }

    /// Waits until the consumers have no work.
    pub(crate) async fn quiet(&self) {
        let is_quiet = async || {
            let all = self.app.queues().page(None, 1_000).await.unwrap().queues;
            all.iter().all(|it| {
                let rests = !it.consumed || it.paused || it.ready == 0;
                rests && it.running == 0
            })
        };
        until("it is quiet", is_quiet).await;
    }

    /// Lets time pass. Work that becomes due meanwhile runs at its time.
    pub(crate) async fn pass(&self, time: Duration) {
        let end = self.lab.clock.now().after(time);
        loop {
            self.quiet().await;
            let now = self.lab.clock.now();
            if end <= now {
                return;
            }
            let mut next = end;
            for name in self.app.queues().names_behind(None, 1_000).await.unwrap() {
                let id =
                    crate::lab::address_of(steadfast_core::store::EntityKind::Queue, &name, "0");
                let due = self.lab.store.next_due(id.id(), now).await.unwrap();
                next = due.map_or(next, |it| it.min(next));
            }
            self.lab.clock.advance(next.since(now));
        }
    }

    pub(crate) async fn peek(&self, queue: &str, state: PeekState) -> Vec<QueueMessageView> {
        self.app.queues().peek(queue, state, None, 100).await.unwrap()
    }

    /// Ready, delayed, leased, dead.
    pub(crate) async fn depth(&self, queue: &str) -> [u64; 4] {
        let (id, now) = (queue_address(queue).unwrap().id(), self.lab.clock.now());
        let depth = self.lab.store.queue_depth(id, now).await.unwrap();
        [depth.ready, depth.delayed, depth.leased, depth.dead]
    }

    pub(crate) async fn state(&self, position: Position) -> State {
        self.lab.store.message(position).await.unwrap().unwrap().state.unwrap()
    }

    pub(crate) async fn errors(&self, position: Position) -> Vec<String> {
        let log = self.lab.store.attempts(position).await.unwrap();
        log.into_iter().map(|it| it.error).collect()
    }

    pub(crate) async fn close(self) {
        self.app.stop().await;
        self.lab.assert_sound().await;
    }
}

/// The positions of messages.
pub(crate) fn ids(peeked: &[QueueMessageView]) -> Vec<Position> {
    peeked.iter().map(|it| it.id).collect()
}
