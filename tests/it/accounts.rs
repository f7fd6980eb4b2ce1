//! Checks the accounts of a store after their process was killed.
//!
//! The oracle: acknowledged calls are found, found calls were requested, and all effects of a call
//! come with it and happen once.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::{
    object::{HistoryError, Past, pages_at},
    store::Store,
};

use crate::{
    found::{Entry, Found, Head, address, fingerprint, last_entry, rows_of, sum},
    killer::{Victim, open, read_all},
    order::{CALLERS, Order},
};

/// Earlier turns checked after each kill.
const GO_BACK: usize = 3;

/// The requests of the victims of one store to its accounts, and the replies.
#[derive(Default)]
pub(crate) struct Books {
    invoked: BTreeSet<u64>,
    /// The turn and the total that each reply named.
    acked: BTreeMap<u64, (i64, i64)>,
    performed: BTreeSet<u64>,
    /// The state of an account after a turn, when it was the last.
    seen: Vec<Head>,
    /// Whether the victims delete history.
    forgets: bool,
    forgotten: i64,
    gone_back: usize,
}

impl Books {
    pub(crate) fn new(forgets: bool) -> Self {
        Self { forgets, ..Self::default() }
    }

    /// The mode of the victims.
    pub(crate) fn mode(&self) -> &'static str {
        if self.forgets { "sweeping" } else { "accounts" }
    }

    /// An unused number.
    pub(crate) fn next_number(&self) -> u64 {
        self.invoked.last().map_or(0, |last| last + 1).next_multiple_of(CALLERS)
    }

    /// Calls with an unknown outcome.
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
        let (back, forgotten) = (self.gone_back, self.forgotten);
        assert!(0 < acked && 0 < performed && (0 < back || self.forgets));
        assert_eq!(0 < forgotten, self.forgets);
        format!(
            "{acked} calls acknowledged, {performed} errands performed, {back} earlier turns \
             looked at, {forgotten} forgotten"
        )
    }

    pub(crate) fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<i64>().expect("a number");
        match words[0] {
            "ready" | "entered" | "unknown" => {}
            "invoked" => _ = self.invoked.insert(number(1) as u64),
            "performed" => _ = self.performed.insert(number(1) as u64),
            "forgot" => self.forgotten += number(1),
            "acked" => {
                let reply = (number(2), number(3));
                let before = self.acked.insert(number(1) as u64, reply);
                assert!(before.is_none_or(|it| it == reply), "{before:?} before, now {line}");
            }
            _ => panic!("unexpected line {line}"),
        }
    }

    /// Follows a victim to its end, and kills it after this many lines.
    pub(crate) fn follow(&mut self, victim: Victim, lines: usize) -> std::process::ExitStatus {
        victim.follow(lines, |line| self.note(line))
    }

    /// The oracle, at any time.
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

    /// The oracle when everything was repeated and delivered: every call has happened, with all its
    /// effects, once.
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

    /// Earlier turns are unchanged: the states that were seen, and the values of the replies.
    async fn go_back(&mut self, store: &dyn Store, found: &Found) {
        self.seen.extend(&found.heads);
        // The last ones, and some from all the time before.
        let spread = |all: usize| (0..all).rev().step_by(all / GO_BACK + 1);
        let seen: Vec<_> = spread(self.seen.len()).map(|it| self.seen[it]).collect();
        for (account, turn, wanted) in seen {
            let Some(past) = self.past(store, account, turn).await else { continue };
            assert_eq!(fingerprint(&past), wanted, "account {account} at turn {turn}");
        }
        let acked: Vec<_> = self.acked.iter().map(|(number, reply)| (*number, *reply)).collect();
        for (number, (turn, total)) in spread(acked.len()).map(|it| acked[it]) {
            let account = Order::of(number).account;
            let Some(past) = self.past(store, account, turn).await else { continue };
            let sql = past.open().unwrap();
            assert_eq!(sum(&sql), total, "call {number}: account {account} at turn {turn}");
            let last = last_entry(&sql);
            assert_eq!(last, ("book".into(), number), "account {account} at turn {turn}");
            self.gone_back += 1;
        }
    }

    /// A past state of an account; `None` if it was deleted and may be.
    async fn past(&self, store: &dyn Store, account: u64, turn: i64) -> Option<Past> {
        match pages_at(store, &address(account), Some(turn)).await {
            Ok(past) => Some(past),
            Err(HistoryError::Forgotten { .. }) if self.forgets => None,
            Err(error) => panic!("account {account} at turn {turn}: {error}"),
        }
    }
}
