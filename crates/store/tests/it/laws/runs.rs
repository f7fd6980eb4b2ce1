//! Runs: lists, counts and times, and deletion as a whole.

use std::time::Duration;

use steadfast_store::{
    Address, Commit, EntityKind, Expect, Rejection, RunCursor, RunFilter, RunStatus, RunSummary,
    SettledAs, Snapshot, StoreError, Timestamp, Write,
};

use crate::lab::{Lab, START, address, address_of, command, event, json};

crate::laws::laws!(
    runs_of_one_time_are_listed_in_pages_without_gaps_or_repeats,
    every_filter_shows_its_runs_and_no_others,
    many_ids_with_one_prefix_are_listed_newest_first,
    runs_are_counted_up_to_a_number,
    a_run_keeps_the_time_of_its_creation_when_its_status_changes,
    the_last_status_of_a_commit_counts,
    runs_whose_time_is_over_come_in_the_order_of_their_times,
    a_rejected_commit_leaves_no_run,
    only_a_run_is_recorded_as_one,
    runs_survive_a_reopening,
    a_run_without_a_message_reserves_a_position,
);

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn run(id: &str) -> Address {
    address_of(EntityKind::Run, "flow", id)
}

pub(crate) fn put(id: &str, status: RunStatus) -> Write {
    Write::Run { run: run(id), status, expires: None }
}

fn ids(found: &[RunSummary]) -> Vec<&str> {
    found.iter().map(|it| it.run.name()).collect()
}

/// All runs that pass the filter, read in small pages.
async fn walk(lab: &Lab, filter: RunFilter<'_>, limit: usize) -> Vec<RunSummary> {
    let mut seen: Vec<RunSummary> = Vec::new();
    loop {
        let after = seen.last().map(RunCursor::from);
        let page = lab.store.runs(filter, after, limit).await.unwrap();
        if page.is_empty() {
            return seen;
        }
        assert!(page.len() <= limit);
        seen.extend(page);
    }
}

async fn runs_of_one_time_are_listed_in_pages_without_gaps_or_repeats(lab: Lab) {
    for batch in 0..3 {
        let mut commit = Commit::default();
        for n in 0..7_usize {
            let status = RunStatus::ALL[n % RunStatus::ALL.len()];
            commit = commit.write(put(&format!("{batch}-{n}"), status));
        }
        let other = address_of(EntityKind::Run, "other", "x");
        let write = Write::Run { run: other, status: RunStatus::Queued, expires: None };
        lab.committed(commit.write(write)).await;
        lab.clock.advance(SECOND);
    }
    for limit in [1, 2, 5, 100] {
        let seen = walk(&lab, RunFilter::of("flow"), limit).await;
        assert_eq!(seen.len(), 21);
        let order: Vec<_> = seen.iter().map(|it| (it.created_at, it.run.id())).collect();
        assert!(order.is_sorted_by(|a, b| b < a), "{order:?}");
        let status = Some(RunStatus::Queued);
        let queued = walk(&lab, RunFilter { status, ..RunFilter::of("flow") }, limit).await;
        let expected = seen.into_iter().filter(|it| it.status == RunStatus::Queued);
        assert_eq!(queued, expected.collect::<Vec<_>>());
        assert_eq!(queued.len(), 6);
    }
    assert_eq!(lab.store.runs(RunFilter::of("flow"), None, 0).await.unwrap(), []);
    assert_eq!(walk(&lab, RunFilter::of("none"), 9).await, []);
}

async fn every_filter_shows_its_runs_and_no_others(lab: Lab) {
    for (id, status) in [
        ("a-1", RunStatus::Queued),
        ("a-2", RunStatus::Errored),
        ("b-1", RunStatus::Queued),
        ("%", RunStatus::Paused),
        ("ä", RunStatus::Complete),
        ("A-1", RunStatus::Errored),
    ] {
        lab.committed(Commit::of(put(id, status))).await;
        lab.clock.advance(SECOND);
    }
    // A name that was only addressed is not a run that exists.
    lab.append(&address("s"), vec![command(&run("a-3"))]).await;
    let all = RunFilter::of("flow");
    let at = |n: u32| Some(START.after(SECOND * n));
    let check = async |filter, expected: &[&str]| {
        for limit in [1, 100] {
            assert_eq!(ids(&walk(&lab, filter, limit).await), expected, "{filter:?}");
        }
    };
    check(all, &["A-1", "ä", "%", "b-1", "a-2", "a-1"]).await;
    let errored = RunFilter { status: Some(RunStatus::Errored), ..all };
    check(errored, &["A-1", "a-2"]).await;
    check(RunFilter { prefix: "a-", ..all }, &["a-2", "a-1"]).await;
    check(RunFilter { prefix: "a-", ..errored }, &["a-2"]).await;
    check(RunFilter { prefix: "%", ..all }, &["%"]).await;
    check(RunFilter { prefix: "a\0", ..all }, &[]).await;
    check(RunFilter { since: at(3), ..all }, &["A-1", "ä", "%"]).await;
    check(RunFilter { until: at(3), ..all }, &["b-1", "a-2", "a-1"]).await;
    check(RunFilter { since: at(1), until: at(2), ..all }, &["a-2"]).await;
    check(RunFilter { since: at(2), until: at(2), ..all }, &[]).await;
    check(RunFilter { since: at(1), ..errored }, &["A-1", "a-2"]).await;
    check(RunFilter { since: at(2), ..errored }, &["A-1"]).await;
    check(RunFilter { prefix: "a", until: at(1), ..all }, &["a-1"]).await;
}

async fn many_ids_with_one_prefix_are_listed_newest_first(lab: Lab) {
    for part in 0..4 {
        let mut commit = Commit::default();
        for n in 0..300 {
            commit = commit.write(put(&format!("many-{part}-{n}"), RunStatus::Complete));
        }
        let rare = if part == 0 { RunStatus::Errored } else { RunStatus::Paused };
        lab.committed(commit.write(put(&format!("many-{part}-rare"), rare))).await;
        lab.committed(Commit::of(put(&format!("rare-{part}"), rare))).await;
        lab.clock.advance(SECOND);
    }
    let filter = RunFilter { prefix: "many-", ..RunFilter::of("flow") };
    let seen = walk(&lab, filter, 170).await;
    assert_eq!(seen.len(), 4 * 301);
    let order: Vec<_> = seen.iter().map(|it| (it.created_at, it.run.id())).collect();
    assert!(order.is_sorted_by(|a, b| b < a));
    let errored = walk(&lab, RunFilter { status: Some(RunStatus::Errored), ..filter }, 2).await;
    assert_eq!(ids(&errored), ["many-0-rare"]);
    let since = Some(START.after(SECOND * 3));
    assert_eq!(walk(&lab, RunFilter { since, ..filter }, 100).await.len(), 301);
    let few = walk(&lab, RunFilter { prefix: "rare-", ..filter }, 3).await;
    assert_eq!(ids(&few), ["rare-3", "rare-2", "rare-1", "rare-0"]);
}

async fn runs_are_counted_up_to_a_number(lab: Lab) {
    for (id, status) in [
        ("a", RunStatus::Queued),
        ("b", RunStatus::Waiting),
        ("c", RunStatus::Queued),
        ("d", RunStatus::Queued),
    ] {
        lab.committed(Commit::of(put(id, status))).await;
    }
    let count = async |status, max| lab.store.count_runs("flow", status, max).await.unwrap();
    for (max, all, queued) in [(0, 0, 0), (2, 2, 2), (4, 4, 3), (9, 4, 3)] {
        assert_eq!(count(None, max).await, all);
        assert_eq!(count(Some(RunStatus::Queued), max).await, queued);
    }
    assert_eq!(count(Some(RunStatus::Paused), 9).await, 0);
    assert_eq!(lab.store.count_runs("none", None, 9).await.unwrap(), 0);
}

async fn a_run_keeps_the_time_of_its_creation_when_its_status_changes(lab: Lab) {
    let expected = |status, changed_at, expires_at| {
        Some(RunSummary { run: run("a"), status, created_at: START, changed_at, expires_at })
    };
    let found = async || lab.store.run(run("a").id()).await.unwrap();
    assert_eq!(found().await, None);
    lab.committed(Commit::of(put("a", RunStatus::Queued))).await;
    assert_eq!(found().await, expected(RunStatus::Queued, START, None));
    lab.clock.advance(SECOND);
    let (run, status, later) = (run("a"), RunStatus::Complete, START.after(SECOND));
    lab.committed(Commit::of(Write::Run { run, status, expires: Some(SECOND) })).await;
    assert_eq!(found().await, expected(status, later, Some(later.after(SECOND))));
    // It is restarted: it does not expire any more.
    lab.committed(Commit::of(put("a", RunStatus::Queued))).await;
    assert_eq!(found().await, expected(RunStatus::Queued, later, None));
    assert_eq!(lab.store.expired_runs(Timestamp::MAX, 9).await.unwrap(), []);
    lab.assert_sound().await;
}

async fn the_last_status_of_a_commit_counts(lab: Lab) {
    let commit = Commit::of(put("a", RunStatus::Queued)).write(put("a", RunStatus::Complete));
    lab.committed(commit).await;
    let found = lab.store.runs(RunFilter::of("flow"), None, 9).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].status, RunStatus::Complete);
}

async fn runs_whose_time_is_over_come_in_the_order_of_their_times(lab: Lab) {
    for (id, seconds) in [("c", 3), ("a", 1), ("b", 2), ("never", 0)] {
        let expires = (0 < seconds).then_some(SECOND * seconds);
        let status = RunStatus::Complete;
        lab.committed(Commit::of(Write::Run { run: run(id), status, expires })).await;
    }
    let expired = async |seconds: u32, limit| {
        let at = START.after(SECOND * seconds);
        let found = lab.store.expired_runs(at, limit).await.unwrap();
        found.iter().map(|it| it.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(expired(0, 9).await, [""; 0]);
    assert_eq!(expired(1, 9).await, ["a"]);
    assert_eq!(expired(9, 2).await, ["a", "b"]);
    assert_eq!(expired(9, 9).await, ["a", "b", "c"]);
}

async fn a_rejected_commit_leaves_no_run(lab: Lab) {
    let expect = Expect::Pending { position: 7 };
    lab.rejected(Commit::of(put("a", RunStatus::Queued)).expect(expect)).await;
    let settle = Write::Settle { position: 7, lease: None, as_: SettledAs::Done, error: None };
    lab.rejected(Commit::of(put("a", RunStatus::Queued)).write(settle)).await;
    assert_eq!(lab.store.run(run("a").id()).await.unwrap(), None);
    assert_eq!(lab.store.addresses(&[run("a").id()]).await.unwrap().len(), 0);
}

async fn only_a_run_is_recorded_as_one(lab: Lab) {
    let write = Write::Run { run: address("a"), status: RunStatus::Queued, expires: None };
    let error = lab.store.commit(Commit::of(write)).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid(_)), "{error}");
    // An entity that is not a run is not deleted as one.
    lab.append(&address("a"), vec![event("x")]).await;
    lab.committed(Commit::of(Write::EraseRun {
        run: address("a").id(),
        dead_until: Timestamp::MIN,
    }))
    .await;
    assert_eq!(lab.version(&address("a")).await, 1);
}

async fn runs_survive_a_reopening(mut lab: Lab) {
    let commit = Commit::append(&run("a"), 0, vec![event("x")]);
    lab.committed(commit.write(put("a", RunStatus::Waiting))).await;
    lab.append(&run("b"), vec![event("x")]).await;
    let state = Snapshot { stream: run("b").id(), version: 1, code: 1, state: json("1") };
    lab.committed(Commit::of(put("b", RunStatus::Complete)).write(Write::Snapshot(state))).await;
    lab.committed(Commit::of(Write::EraseRun { run: run("b").id(), dead_until: Timestamp::MIN }))
        .await;
    let before = lab.store.dump().await.unwrap();
    lab.reopen().await;
    assert_eq!(lab.store.dump().await.unwrap(), before);
    let found = lab.store.runs(RunFilter::of("flow"), None, 9).await.unwrap();
    assert_eq!(ids(&found), ["a"]);
    let conflict = lab.rejected(Commit::append(&run("b"), 1, vec![])).await;
    assert!(matches!(conflict, Rejection::Version { actual: 0, .. }));
    lab.assert_sound().await;
}

async fn a_run_without_a_message_reserves_a_position(lab: Lab) {
    assert_eq!(lab.append(&address("a"), vec![event("x")]).await, [1]);
    lab.committed(Commit::of(put("alone", RunStatus::Queued))).await;
    let begun = Commit::append(&run("begun"), 0, vec![event("x")]);
    let begun = lab.committed(begun.write(put("begun", RunStatus::Queued))).await;
    assert_eq!(begun.appended, [(1, 3)], "2 is never used");
    assert_eq!(lab.append(&address("a"), vec![event("y")]).await, [4]);
}
