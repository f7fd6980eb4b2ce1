//! Objects under load: accounts that enter a row and a total in each turn, send to other accounts,
//! set alarms and request jobs.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    CallError, Handle, Job, Object, Objects, Outcome, Perform, Result, Turn,
    object::{HistoryRetention, sweep_history},
    store::{RetryPolicy, Store},
};
use tokio::sync::RwLock;

use crate::{
    COMMITS_MAX,
    order::{CALLERS, Order},
    say,
};

pub(crate) struct Account;

#[derive(Serialize, Deserialize)]
pub(crate) struct Book(u64);
/// A message to another account, with its number.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sent(u64, u64);
#[derive(Serialize, Deserialize)]
pub(crate) struct Rung(u64);
#[derive(Serialize, Deserialize)]
pub(crate) struct Errand(u64);

impl Object for Account {
    const CLASS: &'static str = "account";
    type Calls = (Book, Sent, Rung, Outcome<Errand>);
    // No key is unique here: a duplicate must be visible.
    const MIGRATIONS: &'static [&'static str] = &[
        "CREATE TABLE total (n INTEGER NOT NULL) STRICT; INSERT INTO total VALUES (0);
         CREATE TABLE entry (id INTEGER PRIMARY KEY, cause TEXT NOT NULL, number INTEGER NOT NULL,
             amount INTEGER NOT NULL, pad BLOB NOT NULL) STRICT",
        "CREATE INDEX entry_number ON entry (number, cause)",
    ];
}

/// One row, and the total with it. It is printed before it is durable.
fn enter(turn: &Turn<Account>, cause: &str, number: u64, pad: &[u8]) -> Result<i64> {
    let (sql, amount) = (turn.sql(), Order::of(number).amount);
    let insert = "INSERT INTO entry (cause, number, amount, pad) VALUES (?1, ?2, ?3, ?4)";
    sql.prepare_cached(insert)?.execute((cause, number, amount, pad))?;
    // Rows become short again, so that pages become free.
    let trim = "UPDATE entry SET pad = x'' WHERE id BETWEEN ?1 - 44 AND ?1 - 40 AND pad <> x''";
    sql.prepare_cached(trim)?.execute([sql.last_insert_rowid()])?;
    let mut add = sql.prepare_cached("UPDATE total SET n = n + ?1 RETURNING n")?;
    say("entered");
    Ok(add.query_row([amount], |row| row.get(0))?)
}

impl Handle<Book> for Account {
    const NAME: &'static str = "book";
    /// Which turn it was, and the total after it.
    type Reply = (i64, i64);
    fn handle(&self, turn: &Turn<Self>, Book(number): Book) -> Result<(i64, i64)> {
        let order = Order::of(number);
        let total = enter(turn, "book", number, &order.pad())?;
        for (leg, account) in (0..).zip(order.sends) {
            turn.send(Account::at(account.to_string()), Sent(number, leg));
        }
        if let Some(after) = order.alarm {
            turn.set_alarm(&number.to_string(), Duration::from_millis(after), Rung(number));
        }
        if order.job {
            turn.perform(&Errand(number));
        }
        Ok((turn.seq(), total))
    }
}

impl Handle<Sent> for Account {
    const NAME: &'static str = "sent";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Sent(number, leg): Sent) -> Result<()> {
        enter(turn, &format!("sent {leg}"), number, b"").map(drop)
    }
}

impl Handle<Rung> for Account {
    const NAME: &'static str = "rung";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Rung(number): Rung) -> Result<()> {
        enter(turn, "rung", number, b"").map(drop)
    }
}

impl Handle<Outcome<Errand>> for Account {
    const NAME: &'static str = "done";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, outcome: Outcome<Errand>) -> Result<()> {
        enter(turn, "done", outcome.result?, b"").map(drop)
    }
}

impl Job for Errand {
    const NAME: &'static str = "errand";
    // A job that is in flight when the process is killed must not fail because of it.
    const RETRY: RetryPolicy = RetryPolicy {
        attempts_max: 1_000,
        delay: Duration::from_millis(20),
        delay_max: Duration::from_millis(50),
    };
    type Output = u64;
}

pub(crate) struct Performer;

impl Perform<Errand> for Performer {
    async fn perform(&self, Errand(number): Errand, _: &str) -> Result<u64> {
        say(&format!("performed {number}"));
        Ok(number)
    }
}

/// Repeats calls with unknown outcomes, each under its key, then makes new ones. A write lock on
/// `quiet` stops them.
pub(crate) async fn load(
    objects: &Objects,
    quiet: &Arc<RwLock<()>>,
    again: &[u64],
    new: std::ops::Range<u64>,
) {
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let all = again.iter().copied().chain(new.clone());
            let mine: Vec<u64> = all.filter(|number| number % CALLERS == caller).collect();
            let (objects, quiet) = (objects.clone(), quiet.clone());
            tokio::spawn(async move {
                for number in mine {
                    let _called = quiet.read().await;
                    book(&objects, number).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("caller ends");
    }
}

async fn book(objects: &Objects, number: u64) {
    say(&format!("invoked {number}"));
    let account = Account::at(Order::of(number).account.to_string());
    match objects.call(account, Book(number)).key(number.to_string()).await {
        Ok((seq, total)) => say(&format!("acked {number} {seq} {total}")),
        // The store determines whether it happened.
        Err(CallError::Store(error)) => say(&format!("unknown {number} {}", error.code())),
        Err(error) => say(&format!("failed {number} {}: {error}", error.code())),
    }
}

/// Deletes all history that may be deleted, repeatedly. Meanwhile no calls are made, so that images
/// of the accounts can be written; only earlier messages still change them.
pub(crate) fn sweep(store: Arc<dyn Store>, quiet: Arc<RwLock<()>>) {
    let retention = HistoryRetention { keep: Duration::from_millis(1), bytes_max: 20_000 };
    tokio::spawn(async move {
        loop {
            let _nobody_calls = quiet.write().await;
            match sweep_history(&*store, retention).await {
                Ok(turns) => say(&format!("forgot {turns}")),
                Err(error) => say(&format!("failed 0 {}: {error}", error.code())),
            }
        }
    });
}

/// The numbers of new calls from `first` on; a load that is not killed ends by itself.
pub(crate) fn new_from(first: u64) -> std::ops::Range<u64> {
    first..first + COMMITS_MAX
}
