//! Queues: a message is delivered until it is settled.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Batch, BatchConsumer, Consumer, Delivery, Error, Queue, QueueSettings, Result, Settled,
    SettledBatch,
    queue::{PeekState, Redrive},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Mail {
    to: String,
}

const MAIL: Queue<Mail> = Queue::named("mail");
const DEAD: Queue<Mail> = Queue::named("mail-dead");

fn mail(to: &str) -> Mail {
    Mail { to: to.into() }
}

/// Records its messages, and does what the name says.
#[derive(Clone, Default)]
struct Post {
    seen: Arc<Mutex<Vec<(String, u32)>>>,
}

impl Post {
    fn seen(&self) -> Vec<(String, u32)> {
        self.seen.lock().unwrap().clone()
    }

    fn attempts(&self) -> HashMap<String, u32> {
        let mut counts = HashMap::new();
        self.seen().into_iter().for_each(|(to, _)| *counts.entry(to).or_default() += 1);
        counts
    }
}

impl Consumer for Post {
    type Message = Mail;

    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        let to = delivery.message.to.clone();
        self.seen.lock().unwrap().push((to.clone(), delivery.attempt()));
        match to.as_str() {
            "fails" => Err(Error::retryable("no such street")),
            "terminal" => Err(Error::terminal("no such town")),
            "panics" => panic!("a bug"),
            "later" if delivery.attempt() < 3 => Ok(delivery.retry_after(Duration::from_secs(60))),
            "buried" => Ok(delivery.bury("dead on arrival")),
            _ => Ok(delivery.done()),
        }
    }
}

#[tokio::test]
async fn a_sent_message_is_consumed_once() {
    let post = Post::default();
    let app = App::new("test").consume(MAIL, post.clone()).test().await.unwrap();
    for name in ["a", "b", "c"] {
        app.queues().send(MAIL, &mail(name)).await.unwrap();
    }
    app.queues().send_all(MAIL, &[mail("d"), mail("e")]).await.unwrap();
    app.settle().await;
    let mut seen = post.seen();
    seen.sort();
    assert_eq!(seen, ["a", "b", "c", "d", "e"].map(|it| (it.to_owned(), 1)));
    let view = app.queues().show("mail").await.unwrap();
    assert_eq!((view.ready, view.dead, view.running), (0, 0, 0));
}

#[tokio::test]
async fn a_delayed_message_is_delivered_at_its_time() {
    let post = Post::default();
    let app = App::new("test").consume(MAIL, post.clone()).test().await.unwrap();
    app.queues().send_after(MAIL, &mail("a"), Duration::from_secs(3_600)).await.unwrap();
    app.advance(Duration::from_secs(3_599)).await;
    assert_eq!(post.seen(), []);
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(post.seen().len(), 1);
}

#[tokio::test]
async fn a_failing_message_is_retried_and_then_moves_to_the_dead_letters() {
    let post = Post::default();
    let builder = App::new("test").queue(MAIL.dead_letters(DEAD)).consume(MAIL, post.clone());
    let app = builder.test().await.unwrap();
    let mut ids = Vec::new();
    for name in ["fails", "terminal", "panics", "later", "buried"] {
        ids.push(app.queues().send(MAIL, &mail(name)).await.unwrap());
    }
    let sent_at = app.now();
    app.advance(Duration::from_secs(3_600)).await;
    let expected = [("fails", 4), ("terminal", 1), ("panics", 4), ("later", 3), ("buried", 1)];
    let expected: HashMap<String, u32> =
        expected.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    assert_eq!(post.attempts(), expected);
    let dead = app.queues().peek("mail-dead", PeekState::Pending, None, 10).await.unwrap();
    let mut told: Vec<_> = dead
        .iter()
        .map(|it| {
            let error = it.last_error.clone().unwrap();
            assert_eq!((it.enqueued_at, it.from.as_deref()), (sent_at, Some("mail")));
            (it.id, it.attempts_before, error)
        })
        .collect();
    told.sort();
    let expected = [
        (ids[0], 4, "no such street (failed)".to_owned()),
        (ids[1], 1, "no such town (failed, terminal)".to_owned()),
        (ids[2], 4, "the consumer panicked: a bug".to_owned()),
        (ids[4], 1, "dead on arrival".to_owned()),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn without_dead_letters_a_message_stays_dead_in_place_and_can_be_redriven() {
    let post = Post::default();
    let app =
        App::new("test").queue(MAIL.retries(0)).consume(MAIL, post.clone()).test().await.unwrap();
    app.queues().send(MAIL, &mail("fails")).await.unwrap();
    app.settle().await;
    let view = app.queues().show("mail").await.unwrap();
    assert_eq!((view.depth, view.dead), (0, 1));
    let dry = Redrive { dry_run: true, ..Redrive::default() };
    assert_eq!(app.queues().redrive("mail", &dry).await.unwrap().matched, 1);
    assert_eq!(app.queues().redrive("mail", &Redrive::default()).await.unwrap().moved, 1);
    app.settle().await;
    assert_eq!(post.attempts()["fails"], 2);
    assert_eq!(app.queues().show("mail").await.unwrap().dead, 1);
}

#[derive(Clone, Default)]
struct Sorter {
    sizes: Arc<Mutex<Vec<usize>>>,
}

impl BatchConsumer for Sorter {
    type Message = Mail;

    async fn deliver(&self, mut batch: Batch<Mail>) -> Result<SettledBatch> {
        self.sizes.lock().unwrap().push(batch.len());
        if batch.messages().any(|it| it.to == "bad") {
            while let Some(delivery) = batch.next() {
                let settled = if delivery.message.to == "bad" {
                    delivery.bury("bad")
                } else {
                    delivery.done()
                };
                batch.settle(settled);
            }
        }
        Ok(batch.done())
    }
}

#[tokio::test]
async fn batches_come_by_size_and_by_time() {
    let sorter = Sorter::default();
    let settings =
        QueueSettings { batch_size: 4, batch_timeout_ms: 5_000, ..QueueSettings::default() };
    let app = App::new("test")
        .queue(MAIL.with(settings))
        .consume_batches(MAIL, sorter.clone())
        .test()
        .await
        .unwrap();
    let mails: Vec<Mail> = ["a", "b", "bad", "d", "e"].map(mail).into();
    app.queues().send_all(MAIL, &mails).await.unwrap();
    app.settle().await;
    assert_eq!(*sorter.sizes.lock().unwrap(), [4]);
    app.advance(Duration::from_millis(4_999)).await;
    assert_eq!(*sorter.sizes.lock().unwrap(), [4]);
    app.advance(Duration::from_millis(1)).await;
    assert_eq!(*sorter.sizes.lock().unwrap(), [4, 1]);
    assert_eq!(app.queues().show("mail").await.unwrap().dead, 1);
}

#[tokio::test]
async fn a_pulled_message_is_done_when_acknowledged_and_redelivered_when_not() {
    let app = App::new("test").queue(MAIL).test().await.unwrap();
    app.queues().send_all(MAIL, &[mail("a"), mail("b")]).await.unwrap();
    let lease = Duration::from_secs(30);
    let pulled = app.queues().pull("mail", 10, lease).await.unwrap();
    assert_eq!(pulled.len(), 2);
    assert!(app.queues().pull("mail", 10, lease).await.unwrap().is_empty());
    let acked = app.queues().ack("mail", &[pulled[0].lease], &[]).await.unwrap();
    assert_eq!((acked.acked, acked.lost.len()), (1, 0));
    app.advance(lease).await;
    let again = app.queues().pull("mail", 10, lease).await.unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!(
        (again[0].queued.message.position, again[0].attempt),
        (pulled[1].queued.message.position, 2)
    );
    let late = app.queues().ack("mail", &[pulled[1].lease], &[]).await.unwrap();
    assert_eq!(late.lost, [pulled[1].lease]);
    app.advance(lease).await;
    let late = app.queues().ack("mail", &[again[0].lease], &[]).await.unwrap();
    assert_eq!(late.acked, 1, "no other consumer has got it");
}
