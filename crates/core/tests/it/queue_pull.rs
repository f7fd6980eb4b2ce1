//! Consumers outside of the process: leases, and late acknowledgements.

use std::{collections::BTreeSet, time::Duration};

use steadfast_core::{
    App, QueueError, QueueSettings,
    queue::{AckResult, LeaseId, LeasedMessage, PULL_MAX, PeekState},
    store::{Position, SettledAs, State},
};

use crate::{
    lab::{Lab, START},
    play::until,
    post::{DEAD, HOUR, MAIL, OTHER, Office, SECOND, ids, mail},
};

laws!(
    a_sent_message_is_pulled_immediately,
    a_message_of_another_process_is_pulled_immediately,
    a_pulled_message_is_leased_and_done_when_it_is_acknowledged,
    messages_are_pulled_in_due_order,
    a_late_acknowledgement_counts_until_another_consumer_gets_the_message,
    an_acknowledgement_counts_once,
    a_retry_is_delivered_after_its_delay,
    attempts_that_are_used_up_by_retries_end_in_the_dead_letters,
    attempts_that_are_used_up_by_leases_end_in_the_dead_letters,
    a_lease_of_another_queue_is_lost_and_harms_nothing,
    a_lease_outlives_the_process,
    from_a_paused_queue_nothing_is_pulled,
    nothing_is_handed_both_to_a_puller_and_to_a_consumer,
    a_message_with_an_expired_lease_goes_to_the_consumer_and_is_counted_exactly,
    a_message_whose_last_lease_expired_is_given_up_without_another_attempt,
);
laws!(also on postgres:
    a_message_of_another_process_is_pulled_immediately,
    messages_are_pulled_in_due_order,
    a_late_acknowledgement_counts_until_another_consumer_gets_the_message,
    a_lease_outlives_the_process,
    nothing_is_handed_both_to_a_puller_and_to_a_consumer,
    a_message_with_an_expired_lease_goes_to_the_consumer_and_is_counted_exactly,
);

const LEASE: Duration = Duration::from_secs(30);

fn settings() -> QueueSettings {
    QueueSettings { max_retries: 1, ..QueueSettings::default() }
}

async fn open(lab: Lab) -> Office {
    Office::open(lab, |it, _| it.queue(MAIL.with(settings()).dead_letters(DEAD)).queue(OTHER)).await
}

async fn pull(office: &Office, max: usize) -> Vec<LeasedMessage> {
    office.app.queues().pull("mail", max, LEASE).await.unwrap()
}

async fn ack(office: &Office, lease: LeaseId) -> AckResult {
    office.app.queues().ack("mail", &[lease], &[]).await.unwrap()
}

async fn retry(office: &Office, lease: LeaseId, after: Option<Duration>) -> AckResult {
    office.app.queues().ack("mail", &[], &[(lease, after)]).await.unwrap()
}

fn acked(count: usize) -> AckResult {
    AckResult { acked: count, ..AckResult::default() }
}

fn retried(count: usize) -> AckResult {
    AckResult { retried: count, ..AckResult::default() }
}

fn lost(lease: LeaseId) -> AckResult {
    AckResult { lost: vec![lease], ..AckResult::default() }
}

fn places(pulled: &[LeasedMessage]) -> Vec<Position> {
    pulled.iter().map(|it| it.queued.message.position).collect()
}

async fn a_pulled_message_is_leased_and_done_when_it_is_acknowledged(lab: Lab) {
    let office = open(lab).await;
    let sent = office.send_all(&["a", "b", "c"]).await;
    let pulled = pull(&office, 2).await;
    assert_eq!(places(&pulled), sent[..2]);
    assert!(pulled.iter().all(|it| it.attempt == 1 && it.until == START.after(LEASE)));
    assert_ne!(pulled[0].lease, pulled[1].lease);
    assert_eq!(office.depth("mail").await, [1, 0, 2, 0]);
    assert_eq!(ids(&office.peek("mail", PeekState::InFlight).await), sent[..2]);
    assert_eq!(places(&pull(&office, 9).await), sent[2..]);
    assert_eq!(places(&pull(&office, 9).await), [0; 0]);
    let both = [pulled[0].lease, pulled[1].lease];
    let answer = office.app.queues().ack("mail", &both, &[]).await.unwrap();
    assert_eq!(answer, acked(2));
    let State::Settled(end) = office.state(sent[0]).await else { panic!("not done") };
    assert_eq!((end.as_, end.attempts), (SettledAs::Done, 1));
    assert_eq!(office.depth("mail").await, [0, 0, 1, 0]);
    let text = pulled[0].lease.to_string();
    assert_eq!(text.parse::<LeaseId>().unwrap(), pulled[0].lease);
    for (max, lease) in [(0, LEASE), (PULL_MAX + 1, LEASE), (1, Duration::ZERO), (1, 25 * HOUR)] {
        let refused = office.app.queues().pull("mail", max, lease).await;
        assert!(matches!(refused, Err(QueueError::Argument { .. })), "{max} {lease:?}");
    }
    office.close().await;
}

async fn a_sent_message_is_pulled_immediately(lab: Lab) {
    let office = open(lab).await;
    for _ in 0..50 {
        let sent = office.send("a").await;
        let pulled = pull(&office, 9).await;
        assert_eq!(places(&pulled), [sent]);
        retry(&office, pulled[0].lease, Some(Duration::ZERO)).await;
        let again = pull(&office, 9).await;
        assert_eq!((places(&again), again[0].attempt), (vec![sent], 2));
    }
    office.close().await;
}

/// Another process, or another part of this one: only the store shows it.
async fn a_message_of_another_process_is_pulled_immediately(lab: Lab) {
    let office = open(lab).await;
    let store = office.lab.store.clone();
    let other = App::new("test").queue(MAIL).prepare(store).await.unwrap();
    let other = other.queues();
    for _ in 0..50 {
        assert_eq!(places(&pull(&office, 9).await), [0; 0]);
        let sent = other.send(MAIL, &mail("a")).await.unwrap();
        let pulled = pull(&office, 9).await;
        assert_eq!(places(&pulled), [sent]);
        ack(&office, pulled[0].lease).await;
    }
    office.close().await;
}

async fn messages_are_pulled_in_due_order(lab: Lab) {
    let office = open(lab).await;
    let mut sent = Vec::new();
    for seconds in [3, 1, 2, 0] {
        let delay = Duration::from_secs(seconds);
        sent.push(office.app.queues().send_after(MAIL, &mail("a"), delay).await.unwrap());
    }
    assert_eq!(places(&pull(&office, 9).await), sent[3..]);
    office.lab.clock.advance(Duration::from_secs(2));
    assert_eq!(places(&pull(&office, 1).await), sent[1..2]);
    office.lab.clock.advance(SECOND);
    assert_eq!(places(&pull(&office, 9).await), [sent[2], sent[0]]);
    office.close().await;
}

async fn a_late_acknowledgement_counts_until_another_consumer_gets_the_message(lab: Lab) {
    let office = open(lab).await;
    office.send_all(&["a", "b", "c"]).await;
    let first = pull(&office, 9).await;
    office.lab.clock.advance(LEASE);
    assert_eq!(office.depth("mail").await, [3, 0, 0, 0]);
    assert_eq!(ack(&office, first[0].lease).await, acked(1));
    assert_eq!(retry(&office, first[1].lease, Some(HOUR)).await, retried(1));
    let second = pull(&office, 9).await;
    assert_eq!((places(&second), second[0].attempt), (places(&first[2..]), 2));
    assert_eq!(ack(&office, first[2].lease).await, lost(first[2].lease));
    assert_eq!(retry(&office, first[2].lease, None).await, lost(first[2].lease));
    assert_eq!(ack(&office, second[0].lease).await, acked(1));
    assert_eq!(office.depth("mail").await, [0, 1, 0, 0]);
    let errors = office.errors(places(&second)[0]).await;
    assert_eq!(errors, ["the lease ended without an answer"]);
    office.close().await;
}

async fn an_acknowledgement_counts_once(lab: Lab) {
    let office = open(lab).await;
    office.send_all(&["a", "b", "c"]).await;
    let pulled = pull(&office, 9).await;
    let leases: Vec<LeaseId> = pulled.iter().map(|it| it.lease).collect();
    assert_eq!(ack(&office, leases[0]).await, acked(1));
    assert_eq!(ack(&office, leases[0]).await, lost(leases[0]));
    assert_eq!(retry(&office, leases[0], None).await, lost(leases[0]));
    // A lost lease does not affect the others, nor does a lease that is named twice.
    let both = [leases[0], leases[1], leases[1]];
    let answer = office.app.queues().ack("mail", &both, &[(leases[2], None)]).await.unwrap();
    assert_eq!((answer.acked, answer.retried), (1, 1));
    assert_eq!(answer.lost, [leases[0], leases[1]]);
    assert_eq!(office.depth("mail").await, [0, 1, 0, 0]);
    office.close().await;
}

async fn a_retry_is_delivered_after_its_delay(lab: Lab) {
    let office = open(lab).await;
    office.send_all(&["a", "b", "c"]).await;
    let pulled = pull(&office, 9).await;
    retry(&office, pulled[0].lease, Some(Duration::from_mins(2))).await;
    retry(&office, pulled[1].lease, None).await;
    retry(&office, pulled[2].lease, Some(Duration::ZERO)).await;
    let mut waits = office.peek("mail", PeekState::Pending).await;
    waits.sort_by_key(|it| it.id);
    assert_eq!(waits[0].due_at, Some(START.after(Duration::from_mins(2))));
    let wait = waits[1].due_at.unwrap().since(START);
    assert!((SECOND / 2..=SECOND).contains(&wait), "{wait:?}");
    assert!(waits.iter().all(|it| it.attempts == 1));
    let again = pull(&office, 9).await;
    assert_eq!((places(&again), again[0].attempt), (places(&pulled[2..]), 2));
    office.lab.clock.advance(Duration::from_mins(2));
    // The third has no attempts left.
    assert_eq!(places(&pull(&office, 9).await).len(), 2);
    office.close().await;
}

async fn attempts_that_are_used_up_by_retries_end_in_the_dead_letters(lab: Lab) {
    let office = open(lab).await;
    let sent = office.send("a").await;
    for attempt in 1..=2 {
        let pulled = pull(&office, 9).await;
        assert_eq!(pulled[0].attempt, attempt);
        assert_eq!(retry(&office, pulled[0].lease, Some(Duration::ZERO)).await, retried(1));
    }
    assert_eq!(places(&pull(&office, 9).await), [0; 0]);
    let dead = office.peek("mail-dead", PeekState::Pending).await;
    assert_eq!((ids(&dead), dead[0].attempts_before), (vec![sent], 2));
    assert_eq!(dead[0].last_error.as_deref(), Some("the consumer asked for a retry"));
    office.close().await;
}

async fn attempts_that_are_used_up_by_leases_end_in_the_dead_letters(lab: Lab) {
    let office = open(lab).await;
    let sent = office.send("a").await;
    let mut last = None;
    for attempt in 1..=2 {
        let pulled = pull(&office, 9).await;
        assert_eq!(pulled[0].attempt, attempt);
        last = Some(pulled[0].lease);
        office.lab.clock.advance(LEASE);
    }
    assert_eq!(places(&pull(&office, 9).await), [0; 0]);
    let dead = office.peek("mail-dead", PeekState::Pending).await;
    assert_eq!((ids(&dead), dead[0].attempts_before), (vec![sent], 2));
    let errors = office.errors(sent).await;
    let last_error = "the last lease ended without an answer";
    assert_eq!(errors, ["the lease ended without an answer", last_error]);
    assert_eq!(ack(&office, last.unwrap()).await, lost(last.unwrap()), "it is elsewhere");
    office.close().await;
}

async fn a_lease_of_another_queue_is_lost_and_harms_nothing(lab: Lab) {
    let office = open(lab).await;
    office.send("a").await;
    let lease = pull(&office, 9).await[0].lease;
    let queues = office.app.queues();
    assert_eq!(queues.ack("other", &[lease], &[]).await.unwrap(), lost(lease));
    assert_eq!(queues.ack("other", &[], &[(lease, None)]).await.unwrap(), lost(lease));
    assert_eq!(office.depth("mail").await, [0, 0, 1, 0]);
    assert_eq!(ack(&office, lease).await, acked(1));
    for text in ["", "7", "7-1", "x-0000000000000000", "7-000000000000000g"] {
        assert!(text.parse::<LeaseId>().is_err(), "{text}");
    }
    let unknown: LeaseId = "77-0000000000000001".parse().unwrap();
    assert_eq!(ack(&office, unknown).await, lost(unknown));
    office.close().await;
}

async fn a_lease_outlives_the_process(lab: Lab) {
    let office = open(lab).await;
    office.send_all(&["a", "b"]).await;
    let pulled = pull(&office, 9).await;
    let office =
        office.again(|it, _| it.queue(MAIL.with(settings()).dead_letters(DEAD)).queue(OTHER)).await;
    assert_eq!(places(&pull(&office, 9).await), [0; 0]);
    assert_eq!(ack(&office, pulled[0].lease).await, acked(1));
    office.lab.clock.advance(LEASE);
    let again = pull(&office, 9).await;
    assert_eq!((places(&again), again[0].attempt), (places(&pulled[1..]), 2));
    office.close().await;
}

async fn from_a_paused_queue_nothing_is_pulled(lab: Lab) {
    let office = open(lab).await;
    office.send_all(&["a", "b"]).await;
    let first = pull(&office, 1).await;
    office.app.queues().pause("mail").await.unwrap();
    assert_eq!(places(&pull(&office, 9).await), [0; 0]);
    assert_eq!(ack(&office, first[0].lease).await, acked(1), "a delivery in flight ends");
    office.app.queues().resume("mail").await.unwrap();
    assert_eq!(places(&pull(&office, 9).await).len(), 1);
    office.close().await;
}

async fn nothing_is_handed_both_to_a_puller_and_to_a_consumer(lab: Lab) {
    let office = Office::open(lab, |it, post| it.consume(MAIL, post)).await;
    let mut outside = Vec::new();
    let mut sent = BTreeSet::new();
    for round in 0..30 {
        let names: Vec<String> = (0..20).map(|it| format!("{round} {it}")).collect();
        let all: Vec<_> = names.iter().map(|it| mail(it)).collect();
        sent.extend(office.app.queues().send_all(MAIL, &all).await.unwrap());
        for pulled in pull(&office, 5).await {
            outside.push(pulled.queued.message.position);
            assert_eq!(ack(&office, pulled.lease).await, acked(1));
        }
    }
    office.quiet().await;
    let inside = office.post.got().into_iter().map(|it| it.id.parse().unwrap());
    let all: Vec<Position> = inside.chain(outside).collect();
    assert_eq!(all.len(), 600, "none was handed out twice");
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), sent);
    office.close().await;
}

async fn a_message_with_an_expired_lease_goes_to_the_consumer_and_is_counted_exactly(lab: Lab) {
    let office = open(lab).await;
    let sent = office.send_all(&["fails", "fine"]).await;
    let pulled = pull(&office, 9).await;
    let office = office
        .again(|it, post| it.queue(MAIL.with(settings()).dead_letters(DEAD)).consume(MAIL, post))
        .await;
    assert_eq!(office.post.got(), []);
    office.lab.clock.advance(LEASE);
    until("both are gone", async || office.depth("mail").await == [0; 4]).await;
    assert_eq!(office.post.attempts()["fails"], [2]);
    assert_eq!(office.post.attempts()["fine"], [2]);
    assert_eq!(ack(&office, pulled[1].lease).await, lost(pulled[1].lease));
    let dead = office.peek("mail-dead", PeekState::Pending).await;
    assert_eq!((ids(&dead), dead[0].attempts_before), (sent[..1].to_vec(), 2));
    office.close().await;
}

async fn a_message_whose_last_lease_expired_is_given_up_without_another_attempt(lab: Lab) {
    let declare = || MAIL.retries(0).dead_letters(DEAD);
    let office = Office::open(lab, |it, _| it.queue(declare())).await;
    let sent = office.send("fine").await;
    assert_eq!(pull(&office, 9).await[0].attempt, 1);
    let office = office.again(|it, post| it.queue(declare()).consume(MAIL, post)).await;
    office.lab.clock.advance(LEASE);
    until("it is gone", async || office.depth("mail").await == [0; 4]).await;
    assert_eq!(office.post.got(), []);
    let dead = office.peek("mail-dead", PeekState::Pending).await;
    assert_eq!((ids(&dead), dead[0].attempts_before), (vec![sent], 1));
    office.close().await;
}
