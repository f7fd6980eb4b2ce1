//! A repeated request changes nothing.

use std::time::Duration;

use steadfast_store::{
    Address, AppendOutcome, Commit, Outcome, RecordedKey, Rejection, Remember, Write,
};

use crate::lab::{Lab, address, command, event, json};

crate::laws::laws!(
    a_redelivered_input_changes_nothing_and_returns_the_record,
    a_redelivery_is_recognized_although_its_version_has_passed,
    a_key_with_another_request_is_refused,
    a_key_counts_within_its_stream_only,
    fifty_duplicates_at_once_have_one_effect,
    a_key_is_free_again_after_its_time,
    a_rejected_commit_does_not_take_its_key,
);

fn keyed(stream: &Address, version: i64, key: &str, body: &str) -> Commit {
    let key = Remember::new(stream.id(), key, body.as_bytes()).unwrap();
    let key = key.reply(201, json("{\"ok\":true}"));
    Commit::append(stream, version, vec![event("in").input(), command(stream)])
        .write(Write::Remember(key))
}

async fn a_redelivered_input_changes_nothing_and_returns_the_record(lab: Lab) {
    let stream = address("a");
    lab.append(&address("other"), vec![event("x")]).await;
    lab.committed(keyed(&stream, 0, "m-1", "body")).await;
    let before = lab.store.dump().await.unwrap();
    let again = lab.commit(keyed(&stream, 0, "m-1", "body")).await;
    let reply = Some(json("{\"ok\":true}"));
    assert_eq!(again, Outcome::Duplicate(RecordedKey { position: 2, status: 201, reply }));
    assert_eq!(lab.store.dump().await.unwrap(), before);
}

async fn a_redelivery_is_recognized_although_its_version_has_passed(lab: Lab) {
    let (stream, streams) = (address("a"), lab.streams());
    let append = async |version| {
        streams.append_input(&stream, version, "m-1", vec![event("in").input()]).await.unwrap()
    };
    assert_eq!(append(0).await, AppendOutcome::New(vec![(1, 1)]));
    lab.append(&stream, vec![event("later")]).await;
    let recorded = RecordedKey { position: 1, status: 0, reply: None };
    assert_eq!(append(0).await, AppendOutcome::Before(recorded));
}

async fn a_key_with_another_request_is_refused(lab: Lab) {
    let stream = address("a");
    lab.committed(keyed(&stream, 0, "m-1", "body")).await;
    let rejection = lab.rejected(keyed(&stream, 2, "m-1", "another")).await;
    assert_eq!(rejection, Rejection::KeyReused { key: "m-1".into() });
    assert_eq!(lab.version(&stream).await, 2);
}

async fn a_key_counts_within_its_stream_only(lab: Lab) {
    lab.committed(keyed(&address("a"), 0, "m-1", "body")).await;
    lab.committed(keyed(&address("b"), 0, "m-1", "body")).await;
}

async fn fifty_duplicates_at_once_have_one_effect(lab: Lab) {
    let stream = address("a");
    let all = (0..50).map(|_| {
        let (store, commit) = (lab.store.clone(), keyed(&stream, 0, "m-1", "body"));
        tokio::spawn(async move { store.commit(commit).await.unwrap() })
    });
    let mut fresh = 0;
    for one in all.collect::<Vec<_>>() {
        match one.await.unwrap() {
            Outcome::Committed(_) => fresh += 1,
            Outcome::Duplicate(it) => assert_eq!(it.position, 1),
            Outcome::Rejected(it) => panic!("{it}"),
        }
    }
    assert_eq!((fresh, lab.version(&stream).await), (1, 2));
}

async fn a_key_is_free_again_after_its_time(lab: Lab) {
    let stream = address("a");
    lab.committed(keyed(&stream, 0, "m-1", "body")).await;
    lab.clock.advance(Remember::KEEP - Duration::from_millis(1));
    assert!(matches!(lab.commit(keyed(&stream, 0, "m-1", "body")).await, Outcome::Duplicate(_)));
    lab.clock.advance(Duration::from_millis(1));
    lab.committed(keyed(&stream, 2, "m-1", "another")).await;
    let again = lab.commit(keyed(&stream, 4, "m-1", "another")).await;
    assert!(matches!(again, Outcome::Duplicate(it) if it.position == 3));
}

async fn a_rejected_commit_does_not_take_its_key(lab: Lab) {
    let stream = address("a");
    lab.rejected(keyed(&stream, 7, "m-1", "body")).await;
    lab.committed(keyed(&stream, 0, "m-1", "another")).await;
}
