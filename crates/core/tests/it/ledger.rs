//! An object to experiment on: a counter with a ledger, alarms, sends and effects.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Alarm, CatchUp, Error, Handle, Job, Object, Outcome, Perform, Queue, Result, Turn, Workflow,
    rusqlite,
    store::{RetryPolicy, Timestamp},
};
use tokio::sync::Semaphore;

pub(crate) const AUDIT: Queue<Add> = Queue::named("audit");

/// Calls of handlers, in the whole process of the test that holds it.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) handled: Arc<AtomicU32>,
    pub(crate) gate: Gate,
}

/// A gate where a handler waits until the test opens it. Open at first.
#[derive(Clone)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar, Semaphore)>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new((Mutex::new(true), Condvar::new(), Semaphore::new(0))))
    }
}

impl Gate {
    pub(crate) fn close(&self) {
        *self.0.0.lock().unwrap() = false;
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Closes it until the guard is dropped, also by a test that fails: a blocked thread would keep
    /// its process from ending.
    pub(crate) fn close_for_now(&self) -> ClosedGate {
        self.close();
        ClosedGate(self.clone())
    }

    /// Returns when a handler has arrived at the gate.
    pub(crate) async fn reached(&self) {
        self.0.2.acquire().await.unwrap().forget();
    }

    pub(crate) fn pass(&self) {
        self.0.2.add_permits(1);
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |open| !*open).unwrap());
    }
}

pub(crate) struct ClosedGate(Gate);

impl Drop for ClosedGate {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Add {
    pub(crate) by: i64,
}
#[derive(Serialize, Deserialize)]
pub(crate) struct Read;
/// Adds, and does so in another ledger as well.
#[derive(Serialize, Deserialize)]
pub(crate) struct AddBoth {
    pub(crate) other: String,
    pub(crate) by: i64,
}
/// Runs SQL of the test, and returns the results. A statement with the prefix `cached ` is run from
/// the statement cache.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sql {
    pub(crate) statements: Vec<String>,
    /// Whether errors are passed on.
    pub(crate) strict: bool,
}
/// The first column of the result of a query, as text.
#[derive(Serialize, Deserialize)]
pub(crate) struct Query {
    pub(crate) sql: String,
}
#[derive(Serialize, Deserialize)]
pub(crate) struct Cas {
    pub(crate) expected: i64,
    pub(crate) new: i64,
}
/// Reads the total, waits at the gate, and returns the total.
#[derive(Serialize, Deserialize)]
pub(crate) struct Wait {
    pub(crate) refuse: bool,
}
#[derive(Serialize, Deserialize)]
pub(crate) enum Misbehave {
    Panic,
    Refuse,
    RefuseForGood,
    SendTooMuch,
}
#[derive(Serialize, Deserialize)]
pub(crate) enum Clockwork {
    Set { name: String, after: Duration },
    Repeat { name: String, every: Duration, catch_up: String },
    Cancel { name: String },
    List,
}
/// The message of an alarm of the ledger.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ring {
    pub(crate) name: String,
}
#[derive(Serialize, Deserialize)]
pub(crate) struct Rung;
#[derive(Serialize, Deserialize)]
pub(crate) struct Fetch {
    pub(crate) failures: u32,
}
#[derive(Serialize, Deserialize)]
pub(crate) struct Forget;
#[derive(Serialize, Deserialize)]
pub(crate) struct Announce;

impl Object for Ledger {
    const CLASS: &'static str = "ledger";
    type Calls = (
        Add,
        Read,
        AddBoth,
        Sql,
        Misbehave,
        Clockwork,
        Ring,
        Rung,
        Fetch,
        Outcome<Download>,
        Forget,
        Announce,
        Query,
        Cas,
        Wait,
    );
    const MIGRATIONS: &'static [&'static str] = &[
        "CREATE TABLE total (n INTEGER NOT NULL); INSERT INTO total VALUES (0);
         CREATE TABLE entry (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)",
        "CREATE TABLE rung (id INTEGER PRIMARY KEY, name TEXT NOT NULL, at INTEGER NOT NULL)",
    ];
}

fn add(turn: &Turn<Ledger>, by: i64) -> Result<i64> {
    let sql = turn.sql();
    sql.prepare_cached("INSERT INTO entry (amount) VALUES (?1)")?.execute([by])?;
    let mut update = sql.prepare_cached("UPDATE total SET n = n + ?1 RETURNING n")?;
    Ok(update.query_row([by], |row| row.get(0))?)
}

impl Handle<Add> for Ledger {
    const NAME: &'static str = "add";
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, msg: Add) -> Result<i64> {
        self.handled.fetch_add(1, Ordering::SeqCst);
        add(turn, msg.by)
    }
}

impl Handle<Read> for Ledger {
    const NAME: &'static str = "read";
    type Reply = (i64, i64);
    fn handle(&self, turn: &Turn<Self>, _: Read) -> Result<(i64, i64)> {
        let read = "SELECT n, (SELECT total(amount) FROM entry) FROM total";
        let both = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, f64>(1)? as i64));
        Ok(turn.sql().query_row(read, (), both)?)
    }
}

impl Handle<AddBoth> for Ledger {
    const NAME: &'static str = "add-both";
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, msg: AddBoth) -> Result<i64> {
        turn.send(Ledger::at(msg.other), Add { by: msg.by });
        add(turn, msg.by)
    }
}

impl Handle<Sql> for Ledger {
    const NAME: &'static str = "sql";
    type Reply = Vec<String>;
    fn handle(&self, turn: &Turn<Self>, msg: Sql) -> Result<Vec<String>> {
        let mut said = Vec::new();
        for statement in msg.statements {
            let done = match statement.strip_prefix("cached ") {
                Some(it) => {
                    turn.sql().prepare_cached(it).and_then(|mut it| it.execute(())).map(drop)
                }
                None => turn.sql().execute_batch(&statement),
            };
            match done {
                Ok(()) => said.push("ok".into()),
                Err(error) if msg.strict => return Err(error.into()),
                Err(error) => said.push(error.to_string()),
            }
        }
        Ok(said)
    }
}

impl Handle<Query> for Ledger {
    const NAME: &'static str = "query";
    type Reply = Vec<String>;
    fn handle(&self, turn: &Turn<Self>, msg: Query) -> Result<Vec<String>> {
        let mut query = turn.sql().prepare(&msg.sql)?;
        let first = |row: &rusqlite::Row<'_>| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
                other => format!("{other:?}"),
            })
        };
        let rows = query.query_map((), first)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

impl Handle<Cas> for Ledger {
    const NAME: &'static str = "cas";
    type Reply = bool;
    fn handle(&self, turn: &Turn<Self>, msg: Cas) -> Result<bool> {
        let update = "UPDATE total SET n = ?2 WHERE n = ?1";
        Ok(turn.sql().prepare_cached(update)?.execute([msg.expected, msg.new])? == 1)
    }
}

impl Handle<Wait> for Ledger {
    const NAME: &'static str = "wait";
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, msg: Wait) -> Result<i64> {
        let seen = turn.sql().query_row("SELECT n FROM total", (), |row| row.get(0))?;
        self.gate.pass();
        if msg.refuse { Err(Error::terminal(format!("saw {seen}"))) } else { Ok(seen) }
    }
}

impl Handle<Misbehave> for Ledger {
    const NAME: &'static str = "misbehave";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Misbehave) -> Result<()> {
        add(turn, 1_000)?;
        turn.send(Ledger::at("somebody"), Add { by: 1 });
        turn.set_alarm("never", Duration::ZERO, Rung);
        match msg {
            Misbehave::Panic => panic!("as the test wanted"),
            Misbehave::Refuse => Err(Error::retryable("not now")),
            Misbehave::RefuseForGood => {
                Err(Error::terminal("the ledger is closed").with_code("ledger_closed"))
            }
            Misbehave::SendTooMuch => {
                (0..6_000).for_each(|_| turn.send(AUDIT, Add { by: 1 }));
                Ok(())
            }
        }
    }
}

impl Handle<Clockwork> for Ledger {
    const NAME: &'static str = "clockwork";
    type Reply = Vec<(String, i64, u32, bool)>;
    fn handle(&self, turn: &Turn<Self>, msg: Clockwork) -> Result<Self::Reply> {
        match msg {
            Clockwork::Set { name, after } => {
                turn.set_alarm(&name.clone(), after, Ring { name });
            }
            Clockwork::Repeat { name, every, catch_up } => {
                let catch_up = match catch_up.as_str() {
                    "each" => CatchUp::Each,
                    "skip" => CatchUp::Skip,
                    _ => CatchUp::Once,
                };
                turn.repeat_alarm(&name.clone(), every, catch_up, Ring { name });
            }
            Clockwork::Cancel { name } => _ = turn.cancel_alarm(&name),
            Clockwork::List => {}
        }
        let row = |it: Alarm| (it.name, it.ring_at.0, it.attempts, it.failed);
        Ok(turn.alarms()?.into_iter().map(row).collect())
    }
}

impl Handle<Ring> for Ledger {
    const NAME: &'static str = "ring";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Ring) -> Result<()> {
        let ringing = turn.alarm().expect("an alarm rings");
        assert_eq!(ringing.name, msg.name);
        if msg.name.starts_with("broken") {
            return Err(Error::retryable("out of order"));
        }
        if msg.name.starts_with("final") {
            return Err(Error::terminal("not on a Sunday"));
        }
        if msg.name.starts_with("twice") && ringing.attempt < 3 {
            panic!("not yet");
        }
        let Timestamp(now) = turn.now();
        let insert = "INSERT INTO rung (name, at) VALUES (?1, ?2)";
        turn.sql().execute(insert, (msg.name, now))?;
        Ok(())
    }
}

impl Handle<Rung> for Ledger {
    const NAME: &'static str = "rung";
    type Reply = Vec<(String, i64)>;
    fn handle(&self, turn: &Turn<Self>, _: Rung) -> Result<Vec<(String, i64)>> {
        let mut list = turn.sql().prepare_cached("SELECT name, at FROM rung ORDER BY id")?;
        let rows = list.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// A job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Download {
    failures: u32,
}

impl Job for Download {
    const NAME: &'static str = "download";
    const RETRY: RetryPolicy = RetryPolicy {
        attempts_max: 3,
        delay: Duration::from_secs(1),
        delay_max: Duration::from_secs(10),
    };
    type Output = i64;
}

/// Fails as often as the job requests.
#[derive(Clone, Default)]
pub(crate) struct Downloader {
    pub(crate) attempts: Arc<AtomicU32>,
}

impl Perform<Download> for Downloader {
    async fn perform(&self, job: Download, key: &str) -> Result<i64> {
        assert!(!key.is_empty());
        let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
        match job.failures {
            99 => Err(Error::terminal("gone for good")),
            failures if attempt < failures => Err(Error::retryable("503")),
            _ => Ok(7),
        }
    }
}

impl Handle<Fetch> for Ledger {
    const NAME: &'static str = "fetch";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Fetch) -> Result<()> {
        turn.perform(&Download { failures: msg.failures });
        Ok(())
    }
}

impl Handle<Outcome<Download>> for Ledger {
    const NAME: &'static str = "downloaded";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Outcome<Download>) -> Result<()> {
        add(turn, msg.result.unwrap_or(-1))?;
        Ok(())
    }
}

impl Handle<Forget> for Ledger {
    const NAME: &'static str = "forget";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Forget) -> Result<()> {
        turn.send(AUDIT, Add { by: 0 });
        turn.delete();
        Ok(())
    }
}

pub(crate) struct Order;

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = String;
    type Output = ();

    async fn run(&self, _: &steadfast_core::Ctx, _: String) -> Result<()> {
        Ok(())
    }
}

impl Handle<Announce> for Ledger {
    const NAME: &'static str = "announce";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Announce) -> Result<()> {
        turn.send(AUDIT, Add { by: 3 });
        turn.start(Order::at("o-1"), "a book".into());
        // An undone attempt sends nothing.
        let tried: Result<()> = turn.attempt(|| {
            turn.send(AUDIT, Add { by: 4 });
            add(turn, 1)?;
            Err(Error::retryable("no"))
        });
        assert!(tried.is_err());
        Ok(())
    }
}
