//! Deleting a run: all of it, or nothing.

use std::time::Duration;

use steadfast_store::{
    Cause, Commit, Expect, Position, Rejection, Remember, Retention, RunStatus, SettledAs,
    Snapshot, Timestamp, Write, sweep,
};

use super::runs::{SECOND, put, run};
use crate::lab::{Lab, START, address, command, event, json};

crate::laws::laws!(
    nothing_is_left_of_an_erased_run,
    an_erased_run_begins_anew_in_the_same_commit,
    an_erased_run_begins_anew_later,
    a_run_with_many_messages_is_erased_whole,
    a_run_whose_messages_were_forgotten_is_erased,
    a_run_with_work_is_not_erased,
    a_run_with_a_dead_letter_is_not_erased,
    a_run_with_pending_work_is_not_erased,
    a_run_is_not_erased_in_the_commit_that_writes_to_it,
    an_erasure_that_is_rejected_changes_nothing,
    erasing_a_missing_entity_changes_nothing,
    commits_that_share_a_batch_with_an_erasure_agree_with_it,
);

fn erase(id: &str) -> Write {
    Write::EraseRun { run: run(id).id(), dead_until: Timestamp::MIN }
}

async fn settle(lab: &Lab, position: Position, as_: SettledAs) {
    let error = Some("broken".into());
    lab.committed(Commit::of(Write::Settle { position, lease: None, as_, error })).await;
}

/// A run with every kind of entry that has ended.
async fn ended(lab: &Lab, id: &str) -> Vec<Position> {
    let messages = vec![event("in").input(), command(&run(id)), command(&address("s"))];
    let append = Write::Append { stream: run(id), messages };
    let receipt = lab.committed(Commit::of(put(id, RunStatus::Queued)).write(append)).await;
    let positions: Vec<Position> = receipt.appended.iter().map(|it| it.1).collect();
    let (error, after) = (String::from("again"), Duration::ZERO);
    let retry = Write::Retry { position: positions[1], lease: None, error, after };
    lab.committed(Commit::of(retry)).await;
    settle(lab, positions[1], SettledAs::Done).await;
    settle(lab, positions[2], SettledAs::Cancelled).await;
    let state = Snapshot { stream: run(id).id(), version: 2, code: 1, state: json("1") };
    let close = Write::Close { stream: run(id).id() };
    let status = RunStatus::Complete;
    let end = Write::Run { run: run(id), status, expires: Some(SECOND) };
    lab.committed(Commit::of(Write::Snapshot(state)).write(close).write(end)).await;
    positions
}

/// The rows of a store without the counter, which has advanced, and without the lists of the sweep,
/// whose rows have no data any more.
async fn rows(lab: &Lab) -> Vec<String> {
    let rows = lab.store.dump().await.unwrap().rows;
    let is_kept = |it: &String| !it.starts_with("counter") && !it.starts_with("ExpiryRow");
    rows.into_iter().filter(is_kept).collect()
}

async fn assert_refused(lab: &Lab, expected: Rejection) {
    let before = lab.store.dump().await.unwrap();
    let commit = Commit::of(put("new", RunStatus::Queued)).write(erase("a"));
    assert_eq!(lab.rejected(commit).await, expected);
    assert_eq!(lab.store.dump().await.unwrap(), before);
}

async fn nothing_is_left_of_an_erased_run(lab: Lab) {
    ended(&lab, "other").await;
    let before = rows(&lab).await;
    let positions = ended(&lab, "a").await;
    lab.committed(Commit::of(erase("a"))).await;
    assert_eq!(rows(&lab).await, before);
    assert_eq!(lab.store.message(positions[0]).await.unwrap(), None);
    assert_eq!(lab.store.attempts(positions[1]).await.unwrap(), []);
    assert_eq!(lab.store.snapshot(run("a").id()).await.unwrap(), None);
    assert_eq!(lab.store.expired_runs(START.after(SECOND), 9).await.unwrap(), [run("other")]);
    assert_eq!(lab.version(&run("a")).await, 0);
    lab.assert_sound().await;
}

async fn an_erased_run_begins_anew_in_the_same_commit(lab: Lab) {
    ended(&lab, "a").await;
    lab.clock.advance(SECOND);
    let commit = Commit::default()
        .expect(Expect::Version { stream: run("a").id(), version: 3 })
        .write(erase("a"))
        .write(Write::Append { stream: run("a"), messages: vec![event("again")] })
        .write(put("a", RunStatus::Waiting));
    let receipt = lab.committed(commit).await;
    assert_eq!(receipt.appended, [(1, 4)]);
    let read = lab.store.read_stream(run("a").id(), 1, 9).await.unwrap();
    assert_eq!(read.iter().map(|it| &*it.message_type).collect::<Vec<_>>(), ["again"]);
    let found = lab.store.run(run("a").id()).await.unwrap().unwrap();
    assert_eq!((found.created_at, found.expires_at), (START.after(SECOND), None));
    assert_eq!(lab.store.snapshot(run("a").id()).await.unwrap(), None);
    // It continues, and has not ended.
    let stream = &lab.store.streams(None, None, 9).await.unwrap()[0];
    assert_eq!((stream.created_at, stream.closed_at), (START.after(SECOND), None));
    lab.committed(Commit::append(&run("a"), 1, vec![event("on")])).await;
    lab.assert_sound().await;
}

async fn an_erased_run_begins_anew_later(lab: Lab) {
    ended(&lab, "a").await;
    lab.committed(Commit::of(erase("a"))).await;
    let begin = Commit::append(&run("a"), 0, vec![command(&run("a"))]);
    lab.committed(begin.write(put("a", RunStatus::Queued))).await;
    assert_eq!(lab.store.addresses(&[run("a").id()]).await.unwrap()[&run("a").id()], run("a"));
    let last = lab.store.totals().await.unwrap().position;
    assert_refused(&lab, Rejection::HasWork { entity: run("a").id(), position: last }).await;
    lab.assert_sound().await;
}

async fn a_run_with_many_messages_is_erased_whole(lab: Lab) {
    for _ in 0..4 {
        lab.append(&run("a"), (0..700).map(|_| event("x")).collect()).await;
        lab.append(&run("b"), vec![event("y")]).await;
    }
    // The name is free immediately, and the sweep deletes the rest.
    let receipt = lab.committed(Commit::of(erase("a"))).await;
    assert_eq!(receipt.forgotten, 0);
    assert_eq!(lab.version(&run("a")).await, 0);
    assert_eq!(lab.store.run(run("a").id()).await.unwrap(), None);
    lab.assert_sound().await;
    // A new run of the same name is independent of it.
    lab.append(&run("a"), vec![event("anew")]).await;
    lab.clock.advance(SECOND);
    assert_eq!(sweep(&*lab.store, Retention::DEFAULT).await.unwrap(), 2_800);
    assert_eq!(lab.version(&run("a")).await, 1);
    lab.committed(Commit::of(erase("a"))).await;
    assert_eq!(lab.store.read_all(0, 9_000).await.unwrap().len(), 4);
    assert_eq!((lab.version(&run("a")).await, lab.version(&run("b")).await), (0, 4));
    lab.assert_sound().await;
}

async fn a_run_whose_messages_were_forgotten_is_erased(lab: Lab) {
    let positions = ended(&lab, "a").await;
    // The record of a run is deleted as a whole, and not message by message.
    lab.clock.advance(SECOND);
    assert_eq!(lab.forget().await, 0);
    assert_eq!(lab.store.message(positions[0]).await.unwrap().map(|it| it.version), Some(1));
    let receipt = lab.committed(Commit::of(erase("a"))).await;
    assert_eq!((receipt.forgotten, lab.version(&run("a")).await), (3, 0));
    assert_eq!(lab.forget().await, 0);
    assert_eq!(rows(&lab).await.len(), 1, "only the target of a message is left");
    lab.assert_sound().await;
}

async fn a_run_with_work_is_not_erased(lab: Lab) {
    let positions = ended(&lab, "a").await;
    lab.committed(Commit::of(Write::Revive { position: positions[2] })).await;
    let refusal = Rejection::HasWork { entity: run("a").id(), position: positions[2] };
    assert_refused(&lab, refusal.clone()).await;
    lab.claim(positions[2], 1).await.committed().unwrap();
    assert_refused(&lab, refusal).await;
    lab.settle(positions[2], Some(1)).await.committed().unwrap();
    lab.committed(Commit::of(erase("a"))).await;
}

async fn a_run_with_a_dead_letter_is_not_erased(lab: Lab) {
    let position = lab.command(&run("a")).await;
    settle(&lab, position, SettledAs::Dead).await;
    assert_refused(&lab, Rejection::HasWork { entity: run("a").id(), position }).await;
    assert_eq!(lab.store.dead(0, 9).await.unwrap().len(), 1);
}

async fn a_run_with_pending_work_is_not_erased(lab: Lab) {
    ended(&lab, "a").await;
    let position = lab.append(&address("s"), vec![command(&run("a"))]).await[0];
    assert_refused(&lab, Rejection::HasWork { entity: run("a").id(), position }).await;
    lab.settle(position, None).await.committed().unwrap();
    lab.committed(Commit::of(erase("a"))).await;
    lab.assert_sound().await;
}

async fn a_run_is_not_erased_in_the_commit_that_writes_to_it(lab: Lab) {
    let positions = ended(&lab, "a").await;
    let append = |stream, message| Write::Append { stream, messages: vec![message] };
    for write in [
        append(run("a"), event("x")),
        append(address("s"), command(&run("a"))),
        Write::Revive { position: positions[1] },
    ] {
        let before = lab.store.dump().await.unwrap();
        let rejection = lab.rejected(Commit::of(write).write(erase("a"))).await;
        assert_eq!(rejection, Rejection::JustWritten { entity: run("a").id() });
        assert_eq!(lab.store.dump().await.unwrap(), before);
    }
    let new = Commit::of(put("new", RunStatus::Queued)).write(erase("new"));
    assert_eq!(lab.rejected(new).await, Rejection::JustWritten { entity: run("new").id() });
}

async fn an_erasure_that_is_rejected_changes_nothing(lab: Lab) {
    let positions = ended(&lab, "a").await;
    let before = lab.store.dump().await.unwrap();
    // Its messages cannot be revived after the deletion, and that rejects the deletion.
    let revive = Write::Revive { position: positions[1] };
    let commit = Commit::of(erase("a"))
        .write(Write::Append { stream: run("a"), messages: vec![event("again")] })
        .write(put("a", RunStatus::Queued))
        .write(revive);
    let rejection = lab.rejected(commit).await;
    assert_eq!(rejection, Rejection::NotSettled { position: positions[1] });
    assert_eq!(lab.store.dump().await.unwrap(), before);
    lab.committed(Commit::append(&run("a"), 3, vec![event("on")])).await;
    lab.assert_sound().await;
}

async fn erasing_a_missing_entity_changes_nothing(lab: Lab) {
    lab.committed(Commit::of(erase("a"))).await;
    ended(&lab, "a").await;
    lab.committed(Commit::of(erase("a")).write(erase("a"))).await;
    lab.committed(Commit::of(erase("a"))).await;
    assert_eq!(rows(&lab).await.len(), 1, "only the target of a message is left");
}

async fn commits_that_share_a_batch_with_an_erasure_agree_with_it(lab: Lab) {
    for round in 0..20 {
        ended(&lab, "a").await;
        let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let submit = |commit: Commit| {
            let sender = sender.clone();
            let answer = move |result| _ = sender.send(result);
            lab.store.submit(commit, Box::new(answer));
        };
        let key = |key: &str| Remember::new(run("a").id(), key, b"").unwrap();
        submit(Commit::append(&address("s"), 4 * round, vec![event("before")]));
        submit(Commit::append(&address("s"), 4 * round + 1, vec![event("before")]));
        // Rejected when it is half done.
        submit(Commit::of(erase("a")).write(Write::Revive { position: 0 }));
        // Every other time the run continues.
        let (stream, version) = if round % 2 == 0 { ("a", 3) } else { ("other", round / 2) };
        submit(Commit::append(&run(stream), version, vec![event("on")]));
        submit(Commit::of(erase("a")));
        submit(Commit::append(&run("a"), 0, vec![event("x"), event("y").cause(Cause::Sibling(0))]));
        submit(Commit::append(&address("s"), 4 * round + 2, vec![event("after")]));
        submit(Commit::of(erase("a")).write(Write::Remember(key(&round.to_string()))));
        submit(Commit::append(&address("s"), 4 * round + 3, vec![event("last")]));
        let mut committed = Vec::new();
        for _ in 0..9 {
            committed.push(answers.recv().await.unwrap().unwrap().committed());
        }
        for (index, answer) in committed.iter().enumerate() {
            match index {
                0 | 1 | 3 | 6 | 8 => assert!(answer.is_ok(), "{index}: {answer:?}"),
                2 => assert!(answer.is_err()),
                4 | 5 if round % 2 == 1 => assert!(answer.is_ok(), "{index}: {answer:?}"),
                // In one batch with the append it is refused, and the stream stays.
                5 => assert_eq!(answer.is_ok(), committed[4].is_ok(), "{answer:?}"),
                _ => {}
            }
        }
        let expected = match (&committed[4], &committed[7]) {
            (_, Ok(_)) => 0,
            (Ok(_), Err(_)) => 2,
            (Err(_), Err(_)) => 4,
        };
        assert_eq!(lab.version(&run("a")).await, expected);
        lab.assert_sound().await;
        lab.committed(Commit::of(erase("a"))).await;
        assert_eq!(lab.version(&run("a")).await, 0);
    }
}
