//! The format of a store: its number, and the migrations that follow the baseline. The product has
//! none before the first release, so these tests give their own.

use std::sync::Arc;

use steadfast_store::{
    BASELINE_FORMAT, Commit, EntityKind, ManualClock, Migration, OpenError, PostgresOptions,
    PostgresStore, SqliteOptions, SqliteStore, Store,
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
    assert_eq!(error.code(), "store_format");
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
        assert_eq!(error.code(), "store_format");
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
    assert_eq!(read(FIRST).err().expect("it is refused").code(), "store_format");
    read(&[]).unwrap().close().await;
}
