//! Entries: revisions, lists in byte order, and expiry.

use std::time::Duration;

use steadfast_store::{
    AgeCursor, Clock, Commit, Count, EntityId, EntryKey, EntryRange, Expect, InvalidInput, Json,
    Outcome, Put, Rejection, StoreError, Timestamp, Write,
};

use crate::lab::{Lab, address, event};

crate::laws::laws!(
    every_change_of_an_entry_takes_the_next_number_also_when_it_is_removed,
    a_revision_that_has_moved_on_rejects_the_commit_with_everything_in_it,
    a_later_commit_of_a_batch_sees_the_entries_of_earlier_ones,
    lists_are_in_byte_order_without_removed_entries,
    entries_are_read_by_age_behind_a_cursor_and_again_when_they_have_changed,
    a_list_counts_as_vacant_when_everything_in_it_was_removed,
    rows_go_when_their_time_is_over_and_no_earlier,
    the_reference_of_an_entry_is_found_until_it_changes,
    counters_add_up_and_never_pass_their_limits,
    a_counter_is_an_entry_that_may_also_be_written,
    keys_and_values_end_at_their_limits,
    entries_survive_a_reopening,
);

fn key(key: &[u8]) -> EntryKey {
    EntryKey::new("list", key).unwrap()
}

fn value(text: &str) -> Option<Json> {
    Some(Json::parse(text).unwrap())
}

fn put(at: &[u8], text: &str) -> Put {
    Put { entry: key(at), value: value(text), reference: None, expires: None }
}

fn removal(at: &[u8], keep: Duration) -> Put {
    Put { entry: key(at), value: None, reference: None, expires: Some(keep) }
}

async fn commit(lab: &Lab, writes: impl IntoIterator<Item = Write>) -> Vec<i64> {
    let commit = Commit { expects: Vec::new(), writes: writes.into_iter().collect() };
    lab.committed(commit).await.revisions
}

async fn every_change_of_an_entry_takes_the_next_number_also_when_it_is_removed(lab: Lab) {
    assert_eq!(commit(&lab, [Write::Put(put(b"a", "1"))]).await, [1]);
    let again = [put(b"a", "2"), put(b"b", "1"), put(b"a", "3")].map(Write::Put);
    assert_eq!(commit(&lab, again).await, [2, 1, 3]);
    assert_eq!(commit(&lab, [Write::Put(removal(b"a", Duration::from_hours(1)))]).await, [4]);
    let gone = lab.store.entry(&key(b"a")).await.unwrap().unwrap();
    assert_eq!((gone.revision, gone.value), (4, None));
    assert_eq!(commit(&lab, [Write::Put(put(b"a", "5"))]).await, [5]);
    let back = lab.store.entry(&key(b"a")).await.unwrap().unwrap();
    assert_eq!((back.revision, back.value, back.expires_at), (5, value("5"), None));
}

async fn a_revision_that_has_moved_on_rejects_the_commit_with_everything_in_it(lab: Lab) {
    commit(&lab, [Write::Put(put(b"a", "1"))]).await;
    let stale = Commit::of(Write::Put(put(b"a", "2")))
        .write(Write::Append { stream: address("s"), messages: vec![event("e")] })
        .expect(Expect::Revision { entry: key(b"a"), revision: 0 });
    let expected = Rejection::Revision { entry: key(b"a"), expected: 0, actual: 1 };
    assert_eq!(lab.rejected(stale).await, expected);
    assert_eq!(lab.store.entry(&key(b"a")).await.unwrap().unwrap().revision, 1);
    assert!(lab.store.read_all(0, 9).await.unwrap().is_empty());
}

async fn a_later_commit_of_a_batch_sees_the_entries_of_earlier_ones(lab: Lab) {
    let next = |revision: i64| {
        let expect = Expect::Revision { entry: key(b"a"), revision };
        Commit::of(Write::Put(put(b"a", &revision.to_string()))).expect(expect)
    };
    let (first, second, stale) = tokio::join!(
        lab.store.commit(next(0)),
        lab.store.commit(next(1)),
        lab.store.commit(next(1))
    );
    assert_eq!(first.unwrap().committed().unwrap().revisions, [1]);
    assert_eq!(second.unwrap().committed().unwrap().revisions, [2]);
    assert!(matches!(stale.unwrap(), Outcome::Rejected(Rejection::Revision { actual: 2, .. })));
}

async fn lists_are_in_byte_order_without_removed_entries(lab: Lab) {
    let keys: [&[u8]; 7] = [b"a/\xff", b"a", b"a/b", b"\0", "ü".as_bytes(), b"a/", b"B"];
    let other = EntryKey::new("list2", b"a").unwrap();
    let other = Put { entry: other, value: value("0"), reference: None, expires: None };
    commit(&lab, keys.iter().map(|it| Write::Put(put(it, "0"))).chain([Write::Put(other)])).await;
    let list = async |range: EntryRange, limit| {
        let found = lab.store.entries("list", range, limit).await.unwrap();
        found.into_iter().map(|it| it.entry.key().to_vec()).collect::<Vec<_>>()
    };
    let all = EntryRange::prefix(b"");
    let mut sorted: Vec<Vec<u8>> = keys.iter().map(|it| it.to_vec()).collect();
    sorted.sort();
    assert_eq!(list(all.clone(), 99).await, sorted);
    assert_eq!(list(all.clone(), 2).await, sorted[..2]);
    assert_eq!(list(all.clone().after(&sorted[1]), 99).await, sorted[2..]);
    assert_eq!(list(EntryRange::prefix(b"a/"), 99).await, [&b"a/"[..], b"a/b", b"a/\xff"]);
    assert_eq!(list(EntryRange::prefix(b"a/").after(b"a/"), 1).await, [b"a/b"]);
    assert_eq!(list(EntryRange::prefix(b"a/").from(b"a/c".to_vec()), 9).await, [b"a/\xff"]);
    commit(&lab, [Write::Put(removal(b"a/b", Duration::from_hours(1)))]).await;
    assert_eq!(list(EntryRange::prefix(b"a/"), 99).await, [&b"a/"[..], b"a/\xff"]);
}

async fn entries_are_read_by_age_behind_a_cursor_and_again_when_they_have_changed(lab: Lab) {
    let start = lab.clock.now();
    let second = Duration::from_secs(1);
    let other = EntryKey::new("list2", b"a").unwrap();
    let other = Put { entry: other, value: value("0"), reference: None, expires: None };
    commit(&lab, [put(b"c", "1"), put(b"a\xff", "1"), other].map(Write::Put)).await;
    lab.clock.advance(second);
    commit(&lab, [put(b"a", "1"), put(b"gone", "1"), put(b"b", "1")].map(Write::Put)).await;
    commit(&lab, [Write::Put(removal(b"gone", second))]).await;
    let read = async |after: &AgeCursor, until, limit| {
        let found = lab.store.entries_by_age("list", after, until, limit).await.unwrap();
        let last = found.last().map_or_else(|| after.clone(), AgeCursor::behind);
        (found.iter().map(|it| it.entry.key().to_vec()).collect::<Vec<_>>(), last)
    };
    let later = start.after(second);
    let (first, behind) = read(&AgeCursor::START, later, 3).await;
    assert_eq!(first, [&b"a\xff"[..], b"c", b"a"], "by time, then by key");
    let (rest, behind) = read(&behind, later, 3).await;
    assert_eq!(rest, [b"b"], "without the one that was removed");
    assert_eq!(read(&AgeCursor::START, start, 9).await.0, [&b"a\xff"[..], b"c"]);
    assert_eq!(read(&AgeCursor::START, Timestamp(start.0 - 1), 9).await.0, [b""; 0]);
    lab.clock.advance(second);
    commit(&lab, [Write::Put(put(b"c", "2"))]).await;
    assert_eq!(read(&behind, Timestamp::MAX, 9).await.0, [b"c"], "it has changed");
}

async fn a_list_counts_as_vacant_when_everything_in_it_was_removed(lab: Lab) {
    let space = || Expect::Vacant { space: "list".into() };
    let claim = || Commit::of(Write::Put(put(b"new", "0"))).expect(space());
    commit(&lab, [Write::Put(put(b"a", "1"))]).await;
    assert_eq!(lab.rejected(claim()).await, Rejection::NotVacant { space: "list".into() });
    commit(&lab, [Write::Put(removal(b"a", Duration::from_hours(1)))]).await;
    let (first, second) = tokio::join!(lab.store.commit(claim()), lab.store.commit(claim()));
    assert!(matches!(first.unwrap(), Outcome::Committed(_)));
    assert!(matches!(second.unwrap(), Outcome::Rejected(Rejection::NotVacant { .. })));
}

async fn rows_go_when_their_time_is_over_and_no_earlier(lab: Lab) {
    let hour = Duration::from_hours(1);
    let soon = Put { expires: Some(hour), ..put(b"soon", "1") };
    let later = [removal(b"later", 2 * hour), put(b"kept", "1")];
    commit(&lab, [soon].into_iter().chain(later).map(Write::Put)).await;
    let all = vec![key(b"soon"), key(b"later"), key(b"kept"), key(b"never")];
    let sweep = async || {
        let write = Write::ExpireEntries { entries: all.clone() };
        lab.committed(Commit::of(write)).await.forgotten
    };
    assert_eq!(sweep().await, 0);
    lab.clock.advance(hour);
    let expired = lab.store.expired_entries(lab.clock.now(), 9).await.unwrap();
    assert_eq!((expired, sweep().await), (vec![key(b"soon")], 1));
    assert_eq!(lab.store.entry(&key(b"soon")).await.unwrap(), None);
    assert_eq!(lab.store.entry(&key(b"later")).await.unwrap().unwrap().revision, 1);
    assert_eq!(commit(&lab, [Write::Put(put(b"later", "2"))]).await, [2], "it is kept again");
    lab.clock.advance(2 * hour);
    assert_eq!(sweep().await, 0);
    assert_eq!(commit(&lab, [Write::Put(put(b"soon", "1"))]).await, [1]);
}

async fn the_reference_of_an_entry_is_found_until_it_changes(lab: Lab) {
    let id = |byte: u8| EntityId([byte; 16]);
    let with = |at: &[u8], byte| Put { reference: Some(id(byte)), ..put(at, "0") };
    commit(&lab, [with(b"a", 1), with(b"b", 1), with(b"c", 2)].map(Write::Put)).await;
    let known = async || {
        let mut found = lab.store.referenced(&[id(3), id(2), id(1)]).await.unwrap();
        found.sort();
        found
    };
    assert_eq!(known().await, [(id(1), key(b"a")), (id(2), key(b"c"))]);
    commit(&lab, [with(b"a", 3), with(b"c", 3)].map(Write::Put)).await;
    assert_eq!(known().await, [(id(1), key(b"b")), (id(3), key(b"a"))]);
    commit(&lab, [Write::Put(removal(b"b", Duration::ZERO))]).await;
    assert_eq!(known().await, [(id(3), key(b"a"))]);
}

fn count(delta: i64, max: Option<i64>) -> Commit {
    Commit::of(Write::Count(Count { max, ..Count::of(key(b"n"), delta) }))
}

async fn counters_add_up_and_never_pass_their_limits(lab: Lab) {
    let counter = async || lab.store.counter(&key(b"n")).await.unwrap();
    assert_eq!(counter().await, 0);
    // The first of a batch creates the counter, and those behind it see it.
    for round in 1..=2 {
        let many: Vec<_> = (0..8).map(|_| lab.store.commit(count(1, Some(5 * round)))).collect();
        let mut accepted = 0;
        for outcome in futures_util::future::join_all(many).await {
            match outcome.unwrap() {
                Outcome::Committed(_) => accepted += 1,
                Outcome::Rejected(Rejection::Limit { entry, count, max }) => {
                    assert_eq!((entry, count, max), (key(b"n"), 5 * round, 5 * round));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((accepted, counter().await), (5, 5 * round));
    }
    lab.committed(count(-4, None)).await;
    lab.committed(count(3, None)).await;
    assert_eq!(counter().await, 9);
    // Within one commit the limit holds after each write, and nothing of a rejected one stays.
    let writes = [count(1, Some(10)), count(1, Some(10))].map(|mut it| it.writes.remove(0));
    let both = Commit { expects: Vec::new(), writes: writes.into() };
    let refused = lab.rejected(both).await;
    assert!(matches!(refused, Rejection::Limit { count: 10, .. }), "{refused:?}");
    assert_eq!(counter().await, 9);
    // Differences of a batch whose sum is no number end where each of them does.
    lab.committed(count(i64::MIN / 2, None)).await;
    let many = [i64::MAX, i64::MAX, -1].map(|it| lab.store.commit(count(it, None)));
    for outcome in futures_util::future::join_all(many).await {
        assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
    }
    assert_eq!(counter().await, i64::MAX - 1);
}

async fn a_counter_is_an_entry_that_may_also_be_written(lab: Lab) {
    let hour = Some(Duration::from_hours(1));
    let first = Count { expires: hour, ..Count::of(key(b"n"), 2) };
    lab.committed(Commit::of(Write::Count(first))).await;
    let begun = lab.store.entry(&key(b"n")).await.unwrap().unwrap();
    assert_eq!((begun.revision, begun.value.clone()), (1, value("2")));
    assert_eq!(begun.expires_at, Some(begun.changed_at.after(Duration::from_hours(1))));
    // Counted, written and counted again in one batch of one commit.
    let mut all = count(3, None);
    all.writes.push(Write::Put(put(b"n", "100")));
    all.writes.extend(count(7, None).writes);
    lab.committed(all).await;
    let found = lab.store.entry(&key(b"n")).await.unwrap().unwrap();
    assert_eq!((found.revision, found.value, found.expires_at), (4, value("107"), None));
    commit(&lab, [Write::Put(removal(b"n", Duration::from_hours(1)))]).await;
    lab.committed(count(1, None)).await;
    let again = lab.store.entry(&key(b"n")).await.unwrap().unwrap();
    assert_eq!((again.revision, again.value), (6, value("1")));
    commit(&lab, [Write::Put(put(b"n", "{}"))]).await;
    let refused = lab.rejected(count(1, None)).await;
    assert_eq!(refused, Rejection::NotANumber { entry: key(b"n") });
}

async fn keys_and_values_end_at_their_limits(lab: Lab) {
    assert!(EntryKey::new("list", &[0; 1_088]).is_ok());
    let long = EntryKey::new("list", &[0; 1_089]).unwrap_err();
    assert_eq!(long, InvalidInput::EntryKey { len: 1_089 });
    assert_eq!(EntryKey::new("", b"a").unwrap_err(), InvalidInput::Space { len: 0 });
    let large = format!("\"{}\"", "x".repeat(2 << 20));
    let error = lab.store.commit(Commit::of(Write::Put(put(b"a", &large)))).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid(InvalidInput::EntrySize { .. })), "{error}");
}

async fn entries_survive_a_reopening(mut lab: Lab) {
    let reference = Some(EntityId([7; 16]));
    let row = Put { reference, expires: Some(Duration::from_hours(9)), ..put(b"\0\xff", "[1]") };
    commit(&lab, [Write::Put(row), Write::Put(removal(b"b", Duration::from_hours(9)))]).await;
    let before = lab.store.dump().await.unwrap();
    lab.reopen().await;
    assert_eq!(lab.store.dump().await.unwrap(), before);
    assert_eq!(commit(&lab, [Write::Put(put(b"b", "1"))]).await, [2]);
}
