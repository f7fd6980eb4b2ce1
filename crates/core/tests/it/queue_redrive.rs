//! Redriving messages: destination, selection and rate; and peeking.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use steadfast_core::{
    ConsumeOptions, QueueError, QueueSettings,
    queue::{PeekState, QueueMessageView, Redrive},
    store::{Position, SettledAs, State, Timestamp},
};

use crate::{
    lab::{Lab, START, json},
    play::{Pace, until},
    post::{DEAD, HOUR, MAIL, OTHER, Office, Post, SECOND, ids, mail},
};

laws!(
    dead_letters_go_back_to_where_they_were_sent_and_are_counted_anew,
    dead_letters_can_go_elsewhere,
    only_matching_messages_are_moved,
    a_dry_run_moves_nothing,
    a_rate_spreads_redriven_messages_over_time,
    a_message_in_flight_is_not_moved,
    a_redrive_in_place_revives_dead_messages_and_keeps_pending_ones,
    an_edited_message_replaces_the_first,
    a_message_in_flight_cannot_be_edited,
    a_peek_shows_pending_leased_and_dead_messages,
    a_message_pulled_during_a_redrive_stays_with_its_consumer,
);
laws!(also on postgres:
    only_matching_messages_are_moved,
    a_message_pulled_during_a_redrive_stays_with_its_consumer,
);

fn declared(it: steadfast_core::App) -> steadfast_core::App {
    it.queue(MAIL.retries(0).dead_letters(DEAD)).queue(OTHER.retries(0).dead_letters(DEAD))
}

/// A program with these dead letters, all of them from the queue of mail.
async fn open(lab: Lab, dead: &[&str]) -> (Office, Vec<Position>) {
    let office = Office::open(lab, |it, post| declared(it).consume(MAIL, post)).await;
    let sent = office.send_all(dead).await;
    office.quiet().await;
    assert_eq!(office.depth("mail-dead").await, [dead.len() as u64, 0, 0, 0]);
    (office, sent)
}

async fn redrive(office: &Office, queue: &str, what: Redrive) -> (u64, u64) {
    let done = office.app.queues().redrive(queue, &what).await.unwrap();
    (done.matched, done.moved)
}

async fn dead_letters_go_back_to_where_they_were_sent_and_are_counted_anew(lab: Lab) {
    let (office, mut sent) = open(lab, &["fails a", "buried b"]).await;
    // One of another queue, with the same dead letters.
    let other = office.app.queues().send(OTHER, &mail("c")).await.unwrap();
    let pulled = office.app.queues().pull("other", 1, SECOND).await.unwrap();
    office.app.queues().ack("other", &[], &[(pulled[0].lease, None)]).await.unwrap();
    // And one that was sent here.
    let here = office.app.queues().send(DEAD, &mail("d")).await.unwrap();
    assert_eq!(office.depth("mail-dead").await, [4, 0, 0, 0]);
    office.app.queues().pause("mail").await.unwrap();
    assert_eq!(redrive(&office, "mail-dead", Redrive::default()).await, (3, 3));
    let mut back = ids(&office.peek("mail", PeekState::Pending).await);
    back.sort_unstable();
    assert_eq!(back, sent);
    assert_eq!(ids(&office.peek("other", PeekState::Pending).await), [other]);
    assert_eq!(ids(&office.peek("mail-dead", PeekState::Pending).await), [here]);
    office.app.queues().resume("mail").await.unwrap();
    office.quiet().await;
    assert_eq!(office.post.attempts()["fails a"], [1, 1]);
    let mut dead = office.peek("mail-dead", PeekState::Pending).await;
    dead.sort_by_key(|it| it.id);
    sent.push(here);
    assert_eq!(ids(&dead), sent);
    assert_eq!(dead.iter().map(|it| it.attempts_before).collect::<Vec<_>>(), [2, 2, 0]);
    assert_eq!(office.errors(sent[0]).await, ["failure 1 (failed)"; 2]);
    office.close().await;
}

async fn dead_letters_can_go_elsewhere(lab: Lab) {
    let (office, sent) = open(lab, &["fails a", "fails b"]).await;
    let to = Redrive { to: Some("third".into()), ..Redrive::default() };
    assert_eq!(redrive(&office, "mail-dead", to).await, (2, 2));
    let there = office.peek("third", PeekState::Pending).await;
    assert_eq!(ids(&there), sent);
    assert!(there.iter().all(|it| it.from.as_deref() == Some("mail")));
    assert!(there.iter().all(|it| (it.attempts, it.attempts_before) == (0, 1)));
    assert_eq!(office.depth("mail-dead").await, [0; 4]);
    let bad = Redrive { to: Some("no name!".into()), ..Redrive::default() };
    let refused = office.app.queues().redrive("third", &bad).await.unwrap_err();
    assert_eq!(refused.code(), "invalid_name");
    assert_eq!(office.depth("third").await, [2, 0, 0, 0]);
    office.close().await;
}

async fn only_matching_messages_are_moved(lab: Lab) {
    let (office, sent) = open(lab, &["fails a", "buried b", "terminal c", "fails d"]).await;
    let elsewhere = |what: Redrive| Redrive { to: Some("third".into()), ..what };
    let what = Redrive { error_contains: Some("arrival".into()), ..Redrive::default() };
    assert_eq!(redrive(&office, "mail-dead", elsewhere(what)).await, (1, 1));
    assert_eq!(ids(&office.peek("third", PeekState::Pending).await), [sent[1]]);
    let what = Redrive {
        ids: Some(vec![sent[1], sent[2], sent[3], 777]),
        error_contains: Some("failure".into()),
        ..Redrive::default()
    };
    assert_eq!(redrive(&office, "mail-dead", elsewhere(what)).await, (1, 1));
    let mut left = ids(&office.peek("mail-dead", PeekState::Pending).await);
    left.sort_unstable();
    assert_eq!(left, [sent[0], sent[2]]);
    office.close().await;
}

async fn a_dry_run_moves_nothing(lab: Lab) {
    let (office, sent) = open(lab, &["fails a", "fails b"]).await;
    let before = office.lab.store.dump().await.unwrap();
    let what = Redrive { dry_run: true, ..Redrive::default() };
    let told = office.app.queues().redrive("mail-dead", &what).await.unwrap();
    let mut first = told.first;
    first.sort_unstable();
    assert_eq!((told.matched, told.moved, first), (2, 0, sent));
    assert_eq!(office.lab.store.dump().await.unwrap(), before);
    office.close().await;
}

async fn a_rate_spreads_redriven_messages_over_time(lab: Lab) {
    let names: Vec<String> = (0..10).map(|it| format!("buried {it}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (office, _) = open(lab, &names).await;
    let what = Redrive { rate_per_second: Some(2.0), ..Redrive::default() };
    let done = office.app.queues().redrive("mail-dead", &what).await.unwrap();
    assert_eq!((done.moved, done.lasts), (10, Duration::from_millis(4_500)));
    for seconds in 0..5 {
        office.quiet().await;
        let came = office.post.got().len() - 10;
        assert_eq!(came, 1 + seconds * 2, "after {seconds} s");
        office.lab.clock.advance(Duration::from_millis(500));
        until("one more", async || office.post.got().len() == 10 + 2 + seconds * 2).await;
        office.lab.clock.advance(Duration::from_millis(500));
        let all = (3 + seconds * 2).min(10);
        until("another one", async || office.post.got().len() == 10 + all).await;
    }
    for wrong in [0.0, -1.0, f64::NAN] {
        let what = Redrive { rate_per_second: Some(wrong), ..Redrive::default() };
        let refused = office.app.queues().redrive("mail-dead", &what).await;
        assert!(matches!(refused, Err(QueueError::Argument { .. })), "{wrong}");
    }
    office.close().await;
}

async fn a_message_in_flight_is_not_moved(lab: Lab) {
    let one = ConsumeOptions { concurrency: 1, ..ConsumeOptions::default() };
    let office =
        Office::open(lab, |it, post: Post| declared(it).consume_with(DEAD, post, one)).await;
    let mut sent = Vec::new();
    for name in ["waits", "a", "b", "c"] {
        sent.push(office.app.queues().send(DEAD, &mail(name)).await.unwrap());
    }
    office.post.stage.came("door").await;
    let pulled = office.app.queues().pull("mail-dead", 1, HOUR).await.unwrap();
    let to = Redrive { to: Some("third".into()), ..Redrive::default() };
    let done = office.app.queues().redrive("mail-dead", &to).await.unwrap();
    assert_eq!(done.moved, 2);
    assert_eq!(office.depth("third").await, [2, 0, 0, 0]);
    assert_eq!(office.depth("mail-dead").await, [1, 0, 1, 0]);
    office.post.stage.open("door", 1);
    office.quiet().await;
    assert_eq!(office.post.names(), ["waits"]);
    let acked = office.app.queues().ack("mail-dead", &[pulled[0].lease], &[]).await.unwrap();
    assert_eq!(acked.acked, 1);
    assert_eq!(office.depth("mail-dead").await, [0; 4]);
    office.close().await;
}

async fn a_redrive_in_place_revives_dead_messages_and_keeps_pending_ones(lab: Lab) {
    let office = Office::open(lab, |it, post| it.queue(MAIL.retries(1)).consume(MAIL, post)).await;
    let dead = office.send("buried").await;
    let later = office.app.queues().send_after(MAIL, &mail("slow"), HOUR).await.unwrap();
    let failed = office.send("later").await;
    office.quiet().await;
    assert_eq!(office.depth("mail").await, [0, 2, 0, 1]);
    assert_eq!(redrive(&office, "mail", Redrive::default()).await, (1, 1));
    office.quiet().await;
    assert_eq!(office.post.attempts()["buried"], [1, 1]);
    assert_eq!(ids(&office.peek("mail", PeekState::Dead).await), [dead]);
    let due_at = START.after(HOUR);
    assert_eq!(office.state(later).await, State::Pending { due_at, attempts: 0 });
    let due_at = START.after(Duration::from_mins(1));
    assert_eq!(office.state(failed).await, State::Pending { due_at, attempts: 1 });
    assert_eq!(office.post.times("slow"), [Timestamp(0); 0]);
    office.close().await;
}

async fn an_edited_message_replaces_the_first(lab: Lab) {
    let (office, sent) = open(lab, &["fails a", "fails b"]).await;
    let queues = office.app.queues();
    let body = || json(r#"{"to":"mended"}"#);
    let new = queues.edit("mail-dead", sent[0], body(), None).await.unwrap();
    assert!(!sent.contains(&new));
    office.quiet().await;
    assert_eq!(office.post.attempts()["mended"], [1]);
    let State::Settled(old) = office.state(sent[0]).await else { panic!("it is still there") };
    assert_eq!(old.as_, SettledAs::Cancelled);
    let message = office.lab.store.message(new).await.unwrap().unwrap();
    assert_eq!(message.cause, Some(sent[0]));
    let other = queues.edit("mail-dead", sent[1], body(), Some("other")).await.unwrap();
    assert_eq!(ids(&office.peek("other", PeekState::Pending).await), [other]);
    assert_eq!(office.depth("mail-dead").await, [0; 4]);
    for (queue, id) in [("mail-dead", sent[1]), ("mail", other), ("mail", 777)] {
        let refused = queues.edit(queue, id, body(), None).await.unwrap_err();
        assert!(matches!(refused, QueueError::UnknownMessage { .. }), "{queue} {id}");
    }
    // One that is dead in place.
    queues.configure("mail", QueueSettings::default()).await.unwrap();
    let dead = office.send("buried").await;
    office.quiet().await;
    let new = queues.edit("mail", dead, body(), None).await.unwrap();
    office.quiet().await;
    assert_eq!(office.post.got().last().map(|it| it.id.clone()), Some(new.to_string()));
    assert_eq!(office.depth("mail").await, [0; 4]);
    office.close().await;
}

async fn a_message_in_flight_cannot_be_edited(lab: Lab) {
    let office = Office::open(lab, |it, post| it.consume(MAIL, post).queue(OTHER)).await;
    let queues = office.app.queues();
    let sent = office.send("waits").await;
    office.post.stage.came("door").await;
    let leased = queues.send(OTHER, &mail("a")).await.unwrap();
    queues.pull("other", 1, SECOND).await.unwrap();
    for (queue, id) in [("mail", sent), ("other", leased)] {
        let refused = queues.edit(queue, id, json("{}"), None).await.unwrap_err();
        assert!(matches!(refused, QueueError::UnknownMessage { .. }), "{queue}");
    }
    office.post.stage.open("door", 1);
    office.quiet().await;
    assert!(matches!(office.state(sent).await, State::Settled(it) if it.as_ == SettledAs::Done));
    office.lab.clock.advance(SECOND);
    queues.edit("other", leased, json("{}"), None).await.unwrap();
    office.close().await;
}

async fn a_peek_shows_pending_leased_and_dead_messages(lab: Lab) {
    let one = ConsumeOptions { concurrency: 1, ..ConsumeOptions::default() };
    let office = Office::open(lab, |it, post| it.consume_with(MAIL, post, one)).await;
    let queues = office.app.queues();
    let sent = office.send_all(&["buried", "waits", "b", "c", "d"]).await;
    let late = queues.send_after(MAIL, &mail("late"), HOUR).await.unwrap();
    office.post.stage.came("door").await;
    let pulled = queues.pull("mail", 1, SECOND).await.unwrap();
    assert_eq!(pulled[0].queued.message.position, sent[2]);
    let look = async |state| ids(&office.peek("mail", state).await);
    assert_eq!(look(PeekState::Dead).await, sent[..1]);
    assert_eq!(look(PeekState::InFlight).await, sent[1..3]);
    assert_eq!(look(PeekState::Pending).await, [sent[3], sent[4], late]);
    let shown = office.peek("mail", PeekState::Pending).await;
    let behind = |it: &QueueMessageView| Some((it.due_at.unwrap(), it.id));
    let next = queues.peek("mail", PeekState::Pending, behind(&shown[0]), 1).await.unwrap();
    assert_eq!(ids(&next), sent[4..]);
    let next = queues.peek("mail", PeekState::Pending, behind(&shown[1]), 9).await.unwrap();
    assert_eq!(ids(&next), [late]);
    let dead = Some((START, sent[0]));
    assert_eq!(queues.peek("mail", PeekState::Dead, dead, 9).await.unwrap().len(), 0);
    office.lab.clock.advance(SECOND);
    assert_eq!(look(PeekState::InFlight).await, sent[1..2]);
    assert_eq!(look(PeekState::Pending).await.len(), 4, "the lease has ended");
    assert_eq!(office.post.got().len(), 2, "a look takes nothing");
    office.post.stage.open("door", 1);
    office.quiet().await;
    office.close().await;
}

async fn a_message_pulled_during_a_redrive_stays_with_its_consumer(lab: Lab) {
    let office = Office::open(lab, |it, _| it.queue(MAIL)).await;
    office.send_all(&["a"; 60]).await;
    let (queues, over) = (office.app.queues().clone(), Arc::new(AtomicBool::new(false)));
    let is_over = over.clone();
    let puller = tokio::spawn(async move {
        let mut acked = 0;
        let mut pace = Pace::new();
        while !is_over.load(Ordering::SeqCst) {
            for it in queues.pull("mail", 1, HOUR).await.unwrap() {
                let answer = queues.ack("mail", &[it.lease], &[]).await.unwrap();
                assert_eq!(answer.acked, 1, "{} was taken away", it.lease);
                acked += 1;
            }
            pace.wait("the queue is empty").await;
        }
        acked
    });
    let purged = office.app.queues().purge("mail", None, None).await.unwrap();
    until("none is left", async || office.depth("mail").await == [0; 4]).await;
    over.store(true, Ordering::SeqCst);
    assert_eq!(puller.await.unwrap() + purged, 60);
    office.close().await;
}
