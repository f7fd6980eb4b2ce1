//! Starts victims, kills them, and checks the store.
//!
//! The oracle: acknowledged commits are found, and found commits were requested.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::Arc,
};

use steadfast_core::store::{
    Clock, Entropy, PostgresOptions, PostgresStore, Recorded, SeededEntropy, SqliteOptions,
    SqliteStore, Store, SystemClock,
};

/// Random numbers whose seed is printed. The seed does not determine the moment of a kill.
pub(crate) fn chance() -> SeededEntropy {
    let given = std::env::var("STEADFAST_TEST_SEED").ok();
    let seed = given.map_or_else(
        || SeededEntropy::from_system().next() % 1_000_000,
        |it| it.parse().expect("a number"),
    );
    eprintln!("seed {seed} (set STEADFAST_TEST_SEED to have it again)");
    SeededEntropy::new(seed)
}

/// `STEADFAST_SOAK=20 ./test` kills twenty times as often.
pub(crate) fn soak() -> usize {
    std::env::var("STEADFAST_SOAK").ok().and_then(|it| it.parse().ok()).unwrap_or(1)
}

/// A running victim and its output.
pub(crate) struct Victim {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Victim {
    /// A victim whose clock is set ahead and back, several times a second.
    pub(crate) fn unsteady(place: &str, mode: &[&str], seed: u64) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
        command.env("STEADFAST_TEST_STEPS", seed.to_string());
        Self::spawn(command, place, mode, None)
    }

    /// In a soak its clock is unsteady, too.
    pub(crate) fn start(place: &str, mode: &[&str], crash_at: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
        if 1 < soak() {
            command.env("STEADFAST_TEST_STEPS", SeededEntropy::from_system().next().to_string());
        }
        Self::spawn(command, place, mode, crash_at)
    }

    /// A victim whose clock is steady in a soak as well: an hour ahead would be its timeout.
    pub(crate) fn steady(place: &str, mode: &[&str], crash_at: Option<&str>) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_victim")), place, mode, crash_at)
    }

    /// A victim whose clock is this many milliseconds ahead.
    pub(crate) fn ahead(place: &str, mode: &[&str], crash_at: Option<&str>, ms: u128) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
        command.env("STEADFAST_TEST_AHEAD", ms.to_string());
        Self::spawn(command, place, mode, crash_at)
    }

    fn spawn(mut command: Command, place: &str, mode: &[&str], crash_at: Option<&str>) -> Self {
        command.arg(place).args(mode).env_remove("STEADFAST_CRASH_AT");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(point) = crash_at {
            command.env("STEADFAST_CRASH_AT", point).stderr(Stdio::null());
        }
        let mut child = command.spawn().expect("victim starts");
        let stdout = child.stdout.take().expect("piped");
        Self { child, lines: BufReader::new(stdout).lines() }
    }

    /// The next whole line; `None` when the victim has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.lines.next()?.ok()
    }

    /// Writes a line to it. It may have ended meanwhile.
    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        let _ = stdin.write_all(format!("{line}\n").as_bytes());
    }

    /// Follows it to its end, and kills it after this many lines.
    pub(crate) fn follow(mut self, lines: usize, mut note: impl FnMut(&str)) -> ExitStatus {
        let mut left = lines;
        while let Some(line) = self.line() {
            note(&line);
            // Lines before its end count.
            left = left.wrapping_sub(1);
            if left == 0 {
                self.kill();
            }
        }
        self.wait()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("victim is killed");
    }

    pub(crate) fn wait(mut self) -> ExitStatus {
        while self.line().is_some() {}
        self.child.wait().expect("victim ends")
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

/// The requests of the victims of one store and the answers.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) invoked: BTreeSet<u64>,
    pub(crate) acked: BTreeSet<u64>,
    executed: BTreeMap<i64, usize>,
}

impl Ledger {
    /// An unused key.
    pub(crate) fn next_key(&self) -> u64 {
        self.invoked.last().map_or(0, |last| last + 1).next_multiple_of(8)
    }

    pub(crate) fn acked(&self) -> usize {
        self.acked.len()
    }

    pub(crate) fn note(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (Some(verb), Some(number)) = (words.next(), words.next()) else { return };
        let number: u64 = number.parse().expect("a number");
        match verb {
            "invoked" => _ = self.invoked.insert(number),
            "acked" => assert!(self.acked.insert(number), "{number} was acknowledged twice"),
            "executed" => *self.executed.entry(number as i64).or_default() += 1,
            "unknown" => {}
            _ => panic!("unexpected line {line}"),
        }
    }

    /// Follows a victim until `enough` returns `true`, then kills it.
    pub(crate) fn follow(&mut self, mut victim: Victim, mut enough: impl FnMut(&Self) -> bool) {
        while let Some(line) = victim.line() {
            self.note(&line);
            if enough(self) {
                victim.kill();
                // Lines before its end count.
                while let Some(line) = victim.line() {
                    self.note(&line);
                }
            }
        }
    }

    /// Lets a last victim finish everything, then compares the store with the ledger.
    pub(crate) async fn settle(&mut self, place: &str) {
        let mut victim = Victim::start(place, &["drain"], None);
        while let Some(line) = victim.line() {
            self.note(&line);
        }
        assert!(victim.wait().success(), "the last victim ends in peace");
        let store = open(place).await;
        let all = read_all(&*store).await;
        self.check(&all);
        assert_eq!(store.violations().await.expect("store answers"), Vec::<String>::new());
        assert_eq!(store.totals().await.expect("store answers").pending, 0);
        store.close().await;
    }

    /// The oracle.
    fn check(&self, all: &[Recorded]) {
        assert!(all.iter().enumerate().all(|(i, it)| it.position == i as i64 + 1), "no gaps");
        let keys = |name: &str| -> Vec<u64> {
            let of = all.iter().filter(|it| it.message_type == name);
            of.map(|it| it.data.as_str().parse().expect("a number")).collect()
        };
        let found = keys("input");
        let set: BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(set.len(), found.len(), "nothing is found twice");
        let lost: Vec<_> = self.acked.difference(&set).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let made_up: Vec<_> = set.difference(&self.invoked).collect();
        assert!(made_up.is_empty(), "found and never asked for: {made_up:?}");
        // Each command has exactly one result, however often it was tried.
        let mut results = keys("result");
        results.sort_unstable();
        let expected: Vec<u64> = set.iter().copied().collect();
        assert!(results == expected, "{} commands, {} results", expected.len(), results.len());
        for command in all.iter().filter(|it| ["inside", "outside"].contains(&&*it.message_type)) {
            assert_eq!(command.processed(), Some(true), "{command:?}");
            let executed = self.executed.get(&command.position).copied().unwrap_or(0);
            assert!(0 < executed, "{command:?} is done and was never executed");
        }
    }
}

pub(crate) async fn open(place: &str) -> Arc<dyn Store> {
    open_by(place, Arc::new(SystemClock)).await
}

/// The same by another clock.
pub(crate) async fn open_by(place: &str, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    if place.starts_with("postgres") {
        let store = PostgresStore::open(PostgresOptions::new(place, clock)).await;
        Arc::new(store.expect("store opens"))
    } else {
        Arc::new(SqliteStore::open(SqliteOptions::new(place, clock)).expect("store opens"))
    }
}

pub(crate) async fn read_all(store: &dyn Store) -> Vec<Recorded> {
    let mut all: Vec<Recorded> = Vec::new();
    loop {
        let after = all.last().map_or(0, |it| it.position);
        let page = store.read_all(after, 1_000).await.expect("store answers");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}
