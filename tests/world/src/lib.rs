//! A program in processes that crash, on data that outlives them: in memory, in SQLite and in
//! PostgreSQL. For tests; every failure in here is a panic.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "all of this is a test")]

use std::{path::Path, sync::Arc, time::Duration};

use steadfast_core::{
    App,
    bucket::MemoryBlobs,
    rusqlite,
    store::{
        Entropy, ManualClock, MemoryStore, Moment, PostgresOptions, PostgresStore, SeededEntropy,
        SqliteOptions, SqliteStore, Store, Timestamp,
    },
    test::TestApp,
};
use tempfile::TempDir;
use tokio::runtime::Runtime as Tokio;

const START: Timestamp = Timestamp(1_700_000_000_000);

/// The location of the data between two processes.
enum Place {
    Memory(Arc<MemoryStore>, MemoryBlobs),
    /// All in a folder.
    Folder(TempDir),
    /// The store at a URL, the blobs in a folder.
    Database(String, TempDir),
}

/// A process, simulated: all its tasks end where they are.
struct Process {
    tasks: Tokio,
    app: TestApp,
    store: Arc<dyn Store>,
}

/// Makes the program, once for each process.
type Program = Box<dyn Fn() -> App>;

/// A program, its data, and its current process.
pub struct World {
    program: Program,
    place: Place,
    clock: ManualClock,
    /// The stores run here, so that they can be released immediately when a process has ended.
    outside: Tokio,
    process: Option<Process>,
}

impl World {
    /// With a store in memory.
    pub fn in_memory(program: impl Fn() -> App + 'static) -> Self {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        Self::at(Place::Memory(store, MemoryBlobs::default()), clock, Box::new(program))
    }

    /// With SQLite, in a folder of its own.
    pub fn on_sqlite(program: impl Fn() -> App + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::at(Place::Folder(folder), ManualClock::at(START), Box::new(program))
    }

    /// With PostgreSQL, in a schema of its own; the blobs are in a folder.
    pub fn on_postgres(program: impl Fn() -> App + 'static) -> Self {
        let url = tasks(false).block_on(schema());
        let folder = tempfile::tempdir().unwrap();
        Self::at(Place::Database(url, folder), ManualClock::at(START), Box::new(program))
    }

    fn at(place: Place, clock: ManualClock, program: Program) -> Self {
        let mut world = Self { program, place, clock, outside: tasks(true), process: None };
        world.begin();
        world
    }

    /// Runs a future in the process.
    pub fn on<T>(&self, something: impl AsyncFnOnce(&TestApp) -> T) -> T {
        let process = self.process.as_ref().unwrap();
        process.tasks.block_on(something(&process.app))
    }

    /// Starts a future. The process ends after this many commits, or when it is ready.
    pub fn end_during(&mut self, commits: u64, something: impl AsyncFnOnce(&TestApp)) {
        let process = self.process.as_ref().unwrap();
        let last = process.store.activity().commits + commits;
        let is_in_memory = matches!(self.place, Place::Memory(..));
        let enough = async {
            let mut pause = tokio::time::interval(Duration::from_millis(1));
            while process.store.activity().commits < last {
                match is_in_memory {
                    // One poll between the turns of the other tasks: the same seed then has the
                    // same result.
                    true => tokio::task::yield_now().await,
                    false => _ = pause.tick().await,
                }
            }
        };
        process.tasks.block_on(async {
            tokio::select! {
                () = something(&process.app) => {}
                () = enough => {}
            }
        });
        self.end();
        self.begin();
    }

    fn end(&mut self) {
        let Process { tasks, app, store } = self.process.take().unwrap();
        // From here on nothing is written: tasks that end one after the other notify each other of
        // it, which those of a killed process do not.
        if let Place::Memory(store, _) = &self.place {
            store.crash_at(1, Moment::Before);
        }
        self.outside.block_on(store.close());
        drop(app);
        drop(tasks);
        // Closing a store records a clean shutdown. A killed process does not.
        match &mut self.place {
            Place::Memory(store, _) => *store = Arc::new(store.restart()),
            Place::Folder(folder) => {
                let file = rusqlite::Connection::open(folder.path().join("steadfast.db")).unwrap();
                file.execute_batch("UPDATE node SET clean = 0").unwrap();
                unlock(folder.path());
            }
            Place::Database(url, folder) => {
                self.outside.block_on(execute(url, "UPDATE node SET clean = FALSE"));
                unlock(folder.path());
            }
        }
    }

    fn begin(&mut self) {
        let tasks = tasks(!matches!(self.place, Place::Memory(..)));
        let (clock, program) = (self.clock.clone(), (self.program)());
        let its_clock = Arc::new(clock.clone());
        let blobs = |folder: &Path| folder.join("blobs");
        let (store, program): (Arc<dyn Store>, _) = match &self.place {
            Place::Memory(store, files) => (store.clone(), program.blobs(Arc::new(files.clone()))),
            Place::Folder(folder) => {
                let store = SqliteStore::open(SqliteOptions::new(folder.path(), its_clock));
                (Arc::new(store.unwrap()), program.blob_folder(blobs(folder.path())))
            }
            Place::Database(url, folder) => {
                let mut options = PostgresOptions::new(url.clone(), its_clock);
                // The machine may pause for some seconds.
                options.lease = Duration::from_secs(30);
                let store = self.outside.block_on(PostgresStore::open(options)).unwrap();
                (Arc::new(store), program.blob_folder(blobs(folder.path())))
            }
        };
        let app = tasks.block_on(program.test_on(store.clone(), clock)).unwrap();
        self.process = Some(Process { tasks, app, store });
    }
}

/// The memory of a program that is not stopped has the lock of its files for as long as the test
/// runs.
fn unlock(folder: &Path) {
    // A program without buckets has none.
    let _ = std::fs::remove_file(folder.join("blobs").join("lock"));
}

fn tasks(at_once: bool) -> Tokio {
    let mut builder = match at_once {
        true => tokio::runtime::Builder::new_multi_thread(),
        // The same seed then has the same result.
        false => tokio::runtime::Builder::new_current_thread(),
    };
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// The URL of a fresh schema.
async fn schema() -> String {
    let url = std::env::var("STEADFAST_TEST_POSTGRES").expect(
        "STEADFAST_TEST_POSTGRES is not set: run ./test, or `tests/postgres start FOLDER` and set \
         it to what that prints",
    );
    // A process of the same run may have had the number of this one.
    let schema = format!("world_{:016x}", SeededEntropy::from_system().next());
    execute(&url, &format!("CREATE SCHEMA {schema}")).await;
    format!("{url}&options=-c%20search_path%3D{schema}")
}

async fn execute(url: &str, sql: &str) {
    let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("PostgreSQL answers");
    tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
}
