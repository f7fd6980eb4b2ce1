//! Batches: by size and time, settled one by one or as a whole.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_core::{
    Batch, BatchConsumer, ConsumeOptions, Error, QueueSettings, Result, SettledBatch,
    queue::{Outgoing, PeekState},
    store::{Clock, SettledAs, State, limits::ERROR_BYTES_MAX},
};

use crate::{
    lab::{Lab, START, json},
    play::until,
    post::{DEAD, MAIL, Mail, Office, Post, ids},
};

laws!(
    a_batch_comes_when_it_is_full_or_when_its_time_is_over,
    each_message_of_a_batch_can_end_in_its_own_way,
    messages_settled_before_an_error_stay_settled,
    messages_settled_before_a_panic_stay_settled,
    messages_settled_before_the_timeout_stay_settled,
    a_terminal_error_buries_the_remaining_messages,
    the_remaining_messages_can_be_buried_or_retried_later,
    an_unreadable_message_does_not_affect_the_others_of_its_batch,
    a_message_that_is_tried_again_comes_with_others,
    a_full_batch_whose_errors_are_larger_than_a_commit_is_counted_and_given_up,
    dead_letters_whose_errors_are_larger_than_a_commit_move_to_their_queue,
);

/// 1,000 texts of 40,000 times this are larger than a commit.
const LONG: &str = "x";

/// Records its batches, and does with each message what its first word says.
#[derive(Clone)]
pub(crate) struct Sorter {
    batches: Arc<Mutex<Vec<Vec<String>>>>,
    post: Post,
}

impl Sorter {
    pub(crate) fn by(post: &Post) -> Self {
        Self { batches: Arc::default(), post: post.clone() }
    }

    fn batches(&self) -> Vec<Vec<String>> {
        self.batches.lock().unwrap().clone()
    }

    fn sizes(&self) -> Vec<usize> {
        self.batches().iter().map(Vec::len).collect()
    }
}

impl BatchConsumer for Sorter {
    type Message = Mail;

    async fn deliver(&self, mut batch: Batch<Mail>) -> Result<SettledBatch> {
        let names: Vec<String> = batch.messages().map(|it| it.to.clone()).collect();
        self.batches.lock().unwrap().push(names.clone());
        while let Some(delivery) = batch.next() {
            let to = delivery.message.to.clone();
            self.post.note(&to, &delivery);
            match to.split(' ').next().unwrap_or_default() {
                "done" => batch.settle(delivery.done()),
                "bury" => batch.settle(delivery.bury("by itself")),
                "later" => batch.settle(delivery.retry_after(Duration::from_mins(1))),
                "error" => return Err(Error::retryable("half way")),
                "terminal" => return Err(Error::terminal("no more")),
                "panic" => panic!("half way"),
                "long" => batch.settle(delivery.bury(LONG.repeat(40_000))),
                "long-rest" => return Err(Error::retryable(LONG.repeat(40_000))),
                "hang" => std::future::pending().await,
                // Taken out and not settled: it belongs to the remaining messages.
                _ => {}
            }
        }
        Ok(match names.first().map(String::as_str) {
            Some("all buried") => batch.bury("all of it"),
            Some("all put off") => batch.retry_after(Duration::from_mins(2)),
            _ => batch.done(),
        })
    }
}

async fn open(lab: Lab, size: usize) -> (Office, Sorter) {
    open_with(lab, size, None).await
}

async fn open_with(lab: Lab, size: usize, dead: Option<&str>) -> (Office, Sorter) {
    let settings = QueueSettings {
        dead_letter_queue: dead.map(str::to_owned),
        batch_size: size,
        batch_timeout_ms: 5_000,
        max_retries: 1,
        ..QueueSettings::default()
    };
    let sorter = Sorter::by(&Post::by(&lab.clock));
    let consumer = sorter.clone();
    let options = ConsumeOptions { concurrency: 1, timeout: Duration::from_secs(30) };
    let office = Office::open(lab, |it, _| {
        let it = it.queue(MAIL.with(settings)).queue(DEAD);
        it.consume_batches_with(MAIL, consumer, options)
    })
    .await;
    (office, sorter)
}

/// The state of each: done, dead, or the number of its attempts.
async fn states(office: &Office, all: &[i64]) -> Vec<String> {
    let mut states = Vec::new();
    for position in all {
        states.push(match office.state(*position).await {
            State::Settled(it) if it.as_ == SettledAs::Done => "done".to_owned(),
            State::Settled(it) => it.error.unwrap_or_default(),
            State::Pending { attempts, .. } => format!("failed {attempts}"),
            State::InFlight { .. } => "in flight".to_owned(),
        });
    }
    states
}

async fn a_batch_comes_when_it_is_full_or_when_its_time_is_over(lab: Lab) {
    let (office, sorter) = open(lab, 4).await;
    office.send_all(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]).await;
    until("two are full", async || sorter.sizes() == [4, 4]).await;
    until("the two are done", async || office.depth("mail").await == [2, 0, 0, 0]).await;
    // The remaining message waits for a full batch. Its time begins when the consumer is free.
    let free = office.lab.clock.now();
    until("the rest came", async || {
        office.lab.clock.advance(Duration::from_millis(10));
        sorter.sizes() == [4, 4, 2]
    })
    .await;
    let waited = office.lab.clock.now().since(free);
    assert!(Duration::from_secs(5) <= waited, "{waited:?}");
    office.quiet().await;
    let all: Vec<String> = sorter.batches().concat();
    assert_eq!(all.concat(), "abcdefghij", "in the order in which they were sent");
    office.close().await;
}

async fn each_message_of_a_batch_can_end_in_its_own_way(lab: Lab) {
    let (office, sorter) = open(lab, 4).await;
    let sent = office.send_all(&["done", "bury", "later", "rest"]).await;
    until("all ended", async || office.depth("mail").await == [0, 1, 0, 1]).await;
    assert_eq!(states(&office, &sent).await, ["done", "by itself", "failed 1", "done"]);
    office.quiet().await;
    let waits = office.peek("mail", PeekState::Pending).await;
    assert_eq!(waits[0].due_at, Some(START.after(Duration::from_mins(1))));
    assert_eq!(sorter.sizes(), [4]);
    office.close().await;
}

async fn messages_settled_before_an_error_stay_settled(lab: Lab) {
    let (office, sorter) = open(lab, 5).await;
    let sent = office.send_all(&["done", "bury", "rest", "error", "done too"]).await;
    until("all ended", async || office.depth("mail").await == [0, 3, 0, 1]).await;
    let expected = ["done", "by itself", "failed 1", "failed 1", "failed 1"];
    assert_eq!(states(&office, &sent).await, expected);
    assert_eq!(office.errors(sent[4]).await, ["half way (failed)"]);
    assert_eq!(sorter.sizes(), [5]);
    office.close().await;
}

async fn messages_settled_before_a_panic_stay_settled(lab: Lab) {
    let (office, _) = open(lab, 3).await;
    let sent = office.send_all(&["done", "panic", "rest"]).await;
    until("all ended", async || office.depth("mail").await == [0, 2, 0, 0]).await;
    assert_eq!(states(&office, &sent).await, ["done", "failed 1", "failed 1"]);
    assert_eq!(office.errors(sent[2]).await, ["the consumer panicked: half way"]);
    office.close().await;
}

async fn messages_settled_before_the_timeout_stay_settled(lab: Lab) {
    let (office, sorter) = open(lab, 3).await;
    let sent = office.send_all(&["done", "hang", "rest"]).await;
    until("it hangs", async || sorter.post.got().len() == 2).await;
    office.lab.clock.advance(Duration::from_secs(30));
    until("all ended", async || office.depth("mail").await == [0, 2, 0, 0]).await;
    assert_eq!(states(&office, &sent).await, ["done", "failed 1", "failed 1"]);
    assert_eq!(office.errors(sent[2]).await, ["no answer within 30 s"]);
    office.close().await;
}

async fn a_terminal_error_buries_the_remaining_messages(lab: Lab) {
    let (office, _) = open(lab, 3).await;
    let sent = office.send_all(&["done", "terminal", "rest"]).await;
    until("all ended", async || office.depth("mail").await == [0, 0, 0, 2]).await;
    let error = "no more (failed, terminal)";
    assert_eq!(states(&office, &sent).await, ["done", error, error]);
    office.close().await;
}

async fn the_remaining_messages_can_be_buried_or_retried_later(lab: Lab) {
    let (office, _) = open(lab, 2).await;
    let buried = office.send_all(&["all buried", "done"]).await;
    until("they ended", async || office.depth("mail").await == [0, 0, 0, 1]).await;
    assert_eq!(states(&office, &buried).await, ["all of it", "done"]);
    office.send_all(&["all put off", "done"]).await;
    until("they ended", async || office.depth("mail").await == [0, 1, 0, 1]).await;
    office.quiet().await;
    let waits = office.peek("mail", PeekState::Pending).await;
    assert_eq!(waits[0].due_at, Some(START.after(Duration::from_mins(2))));
    office.close().await;
}

async fn an_unreadable_message_does_not_affect_the_others_of_its_batch(lab: Lab) {
    let (office, sorter) = open(lab, 3).await;
    let outgoing = |body| Outgoing { body: json(body), delay: Duration::ZERO };
    let all = [r#"{"to":"a"}"#, "7", r#"{"to":"b"}"#].map(outgoing).to_vec();
    let sent = office.app.queues().send_json("mail", all, None).await.unwrap();
    until("all ended", async || office.depth("mail").await == [0, 0, 0, 1]).await;
    assert_eq!(ids(&office.peek("mail", PeekState::Dead).await), sent[1..2]);
    assert_eq!(sorter.batches(), [["a", "b"]]);
    office.close().await;
}

async fn a_message_that_is_tried_again_comes_with_others(lab: Lab) {
    let (office, sorter) = open(lab, 2).await;
    office.send_all(&["later", "a"]).await;
    until("they ended", async || office.depth("mail").await == [0, 1, 0, 0]).await;
    office.quiet().await;
    office.lab.clock.advance(Duration::from_mins(1));
    office.send_all(&["b"]).await;
    until("both came", async || sorter.batches().len() == 2).await;
    office.quiet().await;
    assert_eq!(sorter.batches()[1], ["later", "b"]);
    let attempts = sorter.post.attempts();
    assert_eq!((&attempts["later"][..], &attempts["b"][..]), (&[1, 2][..], &[1][..]));
    assert_eq!(office.lab.clock.now(), START.after(Duration::from_mins(1)));
    office.close().await;
}

async fn a_full_batch_whose_errors_are_larger_than_a_commit_is_counted_and_given_up(lab: Lab) {
    let (office, sorter) = open(lab, 1_000).await;
    let buried = office.send_all(&["long"; 1_000]).await;
    until("they are dead", async || office.depth("mail").await == [0, 0, 0, 1_000]).await;
    let failed = office.send_all(&["long-rest"; 1_000]).await;
    until("they are counted", async || office.depth("mail").await == [0, 1_000, 0, 1_000]).await;
    office.quiet().await;
    office.lab.clock.advance(Duration::from_mins(1));
    until("they are given up", async || office.depth("mail").await == [0, 0, 0, 2_000]).await;
    assert_eq!(sorter.sizes(), [1_000; 3]);
    let errors = states(&office, &[buried[999], failed[999]]).await;
    assert_eq!(errors, [LONG.repeat(ERROR_BYTES_MAX), LONG.repeat(ERROR_BYTES_MAX)]);
    office.close().await;
}

async fn dead_letters_whose_errors_are_larger_than_a_commit_move_to_their_queue(lab: Lab) {
    let (office, sorter) = open_with(lab, 1_000, Some("mail-dead")).await;
    office.send_all(&["long"; 1_000]).await;
    until("they have moved", async || office.depth("mail-dead").await == [1_000, 0, 0, 0]).await;
    assert_eq!(sorter.sizes(), [1_000]);
    let moved = office.peek("mail-dead", PeekState::Pending).await;
    assert_eq!(moved[0].last_error, Some(LONG.repeat(ERROR_BYTES_MAX)));
    office.close().await;
}
