//! The same random operations on all three stores: the same answers and the same rows at every
//! step.

use std::time::Duration;

use steadfast_store::{
    Cause, Clock, Commit, Complete, Due, DueCursor, EntityKind, Entropy, EntryKey, Expect, Images,
    Json, Lease, Message, PageImage, Put, Remember, Retention, RunFilter, RunStatus, SeededEntropy,
    SettledAs, Snapshot, Task, Timestamp, Turn, Write, sweep,
};

use crate::lab::{Lab, address, address_of};

const RUNS: u64 = 6;
const STEPS: u64 = 400;

/// Makes operations out of chance. Positions and versions are guessed, so many are refused.
struct Maker {
    chance: SeededEntropy,
    written: i64,
    now: Timestamp,
}

impl Maker {
    fn below(&self, max: u64) -> u64 {
        self.chance.next() % max
    }

    fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn stream(&self) -> steadfast_store::Address {
        address(["a", "b", "ü", "d"][self.below(4) as usize])
    }

    fn object(&self) -> steadfast_store::Address {
        address_of(EntityKind::Object, "thing", ["a", "b"][self.below(2) as usize])
    }

    /// Most of them stay without work, so that they can be erased.
    fn run(&self) -> steadfast_store::Address {
        address_of(EntityKind::Run, "flow", ["a", "b", "ü", "d", "e"][self.below(5) as usize])
    }

    fn queue(&self) -> steadfast_store::Address {
        address_of(EntityKind::Queue, ["mail", "dead"][self.below(2) as usize], "0")
    }

    fn status(&self) -> RunStatus {
        RunStatus::ALL[self.below(6) as usize]
    }

    fn stream_or_run(&self) -> steadfast_store::Address {
        if self.one_in(3) { self.run() } else { self.stream() }
    }

    fn message_of_run(&self) -> Message {
        let message = Message::new("step", Json::parse("{}").unwrap()).unwrap();
        let target = if self.one_in(2) { self.run() } else { self.stream() };
        if self.one_in(5) { message.to(&target) } else { message.event() }
    }

    /// Mostly a recent one, sometimes one that is not there.
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
            5..=6 => Write::Claim { position, lease: self.lease(), lasts: self.wait() },
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
            15 => Write::Forget { positions: vec![position, position - 3] },
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

    fn write_of_entry(&self) -> Write {
        if self.one_in(4) {
            return Write::ExpireEntries { entries: vec![self.entry(), self.entry()] };
        }
        let value = (!self.one_in(3)).then(|| Json::parse("{\"a\":1}").unwrap());
        let reference = self.one_in(2).then(|| self.stream().id());
        let expires = self.one_in(2).then(|| self.wait());
        Write::Put(Put { entry: self.entry(), value, reference, expires })
    }

    fn commit(&self) -> Commit {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_three_stores_agree_on_every_answer_and_every_row() {
    let base = match std::env::var("STEADFAST_TEST_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => SeededEntropy::from_system().next() % 1_000_000,
    };
    for seed in base..base + RUNS {
        eprintln!("seed {seed} (set STEADFAST_TEST_SEED to run it again)");
        let labs = [Lab::memory().await, Lab::sqlite().await, Lab::postgres().await];
        let chance = SeededEntropy::new(seed);
        let mut maker = Maker { chance, written: 0, now: labs[0].clock.now() };
        for step in 0..STEPS {
            run_step(&labs, &mut maker, &format!("seed {seed}, step {step}")).await;
        }
    }
}

async fn run_step(labs: &[Lab; 3], maker: &mut Maker, place: &str) {
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
    let mut answers = Vec::new();
    let mut snapshots = Vec::new();
    for lab in labs {
        answers.push(lab.commit(commit.clone()).await);
        snapshots.push(lab.store.dump().await.unwrap());
    }
    for (answer, snapshot) in answers.iter().zip(&snapshots).skip(1) {
        assert_eq!(answer, &answers[0], "{place}: {commit:?}");
        assert_eq!(snapshot, &snapshots[0], "{place}: {commit:?}");
    }
    maker.written = labs[0].store.totals().await.unwrap().position;
    if maker.one_in(10) {
        compare_reads(labs, maker, place).await;
    }
}

async fn compare_reads(labs: &[Lab; 3], maker: &Maker, place: &str) {
    let stream = maker.stream().id();
    let (position, ordered) = (maker.position(), maker.one_in(2));
    let (object, run) = (maker.object().id(), maker.run());
    let (queue, start) = (maker.queue().id(), DueCursor::START);
    let mut all = Vec::new();
    for lab in labs {
        let store = &lab.store;
        let head = store.head(object).await.unwrap();
        let last = head.map_or(0, |it| it.position);
        let objects = (
            head,
            store.heads(5, 0, 3).await.unwrap(),
            store.images(object, &[0..=1, 3..=u32::MAX]).await.unwrap(),
            store.turns_back(last, 4).await.unwrap(),
            store.turn_summaries(last, 4).await.unwrap(),
            store.classes(EntityKind::Object, None, 99).await.unwrap(),
            store.classes(EntityKind::Queue, None, 99).await.unwrap(),
            store.objects("thing", "", None, 3).await.unwrap(),
            store.count_objects("thing", 2).await.unwrap(),
            store.old_turns(position - 20, 9).await.unwrap(),
        );
        let queues = (
            store.letters(queue, start, maker.now, 3).await.unwrap(),
            store.letters(queue, start, Timestamp::MAX, 30).await.unwrap(),
            store.leased(queue, maker.now, 9).await.unwrap(),
            store.dead_letters(queue, 0, 9).await.unwrap(),
            store.queue_depth(queue, maker.now).await.unwrap(),
            store.next_due(queue, maker.now).await.unwrap(),
            store.orphans(2, true, 9).await.unwrap(),
        );
        let flow = RunFilter { prefix: run.name(), ..RunFilter::of("flow") };
        let runs = (
            store.run(run.id()).await.unwrap(),
            store.runs(RunFilter::of("flow"), None, 3).await.unwrap(),
            store.runs(flow, None, 3).await.unwrap(),
            store.runs(RunFilter { since: Some(maker.now), ..flow }, None, 3).await.unwrap(),
            store.count_runs("flow", Some(RunStatus::Queued), 9).await.unwrap(),
            store.expired_runs(maker.now, 3).await.unwrap(),
        );
        all.push(format!(
            "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{queues:?}",
            store.read_stream(stream, 2, 7).await.unwrap(),
            store.read_all(position, 7).await.unwrap(),
            store.pending(Some(stream), 0, 7).await.unwrap(),
            store.pending(None, position, 7).await.unwrap(),
            store.dead(0, 7).await.unwrap(),
            store.attempts(position).await.unwrap(),
            (
                store.streams(None, None, 3).await.unwrap(),
                store.streams(Some((EntityKind::Stream, "lab")), None, 3).await.unwrap(),
                store.streams(Some((EntityKind::Queue, "lab")), None, 3).await.unwrap(),
                store.snapshot(stream).await.unwrap(),
            ),
            store.due(DueCursor { due_at: maker.now, position }, 7).await.unwrap(),
            store.backlog(stream, ordered, 3).await.unwrap(),
            (
                store.orphans(2, false, 5).await.unwrap(),
                store.totals().await.unwrap(),
                objects,
                runs
            ),
        ));
        lab.assert_sound().await;
    }
    assert_eq!(all[0], all[1], "{place}");
    assert_eq!(all[0], all[2], "{place}");
}
