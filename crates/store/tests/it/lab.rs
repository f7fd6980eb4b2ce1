//! A store to experiment on, with a virtual clock.

use std::{sync::Arc, time::Duration};

use steadfast_store::{
    Address, Commit, EntityKind, Entropy, Json, Lease, ManualClock, MemoryStore, Message,
    OpenError, Outcome, Position, PostgresOptions, PostgresStore, Receipt, Rejection,
    SeededEntropy, SettledAs, SqliteOptions, SqliteStore, Store, Streams, Sweep, SweepList,
    Timestamp, Version, Write,
};

/// The initial time of every lab.
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);

/// The lease of a store in PostgreSQL, unless a test is about its end: the machine may pause for
/// some seconds.
const LEASE: Duration = Duration::from_secs(30);

/// The location of a store.
pub(crate) enum Place {
    Memory,
    Folder(tempfile::TempDir),
    Database(String),
}

pub(crate) struct Lab {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: ManualClock,
    pub(crate) place: Place,
    /// The store, if it is in memory.
    pub(crate) memory: Option<Arc<MemoryStore>>,
}

impl Lab {
    pub(crate) async fn memory() -> Self {
        Self::at(Place::Memory).await
    }

    pub(crate) async fn sqlite() -> Self {
        Self::at(Place::Folder(tempfile::tempdir().expect("temporary folder"))).await
    }

    pub(crate) async fn postgres() -> Self {
        Self::at(Place::Database(database().await)).await
    }

    async fn at(place: Place) -> Self {
        let clock = ManualClock::at(START);
        if let Place::Memory = place {
            let memory = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
            return Self { store: memory.clone(), clock, place, memory: Some(memory) };
        }
        let store = open(&place, &clock).await.expect("store opens");
        Self { store, clock, place, memory: None }
    }

    /// The next owner of the store, in memory too.
    pub(crate) async fn restart(&mut self) {
        self.reopen().await;
        if let Some(memory) = &mut self.memory {
            *memory = Arc::new(memory.restart());
            self.store = memory.clone();
        }
    }

    /// Closes the store and opens it again.
    pub(crate) async fn reopen(&mut self) {
        self.store.close().await;
        if !matches!(self.place, Place::Memory) {
            self.store = open(&self.place, &self.clock).await.expect("store opens again");
        }
    }

    /// The next owner of the store, after an unclean end of this one.
    pub(crate) async fn kill(&mut self) {
        if let Some(memory) = &mut self.memory {
            *memory = Arc::new(memory.restart());
            self.store = memory.clone();
            return;
        }
        self.store.close().await;
        match &self.place {
            Place::Memory => {}
            Place::Folder(folder) => {
                let database = rusqlite::Connection::open(folder.path().join("steadfast.db"));
                let unsaid = "UPDATE node SET clean = 0";
                database.expect("the file opens").execute(unsaid, ()).expect("a row is there");
            }
            Place::Database(url) => execute(url, "UPDATE node SET clean = FALSE").await,
        }
        self.store = open(&self.place, &self.clock).await.expect("store opens again");
    }

    pub(crate) fn streams(&self) -> Streams {
        Streams::new(self.store.clone())
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Outcome {
        self.store.commit(commit).await.expect("store answers")
    }

    pub(crate) async fn committed(&self, commit: Commit) -> Receipt {
        self.commit(commit).await.committed().expect("commit is accepted")
    }

    pub(crate) async fn rejected(&self, commit: Commit) -> Rejection {
        match self.commit(commit).await {
            Outcome::Rejected(rejection) => rejection,
            other => panic!("expected a rejection, got {other:?}"),
        }
    }

    /// Appends messages at any version and returns their positions.
    pub(crate) async fn append(&self, stream: &Address, messages: Vec<Message>) -> Vec<Position> {
        let write = Write::Append { stream: stream.clone(), messages };
        let receipt = self.committed(Commit::of(write)).await;
        receipt.appended.into_iter().map(|(_, position)| position).collect()
    }

    /// Appends one command to be delivered to its own stream.
    pub(crate) async fn command(&self, stream: &Address) -> Position {
        self.append(stream, vec![command(stream)]).await[0]
    }

    pub(crate) async fn claim(&self, position: Position, number: i64) -> Outcome {
        let lasts = Duration::from_secs(30);
        self.commit(Commit::of(Write::Claim { position, lease: lease(number), lasts })).await
    }

    pub(crate) async fn settle(&self, position: Position, number: Option<i64>) -> Outcome {
        let lease = number.map(lease);
        let as_ = SettledAs::Done;
        self.commit(Commit::of(Write::Settle { position, lease, as_, error: None })).await
    }

    /// One step of a sweep over all messages so far; returns the number of deleted ones.
    pub(crate) async fn forget(&self) -> usize {
        let until = self.store.clock().now();
        let step = Sweep { list: SweepList::Messages, until, dead_until: until };
        self.committed(Commit::of(Write::Sweep(step))).await.forgotten
    }

    pub(crate) async fn version(&self, stream: &Address) -> Version {
        self.store.version(stream.id()).await.expect("store answers")
    }

    /// The code of the error that a reader gets.
    pub(crate) async fn version_error(&self, stream: &Address) -> &'static str {
        self.store.version(stream.id()).await.expect_err("nothing is returned").code()
    }

    pub(crate) async fn assert_sound(&self) {
        let violations = self.store.violations().await.expect("store answers");
        assert_eq!(violations, Vec::<String>::new());
    }
}

pub(crate) async fn open(place: &Place, clock: &ManualClock) -> Result<Arc<dyn Store>, OpenError> {
    let clock = Arc::new(clock.clone());
    Ok(match place {
        Place::Memory => Arc::new(MemoryStore::new(clock)),
        Place::Folder(folder) => {
            Arc::new(SqliteStore::open(SqliteOptions::new(folder.path(), clock))?)
        }
        Place::Database(url) => {
            let mut options = PostgresOptions::new(url.clone(), clock);
            options.lease = LEASE;
            Arc::new(PostgresStore::open(options).await?)
        }
    })
}

/// The PostgreSQL of this test run.
pub(crate) fn server() -> String {
    std::env::var("STEADFAST_TEST_POSTGRES").expect(
        "STEADFAST_TEST_POSTGRES is not set: run ./test, or `tests/postgres start FOLDER` and set \
         it to what that prints",
    )
}

/// A schema of its own for each test.
async fn database() -> String {
    // A process of the same run may have had the number of this one.
    let schema = format!("lab_{:016x}", SeededEntropy::from_system().next());
    execute(&server(), &format!("CREATE SCHEMA {schema}")).await;
    format!("{}&options=-c%20search_path%3D{schema}&application_name={schema}", server())
}

pub(crate) async fn client(url: &str) -> tokio_postgres::Client {
    let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("PostgreSQL answers");
    tokio::spawn(connection);
    client
}

/// Runs SQL of the test on a database.
pub(crate) async fn execute(url: &str, sql: &str) {
    client(url).await.batch_execute(sql).await.expect("statement runs");
}

pub(crate) fn address(name: &str) -> Address {
    address_of(EntityKind::Stream, "lab", name)
}

pub(crate) fn address_of(kind: EntityKind, class: &str, name: &str) -> Address {
    Address::new(kind, class, name).expect("address")
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

pub(crate) fn event(name: &str) -> Message {
    Message::new(name, json("{}")).expect("message").event()
}

pub(crate) fn command(target: &Address) -> Message {
    Message::new("do", json("{}")).expect("message").to(target)
}

pub(crate) fn lease(number: i64) -> Lease {
    Lease { holder: 1, number }
}
