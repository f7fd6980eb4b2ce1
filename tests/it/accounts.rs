//! What the accounts of a store must hold after their process was killed.
//!
//! The oracle: what was acknowledged is found, what is found was asked for, everything that a call
//! leads to comes with it and happens once.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use steadfast::{
    object::{HistoryError, Past, pages_at},
    rusqlite::{self, Connection, Row},
    store::{Address, EntityKind, Recorded, Store},
};

use crate::{
    killer::{Victim, open, read_all},
    order::{ACCOUNTS, CALLERS, Order},
};

/// Earlier turns looked at after each end.
const GO_BACK: usize = 6;

/// What the victims of one store asked of its accounts, and what they were answered.
#[derive(Default)]
pub(crate) struct Books {
    invoked: BTreeSet<u64>,
    /// The turn and the total that each reply named.
    acked: BTreeMap<u64, (i64, i64)>,
    performed: BTreeSet<u64>,
    lines: usize,
    /// What an account looked like after a turn, when it was the last.
    seen: Vec<(u64, i64, u64)>,
    /// Whether the victims forget history.
    forgets: bool,
    gone_back: usize,
}

impl Books {
    pub(crate) fn new(forgets: bool) -> Self {
        Self { forgets, ..Self::default() }
    }

    /// How victims work.
    pub(crate) fn mode(&self) -> &'static str {
        if self.forgets { "sweeping" } else { "accounts" }
    }

    /// A number that nobody used before.
    pub(crate) fn next_number(&self) -> u64 {
        self.invoked.last().map_or(0, |last| last + 1).next_multiple_of(CALLERS)
    }

    /// Calls of which nobody knows whether they happened.
    pub(crate) fn unknown(&self) -> Vec<u64> {
        self.invoked.iter().copied().filter(|it| !self.acked.contains_key(it)).collect()
    }

    /// A few calls that were acknowledged.
    pub(crate) fn some_acked(&self, many: usize) -> Vec<u64> {
        let step = self.acked.len() / many + 1;
        self.acked.keys().copied().step_by(step).collect()
    }

    pub(crate) fn summary(&self) -> String {
        let (acked, performed) = (self.acked.len(), self.performed.len());
        let back = self.gone_back;
        format!("{acked} calls acknowledged, {performed} errands performed, {back} turns gone back")
    }

    pub(crate) fn note(&mut self, line: &str) {
        self.lines += 1;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<i64>().expect("a number");
        match words[0] {
            "ready" | "unknown" => {}
            "invoked" => _ = self.invoked.insert(number(1) as u64),
            "performed" => _ = self.performed.insert(number(1) as u64),
            "acked" => {
                let reply = (number(2), number(3));
                let before = self.acked.insert(number(1) as u64, reply);
                assert!(before.is_none_or(|it| it == reply), "{before:?} before, now {line}");
            }
            _ => panic!("unexpected line {line}"),
        }
    }

    /// Follows a victim to its end, which is after so many lines unless it comes earlier.
    pub(crate) fn follow(&mut self, mut victim: Victim, lines: usize) -> std::process::ExitStatus {
        let enough = self.lines.saturating_add(lines);
        while let Some(line) = victim.line() {
            self.note(&line);
            // What it says before it is dead counts.
            if self.lines == enough {
                victim.kill();
            }
        }
        victim.wait()
    }

    /// The oracle, at any moment.
    pub(crate) async fn check(&mut self, place: &str) {
        let store = open(place).await;
        let found = Found::read(&*store).await;
        self.check_calls(&found);
        found.check_messages(&read_all(&*store).await);
        found.check_alarms();
        self.go_back(&*store, &found).await;
        assert_eq!(store.violations().await.expect("store answers"), Vec::<String>::new());
        store.close().await;
    }

    /// The oracle when everything was repeated and delivered: every call has happened, with all
    /// that it leads to, once.
    pub(crate) async fn check_all_done(&mut self, place: &str) {
        self.check(place).await;
        assert_eq!(self.unknown(), Vec::<u64>::new(), "repeated and not acknowledged");
        let store = open(place).await;
        let totals = store.totals().await.expect("store answers");
        assert_eq!((totals.pending, totals.dead), (0, 0));
        let wanted = self.invoked.iter().flat_map(|number| rows_of(*number));
        let wanted: BTreeMap<Entry, usize> = wanted.map(|it| (it, 1)).collect();
        let rows = Found::read(&*store).await.rows;
        let missing: Vec<_> = wanted.keys().filter(|it| !rows.contains_key(*it)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
        assert_eq!(rows, wanted);
        let errands = self.invoked.iter().filter(|it| Order::of(**it).job);
        assert!(errands.clone().all(|it| self.performed.contains(it)), "done and not performed");
        store.close().await;
    }

    fn check_calls(&self, found: &Found) {
        let calls = found.calls();
        let lost: Vec<_> = self.acked.keys().filter(|it| !calls.contains(it)).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let made_up: Vec<_> = calls.difference(&self.invoked).collect();
        assert!(made_up.is_empty(), "found and never asked for: {made_up:?}");
        for (entry, times) in &found.rows {
            assert_eq!(*times, 1, "{entry:?} happened {times} times");
            assert!(calls.contains(&entry.2), "{entry:?} has no call that it came from");
            assert!(rows_of(entry.2).contains(entry), "{entry:?} was never asked for");
        }
    }

    /// Earlier turns look as they did: what was seen when they were the last, and what the replies
    /// said.
    async fn go_back(&mut self, store: &dyn Store, found: &Found) {
        for account in 0..ACCOUNTS {
            let Some(past) = self.past(store, account, None).await else { continue };
            self.seen.push((account, past.turn, fingerprint(&past)));
        }
        // Those that came last, and some from all the time before.
        let spread = |all: usize| (0..all).rev().step_by(all / GO_BACK + 1);
        let seen: Vec<_> = spread(self.seen.len()).map(|it| self.seen[it]).collect();
        for (account, turn, wanted) in seen {
            let Some(past) = self.past(store, account, Some(turn)).await else { continue };
            assert_eq!(fingerprint(&past), wanted, "account {account} at turn {turn}");
        }
        let acked: Vec<_> = self.acked.iter().map(|(number, reply)| (*number, *reply)).collect();
        for (number, (turn, total)) in spread(acked.len()).map(|it| acked[it]) {
            let account = Order::of(number).account;
            let Some(past) = self.past(store, account, Some(turn)).await else { continue };
            let sql = past.open().unwrap();
            assert_eq!(sum(&sql), total, "call {number}: account {account} at turn {turn}");
            let last = "SELECT number, cause FROM entry ORDER BY id DESC LIMIT 1";
            let last: (u64, String) = one(&sql, last, |row| Ok((row.get(0)?, row.get(1)?)));
            assert_eq!(last, (number, "book".into()), "account {account} at turn {turn}");
            self.gone_back += 1;
        }
        assert!(found.turns.values().all(|it| 0 < *it));
    }

    /// An account as it was; `None` if it does not exist, or is forgotten and may be.
    async fn past(&self, store: &dyn Store, account: u64, turn: Option<i64>) -> Option<Past> {
        match pages_at(store, &address(account), turn).await {
            Ok(past) => Some(past),
            Err(HistoryError::NoTurn { last: 0, .. }) if turn.is_none() => None,
            Err(HistoryError::Forgotten { .. }) if self.forgets && turn.is_some() => None,
            Err(error) => panic!("account {account} at turn {turn:?}: {error}"),
        }
    }
}

/// Where something is entered, why, and for which call.
type Entry = (u64, String, u64);

/// Everything that a call leads to.
fn rows_of(number: u64) -> Vec<Entry> {
    let order = Order::of(number);
    let mut rows = vec![(order.account, "book".into(), number)];
    let sends = order.sends.iter().enumerate();
    rows.extend(sends.map(|(leg, account)| (*account, format!("sent {leg}"), number)));
    rows.extend(order.alarm.map(|_| (order.account, "rung".into(), number)));
    rows.extend(order.job.then(|| (order.account, "done".into(), number)));
    rows
}

fn address(account: u64) -> Address {
    Address::new(EntityKind::Object, "account", &account.to_string()).expect("address")
}

fn fingerprint(past: &Past) -> u64 {
    let mut hasher = DefaultHasher::new();
    past.bytes().hash(&mut hasher);
    hasher.finish()
}

fn one<T>(sql: &Connection, query: &str, row: fn(&Row<'_>) -> rusqlite::Result<T>) -> T {
    sql.query_row(query, (), row).unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// The total, which must be the sum of all rows.
fn sum(sql: &Connection) -> i64 {
    let both = "SELECT n, (SELECT coalesce(sum(amount), 0) FROM entry) FROM total";
    let (total, sum): (i64, i64) = one(sql, both, |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(total, sum, "a turn was torn");
    total
}

/// What a store holds of the accounts.
#[derive(Default)]
struct Found {
    rows: BTreeMap<Entry, usize>,
    /// Alarms that are set: account, number, due time.
    alarms: Vec<(u64, u64, i64)>,
    turns: BTreeMap<u64, i64>,
    /// Wake-ups that the accounts count on.
    wake_ups: BTreeSet<(u64, i64)>,
}

impl Found {
    async fn read(store: &dyn Store) -> Self {
        let mut found = Self::default();
        for account in 0..ACCOUNTS {
            match pages_at(store, &address(account), None).await {
                Ok(past) => found.read_account(account, past),
                Err(HistoryError::NoTurn { last: 0, .. }) => {}
                Err(error) => panic!("account {account}: {error}"),
            }
        }
        found
    }

    fn read_account(&mut self, account: u64, past: Past) {
        self.turns.insert(account, past.turn);
        let sql = past.open().unwrap();
        let intact: String = one(&sql, "PRAGMA integrity_check", |row| row.get(0));
        assert_eq!(intact, "ok", "account {account}");
        sum(&sql);
        let mut rows = sql.prepare("SELECT cause, number, amount, pad FROM entry").unwrap();
        let mut rows = rows.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let (cause, number): (String, u64) = (row.get(0).unwrap(), row.get(1).unwrap());
            let (amount, pad): (i64, Vec<u8>) = (row.get(2).unwrap(), row.get(3).unwrap());
            let order = Order::of(number);
            assert_eq!(amount, order.amount, "{cause} {number} of account {account}");
            assert!(pad.is_empty() || pad == order.pad(), "{cause} {number} of account {account}");
            *self.rows.entry((account, cause, number)).or_default() += 1;
        }
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name = '_steadfast_alarm'";
        if one(&sql, tables, |row| row.get::<_, i64>(0)) == 0 {
            return;
        }
        let mut alarms = sql.prepare("SELECT name, due_at, failed FROM _steadfast_alarm").unwrap();
        let mut alarms = alarms.query(()).unwrap();
        while let Some(row) = alarms.next().unwrap() {
            let (name, due_at): (String, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
            if name.is_empty() {
                self.wake_ups.insert((account, due_at));
            } else {
                assert!(!row.get::<_, bool>(2).unwrap(), "alarm {name} was given up");
                self.alarms.push((account, name.parse().unwrap(), due_at));
            }
        }
    }

    /// The calls that happened.
    fn calls(&self) -> BTreeSet<u64> {
        self.rows.keys().filter(|it| it.1 == "book").map(|it| it.2).collect()
    }

    fn has(&self, entry: &Entry) -> bool {
        self.rows.contains_key(entry)
    }

    /// What was sent is there with the call that sent it, once, and is done exactly when it is
    /// marked as done.
    fn check_messages(&self, all: &[Recorded]) {
        let (mut sent, mut asked, mut back) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut pending_wake_ups = BTreeSet::new();
        for message in all {
            let is_done = message.processed() == Some(true);
            let data: serde_json::Value = serde_json::from_str(message.data.as_str()).unwrap();
            let of = |entry: Entry| {
                assert_eq!(self.has(&entry), is_done, "{entry:?} and its message {message:?}");
                entry
            };
            match (message.action.as_str(), message.message_type.as_str()) {
                ("call", "sent") => {
                    let (number, leg) = (data[0].as_u64().unwrap(), data[1].as_u64().unwrap());
                    let account = Order::of(number).sends[leg as usize];
                    let entry = of((account, format!("sent {leg}"), number));
                    assert!(sent.insert(entry), "sent twice: {message:?}");
                }
                ("call", "done") => {
                    let number = data["job"].as_u64().unwrap();
                    let entry = of((Order::of(number).account, "done".into(), number));
                    assert!(back.insert(entry.2), "came back twice: {message:?}");
                }
                ("perform", "errand") => {
                    let entry = (data.as_u64().unwrap(), is_done);
                    assert!(asked.insert(entry), "asked for twice: {message:?}");
                }
                ("wake", "alarm") if !is_done => {
                    let due_at = data["dueAt"].as_i64().unwrap();
                    let account =
                        (0..ACCOUNTS).find(|it| Some(address(*it).id()) == message.target);
                    pending_wake_ups.insert((account.unwrap(), due_at));
                }
                ("wake", "alarm") => {}
                other => panic!("unexpected message {other:?}"),
            }
        }
        let calls = self.calls();
        let wanted = calls.iter().flat_map(|it| rows_of(*it)).filter(|it| it.1.starts_with("sent"));
        assert_eq!(sent, wanted.collect(), "a call and what it sends are one");
        let jobs: BTreeSet<u64> = calls.into_iter().filter(|it| Order::of(*it).job).collect();
        assert_eq!(asked.iter().map(|it| it.0).collect::<BTreeSet<_>>(), jobs);
        let performed = asked.iter().filter(|it| it.1).map(|it| it.0).collect::<BTreeSet<_>>();
        assert_eq!(performed, back, "an errand ends with its outcome");
        let lost: Vec<_> = self.wake_ups.difference(&pending_wake_ups).collect();
        assert!(lost.is_empty(), "accounts count on wake-ups that nobody will bring: {lost:?}");
    }

    /// An alarm is set until it has rung, and a wake-up comes in time for it.
    fn check_alarms(&self) {
        let set: BTreeSet<(u64, u64)> = self.alarms.iter().map(|it| (it.0, it.1)).collect();
        for number in self.calls() {
            let order = Order::of(number);
            let rung = self.has(&(order.account, "rung".into(), number));
            let alarms = usize::from(rung) + usize::from(set.contains(&(order.account, number)));
            assert_eq!(alarms, usize::from(order.alarm.is_some()), "alarm of call {number}");
        }
        for (account, number, due_at) in &self.alarms {
            let in_time = self.wake_ups.iter().any(|it| it.0 == *account && it.1 <= *due_at);
            assert!(in_time, "nobody wakes account {account} for alarm {number}");
        }
    }
}
