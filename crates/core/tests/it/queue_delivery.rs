//! The guarantees for the consumer of a queue, on every store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use steadfast_core::{
    App, ConsumeOptions, QueueSettings,
    queue::{Outgoing, PeekState},
    store::{
        Clock, ManualClock, MemoryStore, Position, SettledAs, Sleep, State, TimeLeft, Timestamp,
    },
};

use crate::{
    lab::{Lab, START, json},
    play::until,
    post::{DEAD, HOUR, MAIL, OTHER, Office, Post, SECOND, ids, mail},
};

laws!(
    each_message_is_delivered_once_when_nothing_fails,
    a_message_is_tried_as_often_as_its_queue_says_and_then_is_in_the_dead_letters_as_it_was,
    delays_between_attempts_double_and_half_of_them_is_random,
    a_retry_with_a_delay_is_delivered_after_it,
    an_error_a_panic_and_silence_are_a_retry,
    a_terminal_error_or_an_unreadable_message_is_buried_immediately,
    without_dead_letters_a_message_is_dead_in_place_and_kept,
    dead_letters_can_be_consumed_and_die_there,
    concurrency_reaches_its_limit_and_never_exceeds_it,
    neither_a_hung_consumer_nor_a_long_queue_holds_up_another_queue,
    a_stop_lets_consumers_finish,
    an_attempt_that_a_stop_interrupts_does_not_count,
);
laws!(also on postgres:
    each_message_is_delivered_once_when_nothing_fails,
    concurrency_reaches_its_limit_and_never_exceeds_it,
    an_attempt_that_a_stop_interrupts_does_not_count,
);

async fn each_message_is_delivered_once_when_nothing_fails(lab: Lab) {
    let office = Office::open(lab, |it, post| it.consume(MAIL, post)).await;
    let senders = (0..4).map(|sender| {
        let queues = office.app.queues().clone();
        tokio::spawn(async move {
            for number in 0..50 {
                queues.send(MAIL, &mail(&format!("{sender} {number}"))).await.unwrap();
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    office.quiet().await;
    let attempts = office.post.attempts();
    assert_eq!(attempts.len(), 200);
    assert!(attempts.values().all(|it| it == &[1]), "{attempts:?}");
    assert_eq!(office.depth("mail").await, [0; 4]);
    for got in office.post.got() {
        let position: Position = got.id.parse().unwrap();
        let State::Settled(end) = office.state(position).await else { panic!("{got:?}") };
        assert_eq!((end.as_, end.attempts), (SettledAs::Done, 1));
    }
    office.close().await;
}

async fn a_message_is_tried_as_often_as_its_queue_says_and_then_is_in_the_dead_letters_as_it_was(
    lab: Lab,
) {
    let declare = MAIL.retries(2).dead_letters(DEAD);
    let office = Office::open(lab, |it, post| it.queue(declare).consume(MAIL, post)).await;
    let sent = [office.send("fails").await, office.send("twice").await];
    office.pass(HOUR).await;
    assert_eq!(office.post.attempts()["fails"], [1, 2, 3]);
    assert_eq!(office.post.attempts()["twice"], [1, 2, 3]);
    assert!(office.post.got().iter().all(|it| it.sent_at == START && it.queue == "mail"));
    let dead = office.peek("mail-dead", PeekState::Pending).await;
    assert_eq!(ids(&dead), sent[..1]);
    let it = &dead[0];
    assert_eq!((it.enqueued_at, it.attempts, it.attempts_before), (START, 0, 3));
    assert_eq!(it.last_error.as_deref(), Some("failure 3 (failed)"));
    assert_eq!((it.from.as_deref(), it.body.get()), { (Some("mail"), r#"{"to":"fails"}"#) });
    let errors = ["failure 1 (failed)", "failure 2 (failed)", "failure 3 (failed)"];
    assert_eq!(office.errors(sent[0]).await, errors);
    assert_eq!(office.depth("mail").await, [0; 4]);
    let State::Settled(end) = office.state(sent[1]).await else { panic!("not done") };
    assert_eq!((end.as_, end.attempts), (SettledAs::Done, 3));
    office.close().await;
}

async fn delays_between_attempts_double_and_half_of_them_is_random(lab: Lab) {
    let settings =
        QueueSettings { max_retries: 6, retry_delay_ms: 10_000, ..QueueSettings::default() };
    let office =
        Office::open(lab, |it, post| it.queue(MAIL.with(settings)).consume(MAIL, post)).await;
    for name in ["fails a", "fails b", "fails c"] {
        office.send(name).await;
    }
    office.pass(HOUR).await;
    let waits = |name| -> Vec<u64> {
        let times = office.post.times(name);
        times.windows(2).map(|it| it[1].since(it[0]).as_millis() as u64).collect()
    };
    let all = ["fails a", "fails b", "fails c"].map(waits);
    for waits in &all {
        assert_eq!(waits.len(), 6);
        // Five minutes are the maximum.
        for (wait, full) in waits.iter().zip([10, 20, 40, 80, 160, 300]) {
            assert!((full * 500..=full * 1_000).contains(wait), "{all:?}");
        }
    }
    assert!(all[0] != all[1] && all[1] != all[2], "{all:?}");
    office.close().await;
}

async fn a_retry_with_a_delay_is_delivered_after_it(lab: Lab) {
    let office = Office::open(lab, |it, post| it.consume(MAIL, post)).await;
    let sent = office.send("later").await;
    office.pass(HOUR).await;
    let minute = Duration::from_mins(1);
    let expected = [START, START.after(minute), START.after(2 * minute)];
    assert_eq!(office.post.times("later"), expected);
    assert_eq!(office.errors(sent).await, ["the consumer asked for a retry"; 2]);
    office.close().await;
}

async fn an_error_a_panic_and_silence_are_a_retry(lab: Lab) {
    let options = ConsumeOptions { timeout: Duration::from_secs(20), ..Default::default() };
    let declare = MAIL.retries(1);
    let open = |it: steadfast_core::App, post| it.queue(declare).consume_with(MAIL, post, options);
    let office = Office::open(lab, open).await;
    let sent = office.send_all(&["fails", "panics", "hangs", "fine"]).await;
    until("three have ended", async || office.depth("mail").await == [1, 2, 0, 0]).await;
    // A settled message is released a moment after it is durable.
    let running = async || office.app.queues().show("mail").await.unwrap().running;
    until("one is in flight", async || running().await == 1).await;
    // Its time counts from its delivery to the consumer.
    until("it hangs", async || office.post.attempts().contains_key("hangs")).await;
    office.lab.clock.advance(Duration::from_secs(20));
    until("all have failed twice, one once", async || office.depth("mail").await == [0, 1, 0, 2])
        .await;
    office.lab.clock.advance(SECOND);
    until("the last one hangs again", async || office.post.attempts()["hangs"] == [1, 2]).await;
    office.lab.clock.advance(Duration::from_secs(20));
    office.quiet().await;
    for (name, number, error) in [
        ("fails", 0, ["failure 1 (failed)", "failure 2 (failed)"]),
        ("panics", 1, ["the consumer panicked: a bug"; 2]),
        ("hangs", 2, ["no answer within 20 s"; 2]),
    ] {
        assert_eq!(office.post.attempts()[name], [1, 2]);
        assert_eq!(office.errors(sent[number]).await, error);
    }
    assert_eq!(office.depth("mail").await, [0, 0, 0, 3]);
    assert_eq!(office.post.attempts()["fine"], [1]);
    office.close().await;
}

async fn a_terminal_error_or_an_unreadable_message_is_buried_immediately(lab: Lab) {
    let office =
        Office::open(lab, |it, post| it.queue(MAIL.dead_letters(DEAD)).consume(MAIL, post)).await;
    let mut sent = office.send_all(&["terminal", "buried"]).await;
    let odd = Outgoing { body: json("[1]"), delay: Duration::ZERO };
    sent.extend(office.app.queues().send_json("mail", vec![odd], None).await.unwrap());
    office.quiet().await;
    assert_eq!(office.post.got().len(), 2);
    let mut dead = office.peek("mail-dead", PeekState::Pending).await;
    dead.sort_by_key(|it| it.id);
    assert_eq!(ids(&dead), sent);
    assert!(dead.iter().all(|it| it.attempts_before == 1));
    let errors: Vec<String> = dead.into_iter().map(|it| it.last_error.unwrap()).collect();
    assert_eq!(errors[..2], ["no such town (failed, terminal)", "dead on arrival"]);
    assert!(
        errors[2].starts_with("the message does not match the type of the consumer"),
        "{errors:?}"
    );
    office.close().await;
}

async fn without_dead_letters_a_message_is_dead_in_place_and_kept(lab: Lab) {
    let open = |it: steadfast_core::App, post| it.queue(MAIL.retries(1)).consume(MAIL, post);
    let office = Office::open(lab, open).await;
    let sent = office.send("fails").await;
    office.pass(HOUR).await;
    assert_eq!(office.depth("mail").await, [0, 0, 0, 1]);
    // Nearly as long as the retention of dead messages.
    office.lab.clock.advance(Duration::from_hours(2_000));
    office.app.queues().sweep().await.unwrap();
    let office = office.again(open).await;
    office.quiet().await;
    let dead = office.peek("mail", PeekState::Dead).await;
    assert_eq!((ids(&dead), dead[0].attempts), (vec![sent], 2));
    assert_eq!(dead[0].last_error.as_deref(), Some("failure 2 (failed)"));
    assert_eq!((dead[0].from.as_deref(), dead[0].enqueued_at), (None, START));
    assert_eq!(office.post.attempts()["fails"], [1, 2]);
    office.close().await;
}

async fn dead_letters_can_be_consumed_and_die_there(lab: Lab) {
    let office = Office::open(lab, |it, post| {
        it.queue(MAIL.retries(2).dead_letters(DEAD))
            .queue(DEAD.retries(1))
            .consume(MAIL, post.clone())
            .consume(DEAD, post)
    })
    .await;
    let sent = office.send("fails").await;
    office.pass(HOUR).await;
    let got = office.post.got();
    let told: Vec<(&str, u32)> = got.iter().map(|it| (it.queue.as_str(), it.attempt)).collect();
    let expected = [("mail", 1), ("mail", 2), ("mail", 3), ("mail-dead", 1), ("mail-dead", 2)];
    assert_eq!(told, expected);
    assert!(got.iter().all(|it| it.id == sent.to_string() && it.sent_at == START));
    assert_eq!(office.depth("mail").await, [0; 4]);
    assert_eq!(office.depth("mail-dead").await, [0, 0, 0, 1]);
    let dead = office.peek("mail-dead", PeekState::Dead).await;
    assert_eq!((ids(&dead), dead[0].from.as_deref()), (vec![sent], Some("mail")));
    office.close().await;
}

async fn concurrency_reaches_its_limit_and_never_exceeds_it(lab: Lab) {
    let options = ConsumeOptions { concurrency: 3, ..ConsumeOptions::default() };
    let office = Office::open(lab, |it, post| it.consume_with(MAIL, post, options)).await;
    office.send_all(&["waits"; 10]).await;
    let stage = &office.post.stage;
    for _ in 0..3 {
        stage.came("door").await;
    }
    for done in 1..=7 {
        // An early delivery would have happened by now, or happens and is counted.
        assert_eq!(office.post.got().len(), 2 + done);
        assert_eq!(office.app.queues().show("mail").await.unwrap().running, 3);
        stage.open("door", 1);
        stage.came("door").await;
    }
    assert_eq!(office.post.got().len(), 10);
    stage.open("door", 3);
    office.quiet().await;
    assert_eq!(office.depth("mail").await, [0; 4]);
    office.close().await;
}

async fn neither_a_hung_consumer_nor_a_long_queue_holds_up_another_queue(lab: Lab) {
    let options = ConsumeOptions { concurrency: 2, ..ConsumeOptions::default() };
    let office = Office::open(lab, |it, post| {
        it.consume_with(MAIL, post.clone(), options).consume(OTHER, post)
    })
    .await;
    for _ in 0..10 {
        office.send_all(&["hangs"; 1_000]).await;
    }
    until("it hangs", async || office.post.got().len() == 2).await;
    for number in 1..=5 {
        office.app.queues().send(OTHER, &mail("fine")).await.unwrap();
        until("it came", async || office.post.got().len() == 2 + number).await;
    }
    assert_eq!(office.depth("mail").await, [10_000, 0, 0, 0]);
    assert_eq!(office.lab.clock.now(), START);
    let Office { app, lab, .. } = office;
    // Consumers that hang are not waited for longer than the grace period.
    let stop = tokio::spawn(app.stop());
    until("it stops", async || {
        lab.clock.advance(SECOND);
        stop.is_finished()
    })
    .await;
}

async fn a_stop_lets_consumers_finish(lab: Lab) {
    let office = Office::open(lab, |it, post| it.consume(MAIL, post)).await;
    let sent = office.send("waits").await;
    office.post.stage.came("door").await;
    let Office { app, lab, post } = office;
    let stop = tokio::spawn(app.stop());
    post.stage.open("door", 1);
    stop.await.unwrap();
    let State::Settled(end) = lab.store.message(sent).await.unwrap().unwrap().state.unwrap() else {
        panic!("not done")
    };
    assert_eq!((end.as_, end.attempts), (SettledAs::Done, 1));
}

async fn an_attempt_that_a_stop_interrupts_does_not_count(lab: Lab) {
    let office = Office::open(lab, |it, post| it.consume(MAIL, post)).await;
    let sent = office.send("waits").await;
    office.post.stage.came("door").await;
    let Office { app, mut lab, post } = office;
    let stop = tokio::spawn(app.stop());
    // The grace of 10 s ends before the timeout of the consumer, 5 min.
    until("it stops", async || {
        lab.clock.advance(Duration::from_millis(20));
        stop.is_finished()
    })
    .await;
    stop.await.unwrap();
    let state = lab.store.message(sent).await.unwrap().unwrap().state.unwrap();
    assert_eq!(state, State::Pending { due_at: START, attempts: 0 });
    lab.reopen().await;
    let office = Office::open(lab, |it, _| it.consume(MAIL, post.clone())).await;
    post.stage.came("door").await;
    post.stage.open("door", 1);
    office.quiet().await;
    assert_eq!(post.attempts()["waits"], [1, 1]);
    office.close().await;
}

/// A clock that counts its reads.
#[derive(Clone, Debug)]
struct Asked(ManualClock, Arc<AtomicUsize>);

impl Clock for Asked {
    fn now(&self) -> Timestamp {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a> {
        self.0.wait(left)
    }
}

#[tokio::test]
async fn messages_that_become_due_without_capacity_cause_no_polling() {
    let lab = Lab::memory().await;
    let (post, clock) = (Post::by(&lab.clock), Asked(lab.clock.clone(), Arc::default()));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let options = ConsumeOptions { concurrency: 1, ..ConsumeOptions::default() };
    let builder = App::new("test").consume_with(MAIL, post.clone(), options);
    let app = builder.start(store).await.unwrap();
    // One in flight, one in the window, and one that becomes due.
    for _ in 0..2 {
        app.queues().send(MAIL, &mail("waits")).await.unwrap();
    }
    post.stage.came("door").await;
    let still = async || {
        let before = clock.1.load(Ordering::SeqCst);
        for _ in 0..2_000 {
            tokio::task::yield_now().await;
        }
        clock.1.load(Ordering::SeqCst) - before
    };
    until("both are read", async || still().await == 0).await;
    app.queues().send_after(MAIL, &mail("waits"), SECOND).await.unwrap();
    until("the last notice arrives", async || still().await == 0).await;
    lab.clock.advance(SECOND);
    still().await;
    assert_eq!(still().await, 0);
    post.stage.open("door", 3);
    until("all came", async || post.got().len() == 3).await;
    app.stop().await;
}
