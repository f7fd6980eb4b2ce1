//! One owner at a time; a fenced owner cannot write.

use std::{sync::Arc, time::Duration};

use steadfast_store::{
    Commit, Health, ManualClock, OpenError, SqliteOptions, SqliteStore, Store, StoreError,
};

use crate::lab::{self, Lab, Place, START, address, event};

fn folder(lab: &Lab) -> &std::path::Path {
    let Place::Folder(folder) = &lab.place else { panic!("not in a folder") };
    folder.path()
}

fn database(lab: &Lab) -> &str {
    let Place::Database(url) = &lab.place else { panic!("not in a database") };
    url
}

async fn open_again(lab: &Lab) -> Result<Arc<dyn Store>, OpenError> {
    lab::open(&lab.place, &ManualClock::at(START)).await
}

async fn refused(lab: &Lab) -> OpenError {
    open_again(lab).await.err().expect("a second owner is refused")
}

async fn a_second_owner_is_refused_with_the_name_of_the_first(lab: Lab) {
    let error = refused(&lab).await;
    assert!(matches!(error, OpenError::Taken { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    // The first one continues.
    lab.append(&address("a"), vec![event("x")]).await;
    lab.store.close().await;
    open_again(&lab).await.expect("free after the first has closed").close().await;
}

async fn each_owner_has_its_own_epoch(mut lab: Lab) {
    let first = lab.store.owner();
    lab.reopen().await;
    let second = lab.store.owner();
    assert!(first.epoch < second.epoch);
    assert_eq!(second.unclean_until, None);
}

async fn a_closed_store_answers_closed(lab: Lab) {
    lab.store.close().await;
    let error = lab.store.commit(Commit::append(&address("a"), 0, vec![])).await.unwrap_err();
    assert_eq!(error.code(), "closed");
    assert!(lab.store.read_all(0, 1).await.is_err());
}

on_disk!(
    a_second_owner_is_refused_with_the_name_of_the_first,
    each_owner_has_its_own_epoch,
    a_closed_store_answers_closed,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steadfast.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("CREATE TABLE mine (x); PRAGMA application_id = 7").unwrap();
    drop(file);
    let before = std::fs::read(&path).unwrap();
    let clock = Arc::new(ManualClock::at(START));
    let open =
        || SqliteStore::open(SqliteOptions::new(folder.path(), clock.clone())).err().unwrap();
    assert!(matches!(open(), OpenError::Foreign { .. }));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::write(&path, "certainly not a database, but long enough to be read as one").unwrap();
    assert!(matches!(open(), OpenError::Foreign { .. }));
}

/// Another process raises the epoch while this one still believes that it owns the store.
async fn assert_fenced(lab: &Lab) {
    let error = lab.store.commit(Commit::append(&address("a"), 0, vec![event("x")])).await;
    let error = error.unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. } | StoreError::Failed { .. }), "{error}");
    assert!(error.to_string().contains("another process took over"), "{error}");
    assert!(matches!(lab.store.health(), Health::Failed { .. }));
    let again = lab.store.commit(Commit::default()).await.unwrap_err();
    assert!(!again.is_retryable());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_cannot_write_to_a_database_that_was_taken_over() {
    let lab = Lab::postgres().await;
    let take = "UPDATE node SET epoch = epoch + 1, process = 'another'";
    lab::execute(database(&lab), take).await;
    assert_fenced(&lab).await;
    // It does not return data that may be stale.
    assert_eq!(lab.store.read_all(0, 10).await.unwrap_err().code(), "fenced");
    assert_eq!(lab.store.check_lease().unwrap_err().code(), "fenced");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_cannot_write_to_a_file_that_was_taken_over() {
    let lab = Lab::sqlite().await;
    let file = rusqlite::Connection::open(folder(&lab).join("steadfast.db")).unwrap();
    file.execute_batch("UPDATE node SET epoch = epoch + 1").unwrap();
    assert_fenced(&lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_elsewhere_that_gives_no_sign_of_life_is_succeeded_when_its_lease_ends() {
    let lab = Lab::postgres().await;
    lab.command(&address("a")).await;
    lab.store.close().await;
    let gone = "UPDATE node SET clean = FALSE, owner = 'process 1 on elsewhere', \
        process = 'elsewhere/pid:[1]/1/1/0', lease_until = clock_timestamp() + interval '1 s'";
    lab::execute(database(&lab), gone).await;
    let store = open_again(&lab).await.unwrap();
    assert_eq!(store.owner().unclean_until, Some(1));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_left_by_an_unclean_end_stays_suspect_until_it_is_settled() {
    let mut lab = Lab::sqlite().await;
    let position = lab.command(&address("a")).await;
    lab.store.close().await;
    let file = rusqlite::Connection::open(folder(&lab).join("steadfast.db")).unwrap();
    file.execute_batch("UPDATE node SET clean = 0").unwrap();
    drop(file);
    // A read-only open in between does not make it clean.
    for _ in 0..2 {
        lab.store = open_again(&lab).await.unwrap();
        assert_eq!(lab.store.owner().unclean_until, Some(position));
        lab.store.close().await;
    }
    lab.store = open_again(&lab).await.unwrap();
    lab.settle(position, None).await.committed().unwrap();
    lab.reopen().await;
    assert_eq!(lab.store.owner().unclean_until, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_owner_on_another_machine_is_not_disturbed() {
    let lab = Lab::postgres().await;
    lab.store.close().await;
    let renew = "UPDATE node SET clean = FALSE, owner = 'process 1 on elsewhere', \
        process = 'elsewhere/pid:[1]/1/1/0', lease_until = clock_timestamp() + interval '15 s'";
    lab::execute(database(&lab), renew).await;
    let client = lab::client(database(&lab)).await;
    let alive = tokio::spawn(async move {
        let mut beat = tokio::time::interval(Duration::from_millis(300));
        loop {
            beat.tick().await;
            client.batch_execute(renew).await.unwrap();
        }
    });
    let error = refused(&lab).await;
    alive.abort();
    assert!(error.to_string().contains("process 1 on elsewhere"), "{error}");
}
