//! The format of a store: its number, and the migrations that follow the baseline. The product has
//! none before the first release, so these tests give their own.

use std::{collections::BTreeMap, ffi::OsString, path::Path, sync::Arc};

use steadfast_store::{
    BASELINE_FORMAT, Commit, EntityKind, ManualClock, Migration, OpenError, PostgresOptions,
    PostgresStore, SqliteOptions, SqliteStore, Store, futures::try_join_all, peek_entry,
};

use crate::lab::{self, Lab, Place, START, address, address_of, event};

const BOTH: &[Migration] = &[
    Migration {
        sqlite: "CREATE TABLE sample (id BLOB NOT NULL) STRICT; \
            INSERT INTO sample SELECT id FROM entity",
        postgres: "CREATE TABLE sample (id BYTEA NOT NULL); \
            INSERT INTO sample SELECT id FROM entity",
    },
    Migration {
        sqlite: "ALTER TABLE entity ADD COLUMN note TEXT",
        postgres: "ALTER TABLE entity ADD COLUMN note TEXT",
    },
];

/// The migrations of a program with one migration.
pub(crate) const FIRST: &[Migration] = BOTH.split_at(1).0;

/// The migrations of the next program, which has two.
pub(crate) const SECOND: &[Migration] = BOTH;

/// Opens a store as a program with these migrations does.
pub(crate) async fn open_with(
    place: &Place,
    migrations: &'static [Migration],
) -> Result<Arc<dyn Store>, OpenError> {
    let clock = Arc::new(ManualClock::at(START));
    Ok(match place {
        Place::Memory => unreachable!("it is not on disk"),
        Place::Folder(folder) => {
            let options = SqliteOptions { migrations, ..SqliteOptions::new(folder.path(), clock) };
            Arc::new(SqliteStore::open(options)?)
        }
        Place::Database(url) => {
            let options = PostgresOptions { migrations, ..PostgresOptions::new(url, clock) };
            Arc::new(PostgresStore::open(options).await?)
        }
    })
}

fn file(place: &Place) -> rusqlite::Connection {
    let Place::Folder(folder) = place else { panic!("not in a folder") };
    rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap()
}

async fn execute(place: &Place, sql: &str) {
    match place {
        Place::Database(url) => lab::execute(url, sql).await,
        Place::Folder(_) | Place::Memory => file(place).execute_batch(sql).unwrap(),
    }
}

/// The first number of a row.
async fn number(place: &Place, sql: &str) -> i64 {
    match place {
        Place::Database(url) => lab::client(url).await.query_one(sql, &[]).await.unwrap().get(0),
        Place::Folder(_) | Place::Memory => {
            file(place).query_row(sql, (), |row| row.get(0)).unwrap()
        }
    }
}

/// The recorded format.
pub(crate) async fn format_of(place: &Place) -> i64 {
    number(place, "SELECT value FROM meta WHERE key = 'format'").await
}

async fn a_store_is_migrated_when_it_is_opened_and_keeps_its_data(lab: Lab) {
    assert_eq!(format_of(&lab.place).await, BASELINE_FORMAT);
    lab.append(&address("a"), vec![event("x")]).await;
    lab.store.close().await;
    // A program may be several migrations ahead, and each is applied once.
    for (migrations, format) in [(FIRST, 1), (SECOND, 2), (SECOND, 2)] {
        let store = open_with(&lab.place, migrations).await.unwrap();
        assert_eq!(format_of(&lab.place).await, BASELINE_FORMAT + format);
        assert_eq!(number(&lab.place, "SELECT count(*) FROM sample").await, 1);
        let version = store.version(address("a").id()).await.unwrap();
        let commit = Commit::append(&address("a"), version, vec![event("x")]);
        store.commit(commit).await.unwrap().committed().unwrap();
        assert_eq!(store.violations().await.unwrap(), [""; 0]);
        store.close().await;
    }
    assert_eq!(number(&lab.place, "SELECT count(*) FROM message").await, 4);
    let error = open_with(&lab.place, FIRST).await.err().expect("it has no second migration");
    assert!(matches!(error, OpenError::Format { .. }), "{error}");
}

async fn a_migration_that_fails_changes_nothing_and_is_repeated(lab: Lab) {
    lab.store.close().await;
    execute(&lab.place, "CREATE TABLE sample (n INTEGER)").await;
    let error = open_with(&lab.place, FIRST).await.err().expect("the table is in the way");
    assert!(error.to_string().contains("already exists"), "{error}");
    assert_eq!(format_of(&lab.place).await, BASELINE_FORMAT);
    execute(&lab.place, "DROP TABLE sample").await;
    open_with(&lab.place, FIRST).await.unwrap().close().await;
    assert_eq!(format_of(&lab.place).await, BASELINE_FORMAT + 1);
}

/// The number was recorded as `schema` before format 11.
async fn a_store_of_another_format_is_refused_and_stays_as_it_is(lab: Lab) {
    lab.store.close().await;
    let epoch = "SELECT epoch FROM node";
    let before = number(&lab.place, epoch).await;
    let earlier = "DELETE FROM meta; INSERT INTO meta VALUES ('schema', 10), ('needs', 9)";
    for (sql, found) in [(earlier, 10), ("UPDATE meta SET value = 999", 999)] {
        execute(&lab.place, sql).await;
        let error = lab::open(&lab.place, &lab.clock).await.err().expect("it is refused");
        assert!(matches!(error, OpenError::Format { .. }), "{error}");
        let text = format!("has format {found}, and this program reads format {BASELINE_FORMAT}");
        assert!(error.to_string().contains(&text), "{error}");
        assert!(error.to_string().contains("use the program that wrote it"), "{error}");
    }
    assert_eq!(number(&lab.place, epoch).await, before);
}

async fn a_run_without_its_entity_is_found(lab: Lab) {
    let id = address_of(EntityKind::Run, "flow", "lost").id();
    let bytes = match &lab.place {
        Place::Database(_) => format!("'\\x{id}'"),
        Place::Folder(_) | Place::Memory => format!("x'{id}'"),
    };
    let row = format!("INSERT INTO run VALUES (1, {bytes}, 'flow', 'lost', 'queued', 1, 1, NULL)");
    execute(&lab.place, &row).await;
    assert_eq!(lab.store.violations().await.unwrap(), ["1 runs of an unknown entity"]);
}

on_disk!(
    a_store_is_migrated_when_it_is_opened_and_keeps_its_data,
    a_migration_that_fails_changes_nothing_and_is_repeated,
    a_store_of_another_format_is_refused_and_stays_as_it_is,
    a_run_without_its_entity_is_found,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_refuses_a_folder_that_lacks_a_migration() {
    let lab = Lab::sqlite().await;
    lab.store.close().await;
    let Place::Folder(folder) = &lab.place else { unreachable!() };
    let read = |migrations| {
        let options = SqliteOptions::new(folder.path(), Arc::new(ManualClock::at(START)));
        SqliteStore::open(SqliteOptions { migrations, read_only: true, ..options })
    };
    let refused = read(FIRST).err().expect("it is refused");
    assert!(matches!(refused, OpenError::Format { .. }), "{refused}");
    read(&[]).unwrap().close().await;
}

/// The files directly in a folder, with their bytes.
fn files(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let read = |it: std::io::Result<std::fs::DirEntry>| {
        let it = it.unwrap();
        (it.file_name(), std::fs::read(it.path()).unwrap())
    };
    std::fs::read_dir(folder).unwrap().map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_changes_no_file_of_its_folder() {
    let lab = Lab::sqlite().await;
    lab.append(&address("a"), vec![event("x")]).await;
    let Place::Folder(folder) = &lab.place else { unreachable!() };
    let folder_of = |suffixes: &[&str]| {
        let copy = tempfile::Builder::new().prefix("50% of #1? ").tempdir().unwrap();
        for suffix in suffixes {
            let name = format!("steadfast.{suffix}");
            std::fs::copy(folder.path().join(&name), copy.path().join(name)).unwrap();
        }
        copy
    };
    // As a kill leaves it, and a backup of that.
    let killed = folder_of(&["db", "db-wal", "db-shm", "lock"]);
    let copied = folder_of(&["db", "db-wal"]);
    lab.store.close().await;
    let closed = folder_of(&["db", "lock"]);
    for folder in [&killed, &copied, &closed] {
        std::fs::write(folder.path().join("other"), "x").unwrap();
        let before = files(folder.path());
        let options = SqliteOptions::new(folder.path(), Arc::new(ManualClock::at(START)));
        let options = SqliteOptions { read_only: true, ..options };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
        let reads = (0..9).map(|_| store.version(address("a").id()));
        for version in try_join_all(reads).await.unwrap() {
            assert_eq!(version, 1);
        }
        assert!(store.settings().await.unwrap().iter().all(|it| it.concern.is_none()));
        store.close().await;
        let after = files(folder.path());
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        assert!(after == before, "a file has changed");
    }
    let before = files(closed.path());
    assert_eq!(peek_entry(closed.path(), "system", b"none"), None);
    assert!(files(closed.path()) == before, "a file has changed");
}
