//! The same random operations on all three stores: the same answers at every step, and the same
//! rows.

use std::{collections::BTreeMap, time::Duration};

use steadfast_store::{
    Address, AgeCursor, Answer, Cause, Clock, Commit, Complete, Count, Due, DueCursor, EntityId,
    EntityKind, Entropy, EntryKey, EntryRange, Expect, ExpiryList, Images, Json, Lease, Message,
    PageImage, Put, Query, QueryKind, Remember, Retention, RunCursor, RunPage, RunStatus,
    SeededEntropy, SettledAs, Snapshot, Sweep, SweepList, Task, Timestamp, Turn, Write, sweep,
};

use crate::lab::{Lab, address, address_of};

const RUNS: u64 = 6;
const STEPS: u64 = 400;

/// Steps between two comparisons of all rows, which take most of the time. A row that differs stays
/// so for longer.
const ROWS_EVERY: u64 = 4;

/// The number of rows that each kind of query has found.
type Seen = BTreeMap<String, usize>;

/// Makes random operations. Positions and versions are guessed: many are refused.
struct Maker {
    chance: SeededEntropy,
    written: i64,
    now: Timestamp,
    /// A message with a failed attempt.
    failed: Option<i64>,
}

impl Maker {
    fn below(&self, max: u64) -> u64 {
        self.chance.next() % max
    }

    fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn stream(&self) -> Address {
        address(["a", "b", "ü", "d"][self.below(4) as usize])
    }

    fn object(&self) -> Address {
        address_of(EntityKind::Object, "thing", ["a", "b"][self.below(2) as usize])
    }

    /// Most of them stay without work, so that they can be erased.
    fn run(&self) -> Address {
        address_of(EntityKind::Run, "flow", ["a", "b", "ü", "d", "e"][self.below(5) as usize])
    }

    fn queue(&self) -> Address {
        address_of(EntityKind::Queue, ["mail", "dead"][self.below(2) as usize], "0")
    }

    fn status(&self) -> RunStatus {
        RunStatus::ALL[self.below(6) as usize]
    }

    fn stream_or_run(&self) -> Address {
        if self.one_in(3) { self.run() } else { self.stream() }
    }

    fn message_of_run(&self) -> Message {
        let message = Message::new("step", Json::parse("{}").unwrap()).unwrap();
        let target = if self.one_in(2) { self.run() } else { self.stream() };
        if self.one_in(5) { message.to(&target) } else { message.event() }
    }

    /// Mostly a recent one, sometimes one that does not exist.
    fn position(&self) -> i64 {
        (self.written + 2 - self.below(12) as i64).max(0)
    }

    fn lease(&self) -> Lease {
        Lease { holder: self.below(3) as i64, number: self.below(3) as i64 }
    }

    fn maybe_lease(&self) -> Option<Lease> {
        (!self.one_in(3)).then(|| self.lease())
    }

    fn wait(&self) -> Duration {
        Duration::from_millis(self.below(4) * 1_000)
    }

    fn message(&self, index: usize) -> Message {
        let texts = ["{}", "[1,\"\\u0000\"]", "\"ü\""];
        let data = Json::parse(texts[self.below(3) as usize]).unwrap();
        let mut message = Message::new(["x", "y", "ü"][self.below(3) as usize], data).unwrap();
        if self.one_in(3) {
            message = message.event();
        }
        if self.one_in(3) {
            message = message.input().schema(2);
        }
        if 0 < index && self.one_in(2) {
            message = message.cause(Cause::Sibling(index - 1));
        } else if self.one_in(3) {
            message = message.cause(Cause::Position(self.position()));
        }
        if self.one_in(2) {
            let due = match self.below(5) {
                0 | 1 => Due::After(self.wait()),
                2 | 3 => Due::At(Timestamp(self.now.0 + self.below(3_000) as i64)),
                _ => Due::Held(self.lease(), self.wait()),
            };
            let target = if self.one_in(3) { self.queue() } else { self.stream() };
            message = message.task(Task { target, ordered: self.one_in(2), due });
        }
        message
    }

    fn write(&self) -> Write {
        let position = self.position();
        match self.below(32) {
            0..=4 => {
                let messages = (0..self.below(4) as usize).map(|it| self.message(it)).collect();
                Write::Append { stream: self.stream(), messages }
            }
            5..=6 | 15 => Write::Claim { position, lease: self.lease(), lasts: self.wait() },
            7..=8 => {
                let as_ = [SettledAs::Done, SettledAs::Dead, SettledAs::Cancelled];
                let as_ = as_[self.below(3) as usize];
                let error = self.one_in(2).then(|| String::from("broken"));
                Write::Settle { position, lease: self.maybe_lease(), as_, error }
            }
            9 => {
                let (lease, after) = (self.maybe_lease(), self.wait());
                Write::Retry { position, lease, error: "again".into(), after }
            }
            10 if self.one_in(2) => {
                let to = if self.one_in(4) { self.stream() } else { self.queue() };
                let error = self.one_in(2).then(|| String::from("moved"));
                let (lease, after) = (self.maybe_lease(), self.wait());
                Write::Move { position, lease, to, error, after }
            }
            10 => Write::Release { position, lease: self.lease() },
            11 => Write::Revive { position },
            12 => {
                let key = ["k1", "k2", "k3"][self.below(3) as usize];
                let body = [b"one", b"two"][self.below(2) as usize];
                let key = Remember::new(self.stream().id(), key, body).unwrap();
                let key = key.keep(Duration::from_secs(self.below(8)));
                let reply = Json::parse("{\"n\":1}").unwrap();
                Write::Remember(if self.one_in(2) { key.reply(200, reply) } else { key })
            }
            13 => Write::Close { stream: self.stream_or_run().id() },
            14 => {
                let (version, code) = (self.below(9) as i64, self.below(3) as i32);
                let state = Json::parse("[1]").unwrap();
                let stream = self.stream_or_run().id();
                Write::Snapshot(Snapshot { stream, version, code, state })
            }
            16..=18 => {
                let delta = vec![1; self.below(9) as usize].into();
                let chk = self.below(3) as u32;
                let (cause, sent) = (self.one_in(3).then_some(position), self.below(3) as u32);
                let (object, input) = (self.object(), "poke".into());
                Write::Turn(Turn { object, cause, sent, chk, input, delta })
            }
            19 => {
                let image = |page: u64| PageImage {
                    page: page as u32 + 1,
                    seq: 0,
                    crc: u32::MAX,
                    data: vec![2; page as usize].into(),
                };
                let images = (0..self.below(4)).map(image).collect();
                let entity = self.object().id();
                let (pages, tail_bytes) = (self.below(4) as u32, self.below(9) as i64);
                let complete = self.one_in(2).then_some(Complete { pages, tail_bytes });
                let part = self.below(3) as i64;
                Write::Images(Images { entity, part, images, complete })
            }
            20 if self.one_in(3) => Write::Erase { entity: self.object().id() },
            22..=27 => self.write_of_run(),
            28..=31 => self.write_of_entry(),
            _ => Write::ForgetTurns { positions: vec![position - 5, position - 9] },
        }
    }

    fn write_of_run(&self) -> Write {
        match self.below(3) {
            0 => {
                let messages = (0..self.below(3)).map(|_| self.message_of_run()).collect();
                Write::Append { stream: self.run(), messages }
            }
            1 => {
                let expires = self.one_in(2).then(|| self.wait());
                Write::Run { run: self.run(), status: self.status(), expires }
            }
            _ => {
                let run = if self.one_in(6) { self.stream() } else { self.run() };
                Write::EraseRun { run: run.id(), dead_until: Timestamp::MIN }
            }
        }
    }

    fn entry(&self) -> EntryKey {
        let space = ["a", "b"][self.below(2) as usize];
        let keys: [&[u8]; 4] = [b"", b"\0", b"k", "ü".as_bytes()];
        EntryKey::new(space, keys[self.below(4) as usize]).unwrap()
    }

    /// Mostly a counter, sometimes an entry that may be none.
    fn counter(&self) -> EntryKey {
        if self.one_in(6) { self.entry() } else { EntryKey::new("a", b"n").unwrap() }
    }

    fn write_of_entry(&self) -> Write {
        if self.one_in(4) {
            return Write::ExpireEntries { entries: vec![self.entry(), self.counter()] };
        }
        if self.one_in(3) {
            let delta = self.below(9) as i64 - 3;
            let (max, expires) = (self.maybe(self.below(20) as i64), self.maybe(self.wait()));
            return Write::Count(Count { entry: self.counter(), delta, max, expires });
        }
        if self.one_in(8) {
            let value = self.maybe(Json::parse("7").unwrap());
            let (entry, expires) = (self.counter(), self.maybe(self.wait()));
            return Write::Put(Put { entry, value, reference: None, expires });
        }
        let value = (!self.one_in(3)).then(|| Json::parse("{\"a\":1}").unwrap());
        let reference = self.one_in(2).then(|| self.stream().id());
        let expires = self.one_in(2).then(|| self.wait());
        Write::Put(Put { entry: self.entry(), value, reference, expires })
    }

    fn sweep(&self) -> Sweep {
        let list = match self.below(5) {
            0 => SweepList::Messages,
            1 => SweepList::Keys,
            it => SweepList::Listed(
                [ExpiryList::Dead, ExpiryList::Ended, ExpiryList::Late][it as usize - 2],
            ),
        };
        Sweep { list, until: self.time(), dead_until: self.time() }
    }

    fn commit(&self) -> Commit {
        if self.one_in(20) {
            return Commit::of(Write::Sweep(self.sweep()));
        }
        let mut commit = Commit::default();
        for _ in 0..=self.below(3) {
            commit = commit.write(self.write());
        }
        if self.one_in(4) {
            let version = self.below(20) as i64;
            commit = commit.expect(Expect::Version { stream: self.stream().id(), version });
        }
        if self.one_in(8) {
            let revision = self.below(6) as i64;
            commit = commit.expect(Expect::Revision { entry: self.entry(), revision });
        }
        if self.one_in(8) {
            let (queue, more, max) = (self.queue().id(), self.below(4), self.below(12));
            commit = commit.expect(Expect::Room { queue, more, max });
        }
        if self.one_in(6) {
            commit = commit.expect(Expect::Pending { position: self.position() });
        }
        if self.one_in(8) {
            commit = commit.expect(Expect::Unclaimed { position: self.position() });
        }
        if self.one_in(8) {
            let (seq, chk) = (self.below(6) as i64, self.below(3) as u32);
            commit = commit.expect(Expect::Head { entity: self.object().id(), seq, chk });
        }
        if self.one_in(8) {
            let (position, as_) = (self.position(), SettledAs::Dead);
            commit = commit.expect(Expect::Settled { position, as_ });
        }
        commit
    }
}

/// Random queries, about rows that may exist.
impl Maker {
    fn id(&self) -> EntityId {
        match self.below(4) {
            0 => self.object().id(),
            1 => self.run().id(),
            2 => self.queue().id(),
            _ => self.stream().id(),
        }
    }

    fn ids(&self) -> Vec<EntityId> {
        let mut ids: Vec<EntityId> = (0..self.below(5)).map(|_| self.id()).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Around the current time, sometimes before or after everything.
    fn time(&self) -> Timestamp {
        match self.below(6) {
            0 => Timestamp::MIN,
            1 => Timestamp::MAX,
            _ => Timestamp(self.now.0 + self.below(8_000) as i64 - 4_000),
        }
    }

    fn limit(&self) -> usize {
        [1, 2, 3, 5, 1_000][self.below(5) as usize]
    }

    fn due(&self) -> DueCursor {
        DueCursor { due_at: self.time(), position: self.position() }
    }

    fn maybe<T>(&self, it: T) -> Option<T> {
        self.one_in(2).then_some(it)
    }

    fn text(&self, texts: &[&str]) -> String {
        texts[self.below(texts.len() as u64) as usize].to_owned()
    }

    fn page(&self) -> RunPage {
        let after = RunCursor { created_at: self.time(), id: self.run().id() };
        RunPage {
            workflow: self.text(&["flow", "flow", "none"]),
            status: self.maybe(self.status()),
            prefix: self.text(&["", "", "a", "ü", "x"]),
            since: self.maybe(self.time()),
            until: self.maybe(self.time()),
            after: self.maybe(after),
            by_name: self.one_in(2),
        }
    }

    fn range(&self) -> EntryRange {
        let all = EntryRange::prefix([b"".as_slice(), b"k"][self.below(2) as usize]);
        match self.below(3) {
            0 => all.after(self.entry().key()),
            1 => all.from(self.entry().key().to_vec()),
            _ => all,
        }
    }

    fn within(&self) -> (EntityKind, String) {
        let of = [
            (EntityKind::Stream, "lab"),
            (EntityKind::Run, "flow"),
            (EntityKind::Queue, "mail"),
            (EntityKind::Object, "thing"),
        ];
        let (kind, class) = of[self.below(4) as usize];
        (kind, class.to_owned())
    }

    fn any_address(&self) -> Address {
        if self.one_in(2) { self.stream_or_run() } else { self.object() }
    }

    /// A query of a kind. A new kind must be added here as well.
    fn query(&self, kind: QueryKind) -> Query {
        use {Query as Q, QueryKind as K};
        let (id, position, at, limit) = (self.id(), self.position(), self.time(), self.limit());
        let (max, after, class) = (limit, self.position() - 20, self.text(&["thing", "none"]));
        let prefix = self.text(&["", "a", "\0"]);
        match kind {
            K::Stream => Q::Stream { stream: id, from: self.below(9) as i64, limit },
            K::All => Q::All { after, limit },
            K::Message => Q::Message { position },
            K::Pending => Q::Pending { stream: self.maybe(id), after, limit },
            K::Dead => Q::Dead { queue: self.maybe(id), after, limit },
            K::Attempts => Q::Attempts { position: self.failed.unwrap_or(position) },
            K::Version => Q::Version { stream: id },
            K::Streams => {
                let after = self.maybe(self.any_address());
                Q::Streams { within: self.maybe(self.within()), after, limit }
            }
            K::Addresses => Q::Addresses { ids: self.ids() },
            K::Snapshot => Q::Snapshot { stream: id },
            K::Due => Q::Due { after: self.due(), limit },
            K::Backlog => {
                let (ordered, after) = (self.one_in(2), self.due());
                Q::Backlog { target: id, ordered, after, limit }
            }
            K::Orphans => Q::Orphans { epoch: 3, queued: self.one_in(2), limit },
            K::QueueMessages => Q::QueueMessages { queue: id, after: self.due(), until: at, limit },
            K::Leased => Q::Leased { queue: id, at, limit },
            K::QueueDepth => Q::QueueDepth { queue: id, at },
            K::NextDue => Q::NextDue { queue: id, after: at },
            K::Unswept => Q::Unswept { until: at, limit },
            K::ExpiryRow => {
                let lists = [ExpiryList::Dead, ExpiryList::Ended, ExpiryList::Late];
                Q::ExpiryRow { list: lists[self.below(3) as usize], until: at, limit }
            }
            K::ExpiredKeys => Q::ExpiredKeys { at, limit: 1_000 },
            K::Head => Q::Head { entity: id },
            K::Heads => {
                let after = self.below(self.written.unsigned_abs() + 1) as i64;
                Q::Heads { history_over: self.below(6) as i64, after, limit }
            }
            K::Classes => {
                let (kind, after) = (self.within().0, self.maybe(self.text(&["l", "mail"])));
                Q::Classes { kind, after, limit }
            }
            K::Objects => Q::Objects { class, prefix, after: self.maybe("a".into()), limit },
            K::CountObjects => Q::CountObjects { class, max },
            K::Images => Q::Images { entity: self.object().id(), pages: vec![0..=1, 3..=u32::MAX] },
            K::TurnsBack => Q::TurnsBack { from: position, limit },
            K::TurnSummaries => Q::TurnSummaries { from: position, limit },
            K::OldTurns => Q::OldTurns { after, limit },
            K::Run => Q::Run { entity: id },
            K::Runs => Q::Runs { page: self.page(), limit },
            K::CountRuns => Q::CountRuns { workflow: "flow".into(), status: None, max },
            K::CountRunNames => Q::CountRunNames { workflow: "flow".into(), prefix, max },
            K::ExpiredRuns => Q::ExpiredRuns { at, limit },
            K::Totals => Q::Totals,
            K::Entry => Q::Entry { entry: self.entry() },
            K::Entries => Q::Entries { space: self.text(&["a", "b"]), range: self.range(), limit },
            K::EntriesByAge => {
                let after = AgeCursor { changed_at: at, key: self.entry().key().to_vec() };
                let space = self.text(&["a", "b"]);
                Q::EntriesByAge { space, after, until: self.time(), limit }
            }
            K::ExpiredEntries => Q::ExpiredEntries { at, limit: 1_000 },
            K::Referenced => Q::Referenced { ids: self.ids() },
            K::Dump => Q::Dump,
            K::Violations => Q::Violations,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_three_stores_agree_on_every_answer_and_every_row() {
    let base = match std::env::var("STEADFAST_TEST_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => SeededEntropy::from_system().next() % 1_000_000,
    };
    let mut seen = Seen::new();
    for seed in base..base + RUNS {
        eprintln!("seed {seed} (set STEADFAST_TEST_SEED to run it again)");
        let labs = [Lab::memory().await, Lab::sqlite().await, Lab::postgres().await];
        let chance = SeededEntropy::new(seed);
        let mut maker = Maker { chance, written: 0, now: labs[0].clock.now(), failed: None };
        let mut commits = Vec::new();
        for step in 1..=STEPS {
            let place = format!("seed {seed}, step {step}");
            commits.push(run_step(&labs, &mut maker, &place, &mut seen).await);
            if step % ROWS_EVERY == 0 {
                compare_rows(&labs, &place, &commits).await;
                commits.clear();
            }
        }
    }
    // Queries that find nothing prove nothing. A few may find nothing at random.
    seen.retain(|_, rows| *rows == 0);
    assert!(seen.len() < 5, "nothing was found by {seen:?}");
}

async fn run_step(labs: &[Lab; 3], maker: &mut Maker, place: &str, seen: &mut Seen) -> Commit {
    if maker.one_in(10) {
        let pause = maker.wait();
        labs.iter().for_each(|lab| lab.clock.advance(pause));
        maker.now = labs[0].clock.now();
    }
    if maker.one_in(60) {
        let retention = Retention { keep: maker.wait(), ..Retention::DEFAULT };
        let mut swept = Vec::new();
        for lab in labs {
            swept.push(sweep(&*lab.store, retention).await.unwrap());
        }
        assert!(swept.iter().all(|it| *it == swept[0]), "{place}: swept {swept:?}");
    }
    let commit = maker.commit();
    let [memory, others @ ..] = labs;
    let expected = memory.commit(commit.clone()).await;
    for lab in others {
        assert_eq!(lab.commit(commit.clone()).await, expected, "{place}: {commit:?}");
    }
    maker.written = labs[0].store.totals().await.unwrap().position;
    if maker.one_in(10) {
        let all = labs[0].store.read_all(0, usize::MAX).await.unwrap();
        maker.failed = all.iter().find(|it| it.last_error.is_some()).map(|it| it.position);
        compare_reads(labs, maker, place, seen).await;
    }
    commit
}

async fn compare_rows(labs: &[Lab; 3], place: &str, commits: &[Commit]) {
    let [memory, others @ ..] = labs;
    let expected = memory.store.dump().await.unwrap();
    for lab in others {
        assert_eq!(lab.store.dump().await.unwrap(), expected, "{place}: {commits:?}");
    }
}

async fn compare_reads(labs: &[Lab; 3], maker: &Maker, place: &str, seen: &mut Seen) {
    for kind in QueryKind::ALL {
        let query = maker.query(*kind);
        assert_eq!(query.kind(), *kind);
        let mut answers = Vec::new();
        for lab in labs {
            answers.push(lab.store.read(query.clone()).await.unwrap());
        }
        let [memory, sqlite, postgres] = [0, 1, 2].map(|it| lines(&query, &answers[it]));
        assert_eq!(sqlite, memory, "{place}: {query:?}");
        assert_eq!(postgres, memory, "{place}: {query:?}");
        *seen.entry(format!("{kind:?}")).or_default() += answers[0].len();
    }
    for lab in labs {
        lab.assert_sound().await;
    }
}

/// Rows as text; sorted where the query promises no order, or none among equal times.
fn lines(query: &Query, answer: &Answer) -> Vec<String> {
    let text = format!("{answer:#?}");
    // Each row is indented by four; its fields by more.
    let mut rows: Vec<String> = Vec::new();
    for line in text.lines() {
        match rows.last_mut() {
            Some(row) if line.starts_with("         ") => row.push_str(line.trim()),
            _ => rows.push(line.trim().to_owned()),
        }
    }
    let is_unsorted = matches!(
        query,
        Query::Addresses { .. }
            | Query::ExpiredKeys { .. }
            | Query::ExpiredEntries { .. }
            | Query::Referenced { .. }
    );
    if is_unsorted {
        rows.sort();
    }
    rows
}
