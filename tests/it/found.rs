//! The accounts in a store, read from the store itself, and whether their parts agree.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use steadfast_core::{
    object::{HistoryError, Past, pages_at},
    rusqlite::{self, Connection, Row},
    store::{Address, EntityKind, Recorded, Store},
};

use crate::order::{ACCOUNTS, Order};

/// The account of an entry, its cause, and its call.
pub(crate) type Entry = (u64, String, u64);

/// All entries of a call.
pub(crate) fn rows_of(number: u64) -> Vec<Entry> {
    let order = Order::of(number);
    let mut rows = vec![(order.account, "book".into(), number)];
    let sends = order.sends.iter().enumerate();
    rows.extend(sends.map(|(leg, account)| (*account, format!("sent {leg}"), number)));
    rows.extend(order.alarm.map(|_| (order.account, "rung".into(), number)));
    rows.extend(order.job.then(|| (order.account, "done".into(), number)));
    rows
}

pub(crate) fn address(account: u64) -> Address {
    Address::new(EntityKind::Object, "account", &account.to_string()).expect("address")
}

pub(crate) fn fingerprint(past: &Past) -> u64 {
    let mut hasher = DefaultHasher::new();
    past.bytes().hash(&mut hasher);
    hasher.finish()
}

fn one<T>(sql: &Connection, query: &str, row: fn(&Row<'_>) -> rusqlite::Result<T>) -> T {
    sql.query_row(query, (), row).unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// The total, which must be the sum of all rows.
pub(crate) fn sum(sql: &Connection) -> i64 {
    let both = "SELECT n, (SELECT coalesce(sum(amount), 0) FROM entry) FROM total";
    let (total, sum): (i64, i64) = one(sql, both, |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(total, sum, "a turn was torn");
    total
}

/// The last entry: its cause and its call.
pub(crate) fn last_entry(sql: &Connection) -> (String, u64) {
    let last = "SELECT cause, number FROM entry ORDER BY id DESC LIMIT 1";
    one(sql, last, |row| Ok((row.get(0)?, row.get(1)?)))
}

/// An account, its last turn, and a hash of its state.
pub(crate) type Head = (u64, i64, u64);

/// The accounts of a store.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) rows: BTreeMap<Entry, usize>,
    /// Alarms that are set: account, number, due time.
    alarms: Vec<(u64, u64, i64)>,
    pub(crate) heads: Vec<Head>,
    /// Wake-ups that the accounts depend on.
    wake_ups: BTreeSet<(u64, i64)>,
}

impl Found {
    pub(crate) async fn read(store: &dyn Store) -> Self {
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
        self.heads.push((account, past.turn, fingerprint(&past)));
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
    pub(crate) fn calls(&self) -> BTreeSet<u64> {
        self.rows.keys().filter(|it| it.1 == "book").map(|it| it.2).collect()
    }

    fn has(&self, entry: &Entry) -> bool {
        self.rows.contains_key(entry)
    }

    /// A message exists together with the call that sent it, once, and is done exactly when it is
    /// marked as done.
    pub(crate) fn check_messages(&self, all: &[Recorded]) {
        let (mut sent, mut asked, mut back) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
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
                    let before = asked.insert(data.as_u64().unwrap(), is_done);
                    assert!(before.is_none(), "asked for twice: {message:?}");
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
        assert_eq!(sent, wanted.collect(), "a call and its messages are one");
        let jobs: BTreeSet<u64> = calls.into_iter().filter(|it| Order::of(*it).job).collect();
        assert_eq!(asked.keys().copied().collect::<BTreeSet<_>>(), jobs, "a call and its errand");
        asked.retain(|_, is_done| *is_done);
        assert_eq!(asked.into_keys().collect::<BTreeSet<_>>(), back, "an errand and its outcome");
        let lost: Vec<_> = self.wake_ups.difference(&pending_wake_ups).collect();
        assert!(lost.is_empty(), "accounts depend on missing wake-ups: {lost:?}");
    }

    /// An alarm is set until it has fired, and there is a wake-up in time for it.
    pub(crate) fn check_alarms(&self) {
        let set: BTreeSet<(u64, u64)> = self.alarms.iter().map(|it| (it.0, it.1)).collect();
        for number in self.calls() {
            let order = Order::of(number);
            let rung = self.has(&(order.account, "rung".into(), number));
            let alarms = usize::from(rung) + usize::from(set.contains(&(order.account, number)));
            assert_eq!(alarms, usize::from(order.alarm.is_some()), "alarm of call {number}");
        }
        for (account, number, due_at) in &self.alarms {
            let in_time = self.wake_ups.iter().any(|it| it.0 == *account && it.1 <= *due_at);
            assert!(in_time, "no wake-up of account {account} for alarm {number}");
        }
    }
}
