//! Operations on queues, and their limits.

use std::time::Duration;

use serde::Serialize;
use steadfast_core::{
    App, ConsumeOptions, Object, QueueError, QueueSettings,
    queue::{Outgoing, PeekState},
    store::{Json, ManualClock, Position, SettledAs, State},
};

use crate::{
    lab::{Lab, START},
    ledger::{AUDIT, Announce, Downloader, Ledger, Order},
    play::until,
    post::{DEAD, HOUR, MAIL, OTHER, Office, Post, SECOND, ids, mail},
};

laws!(
    a_paused_queue_delivers_nothing_and_deliveries_in_flight_end,
    a_pause_survives_a_restart,
    a_purge_keeps_messages_in_flight,
    a_purge_cancels_the_requested_messages,
    a_purge_cancels_messages_whose_lease_has_expired,
    only_messages_that_wait_too_long_expire,
    a_full_queue_refuses_messages_until_it_has_capacity,
    concurrent_senders_do_not_exceed_the_limit_of_a_queue,
    a_request_with_a_message_that_is_too_large_is_refused_as_a_whole,
    settings_survive_a_restart_and_override_the_declaration,
    dead_letter_queues_must_not_form_a_cycle,
    an_unknown_queue_is_distinguished_from_an_empty_one,
    a_repetition_with_a_key_sends_nothing_more,
    a_repetition_is_answered_by_a_full_queue,
);
laws!(also on postgres:
    a_pause_survives_a_restart,
    a_purge_cancels_messages_whose_lease_has_expired,
    concurrent_senders_do_not_exceed_the_limit_of_a_queue,
    settings_survive_a_restart_and_override_the_declaration,
);

fn one() -> ConsumeOptions {
    ConsumeOptions { concurrency: 1, ..ConsumeOptions::default() }
}

async fn settled_as(office: &Office, position: Position) -> Option<(SettledAs, Option<String>)> {
    match office.state(position).await {
        State::Settled(it) => Some((it.as_, it.error)),
        State::Pending { .. } | State::InFlight { .. } => None,
    }
}

async fn a_paused_queue_delivers_nothing_and_deliveries_in_flight_end(lab: Lab) {
    let office = Office::open(lab, |it, post| {
        it.consume_with(MAIL, post.clone(), one()).consume(OTHER, post)
    })
    .await;
    let sent = office.send_all(&["waits", "b", "c"]).await;
    office.post.stage.came("door").await;
    office.app.queues().pause("mail").await.unwrap();
    office.app.queues().pause("mail").await.unwrap();
    office.post.stage.open("door", 1);
    until("it ended", async || settled_as(&office, sent[0]).await.is_some()).await;
    office.send("d").await;
    // Another queue, after all of that, so that an unwanted delivery would have happened by now.
    for number in 1..=20 {
        office.app.queues().send(OTHER, &mail("other")).await.unwrap();
        until("it came", async || office.post.got().len() == 1 + number).await;
    }
    let view = office.app.queues().show("mail").await.unwrap();
    assert_eq!((view.paused, view.ready, view.running), (true, 3, 0));
    office.app.queues().resume("mail").await.unwrap();
    office.quiet().await;
    let mut names = office.post.names();
    names.retain(|it| it != "other");
    assert_eq!(names, ["waits", "b", "c", "d"]);
    assert!(!office.app.queues().show("mail").await.unwrap().paused);
    office.close().await;
}

async fn a_pause_survives_a_restart(lab: Lab) {
    let open = |it: steadfast_core::App, post: Post| {
        it.queue(MAIL.retries(7)).consume(MAIL, post.clone()).consume(OTHER, post)
    };
    let office = Office::open(lab, open).await;
    office.app.queues().pause("mail").await.unwrap();
    office.send("a").await;
    let office = office.again(open).await;
    for number in 1..=20 {
        office.app.queues().send(OTHER, &mail("other")).await.unwrap();
        until("it came", async || office.post.got().len() == number).await;
    }
    let view = office.app.queues().show("mail").await.unwrap();
    assert_eq!((view.paused, view.ready, view.settings.max_retries), (true, 1, 7));
    office.app.queues().resume("mail").await.unwrap();
    until("it came", async || office.post.names().contains(&"a".into())).await;
    office.quiet().await;
    office.close().await;
}

async fn a_purge_keeps_messages_in_flight(lab: Lab) {
    let office = Office::open(lab, |it, post| it.consume_with(MAIL, post, one())).await;
    let queues = office.app.queues();
    let sent = office.send_all(&["buried", "waits", "b", "c"]).await;
    queues.send_after(MAIL, &mail("d"), HOUR).await.unwrap();
    office.post.stage.came("door").await;
    until("they are there", async || office.depth("mail").await == [3, 1, 0, 1]).await;
    assert_eq!(queues.purge("mail", None, None).await.unwrap(), 4);
    assert_eq!(office.depth("mail").await, [1, 0, 0, 0]);
    office.post.stage.open("door", 1);
    office.pass(2 * HOUR).await;
    assert_eq!(office.post.names(), ["buried", "waits"]);
    assert_eq!(settled_as(&office, sent[1]).await, Some((SettledAs::Done, None)));
    let purged = Some((SettledAs::Cancelled, Some("purged".to_owned())));
    for position in [sent[0], sent[2], sent[3]] {
        assert_eq!(settled_as(&office, position).await, purged, "the record stays");
    }
    office.close().await;
}

async fn a_purge_cancels_the_requested_messages(lab: Lab) {
    let open = |it: steadfast_core::App, _| it.queue(MAIL.retries(0)).queue(OTHER);
    let office = Office::open(lab, open).await;
    let queues = office.app.queues();
    let sent = office.send_all(&["a", "b", "c", "d", "e"]).await;
    queues.send(OTHER, &mail("x")).await.unwrap();
    let pulled = queues.pull("mail", 2, HOUR).await.unwrap();
    queues.ack("mail", &[], &[(pulled[0].lease, None)]).await.unwrap();
    assert_eq!(office.depth("mail").await, [3, 0, 1, 1]);
    assert_eq!(queues.purge("mail", None, Some(&sent[2..3])).await.unwrap(), 1);
    assert_eq!(queues.purge("mail", Some(PeekState::Dead), None).await.unwrap(), 1);
    assert_eq!(office.depth("mail").await, [2, 0, 1, 0]);
    assert_eq!(queues.purge("mail", Some(PeekState::Pending), None).await.unwrap(), 2);
    assert_eq!(queues.purge("mail", None, None).await.unwrap(), 0, "a leased message is in flight");
    assert_eq!(queues.ack("mail", &[pulled[1].lease], &[]).await.unwrap().acked, 1);
    assert_eq!(office.depth("mail").await, [0; 4]);
    assert_eq!(office.depth("other").await, [1, 0, 0, 0]);
    office.close().await;
}

async fn a_purge_cancels_messages_whose_lease_has_expired(lab: Lab) {
    let office = Office::open(lab, |it, _| it.queue(MAIL)).await;
    let queues = office.app.queues();
    office.send_all(&["a", "b"]).await;
    let pulled = queues.pull("mail", 2, SECOND).await.unwrap();
    assert_eq!(queues.purge("mail", None, None).await.unwrap(), 0);
    office.lab.clock.advance(SECOND);
    assert_eq!(queues.purge("mail", None, None).await.unwrap(), 2);
    assert_eq!(office.depth("mail").await, [0; 4]);
    let late = queues.ack("mail", &[pulled[0].lease], &[]).await.unwrap();
    assert_eq!(late.lost, [pulled[0].lease]);
    office.close().await;
}

async fn only_messages_that_wait_too_long_expire(lab: Lab) {
    let settings = QueueSettings { retention_ms: Some(3_600_000), ..QueueSettings::default() };
    let office = Office::open(lab, |it, post| {
        it.queue(MAIL.with(settings)).consume_with(MAIL, post, one()).queue(OTHER)
    })
    .await;
    let queues = office.app.queues();
    let old = office.send_all(&["buried", "waits", "b", "c"]).await;
    queues.send(OTHER, &mail("kept for ever")).await.unwrap();
    office.post.stage.came("door").await;
    // Short enough that the consumer does not time out.
    let leased = queues.pull("mail", 1, 2 * HOUR).await.unwrap();
    queues.pause("mail").await.unwrap();
    for _ in 0..12 {
        office.lab.clock.advance(Duration::from_mins(5));
    }
    let young = office.send("d").await;
    assert_eq!(queues.sweep().await.unwrap(), 0, "an hour is not longer than an hour");
    office.lab.clock.advance(Duration::from_millis(1));
    let expired = queues.sweep().await.unwrap();
    let gone = settled_as(&office, old[3]).await;
    let Some((SettledAs::Cancelled, Some(why))) = gone else { panic!("{gone:?}") };
    assert!(why.starts_with("expired"), "{why}");
    assert!(settled_as(&office, young).await.is_none());
    assert_eq!(leased[0].queued.message.position, old[2]);
    assert!(matches!(office.state(old[2]).await, State::InFlight { .. }), "it is leased");
    assert_eq!(settled_as(&office, old[0]).await.unwrap().0, SettledAs::Dead);
    // The sweep of the program may have been first. The lease of the one in flight had expired in
    // between, so it may be pending again: then it is old, too.
    assert!(expired <= 2, "{expired}");
    assert_eq!(office.depth("other").await, [1, 0, 0, 0]);
    office.post.stage.open("door", 9);
    office.close().await;
}

async fn a_full_queue_refuses_messages_until_it_has_capacity(lab: Lab) {
    let settings = QueueSettings { max_messages: Some(3), ..QueueSettings::default() };
    let office = Office::open(lab, |it, _| {
        let audit = QueueSettings { max_messages: Some(1), ..QueueSettings::default() };
        it.queue(MAIL.with(settings))
            .queue(AUDIT.with(audit))
            .object(Ledger::default())
            .perform(Downloader::default())
            .workflow(Order)
    })
    .await;
    let queues = office.app.queues();
    office.send("a").await;
    queues.send_after(MAIL, &mail("b"), HOUR).await.unwrap();
    let refused = queues.send_all(MAIL, &[mail("c"), mail("d")]).await.unwrap_err();
    assert!(matches!(refused, QueueError::Full { max: 3, .. }), "{refused:?}");
    assert_eq!(refused.code(), "queue_full");
    let pulled = queues.pull("mail", 9, SECOND).await.unwrap();
    office.send("c").await;
    assert!(queues.send(MAIL, &mail("d")).await.is_err(), "leased ones count");
    queues.ack("mail", &[pulled[0].lease], &[]).await.unwrap();
    office.send("d").await;
    assert_eq!(office.depth("mail").await, [2, 1, 0, 0]);
    // A message of an object is not refused.
    for _ in 0..3 {
        office.app.call(Ledger::at("l"), Announce).await.unwrap();
    }
    assert_eq!(office.depth("audit").await, [3, 0, 0, 0]);
    office.close().await;
}

async fn concurrent_senders_do_not_exceed_the_limit_of_a_queue(lab: Lab) {
    let settings = QueueSettings { max_messages: Some(5), ..QueueSettings::default() };
    let office = Office::open(lab, |it, _| it.queue(MAIL.with(settings))).await;
    let senders: Vec<_> = (0..40)
        .map(|sender| {
            let queues = office.app.queues().clone();
            tokio::spawn(async move { queues.send(MAIL, &mail(&sender.to_string())).await })
        })
        .collect();
    let mut accepted = 0;
    for sent in senders {
        match sent.await.unwrap() {
            Ok(_) => accepted += 1,
            Err(refused) => assert_eq!(refused.code(), "queue_full"),
        }
    }
    assert_eq!((accepted, office.depth("mail").await), (5, [5, 0, 0, 0]));
    office.close().await;
}

async fn a_request_with_a_message_that_is_too_large_is_refused_as_a_whole(lab: Lab) {
    let settings = QueueSettings { max_message_bytes: 20, ..QueueSettings::default() };
    let office = Office::open(lab, |it, _| it.queue(MAIL.with(settings))).await;
    let queues = office.app.queues();
    let fits = mail(&"x".repeat(11));
    assert_eq!(Json::of(&fits).unwrap().as_str().len(), 20);
    let all = [fits.clone(), mail(&"x".repeat(12))];
    let refused = queues.send_all(MAIL, &all).await.unwrap_err();
    assert!(matches!(refused, QueueError::TooLarge { index: 1, len: 21, max: 20, .. }));
    assert_eq!(office.depth("mail").await, [0; 4]);
    queues.send(MAIL, &fits).await.unwrap();
    let none: [crate::post::Mail; 0] = [];
    let refused = queues.send_all(MAIL, &none).await.unwrap_err();
    assert!(matches!(refused, QueueError::BatchLength { count: 0, .. }));
    let refused = queues.send_all(MAIL, &vec![fits.clone(); 1_001]).await.unwrap_err();
    assert!(matches!(refused, QueueError::BatchLength { count: 1_001, .. }));
    let refused = queues.send_after(MAIL, &fits, 400 * 24 * HOUR).await.unwrap_err();
    assert!(matches!(refused, QueueError::Argument { field: "delayMs", .. }));
    assert_eq!(office.depth("mail").await, [1, 0, 0, 0]);
    office.close().await;
}

async fn settings_survive_a_restart_and_override_the_declaration(lab: Lab) {
    let office = Office::open(lab, |it, _| it.queue(MAIL.retries(2))).await;
    let settings = QueueSettings {
        max_retries: 9,
        dead_letter_queue: Some("mail-dead".into()),
        rate_per_second: Some(0.5),
        ..QueueSettings::default()
    };
    let queues = office.app.queues();
    assert_eq!(queues.show("mail").await.unwrap().settings.max_retries, 2);
    queues.configure("mail", settings.clone()).await.unwrap();
    queues.configure("made", QueueSettings::default()).await.unwrap();
    assert_eq!(queues.show("mail").await.unwrap().settings, settings);
    let office = office.again(|it, _| it.queue(MAIL.retries(5))).await;
    let queues = office.app.queues();
    assert_eq!(queues.show("mail").await.unwrap().settings, settings);
    assert!(queues.names_behind(None, 99).await.unwrap().contains(&"made".to_owned()));
    for (field, wrong) in [
        ("maxRetries", QueueSettings { max_retries: 1_001, ..QueueSettings::default() }),
        ("batchSize", QueueSettings { batch_size: 0, ..QueueSettings::default() }),
        ("retentionMs", QueueSettings { retention_ms: Some(1), ..QueueSettings::default() }),
        ("ratePerSecond", QueueSettings { rate_per_second: Some(0.0), ..Default::default() }),
        ("maxMessageBytes", QueueSettings { max_message_bytes: 0, ..QueueSettings::default() }),
    ] {
        let refused = queues.configure("mail", wrong).await.unwrap_err();
        assert!(matches!(refused, QueueError::Setting { field: it, .. } if it == field));
    }
    assert_eq!(queues.show("mail").await.unwrap().settings, settings);
    office.close().await;
}

async fn dead_letter_queues_must_not_form_a_cycle(lab: Lab) {
    let office = Office::open(lab, |it, _| it.queue(MAIL.dead_letters(DEAD))).await;
    let queues = office.app.queues();
    let to = |name: &str| QueueSettings {
        dead_letter_queue: Some(name.into()),
        ..QueueSettings::default()
    };
    queues.configure("mail-dead", to("third")).await.unwrap();
    for name in ["mail", "mail-dead", "third"] {
        let refused = queues.configure("third", to(name)).await.unwrap_err();
        assert_eq!(refused.code(), "invalid_input", "{name}");
    }
    queues.configure("third", to("fourth")).await.unwrap();
    assert!(queues.configure("fourth", to("mail")).await.is_err());
    queues.configure("mail-dead", QueueSettings::default()).await.unwrap();
    queues.configure("fourth", to("mail")).await.unwrap();
    office.close().await;
}

async fn an_unknown_queue_is_distinguished_from_an_empty_one(lab: Lab) {
    let office = Office::open(lab, |it, _| it.queue(MAIL)).await;
    let queues = office.app.queues();
    let unknown = |it: QueueError| it.code().to_owned();
    assert_eq!(unknown(queues.show("nope").await.unwrap_err()), "queue_not_found");
    assert_eq!(unknown(queues.pause("nope").await.unwrap_err()), "queue_not_found");
    assert_eq!(unknown(queues.pull("nope", 1, SECOND).await.unwrap_err()), "queue_not_found");
    assert_eq!(unknown(queues.purge("nope", None, None).await.unwrap_err()), "queue_not_found");
    assert_eq!(unknown(queues.ack("nope", &[], &[]).await.unwrap_err()), "queue_not_found");
    let redrive = queues.redrive("nope", &Default::default()).await;
    assert_eq!(unknown(redrive.unwrap_err()), "queue_not_found");
    assert_eq!(
        queues.names_behind(None, 99).await.unwrap(),
        ["mail"],
        "a look leaves nothing behind"
    );
    assert_eq!(office.depth("mail").await, [0; 4]);
    assert_eq!(unknown(queues.show("not a name!").await.unwrap_err()), "invalid_name");
    queues.send(OTHER, &mail("a")).await.unwrap();
    assert_eq!(office.depth("other").await, [1, 0, 0, 0]);
    office.close().await;
}

fn outgoing(all: &[impl Serialize]) -> Vec<Outgoing> {
    let each = |it| Outgoing { body: Json::of(it).unwrap(), delay: Duration::ZERO };
    all.iter().map(each).collect()
}

async fn a_repetition_with_a_key_sends_nothing_more(lab: Lab) {
    let office = Office::open(lab, |it, _| it.queue(MAIL)).await;
    let queues = office.app.queues();
    let (two, one) = ([mail("a"), mail("b")], [mail("a")]);
    let first = queues.send_json("mail", outgoing(&two), Some("k")).await.unwrap();
    assert_eq!(first.len(), 2);
    office.send("between").await;
    assert_eq!(queues.send_json("mail", outgoing(&two), Some("k")).await.unwrap(), first);
    assert_eq!(office.depth("mail").await[0], 3);
    let other = queues.send_json("mail", outgoing(&one), Some("k")).await.unwrap_err();
    assert_eq!(other.code(), "key_reused");
    // A key belongs to its queue.
    let elsewhere = queues.send_json("other", outgoing(&one), Some("k")).await.unwrap();
    assert_ne!(elsewhere, first[..1]);
    assert_eq!(ids(&office.peek("other", PeekState::Pending).await), elsewhere);
    office.close().await;
}

async fn a_repetition_is_answered_by_a_full_queue(lab: Lab) {
    let settings = QueueSettings { max_messages: Some(1), ..QueueSettings::default() };
    let office = Office::open(lab, |it, _| it.queue(MAIL.with(settings))).await;
    let queues = office.app.queues();
    let first = queues.send_json("mail", outgoing(&[mail("a")]), Some("k")).await.unwrap();
    let again = queues.send_json("mail", outgoing(&[mail("a")]), Some("k")).await;
    assert_eq!(again.unwrap(), first);
    let another = queues.send_json("mail", outgoing(&[mail("b")]), Some("l")).await;
    assert_eq!(another.unwrap_err().code(), "queue_full");
    assert_eq!(office.depth("mail").await, [1, 0, 0, 0]);
    office.close().await;
}

#[tokio::test]
async fn no_more_is_delivered_in_a_second_than_allowed_and_about_as_much() {
    for (rate, batch) in [(10.0, false), (0.5, false), (10.0, true)] {
        let settings = QueueSettings {
            rate_per_second: Some(rate),
            batch_size: 7,
            batch_timeout_ms: 0,
            ..QueueSettings::default()
        };
        let clock = ManualClock::at(START);
        let post = Post::by(&clock);
        let builder = App::new("test").queue(MAIL.with(settings));
        let builder = match batch {
            true => builder.consume_batches(MAIL, crate::queue_batches::Sorter::by(&post)),
            false => builder.consume(MAIL, post.clone()),
        };
        let app = builder.test().await.unwrap();
        app.queues().send_all(MAIL, &vec![mail("a"); 100]).await.unwrap();
        let mut counts = Vec::new();
        for _ in 0..8 {
            app.advance(SECOND).await;
            counts.push(post.got().len());
        }
        let expected = rate * 8.0;
        let last = counts[7] as f64;
        // A quarter of a second's worth may be delivered at once, or one.
        assert!((expected..=expected + 3.5).contains(&last), "{rate} {batch} {counts:?}");
        for (before, after) in counts.iter().zip(&counts[1..]) {
            assert!((after - before) as f64 <= rate.ceil() + 1.0, "{rate} {batch} {counts:?}");
        }
    }
}
