//! Queues under load: letters that are handled one by one and in bundles, immediately or later, at
//! the first attempt, at the second, in the turn of an object, or never.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Batch, BatchConsumer, ConsumeOptions, Consumer, Delivery, Error, Handle, Object, Queue,
    QueueError, QueueSettings, Queues, Result, Runtime, Settled, SettledBatch, Turn,
    queue::Outgoing,
    store::{Address, EntityKind, Json, Store, Timestamp},
};

use crate::{
    COMMITS_MAX,
    fate::{End, Fate, GROUP, POISON, RETRIES, TALLIES},
    say,
};

/// Concurrent senders.
const SENDERS: u64 = 4;

/// Half a minute; letters that are not consumed by then never are.
const LOOKS_MAX: u32 = 6_000;

const LETTERS: Queue<u64> = Queue::named("letters");
const BUNDLES: Queue<u64> = Queue::named("bundles");

pub(crate) struct Tally;

#[derive(Serialize, Deserialize)]
pub(crate) struct Count(u64);

impl Object for Tally {
    const CLASS: &'static str = "tally";
    type Calls = (Count,);
    // No key is unique here: a duplicate must be visible.
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE counted (id INTEGER PRIMARY KEY, number INTEGER NOT NULL) STRICT"];
}

impl Handle<Count> for Tally {
    const NAME: &'static str = "count";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Count(number): Count) -> Result<()> {
        turn.sql().execute("INSERT INTO counted (number) VALUES (?1)", [number])?;
        Ok(())
    }
}

/// Handles a letter according to its number, and prints that before it is durable.
async fn handle(letter: Delivery<u64>) -> Result<Settled> {
    let (number, attempt) = (letter.message, letter.attempt());
    say(&format!("began {number} {} {attempt}", letter.id()));
    if number == POISON {
        std::process::abort();
    }
    match Fate::of(number).end {
        End::Dead if attempt <= RETRIES => Ok(letter.retry_after(Duration::from_millis(1))),
        End::Dead => Err(Error::retryable(format!("no such street: {number}"))),
        End::SecondTime if attempt == 1 => Err(Error::retryable("nobody at home")),
        End::Counted => {
            let tally = Tally::at((number % TALLIES).to_string());
            let settled = letter.settle_with(tally, Count(number)).await?;
            say(&format!("done {number}"));
            Ok(settled)
        }
        End::SecondTime | End::Done => {
            say(&format!("done {number}"));
            Ok(letter.done())
        }
    }
}

struct Postman;

impl Consumer for Postman {
    type Message = u64;
    async fn deliver(&self, letter: Delivery<u64>) -> Result<Settled> {
        handle(letter).await
    }
}

struct Carrier;

impl BatchConsumer for Carrier {
    type Message = u64;
    async fn deliver(&self, mut bundle: Batch<u64>) -> Result<SettledBatch> {
        let mut failed = None;
        // The others are settled together, or fail with the one that fails.
        let plain = |it: &u64| *it != POISON && Fate::of(*it).end == End::Done;
        while !bundle.messages().all(plain)
            && let Some(letter) = bundle.next()
        {
            match handle(letter).await {
                Ok(settled) => bundle.settle(settled),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        bundle.messages().for_each(|it| say(&format!("done {it}")));
        Ok(bundle.done())
    }
}

pub(crate) async fn program(store: Arc<dyn Store>, retries: u32) -> Runtime {
    let settings = |dead: &str| QueueSettings {
        max_retries: retries,
        retry_delay_ms: 1,
        dead_letter_queue: Some(dead.into()),
        batch_size: 5,
        batch_timeout_ms: 3,
        ..QueueSettings::default()
    };
    let options = |concurrency| ConsumeOptions { concurrency, ..ConsumeOptions::default() };
    let builder = App::new("test")
        .object(Tally)
        .queue(LETTERS.with(settings("letters-dead")))
        .queue(BUNDLES.with(settings("bundles-dead")))
        .consume_with(LETTERS, Postman, options(4))
        .consume_batches_with(BUNDLES, Carrier, options(2));
    builder.start(store).await.expect("the program starts")
}

/// Sends new letters from `first` on; a load that is not killed ends by itself.
pub(crate) async fn load(queues: &Queues, first: u64) {
    let senders = (0..SENDERS).map(|sender| {
        let queues = queues.clone();
        tokio::spawn(async move {
            let groups = first / GROUP..(first + COMMITS_MAX) / GROUP;
            for group in groups.filter(|it| it % SENDERS == sender) {
                let numbers: Vec<u64> = (group * GROUP..(group + 1) * GROUP).collect();
                if Fate::of(numbers[0]).together {
                    send(&queues, &numbers).await;
                } else {
                    for number in numbers {
                        send(&queues, &[number]).await;
                    }
                }
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.expect("sender ends");
    }
}

async fn send(queues: &Queues, numbers: &[u64]) {
    numbers.iter().for_each(|it| say(&format!("invoked {it}")));
    let queue = if Fate::of(numbers[0]).queue == LETTERS.name() { LETTERS } else { BUNDLES };
    let outgoing =
        |it: &u64| Outgoing { body: Json::of(it).expect("JSON"), delay: Fate::of(*it).delay };
    let sent = match numbers {
        [one] => queues.send_after(queue, one, Fate::of(*one).delay).await.map(|it| vec![it]),
        many if many.iter().all(|it| Fate::of(*it).delay.is_zero()) => {
            queues.send_all(queue, many).await
        }
        many => queues.send_json(queue.name(), many.iter().map(outgoing).collect(), None).await,
    };
    match sent {
        Ok(ids) => {
            assert_eq!(ids.len(), numbers.len());
            numbers.iter().zip(ids).for_each(|(it, id)| say(&format!("acked {it} {id}")));
        }
        // The store determines whether it happened.
        Err(QueueError::Store(error)) => {
            numbers.iter().for_each(|it| say(&format!("unknown {it} {}", error.code())));
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns when both queues are empty; dead letters have left them.
pub(crate) async fn drained(store: &Arc<dyn Store>) {
    let mut look = tokio::time::interval(Duration::from_millis(5));
    for queue in [LETTERS, BUNDLES] {
        let address = Address::new(EntityKind::Queue, queue.name(), "0").expect("address");
        for looks in 0.. {
            let depth = store.queue_depth(address.id(), Timestamp::MAX).await.expect("an answer");
            if depth.ready == 0 {
                break;
            }
            assert!(looks < LOOKS_MAX, "{} messages of {queue:?} are not consumed", depth.ready);
            look.tick().await;
        }
    }
}
