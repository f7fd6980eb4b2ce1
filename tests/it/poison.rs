//! A message whose handling crashes the process is found, counted and given up; the others are
//! done.

use steadfast_core::store::{Address, Commit, EntityKind, Json, Message, SettledAs, State, Write};

use crate::killer::{Victim, open, read_all};

async fn a_message_that_ends_the_process_dies(kind: &str, ends_max: usize) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let stream = Address::new(EntityKind::Stream, "poison", "1").unwrap();
    let message = |data: &str| Message::new(kind, Json::parse(data).unwrap()).unwrap().to(&stream);
    let store = open(place).await;
    let messages = vec![message("1"), message("\"poison\""), message("2")];
    store.commit(Commit::of(Write::Append { stream, messages })).await.unwrap();
    store.close().await;

    let mut ends = 0;
    while !Victim::start(place, &["poison"], None).wait().success() {
        ends += 1;
        assert!(ends <= ends_max, "the poison still ends the process after {ends} times");
    }
    assert_eq!(ends, ends_max);
    let store = open(place).await;
    let all = read_all(&*store).await;
    let settled = |position: usize| match &all[position].state {
        Some(State::Settled(it)) => it.as_,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        [settled(0), settled(1), settled(2)],
        [SettledAs::Done, SettledAs::Dead, SettledAs::Done]
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_ends_the_process_is_given_up_after_its_attempts() {
    a_message_that_ends_the_process_dies("outside", 3).await;
}

/// The first crash is not counted, because nothing is written before such a delivery; from then on
/// attempts are counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_without_claim_that_crashes_the_process_is_given_up_after_one_more() {
    a_message_that_ends_the_process_dies("inside", 4).await;
}
