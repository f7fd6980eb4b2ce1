//! Changes under an idempotency key: made once, also if they are repeated concurrently, after
//! another change, or in the next process.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::{
    QueueError, RequestKey, TokenError, TokenSpec,
    queue::{LeasedMessage, PeekState, Redrive},
    store::{Json, Position},
};

use crate::{
    lab::Lab,
    play::{Play, Theatre},
    post::{DEAD, MAIL, OTHER, Office, mail},
};

laws!(
    a_repeated_pause_does_not_pause_again_after_a_resume,
    a_repeated_pull_gets_the_same_messages_and_leases,
    a_repeated_acknowledgement_gets_the_first_answer,
    a_repeated_purge_keeps_messages_that_were_sent_since,
    a_repeated_redrive_moves_nothing_more,
    a_repeated_edit_names_the_same_message,
    two_purges_with_one_key_at_once_give_one_answer,
    two_changes_of_one_run_with_one_key_at_once_are_both_done,
    two_edits_with_one_key_at_once_name_the_same_message,
    a_run_is_changed_once_and_shown_as_it_was_then,
    a_run_is_started_once_under_a_key_even_after_it_was_deleted,
    a_token_is_made_once_and_its_repetition_names_it,
    the_keys_of_principals_and_operations_do_not_meet,
);
laws!(also on postgres:
    two_purges_with_one_key_at_once_give_one_answer,
    two_changes_of_one_run_with_one_key_at_once_are_both_done,
    two_edits_with_one_key_at_once_name_the_same_message,
);

const LEASE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_hours(24);

fn key(request: &str) -> RequestKey {
    RequestKey::new("Test", None, "k", request.as_bytes()).unwrap()
}

async fn open(lab: Lab) -> Office {
    Office::open(lab, |it, _| it.queue(MAIL.dead_letters(DEAD)).queue(OTHER)).await
}

/// The next process.
async fn again(office: Office) -> Office {
    office.again(|it, _| it.queue(MAIL.dead_letters(DEAD)).queue(OTHER)).await
}

async fn a_repeated_pause_does_not_pause_again_after_a_resume(lab: Lab) {
    let office = open(lab).await;
    let queues = office.app.queues();
    for _ in 0..2 {
        queues.keyed(key("mail")).pause("mail").await.unwrap();
        assert!(queues.is_paused("mail").await.unwrap());
    }
    queues.resume("mail").await.unwrap();
    queues.keyed(key("mail")).pause("mail").await.unwrap();
    assert!(!queues.is_paused("mail").await.unwrap());
    let reused = queues.keyed(key("other")).pause("other").await;
    assert!(matches!(reused, Err(QueueError::KeyReused { .. })), "{reused:?}");
    // A request that changes nothing is recorded as well.
    let resume = RequestKey::new("Resume", None, "k", b"mail").unwrap();
    queues.keyed(resume.clone()).resume("mail").await.unwrap();
    queues.pause("mail").await.unwrap();
    queues.keyed(resume.clone()).resume("mail").await.unwrap();
    assert!(queues.is_paused("mail").await.unwrap());
    let office = again(office).await;
    let queues = office.app.queues();
    queues.keyed(resume.clone()).resume("mail").await.unwrap();
    assert!(queues.is_paused("mail").await.unwrap(), "the next process finds the key");
    office.lab.clock.advance(DAY);
    queues.keyed(resume).resume("mail").await.unwrap();
    assert!(!queues.is_paused("mail").await.unwrap(), "a key lives for a day");
    office.close().await;
}

fn shown(pulled: &[LeasedMessage]) -> Vec<(Position, String, u32, i64, String)> {
    let shown = |it: &LeasedMessage| {
        let message = &it.queued.message;
        let body = message.data.as_str().to_owned();
        (message.position, it.lease.to_string(), it.attempt, it.until.0, body)
    };
    pulled.iter().map(shown).collect()
}

async fn a_repeated_pull_gets_the_same_messages_and_leases(lab: Lab) {
    let office = open(lab).await;
    let queues = office.app.queues();
    assert!(queues.keyed(key("p")).pull("mail", 2, LEASE).await.unwrap().is_empty());
    let sent = office.send_all(&["a", "b", "c"]).await;
    let first = queues.keyed(key("p")).pull("mail", 2, LEASE).await.unwrap();
    assert_eq!(shown(&first).iter().map(|it| it.0).collect::<Vec<_>>(), sent[..2]);
    let second = queues.keyed(key("p")).pull("mail", 2, LEASE).await.unwrap();
    assert_eq!(shown(&second), shown(&first));
    assert_eq!(office.depth("mail").await, [1, 0, 2, 0]);
    let reused = queues.keyed(key("q")).pull("mail", 1, LEASE).await;
    assert!(matches!(reused, Err(QueueError::KeyReused { .. })), "{reused:?}");
    let office = again(office).await;
    let queues = office.app.queues();
    let third = queues.keyed(key("p")).pull("mail", 2, LEASE).await.unwrap();
    assert_eq!(shown(&third), shown(&first));
    let leases: Vec<_> = third.iter().map(|it| it.lease).collect();
    assert_eq!(queues.ack("mail", &leases, &[]).await.unwrap().acked, 2);
    office.close().await;
}

async fn a_repeated_acknowledgement_gets_the_first_answer(lab: Lab) {
    let office = open(lab).await;
    let queues = office.app.queues();
    office.send_all(&["a", "b", "c"]).await;
    let pulled = queues.pull("mail", 3, LEASE).await.unwrap();
    let leases: Vec<_> = pulled.iter().map(|it| it.lease).collect();
    queues.ack("mail", &leases[..1], &[]).await.unwrap();
    let ack = async |request: &str| {
        let retries = [(leases[2], Some(Duration::ZERO))];
        queues.keyed(key(request)).ack("mail", &[leases[0], leases[1], leases[1]], &retries).await
    };
    let first = ack("a").await.unwrap();
    assert_eq!((first.acked, first.retried), (1, 1));
    assert_eq!(first.lost.len(), 2, "one was settled, and one came twice");
    assert_eq!(ack("a").await.unwrap(), first);
    assert!(matches!(ack("b").await, Err(QueueError::KeyReused { .. })));
    assert_eq!(queues.pull("mail", 9, LEASE).await.unwrap().len(), 1, "the retry");
    office.close().await;
}

async fn a_repeated_purge_keeps_messages_that_were_sent_since(lab: Lab) {
    let office = open(lab).await;
    let queues = office.app.queues();
    let many: Vec<String> = (0..250).map(|it| format!("{it}")).collect();
    office.send_all(&many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(queues.keyed(key("a")).purge("mail", None, None).await.unwrap(), 250);
    office.send_all(&["later"]).await;
    assert_eq!(queues.keyed(key("a")).purge("mail", None, None).await.unwrap(), 250);
    assert_eq!(office.depth("mail").await, [1, 0, 0, 0]);
    let reused = queues.keyed(key("b")).purge("mail", None, None).await;
    assert!(matches!(reused, Err(QueueError::KeyReused { .. })), "{reused:?}");
    let office = again(office).await;
    let queues = office.app.queues();
    assert_eq!(queues.keyed(key("a")).purge("mail", None, None).await.unwrap(), 250);
    assert_eq!(office.depth("mail").await, [1, 0, 0, 0]);
    office.close().await;
}

async fn two_purges_with_one_key_at_once_give_one_answer(lab: Lab) {
    let office = open(lab).await;
    let queues = office.app.queues();
    let many: Vec<String> = (0..150).map(|it| format!("{it}")).collect();
    office.send_all(&many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (one, two) = (queues.keyed(key("a")), queues.keyed(key("a")));
    let (one, two) = tokio::join!(one.purge("mail", None, None), two.purge("mail", None, None));
    assert_eq!((one.unwrap(), two.unwrap()), (150, 150));
    office.close().await;
}

async fn a_repeated_redrive_moves_nothing_more(lab: Lab) {
    let office = open(lab).await;
    let queues = office.app.queues();
    let all: Vec<_> = ["a", "b"].iter().map(|it| mail(it)).collect();
    queues.send_all(DEAD, &all).await.unwrap();
    let what = Redrive { to: Some("other".into()), ..Redrive::default() };
    let dry = Redrive { dry_run: true, ..what.clone() };
    assert_eq!(queues.keyed(key("a")).redrive("mail-dead", &dry).await.unwrap().moved, 0);
    let first = queues.keyed(key("a")).redrive("mail-dead", &what).await.unwrap();
    assert_eq!((first.matched, first.moved), (2, 2));
    queues.send_all(DEAD, &all[..1]).await.unwrap();
    assert_eq!(queues.keyed(key("a")).redrive("mail-dead", &what).await.unwrap(), first);
    assert_eq!(office.peek("mail-dead", PeekState::Pending).await.len(), 1);
    office.close().await;
}

async fn a_repeated_edit_names_the_same_message(lab: Lab) {
    let office = open(lab).await;
    let queues = office.app.queues();
    let sent = office.send("a").await;
    let edit = async |request: &str| {
        let body = Json::of(&mail("b")).unwrap();
        queues.keyed(key(request)).edit("mail", sent, body, None).await
    };
    let first = edit("a").await.unwrap();
    assert_eq!(edit("a").await.unwrap(), first);
    assert!(matches!(edit("b").await, Err(QueueError::KeyReused { .. })));
    assert_eq!(office.depth("mail").await, [1, 0, 0, 0]);
    office.close().await;
}

async fn theatre(lab: &Lab) -> Theatre {
    let play = Play::of(|ctx, _, _| async move { ctx.event("go").await });
    Theatre::on(lab.store.clone(), lab.clock.clone(), &play).await
}

async fn two_changes_of_one_run_with_one_key_at_once_are_both_done(lab: Lab) {
    let theatre = theatre(&lab).await;
    for run in ["one", "two", "three", "four"] {
        theatre.start(run).await;
        theatre.sleeps(run).await;
        let runs = theatre.app.runs();
        let end = || runs.keyed(RequestKey::new("end", None, run, run.as_bytes()).unwrap());
        let (first, second) = (end(), end());
        let ended = tokio::join!(first.terminate("play", run), second.terminate("play", run));
        assert!(ended.0.is_ok() && ended.1.is_ok(), "{ended:?}");
    }
    theatre.app.stop().await;
}

async fn two_edits_with_one_key_at_once_name_the_same_message(lab: Lab) {
    let office = open(lab).await;
    let queues = office.app.queues();
    let sent = office.send("a").await;
    let edit = async || {
        let body = Json::of(&mail("b")).unwrap();
        queues.keyed(key("a")).edit("mail", sent, body, None).await
    };
    let (first, second) = tokio::join!(edit(), edit());
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(office.depth("mail").await, [1, 0, 0, 0]);
    office.close().await;
}

async fn a_run_is_changed_once_and_shown_as_it_was_then(lab: Lab) {
    let theatre = theatre(&lab).await;
    theatre.start("one").await;
    theatre.sleeps("one").await;
    let runs = theatre.app.runs();
    let keyed =
        |operation: &str| runs.keyed(RequestKey::new(operation, None, "k", b"one").unwrap());
    keyed("pause").pause("play", "one").await.unwrap();
    let paused = keyed("pause").look_then("play", "one").await.unwrap();
    assert_eq!(paused.status.word(), "paused");
    runs.resume("play", "one").await.unwrap();
    theatre.clock.advance(LEASE);
    keyed("pause").pause("play", "one").await.unwrap();
    assert_eq!(keyed("pause").look_then("play", "one").await.unwrap(), paused);
    theatre.sleeps("one").await;
    for _ in 0..2 {
        keyed("event").send_event("play", "one", "other", &1).await.unwrap();
    }
    let events = theatre.app.runs().look("play", "one").await.unwrap().events;
    assert_eq!(events.len(), 1, "{events:?}");
    keyed("end").terminate("play", "one").await.unwrap();
    let ended = keyed("end").look_then("play", "one").await.unwrap();
    // A repetition succeeds in a status in which the change would not be possible any more.
    keyed("end").terminate("play", "one").await.unwrap();
    keyed("restart").restart("play", "one", None).await.unwrap();
    keyed("restart").restart("play", "one", None).await.unwrap();
    assert_eq!(keyed("end").look_then("play", "one").await.unwrap(), ended);
    let restarted = keyed("restart").look_then("play", "one").await.unwrap();
    assert_eq!(restarted.restarts, 1);
    let reused = runs.keyed(RequestKey::new("pause", None, "k", b"two").unwrap());
    assert_eq!(reused.pause("play", "one").await.unwrap_err().code(), "key_reused");
    theatre.app.stop().await;
}

async fn a_run_is_started_once_under_a_key_even_after_it_was_deleted(lab: Lab) {
    let theatre = theatre(&lab).await;
    let runs = theatre.app.runs();
    let start = async |request: &str, id: &str| {
        let runs = runs.keyed(key(request));
        runs.start_json("play", id, Value::Null).await?;
        runs.started_before().await
    };
    let first = start("a", "one").await.unwrap().unwrap();
    assert_eq!((&*first.id, first.created), ("one", true));
    assert_eq!(start("a", "two").await.unwrap(), Some(first.clone()), "the id of the first");
    assert_eq!(start("b", "one").await.unwrap_err().code(), "key_reused");
    assert_eq!(runs.status("play", "two").await.unwrap_err().code(), "run_not_found");
    // A start that finds its run is recorded as well.
    let found = RequestKey::new("Found", None, "k", b"one").unwrap();
    let find = async || runs.keyed(found.clone()).start_json("play", "one", json!(1)).await;
    assert!(!find().await.unwrap().created);
    runs.terminate("play", "one").await.unwrap();
    runs.delete("play", "one").await.unwrap();
    start("a", "one").await.unwrap();
    find().await.unwrap();
    assert_eq!(runs.status("play", "one").await.unwrap_err().code(), "run_not_found");
    theatre.app.stop().await;
}

async fn a_token_is_made_once_and_its_repetition_names_it(lab: Lab) {
    let theatre = theatre(&lab).await;
    let tokens = theatre.app.tokens();
    let made = tokens.create(TokenSpec::member("acme"), Some(&key("acme"))).await.unwrap();
    let again = tokens.create(TokenSpec::member("acme"), Some(&key("acme"))).await.err().unwrap();
    assert!(matches!(&again, TokenError::Repeated { id } if *id == made.token.id), "{again}");
    let other = tokens.create(TokenSpec::member("other"), Some(&key("other"))).await.err().unwrap();
    assert!(matches!(other, TokenError::KeyReused { .. }), "{other}");
    assert_eq!(tokens.list(None, 9).await.unwrap(), [made.token]);
    theatre.app.stop().await;
}

async fn the_keys_of_principals_and_operations_do_not_meet(lab: Lab) {
    let office = open(lab).await;
    let store = &*office.lab.store;
    let one = RequestKey::new("PauseQueue", Some("acme"), "k", b"mail").unwrap();
    office.app.queues().keyed(one.clone()).pause("mail").await.unwrap();
    assert!(one.find(store).await.unwrap().is_some());
    for (operation, principal) in
        [("PauseQueue", None), ("PauseQueue", Some("other")), ("ResumeQueue", Some("acme"))]
    {
        let key = RequestKey::new(operation, principal, "k", b"another").unwrap();
        assert_eq!(key.find(store).await.unwrap(), None, "{operation} {principal:?}");
    }
    office.close().await;
}
