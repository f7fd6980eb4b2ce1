//! Databases that lack acknowledged commits, owners that do not answer, and slow servers.

use std::{path::PathBuf, sync::Arc, time::Duration};

use steadfast_store::{
    BASELINE_FORMAT, Commit, Health, ManualClock, OpenError, PostgresOptions, PostgresStore,
    SettledAs, Store, Version, Write,
};
use tokio_postgres::Client;

use crate::{
    lab::{self, Lab, Place, START, address, command, event},
    migrations::{FIRST, SECOND, format_of, open_with},
    wait::until,
    wire::{Loss, Wire},
};

pub(crate) fn url(lab: &Lab) -> &str {
    let Place::Database(url) = &lab.place else { panic!("not in a database") };
    url
}

/// Every table of a store, to restore it later.
struct Backup {
    client: Client,
    tables: Vec<String>,
}

impl Backup {
    async fn of(lab: &Lab) -> Self {
        let client = lab::client(url(lab)).await;
        let sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()";
        let rows = client.query(sql, &[]).await.unwrap();
        let tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let copies = tables.iter().map(|it| format!("CREATE TEMP TABLE old_{it} AS TABLE {it}; "));
        let copies = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {}COMMIT", text(copies));
        client.batch_execute(&copies).await.unwrap();
        Self { client, tables }
    }

    /// Restores the store to its earlier state, and cuts all connections to it, as the promotion of
    /// a replica that was behind does.
    async fn restore(&self) {
        // Every batch of the owner locks this one first: with another order the two would deadlock.
        let first = "LOCK TABLE node; ";
        let locks = self.tables.iter().map(|it| format!("LOCK TABLE {it}; "));
        let back = self.tables.iter().map(|it| {
            format!("DELETE FROM {it}; INSERT INTO {it} SELECT * FROM pg_temp.old_{it}; ")
        });
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \
            application_name = current_setting('application_name') AND pid <> pg_backend_pid(); ";
        let sql = format!("BEGIN; {first}{}{}{cut}COMMIT", text(locks), text(back));
        self.client.batch_execute(&sql).await.unwrap();
    }
}

fn text(parts: impl Iterator<Item = String>) -> String {
    parts.collect()
}

async fn open(lab: &Lab, accept_loss: bool) -> Result<Arc<dyn Store>, OpenError> {
    let clock = Arc::new(ManualClock::at(START));
    let options = PostgresOptions { accept_loss, ..PostgresOptions::new(url(lab), clock) };
    Ok(Arc::new(PostgresStore::open(options).await?))
}

/// A lab whose lease is as short as that of a program.
pub(crate) async fn with_short_lease() -> Lab {
    let mut lab = Lab::postgres().await;
    reopen_with_short_lease(&mut lab).await;
    lab
}

async fn reopen_with_short_lease(lab: &mut Lab) {
    lab.store.close().await;
    lab.store = open(lab, false).await.unwrap();
}

async fn append(lab: &Lab, name: &str, count: Version) {
    for version in 0..count {
        lab.committed(Commit::append(&address(name), version, vec![event("x")])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_commits_that_are_missing_stop_the_owner_until_the_loss_is_accepted() {
    let lab = with_short_lease().await;
    append(&lab, "kept", 5).await;
    let pending = lab.command(&address("kept and pending")).await;
    let id_before = lab.store.message(pending).await.unwrap().unwrap().id();
    let backup = Backup::of(&lab).await;
    append(&lab, "lost", 20).await;
    backup.restore().await;

    // It answers nothing, neither from memory nor from the restored database.
    let commit = Commit::append(&address("lost"), 20, vec![event("x")]);
    let error = lab.store.commit(commit).await.unwrap_err();
    assert_eq!(error.code(), "commits_lost");
    assert!(error.surely_unapplied() && !error.is_retryable() && error.is_over());
    let settled =
        Write::Settle { position: pending, lease: None, as_: SettledAs::Done, error: None };
    let late = lab.store.commit(Commit::of(settled)).await.unwrap_err();
    assert_eq!(late.code(), "commits_lost", "a delivery in flight settles nothing");
    let said = "batches 7 to 26 of the last owner, position 6 was found and 26 was acknowledged";
    assert!(error.to_string().contains(said), "{error}");
    assert_eq!(lab.version_error(&address("lost")).await, "commits_lost");
    assert_eq!(lab.store.check_lease().unwrap_err().code(), "commits_lost");
    assert!(matches!(lab.store.health(), Health::Failed { .. }));
    lab.store.close().await;

    // A restart does not hide it.
    for _ in 0..2 {
        let refused = open(&lab, false).await.err().expect("refused");
        assert!(matches!(refused, OpenError::CommitsLost { .. }), "{refused}");
        assert!(refused.to_string().contains(said), "{refused}");
        assert!(refused.to_string().contains("--accept-loss"), "{refused}");
    }

    // An owner that continues begins a new history.
    let store = open(&lab, true).await.unwrap();
    store.notices().listen();
    assert_eq!(store.version(address("lost").id()).await.unwrap(), 0);
    assert_eq!(store.version(address("kept").id()).await.unwrap(), 5);
    let commit = Commit::append(&address("lost"), 0, vec![command(&address("lost"))]);
    let receipt = store.commit(commit).await.unwrap().committed().unwrap();
    let (_, position) = receipt.appended[0];
    assert!(26 < position, "{position} was never given out before");
    let id = format!("1~{}/1", address("lost").id());
    let fresh = store.notices().fresh(position).expect("it was just written");
    assert_eq!(fresh.id(), id, "as it is delivered first");
    assert_eq!(store.message(position).await.unwrap().unwrap().id(), id, "and later");
    let old = store.message(pending).await.unwrap().unwrap();
    assert_eq!(old.id(), id_before, "a kept message is repeated under its old id");
    assert_eq!(store.violations().await.unwrap(), Vec::<String>::new());
    store.close().await;

    // The decision is permanent.
    let store = open(&lab, false).await.unwrap();
    assert!(store.message(position).await.unwrap().unwrap().id().starts_with("1~"));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_owner_detects_it_as_well_and_readers_get_no_stale_data_meanwhile() {
    let lab = with_short_lease().await;
    let backup = Backup::of(&lab).await;
    append(&lab, "lost", 3).await;
    backup.restore().await;
    until("it has noticed", async || {
        match lab.store.version(address("lost").id()).await {
            Ok(version) => assert_eq!(version, 3, "told before and not taken back"),
            Err(error) => return error.code() == "commits_lost",
        }
        false
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_before_this_owner_lacks_all_that_it_acknowledged() {
    let mut lab = with_short_lease().await;
    append(&lab, "kept", 2).await;
    let backup = Backup::of(&lab).await;
    reopen_with_short_lease(&mut lab).await;
    append(&lab, "lost", 3).await;
    backup.restore().await;
    let error = lab.store.commit(Commit::default()).await.unwrap_err();
    assert_eq!(error.code(), "commits_lost");
    assert!(error.to_string().contains("batches 1 to "), "{error}");
    lab.store.close().await;
    let refused = open(&lab, false).await.err().expect("refused");
    assert!(matches!(refused, OpenError::CommitsLost { .. }), "{refused}");
    open(&lab, true).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_waits_for_an_owner_detects_a_loss_that_the_owner_recorded_last() {
    let lab = with_short_lease().await;
    let backup = Backup::of(&lab).await;
    append(&lab, "lost", 3).await;
    // It has checked for losses, and waits for the lease of the owner to end.
    let waits = {
        // Under a name of its own, so that its connection is not cut.
        let url = url(&lab).replace("application_name=", "application_name=waits_");
        tokio::spawn(async move {
            let clock = Arc::new(ManualClock::at(START));
            loop {
                match PostgresStore::open(PostgresOptions::new(&url, clock.clone())).await {
                    Err(OpenError::Taken { .. }) => {}
                    other => return other.map(|_| ()),
                }
            }
        })
    };
    backup.restore().await;
    let refused = waits.await.unwrap().expect_err("it is not served");
    assert!(matches!(refused, OpenError::CommitsLost { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_without_missing_commits_is_no_loss() {
    let lab = with_short_lease().await;
    append(&lab, "kept", 2).await;
    let backup = Backup::of(&lab).await;
    // Heartbeats may be missing.
    let beats = lab.store.activity().heartbeats;
    until("it beats", async || beats + 1 < lab.store.activity().heartbeats).await;
    backup.restore().await;
    append(&lab, "more", 2).await;
    assert_eq!(lab.store.health(), Health::Ready);
    lab.store.close().await;
    // Accepted without need: nothing changes.
    let store = open(&lab, true).await.unwrap();
    assert_eq!(store.totals().await.unwrap().position, 4);
    store.close().await;
}

/// Keeps the owner from writing its row, like a database that hangs.
async fn hold_node(lab: &Lab) -> Client {
    let client = lab::client(url(lab)).await;
    client.batch_execute("BEGIN; SELECT FROM node FOR UPDATE").await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_cannot_renew_its_lease_answers_nothing_until_it_can() {
    let lab = with_short_lease().await;
    append(&lab, "a", 1).await;
    let holder = hold_node(&lab).await;
    until("its lease ended", async || lab.store.check_lease().is_err()).await;
    let error = lab.store.read_all(0, 10).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("store_unavailable", true));
    assert!(error.to_string().contains("lease of this process ended"), "{error}");
    let Health::Degraded { reason } = lab.store.health() else { panic!("still healthy") };
    // On a slow machine the owner has given up the commit that renews it before.
    assert!(["lease", "does not answer"].iter().any(|it| reason.contains(it)), "{reason}");
    holder.batch_execute("COMMIT").await.unwrap();
    until("it is renewed", async || lab.store.check_lease().is_ok()).await;
    assert_eq!(lab.version(&address("a")).await, 1);
    until("it is well", async || lab.store.health() == Health::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_fell_silent_in_the_middle_of_a_batch_is_succeeded() {
    let lab = Lab::postgres().await;
    lab.command(&address("a")).await;
    lab.store.close().await;
    let gone = "UPDATE node SET clean = FALSE, owner = 'process 1 on elsewhere', \
        process = 'elsewhere/pid:[1]/1/1/0', lease_until = clock_timestamp()";
    lab::execute(url(&lab), gone).await;
    // Its backend has begun a transaction, and will never get its end.
    let silent = lab::client(url(&lab)).await;
    silent.batch_execute("BEGIN; UPDATE node SET last_batch = 7").await.unwrap();
    let store = open(&lab, false).await.unwrap();
    assert_eq!(store.version(address("a").id()).await.unwrap(), 1);
    assert!(silent.batch_execute("COMMIT").await.is_err(), "it was ended");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_owner_and_counter_are_found_by_key_however_many_dead_rows_there_are() {
    let lab = Lab::postgres().await;
    let watcher = lab::client(url(&lab)).await;
    watcher.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    watcher.query("SELECT FROM message", &[]).await.unwrap();
    let looks = lab::client(url(&lab)).await;
    let scans = async || {
        let sql = "SELECT sum(seq_scan)::bigint, sum(n_tup_upd)::bigint FROM \
            pg_stat_user_tables WHERE schemaname = current_schema() AND relname IN \
            ('node', 'counter')";
        let row = looks.query_one(sql, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    let (scanned, updated) = scans().await;
    append(&lab, "a", 300).await;
    // The server counts with some delay.
    until("it was counted", async || updated + 600 <= scans().await.1).await;
    // Opening reads them a few times; 300 batches do not.
    let scanned = scans().await.0 - scanned;
    assert!(scanned < 20, "{scanned}");
    watcher.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_keeps_dead_rows_alive_is_warned_of() {
    let lab = Lab::postgres().await;
    let oldest = async || {
        let all = lab.store.settings().await.unwrap();
        all.into_iter().find(|it| it.name == "oldest_snapshot")
    };
    let holder = lab::client(&format!("{}&application_name=forgotten", lab::server())).await;
    holder.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let spend = "CREATE TABLE spent (x BIGINT); \
        DO $$ BEGIN FOR i IN 1..50100 LOOP BEGIN INSERT INTO spent VALUES (i); \
        EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$";
    lab::execute(url(&lab), spend).await;
    let mut concern = String::new();
    // Concurrent tests may have an older one for a while.
    until("it is named", async || {
        concern = oldest().await.and_then(|it| it.concern).unwrap_or_default();
        concern.contains("(forgotten)")
    })
    .await;
    assert!(concern.contains("keeps PostgreSQL from cleaning up"), "{concern}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    // Others may have some, but not so old ones.
    until("it is gone", async || oldest().await.is_none_or(|it| it.concern.is_none())).await;
}

/// An owner of another version that is alive: its row changes.
async fn lives(url: &str) -> tokio::task::JoinHandle<()> {
    let client = lab::client(url).await;
    let beat = "UPDATE node SET clean = FALSE, owner = 'process 1 on elsewhere', \
        process = 'elsewhere/pid:[1]/1/1/0', last_batch = last_batch + 1, \
        lease_until = clock_timestamp() + interval '15 s'";
    // It is alive before the first check.
    client.batch_execute(beat).await.unwrap();
    tokio::spawn(async move {
        let mut pause = tokio::time::interval(Duration::from_millis(300));
        loop {
            pause.tick().await;
            client.batch_execute(beat).await.unwrap();
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_binary_is_refused_by_a_live_owner_before_it_touches_the_schema() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let owner = lives(url(&lab)).await;
    let error = open_with(&lab.place, FIRST).await.err().expect("refused");
    assert!(matches!(error, OpenError::Taken { .. }), "{error}");
    assert!(error.to_string().contains("process 1 on elsewhere"), "{error}");
    assert_eq!(format_of(&lab.place).await, BASELINE_FORMAT, "the live owner keeps its schema");
    owner.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_has_no_timeout_and_continues_where_it_was_interrupted() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    // The statement timeout, recorded with each migration; and a column that the second one adds.
    let watch = "CREATE TABLE noted (value TEXT); \
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        INSERT INTO noted VALUES (current_setting('statement_timeout')); RETURN NEW; END $$; \
        CREATE TRIGGER note BEFORE UPDATE ON meta FOR EACH ROW EXECUTE FUNCTION note(); \
        ALTER TABLE entity ADD COLUMN note TEXT";
    lab::execute(url(&lab), watch).await;
    let error = open_with(&lab.place, SECOND).await.err().expect("the column is in the way");
    assert!(error.to_string().contains("already exists"), "{error}");
    assert_eq!(format_of(&lab.place).await, BASELINE_FORMAT + 1, "the first migration stays done");
    lab::execute(url(&lab), "ALTER TABLE entity DROP COLUMN note").await;
    open_with(&lab.place, SECOND).await.unwrap().close().await;
    assert_eq!(format_of(&lab.place).await, BASELINE_FORMAT + 2);
    let client = lab::client(url(&lab)).await;
    let noted = client.query("SELECT DISTINCT value FROM noted", &[]).await.unwrap();
    assert_eq!(noted.iter().map(|it| it.get(0)).collect::<Vec<String>>(), ["0"]);
}

/// A backend that hangs is abandoned after 40 s; until then its store only waits.
async fn a_frozen_backend_is_abandoned_and_the_commit_happens_once() {
    let lab = Lab::postgres().await;
    let client = lab::client(url(&lab)).await;
    // Before its next heartbeat nothing else is in flight.
    append(&lab, "before", 1).await;
    let sql = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND \
        application_name = current_setting('application_name') AND query = 'COMMIT'";
    let pid: i32 = client.query_one(sql, &[]).await.unwrap().get(0);
    let frozen = Frozen::stop(pid);
    let commit = Commit::append(&address("a"), 0, vec![event("x")]);
    let answer = lab.store.commit(commit).await.unwrap();
    assert_eq!(answer.committed().unwrap().appended, [(1, 2)]);
    drop(frozen);
    assert_eq!(lab.version(&address("a")).await, 1);
    lab.assert_sound().await;
}

/// A process that is stopped while this exists.
struct Frozen(i32);

impl Frozen {
    fn stop(pid: i32) -> Self {
        assert!(signal("-STOP", pid), "{pid} is stopped");
        Self(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

fn signal(name: &str, pid: i32) -> bool {
    let mut kill = std::process::Command::new("kill");
    kill.args([name, &pid.to_string()]).status().unwrap().success()
}

/// Callers of a commit in doubt get an error after 9 s.
async fn a_commit_in_doubt_for_long_is_said_to_be_in_doubt() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let wire = Wire::start(url(&lab)).await;
    let store = lab::open(&Place::Database(wire.url.clone()), &lab.clock).await.unwrap();
    wire.lose_next_commit(Loss::Answer);
    wire.refuse(true);
    let error = store.commit(Commit::append(&address("a"), 0, vec![event("x")])).await.unwrap_err();
    assert_eq!(error.code(), "outcome_unknown");
    assert_eq!(wire.lost(), 1);
    // Other callers get an error that nothing was written, and all of them the outcome after the
    // reconnect.
    let error = store.commit(Commit::append(&address("b"), 0, vec![event("x")])).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable");
    wire.refuse(false);
    until("it is back", async || store.health() == Health::Ready).await;
    assert_eq!(store.version(address("a").id()).await.unwrap(), 1, "it did happen");
    assert_eq!(store.version(address("b").id()).await.unwrap(), 0);
    store.close().await;
}

/// Callers of a database that is cut off without a word get an error after 9 s, and health shows it
/// before.
async fn a_silent_cut_is_noticed_and_callers_get_an_error() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let wire = Wire::start(url(&lab)).await;
    let store = lab::open(&Place::Database(wire.url.clone()), &lab.clock).await.unwrap();
    store.commit(Commit::append(&address("a"), 0, vec![event("x")])).await.unwrap();
    wire.silence(true);
    let cut = store.commit(Commit::append(&address("a"), 1, vec![event("x")]));
    let noticed = until("health shows it", async || store.health() != Health::Ready);
    let limit = 2 * LIMIT;
    let (error, ()) = tokio::time::timeout(limit, async { tokio::join!(cut, noticed) })
        .await
        .expect("callers get an error");
    let error = error.unwrap_err();
    assert!(["store_unavailable", "outcome_unknown"].contains(&error.code()), "{error}");
    // Reads end with the lease.
    let error = tokio::time::timeout(limit, store.version(address("a").id())).await;
    assert_eq!(error.expect("it ends").unwrap_err().code(), "store_unavailable");
    wire.silence(false);
    until("it is back", async || store.health() == Health::Ready).await;
    let version = store.version(address("a").id()).await.unwrap();
    assert!((1..=2).contains(&version), "{version}");
    store.close().await;
}

/// Within this time callers get an answer.
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn long_silence_has_its_limits() {
    tokio::join!(
        a_silent_cut_is_noticed_and_callers_get_an_error(),
        a_frozen_backend_is_abandoned_and_the_commit_happens_once(),
        a_commit_in_doubt_for_long_is_said_to_be_in_doubt(),
    );
}

/// Opens the store on the machine that has this file.
async fn open_on(lab: &Lab, file: PathBuf, accept_loss: bool) -> Result<PostgresStore, OpenError> {
    let options = PostgresOptions::new(url(lab), Arc::new(lab.clock.clone()));
    PostgresStore::open(PostgresOptions { memo: Some(file), accept_loss, ..options }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_database_is_noticed_although_its_last_owner_has_ended() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let folder = tempfile::tempdir().unwrap();
    let open = async |accept_loss: bool, file: &str| {
        open_on(&lab, folder.path().join(file), accept_loss).await
    };
    let append = async |store: &PostgresStore, version| {
        let commit = Commit::append(&address("a"), version, vec![event("x")]);
        store.commit(commit).await.unwrap().committed().unwrap().appended[0].1
    };
    let store = open(false, "here").await.unwrap();
    append(&store, 0).await;
    store.close().await;
    let backup = Backup::of(&lab).await;
    let store = open(false, "here").await.unwrap();
    let lost = append(&store, 1).await;
    store.close().await;
    backup.restore().await;
    // A machine that has seen nothing cannot know.
    open(false, "elsewhere").await.expect("nothing is known to be missing").close().await;
    backup.restore().await;
    for _ in 0..2 {
        let error = open(false, "here").await.err().expect("it lacks a commit");
        assert!(matches!(error, OpenError::CommitsLost { .. }), "{error}");
    }
    let store = open(true, "here").await.expect("an operator accepts the loss");
    let next = append(&store, 1).await;
    assert!(lost < next, "no acknowledged position is used again");
    store.close().await;
    open(false, "here").await.expect("nothing more is missing").close().await;
    // Another store is none that lacks anything.
    let other = Lab::postgres().await;
    other.store.close().await;
    let store = open_on(&other, folder.path().join("here"), false).await;
    store.expect("it is a new store").close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_of_a_machine_is_no_false_alarm_about_the_history_of_another() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let folder = tempfile::tempdir().unwrap();
    let open = async |accept_loss: bool, file: &str| {
        open_on(&lab, folder.path().join(file), accept_loss).await
    };
    let append = async |store: &PostgresStore, version| {
        let commit = Commit::append(&address("a"), version, vec![event("x")]);
        store.commit(commit).await.unwrap().committed().unwrap();
    };
    let store = open(false, "one").await.unwrap();
    append(&store, 0).await;
    store.close().await;
    let backup = Backup::of(&lab).await;
    // An owner that wrote nothing lost nothing, whatever its epoch was.
    for _ in 0..3 {
        open(false, "one").await.unwrap().close().await;
    }
    backup.restore().await;
    let store = open(false, "one").await.expect("nothing is missing");
    append(&store, 1).await;
    store.close().await;
    for version in 2..5 {
        let store = open(false, "two").await.unwrap();
        append(&store, version).await;
        store.close().await;
    }
    // An operator accepts the loss on one machine: the note of the other is about a history that
    // is over.
    backup.restore().await;
    let refused = open(false, "two").await.err().unwrap();
    assert!(matches!(refused, OpenError::CommitsLost { .. }), "{refused}");
    open(true, "two").await.unwrap().close().await;
    open(false, "one").await.expect("its loss was accepted").close().await;
    // A note that cannot be read is no reason to start without it, unless told so.
    std::fs::write(folder.path().join("two"), b"{").unwrap();
    let error = open(false, "two").await.err().expect("it cannot be read").to_string();
    assert!(error.contains("cannot be read") && error.contains("delete it"), "{error}");
    open(true, "two").await.expect("an operator accepts what is lost").close().await;
}
