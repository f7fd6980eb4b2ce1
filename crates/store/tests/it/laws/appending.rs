//! Appending: versions, positions, one commit for everything.

use std::collections::BTreeSet;

use steadfast_store::{Cause, Commit, Expect, Outcome, Rejection, Write};

use crate::lab::{Lab, address, command, event};

crate::laws::laws!(
    append_with_the_expected_version_commits,
    append_with_a_wrong_version_is_rejected_and_changes_nothing,
    a_rejected_append_leaves_no_gap,
    input_and_outputs_are_one_append,
    a_commit_over_two_streams_is_all_or_nothing,
    of_many_appends_at_one_version_just_one_commits,
    positions_are_commit_order_without_gaps,
    a_rejected_commit_leaves_its_neighbours_alone,
    time_never_runs_backwards,
    everything_is_there_again_after_a_restart,
);

async fn append_with_the_expected_version_commits(lab: Lab) {
    let stream = address("a");
    let receipt = lab.committed(Commit::append(&stream, 0, vec![event("one"), event("two")])).await;
    assert_eq!(receipt.appended, [(1, 1), (2, 2)]);
    let receipt = lab.committed(Commit::append(&stream, 2, vec![event("three")])).await;
    assert_eq!(receipt.appended, [(3, 3)]);
    assert_eq!(lab.version(&stream).await, 3);
}

async fn append_with_a_wrong_version_is_rejected_and_changes_nothing(lab: Lab) {
    let stream = address("a");
    lab.append(&stream, vec![event("one")]).await;
    let before = lab.store.dump().await.unwrap();
    for version in [0, 2, 7] {
        let rejection = lab.rejected(Commit::append(&stream, version, vec![event("no")])).await;
        let expected = Rejection::Version { stream: stream.id(), expected: version, actual: 1 };
        assert_eq!(rejection, expected);
    }
    assert_eq!(lab.store.dump().await.unwrap(), before);
}

async fn a_rejected_append_leaves_no_gap(lab: Lab) {
    let stream = address("a");
    lab.append(&stream, vec![event("one")]).await;
    lab.rejected(Commit::append(&stream, 9, vec![event("no"), command(&address("b"))])).await;
    assert_eq!(lab.append(&stream, vec![event("two")]).await, [2]);
}

async fn input_and_outputs_are_one_append(lab: Lab) {
    let stream = address("a");
    let output = command(&stream).cause(Cause::Sibling(0));
    let input = event("paid").input();
    let receipt = lab.committed(Commit::append(&stream, 0, vec![input, output])).await;
    let messages = lab.store.read_stream(stream.id(), 1, 10).await.unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1].cause, Some(receipt.appended[0].1));
    assert_eq!(messages[0].created_at, messages[1].created_at);
    assert_eq!((messages[0].processed(), messages[1].processed()), (None, Some(false)));
}

async fn a_commit_over_two_streams_is_all_or_nothing(lab: Lab) {
    let (a, b) = (address("a"), address("b"));
    let both = |expected| {
        Commit::append(&a, expected, vec![event("from a")])
            .expect(Expect::Version { stream: b.id(), version: 0 })
            .write(Write::Append { stream: b.clone(), messages: vec![event("to b")] })
    };
    lab.committed(both(0)).await;
    lab.rejected(both(1)).await;
    assert_eq!((lab.version(&a).await, lab.version(&b).await), (1, 1));
}

async fn of_many_appends_at_one_version_just_one_commits(lab: Lab) {
    let stream = address("a");
    let race = (0..32).map(|_| {
        let (store, stream) = (lab.store.clone(), stream.clone());
        tokio::spawn(async move {
            store.commit(Commit::append(&stream, 0, vec![event("won")])).await.unwrap()
        })
    });
    let mut won = 0;
    for racer in race.collect::<Vec<_>>() {
        won += i32::from(matches!(racer.await.unwrap(), Outcome::Committed(_)));
    }
    assert_eq!((won, lab.version(&stream).await), (1, 1));
}

async fn positions_are_commit_order_without_gaps(lab: Lab) {
    let writers = (0..8).map(|writer| {
        let store = lab.store.clone();
        tokio::spawn(async move {
            let stream = address(&format!("writer {writer}"));
            let mut last = 0;
            for round in 0..10 {
                let commit = Commit::append(&stream, 2 * round, vec![event("x"), event("y")]);
                let receipt = store.commit(commit).await.unwrap().committed().unwrap();
                let position = receipt.appended[1].1;
                assert!(last < position, "a later commit has a later position");
                last = position;
                // The part that a reader has read is complete: no message appears in it later.
                let seen = store.read_all(0, 1_000).await.unwrap();
                assert!(seen.iter().enumerate().all(|(i, it)| it.position == i as i64 + 1));
                assert!(position <= seen.len() as i64);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let all = lab.store.read_all(0, 1_000).await.unwrap();
    let positions: Vec<i64> = all.iter().map(|it| it.position).collect();
    assert_eq!(positions, (1..=160).collect::<Vec<_>>());
}

async fn a_rejected_commit_leaves_its_neighbours_alone(lab: Lab) {
    let burst = (0..200).map(|number| {
        let store = lab.store.clone();
        tokio::spawn(async move {
            let stream = address(&format!("stream {number}"));
            // Every third one has a wrong expectation.
            let expected = if number % 3 == 0 { 5 } else { 0 };
            let messages = vec![event("x"), command(&stream)];
            store.commit(Commit::append(&stream, expected, messages)).await.unwrap()
        })
    });
    let mut positions = BTreeSet::new();
    for (number, commit) in burst.collect::<Vec<_>>().into_iter().enumerate() {
        match commit.await.unwrap() {
            Outcome::Committed(receipt) => {
                assert_ne!(number % 3, 0);
                positions.extend(receipt.appended.iter().map(|it| it.1));
            }
            Outcome::Rejected(Rejection::Version { expected: 5, actual: 0, .. }) => {
                assert_eq!(number % 3, 0);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(positions, (1..=266).collect());
    lab.assert_sound().await;
}

async fn time_never_runs_backwards(lab: Lab) {
    let stream = address("a");
    lab.append(&stream, vec![event("one")]).await;
    lab.clock.set(steadfast_store::Timestamp(5));
    lab.append(&stream, vec![event("two")]).await;
    let messages = lab.store.read_stream(stream.id(), 1, 10).await.unwrap();
    assert_eq!(messages[0].created_at, messages[1].created_at);
}

async fn everything_is_there_again_after_a_restart(mut lab: Lab) {
    let stream = address("a");
    let position = lab.command(&stream).await;
    lab.append(&stream, vec![event("x").input(), command(&address("b"))]).await;
    lab.claim(position, 1).await.committed().unwrap();
    lab.settle(position, Some(1)).await.committed().unwrap();
    let before = lab.store.dump().await.unwrap();
    lab.reopen().await;
    assert_eq!(lab.store.dump().await.unwrap(), before);
    lab.assert_sound().await;
}
