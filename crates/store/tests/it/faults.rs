//! Disks that are full or fail, databases that become unreachable: clear errors, nothing lost,
//! other commits not affected.

use std::{path::Path, sync::Arc, time::Duration};

use steadfast_store::{
    Commit, Health, ManualClock, Message, Outcome, SqliteOptions, SqliteStore, Store, StoreError,
    Write, crash,
};

use crate::lab::{self, Lab, Place, START, address, command, event, json};
use crate::wire::{Loss, Wire};

/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(20);

fn large() -> Message {
    Message::new("large", json(&format!("\"{}\"", "x".repeat(500_000)))).unwrap()
}

fn small_disk(folder: &std::path::Path) -> Arc<dyn Store> {
    let clock = Arc::new(ManualClock::at(START));
    let mut options = SqliteOptions::new(folder, clock);
    options.file_bytes_max = Some(1_200_000);
    Arc::new(SqliteStore::open(options).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_commits_that_do_not_fit_and_the_store_continues() {
    let folder = tempfile::tempdir().unwrap();
    let store = small_disk(folder.path());
    let append = |name: &str, messages| {
        let (store, stream) = (store.clone(), address(name));
        tokio::spawn(async move { store.commit(Commit::append(&stream, 0, messages)).await })
    };
    // One that does not fit among many that do, in flight together.
    let (before, too_large, after) = (
        (0..20).map(|it| append(&format!("a{it}"), vec![event("x")])).collect::<Vec<_>>(),
        append("too large", vec![large(), large(), large()]),
        (0..20).map(|it| append(&format!("b{it}"), vec![event("x")])).collect::<Vec<_>>(),
    );
    let error = too_large.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "disk_full");
    assert!(error.is_retryable() && error.surely_unapplied());
    for small in before.into_iter().chain(after) {
        assert!(matches!(small.await.unwrap().unwrap(), Outcome::Committed(_)));
    }
    assert_eq!(store.version(address("too large").id()).await.unwrap(), 0);
    assert_eq!(store.read_all(0, 100).await.unwrap().len(), 40);
    assert_eq!(store.violations().await.unwrap(), Vec::<String>::new());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_until_a_commit_goes_through() {
    let folder = tempfile::tempdir().unwrap();
    let store = small_disk(folder.path());
    let too_large = Commit::append(&address("a"), 0, vec![large(), large(), large()]);
    store.commit(too_large).await.unwrap_err();
    let Health::Degraded { reason } = store.health() else { panic!("still healthy") };
    assert!(reason.starts_with("disk is full"), "{reason}");
    store.commit(Commit::append(&address("a"), 0, vec![event("x")])).await.unwrap();
    assert_eq!(store.health(), Health::Ready);
    // A commit that changes nothing shows only then that there is space, if it writes something.
    let too_large = Commit::append(&address("a"), 1, vec![large(), large(), large()]);
    store.commit(too_large).await.unwrap_err();
    for _ in 0..2 {
        let before = store.activity().log_bytes;
        assert!(matches!(store.health(), Health::Degraded { .. }));
        store.commit(Commit::default()).await.unwrap();
        assert!(before < store.activity().log_bytes, "nothing was written");
        assert_eq!(store.health(), Health::Ready);
        let too_large = Commit::append(&address("a"), 1, vec![large(), large(), large()]);
        store.commit(too_large).await.unwrap_err();
    }
    store.close().await;
}

/// Runs a test in a process of its own, because a failing flush concerns the whole process. `true`
/// in that process.
fn is_alone(name: &str) -> bool {
    if std::env::var_os("STEADFAST_TEST_FLUSH_FAILS").is_some() {
        return true;
    }
    let test = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("faults::{name}")])
        .env("STEADFAST_TEST_FLUSH_FAILS", "1")
        .output()
        .unwrap();
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stdout));
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_that_fails_while_space_is_given_back_stops_the_store_and_loses_nothing() {
    if !is_alone("a_flush_that_fails_while_space_is_given_back_stops_the_store_and_loses_nothing") {
        return;
    }
    let mut lab = Lab::sqlite().await;
    lab.append(&address("a"), vec![large(), large(), event("last")]).await;
    lab.clock.advance(Duration::from_secs(1));
    // The flush of the commit succeeds, that of the vacuum does not.
    crash::fail_fsync_after(1);
    assert_eq!(lab.forget().await, 2, "it is durable and acknowledged");
    let error = lab.store.commit(Commit::default()).await.unwrap_err();
    assert_eq!(error.code(), "storage_failed");
    crash::fail_fsync_after(u32::MAX);
    lab.reopen().await;
    assert_eq!(lab.store.read_all(0, 10).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_killed_process_is_checkpointed_at_the_next_start() {
    let lab = Lab::sqlite().await;
    for version in 0..4 {
        lab.committed(Commit::append(&address("a"), version, vec![large()])).await;
    }
    // As a kill leaves it.
    let Place::Folder(folder) = &lab.place else { panic!("not in a folder") };
    let left = tempfile::tempdir().unwrap();
    for file in ["steadfast.db", "steadfast.db-wal"] {
        std::fs::copy(folder.path().join(file), left.path().join(file)).unwrap();
    }
    let log = || std::fs::metadata(left.path().join("steadfast.db-wal")).unwrap().len();
    assert!(2_000_000 < log(), "{}", log());
    let clock = Arc::new(ManualClock::at(START));
    let store = SqliteStore::open(SqliteOptions::new(left.path(), clock)).unwrap();
    let store: &dyn Store = &store;
    assert!(log() < 200_000, "{}", log());
    assert_eq!(store.version(address("a").id()).await.unwrap(), 4);
    store.close().await;
}

/// A folder as a power failure leaves it: the log lacks the bytes that a failed flush left in
/// the page cache, unless they were written again.
fn power_fails(folder: &Path, unflushed: (usize, &[u8])) -> tempfile::TempDir {
    let left = tempfile::tempdir().unwrap();
    let read = |file: &str| std::fs::read(folder.join(file)).unwrap();
    let (mut log, (from, bytes)) = (read("steadfast.db-wal"), unflushed);
    if let Some(found) = log.get_mut(from..from + bytes.len())
        && found == bytes
    {
        found.fill(0);
    }
    std::fs::write(left.path().join("steadfast.db"), read("steadfast.db")).unwrap();
    std::fs::write(left.path().join("steadfast.db-wal"), log).unwrap();
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_flush_nothing_is_acknowledged_before_the_log_restarts() {
    let lab = Lab::sqlite().await;
    lab.committed(Commit::append(&address("a"), 0, vec![event("flushed")])).await;
    let Place::Folder(folder) = &lab.place else { panic!("not in a folder") };
    let log = |folder: &Path| std::fs::read(folder.join("steadfast.db-wal")).unwrap();
    let from = log(folder.path()).len();
    lab.committed(Commit::append(&address("a"), 1, vec![event("in doubt")])).await;
    // As a process leaves it whose last flush failed.
    let left = tempfile::tempdir().unwrap();
    for file in ["steadfast.db", "steadfast.db-wal"] {
        std::fs::copy(folder.path().join(file), left.path().join(file)).unwrap();
    }
    let unflushed = log(left.path()).split_off(from);
    assert!(!unflushed.is_empty());
    let reader = rusqlite::Connection::open(left.path().join("steadfast.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM message").unwrap();
    let open = |folder: &Path| {
        let options = SqliteOptions::new(folder, Arc::new(ManualClock::at(START)));
        Arc::new(SqliteStore::open(options).unwrap()) as Arc<dyn Store>
    };
    let store = open(left.path());
    assert_eq!(store.version(address("a").id()).await.unwrap(), 2, "it can be read");
    let commit = || Commit::append(&address("b"), 0, vec![event("acknowledged")]);
    let refused = store.commit(commit()).await;
    let is_refused = refused.is_err();
    if let Err(error) = refused {
        assert_eq!((error.code(), error.surely_unapplied()), ("store_unavailable", true));
        assert!(matches!(store.health(), Health::Degraded { .. }));
        reader.execute_batch("ROLLBACK").unwrap();
        store.commit(commit()).await.unwrap().committed().unwrap();
    }
    assert_eq!(store.health(), Health::Ready);
    let left = power_fails(left.path(), (from, &unflushed));
    let next = open(left.path());
    assert_eq!(next.version(address("b").id()).await.unwrap(), 1, "it was acknowledged");
    assert!(is_refused, "the log cannot restart while it is read");
    next.close().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_bounded_however_long_a_read_takes() {
    const MAX: u64 = 4 << 20;
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(START));
    let options = SqliteOptions { log_bytes_max: MAX, ..SqliteOptions::new(folder.path(), clock) };
    let store = SqliteStore::open(options).unwrap();
    let store: &dyn Store = &store;
    let reader = rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let read = |it: &rusqlite::Row<'_>| it.get::<_, i64>(0);
    reader.query_row("SELECT count(*) FROM message", (), read).unwrap();
    let mut acknowledged = 0;
    let refused = loop {
        match store.commit(Commit::append(&address("a"), acknowledged, vec![large()])).await {
            Ok(outcome) => _ = outcome.committed().unwrap(),
            Err(error) => break error,
        }
        acknowledged += 1;
        assert!(acknowledged < 100, "it never ends");
    };
    assert_eq!((refused.code(), refused.is_retryable()), ("store_unavailable", true));
    assert!(refused.to_string().contains("a long read"), "{refused}");
    assert!(matches!(store.health(), Health::Degraded { .. }));
    let log = std::fs::metadata(folder.path().join("steadfast.db-wal")).unwrap().len();
    assert!(log < MAX + 1_000_000, "{log}");
    // Reads continue.
    assert_eq!(store.version(address("a").id()).await.unwrap(), acknowledged);
    reader.execute_batch("ROLLBACK").unwrap();
    for version in acknowledged..acknowledged + 20 {
        let commit = Commit::append(&address("a"), version, vec![large()]);
        store.commit(commit).await.unwrap().committed().unwrap();
    }
    assert_eq!(store.health(), Health::Ready);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_flush_is_never_retried_and_stops_the_store() {
    if !is_alone("a_failed_flush_is_never_retried_and_stops_the_store") {
        return;
    }
    let mut lab = Lab::sqlite().await;
    lab.append(&address("a"), vec![command(&address("acknowledged"))]).await;
    crash::fail_fsync_after(0);
    let commit = Commit::append(&address("a"), 1, vec![event("in doubt")]);
    let error = lab.store.commit(commit.clone()).await.unwrap_err();
    assert_eq!(error.code(), "storage_failed");
    assert!(!error.is_retryable() && !error.surely_unapplied());
    let Health::Failed { reason } = lab.store.health() else { panic!("still healthy") };
    assert!(reason.contains("flush"), "{reason}");
    // Although the disk may work again, this process does not write any more.
    assert_eq!(lab.store.commit(commit).await.unwrap_err().code(), "storage_failed");
    lab.reopen().await;
    assert_eq!(lab.version(&address("a")).await, 1);
    assert!(lab.store.owner().unclean_until.is_some(), "a failed store has no clean shutdown");
}

/// Closes all connections of the store to its database, as a restart does.
async fn cut(lab: &Lab) {
    let Place::Database(url) = &lab.place else { panic!("not in a database") };
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \
        application_name = current_setting('application_name') AND pid <> pg_backend_pid()";
    lab::execute(url, sql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cuts_its_connections_is_reconnected_and_nothing_is_lost_or_doubled() {
    let lab = Lab::postgres().await;
    let stream = address("a");
    for round in 0..5 {
        let writers = (0..20).map(|writer| {
            let (store, name) = (lab.store.clone(), format!("{round}/{writer}"));
            tokio::spawn(async move {
                let stream = address(&name);
                let messages = vec![event("x"), command(&stream)];
                store.commit(Commit::append(&stream, 0, messages)).await.unwrap()
            })
        });
        let writers: Vec<_> = writers.collect();
        cut(&lab).await;
        for writer in writers {
            assert!(matches!(writer.await.unwrap(), Outcome::Committed(_)));
        }
    }
    lab.append(&stream, vec![event("last")]).await;
    assert_eq!(lab.store.read_all(0, 1_000).await.unwrap().len(), 201);
    assert_eq!(lab.store.health(), Health::Ready);
    lab.assert_sound().await;
}

/// Commits over a connection that is lost at COMMIT, and counts the outcomes.
async fn lose_the_answer(loss: Loss) {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let Place::Database(url) = &lab.place else { panic!("not in a database") };
    let wire = Wire::start(url).await;
    let place = Place::Database(wire.url.clone());
    let store = lab::open(&place, &lab.clock).await.unwrap();
    let epoch = store.owner().epoch;
    wire.lose_next_commit(loss);
    let commit = Commit::append(&address("a"), 0, vec![event("x")]);
    let outcome = store.commit(commit).await.unwrap();
    assert_eq!(wire.lost(), 1, "a COMMIT was lost");
    assert_eq!(outcome.committed().unwrap().appended, [(1, 1)]);
    assert_eq!(store.read_all(0, 10).await.unwrap().len(), 1, "applied exactly once");
    assert!(epoch < store.owner().epoch, "the epoch was raised before the outcome was read");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_applied_but_whose_answer_was_lost_is_found_and_not_repeated() {
    lose_the_answer(Loss::Answer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_applied_by_a_server_that_then_failed_is_not_repeated() {
    lose_the_answer(Loss::Server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_doubt_when_another_process_takes_over_is_said_to_be_in_doubt() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let Place::Database(url) = &lab.place else { panic!("not in a database") };
    let wire = Wire::start(url).await;
    let store = lab::open(&Place::Database(wire.url.clone()), &lab.clock).await.unwrap();
    wire.lose_next_commit(Loss::Store);
    let error = store.commit(Commit::append(&address("a"), 0, vec![event("x")])).await.unwrap_err();
    assert_eq!(error.code(), "outcome_unknown");
    assert!(!error.surely_unapplied() && error.to_string().contains("another process took over"));
    let rows = lab::client(url).await.query("SELECT FROM message", &[]).await.unwrap();
    assert_eq!(rows.len(), 1, "it did happen");
    assert!(matches!(store.health(), Health::Failed { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_held_by_another_program_is_unavailable_and_not_damaged() {
    let lab = Lab::sqlite().await;
    let Place::Folder(folder) = &lab.place else { panic!("not in a folder") };
    let other = rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commit = || Commit::append(&address("a"), 0, vec![event("x")]);
    let both = tokio::join!(lab.store.commit(commit()), lab.store.commit(commit()));
    assert_eq!([both.0.unwrap_err().code(), both.1.unwrap_err().code()], ["store_unavailable"; 2]);
    assert!(matches!(lab.store.health(), Health::Degraded { .. }));
    other.execute_batch("ROLLBACK").unwrap();
    lab.committed(commit()).await;
    assert_eq!(lab.store.health(), Health::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_that_was_killed_half_way_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    // As far as it got: a first page without the application id, and no table.
    let file = rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap();
    file.pragma_update(None, "auto_vacuum", "INCREMENTAL").unwrap();
    drop(file);
    let store = small_disk(folder.path());
    store.commit(Commit::append(&address("a"), 0, vec![event("x")])).await.unwrap();
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_lost_on_its_way_is_found_missing_and_repeated() {
    lose_the_answer(Loss::Commit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_breaks_a_constraint_is_rerun_one_by_one() {
    let lab = Lab::postgres().await;
    let Place::Database(url) = &lab.place else { panic!("not in a database") };
    // Simulates a bug that the planner does not detect.
    lab::execute(url, "ALTER TABLE entity ADD CHECK (name <> 'bug')").await;
    let all = (0..30).map(|number| {
        let store = lab.store.clone();
        let stream = address(&if number == 15 { "bug".into() } else { number.to_string() });
        tokio::spawn(
            async move { store.commit(Commit::append(&stream, 0, vec![event("x")])).await },
        )
    });
    for (number, one) in all.collect::<Vec<_>>().into_iter().enumerate() {
        match one.await.unwrap() {
            Ok(outcome) => {
                assert!(number != 15 && matches!(outcome, Outcome::Committed(_)));
            }
            Err(error) => assert_eq!((number, error.code()), (15, "corrupt")),
        }
    }
    assert_eq!(lab.store.read_all(0, 100).await.unwrap().len(), 29);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_waiting_commits_are_answered_busy_and_none_is_lost() {
    let lab = Lab::sqlite().await;
    let burst = (0..20_000).map(|_| {
        let store = lab.store.clone();
        let write = Write::Append { stream: address("a"), messages: vec![event("x")] };
        tokio::spawn(async move { store.commit(Commit::of(write)).await })
    });
    let mut acknowledged = 0;
    for one in burst.collect::<Vec<_>>() {
        match one.await.unwrap() {
            Ok(_) => acknowledged += 1,
            Err(StoreError::Busy { waiting }) => assert!(0 < waiting),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(lab.version(&address("a")).await, acknowledged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_replaced_an_open_database_is_read_without_the_log_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("steadfast.db"), folder.path().join("backup"));
    let open = || {
        let options = SqliteOptions::new(folder.path(), Arc::new(ManualClock::at(START)));
        Arc::new(SqliteStore::open(options).unwrap()) as Arc<dyn Store>
    };
    let append = async |store: &Arc<dyn Store>, versions: std::ops::Range<i64>| {
        for version in versions {
            let commit = Commit::append(&address("a"), version, vec![event("x")]);
            store.commit(commit).await.unwrap().committed().unwrap();
        }
    };
    let store = open();
    append(&store, 0..30).await;
    let copy = rusqlite::Connection::open(&path).unwrap();
    copy.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    drop(copy);
    append(&store, 30..300).await;
    std::fs::rename(&backup, &path).unwrap();
    while store.health() == Health::Ready {
        std::thread::park_timeout(PAUSE);
    }
    // Connections that are opened now would read the other file with the log of this one.
    let reads = (0..4).map(|_| store.read_all(0, 1_000));
    for read in futures_util::future::join_all(reads).await {
        match read {
            Ok(read) => assert_eq!(read.len(), 300),
            Err(error) => assert!(error.to_string().contains("replaced"), "{error}"),
        }
    }
    store.close().await;
    let store = open();
    assert_eq!(store.version(address("a").id()).await.unwrap(), 30);
    assert_eq!(store.read_all(0, 1_000).await.unwrap().len(), 30);
    append(&store, 30..31).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_closed_during_a_read_leaves_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(folder.path(), Arc::new(ManualClock::at(START)));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    for version in 0..20 {
        let events = vec![event("x"); 500];
        store.commit(Commit::append(&address("a"), version * 500, events)).await.unwrap();
    }
    // The read begins first, and takes longer than the last commit of the store.
    let late = store.commit(Commit::append(&address("a"), 10_000, vec![event("late")]));
    let (read, (), late) = tokio::join!(biased; store.read_all(0, 10_000), store.close(), late);
    assert_eq!(read.unwrap().len(), 10_000);
    assert!(matches!(late, Err(StoreError::Closed)), "another task can read no more: {late:?}");
    let log = folder.path().join("steadfast.db-wal");
    assert!(!log.exists(), "a copy of the database file alone would lack commits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_file_that_is_replaced_right_after_its_start_is_noticed() {
    let mut stores = Vec::new();
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path(), Arc::new(ManualClock::at(START)));
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
        let (path, aside) = (folder.path().join("steadfast.db"), folder.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        std::fs::write(&path, b"").unwrap();
        stores.push((store, folder));
    }
    for (store, folder) in stores {
        while store.health() == Health::Ready {
            std::thread::park_timeout(PAUSE);
        }
        assert!(folder.path().join("steadfast.db-wal").exists(), "commits of the file are in it");
        assert_eq!(std::fs::metadata(folder.path().join("steadfast.db")).unwrap().len(), 0);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_file_that_was_deleted_or_replaced_takes_no_more_commits() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(folder.path(), Arc::new(ManualClock::at(START)));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    store.commit(Commit::append(&address("a"), 0, vec![event("x")])).await.unwrap();
    let (path, aside) = (folder.path().join("steadfast.db"), folder.path().join("aside"));
    let append = async || {
        let version = store.version(address("a").id()).await.unwrap();
        store.commit(Commit::append(&address("a"), version, vec![event("x")])).await
    };
    append().await.unwrap();
    for replaced in [false, true] {
        std::fs::rename(&path, &aside).unwrap();
        if replaced {
            std::fs::write(&path, b"").unwrap();
        }
        while store.health() == Health::Ready {
            std::thread::park_timeout(PAUSE);
        }
        let error = append().await.unwrap_err();
        assert_eq!(error.code(), "store_unavailable");
        let word = if replaced { "replaced" } else { "deleted" };
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(store.read_all(0, 10).await.unwrap().len(), 2 + usize::from(replaced));
        std::fs::rename(&aside, &path).unwrap();
        // The same file is back.
        while append().await.is_err() {
            std::thread::park_timeout(PAUSE);
        }
        assert_eq!(store.health(), Health::Ready);
    }
    store.close().await;
}
