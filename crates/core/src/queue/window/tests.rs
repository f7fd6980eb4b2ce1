//! A window against a store whose answers and notices are late.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use steadfast_store::{
    Direction, DueCursor, EntityId, Entropy, Json, MessageKind, Position, QueuedMessage, Recorded,
    SeededEntropy, State, Timestamp, Work,
};

use super::{End, QueueWindow};

const QUEUE: EntityId = EntityId([7; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    due_at: Timestamp,
    attempts: u32,
}

fn queued(position: Position, row: Row) -> QueuedMessage {
    let state = State::Pending { due_at: row.due_at, attempts: row.attempts };
    let message = Recorded {
        position,
        stream: QUEUE,
        version: position,
        kind: MessageKind::Command,
        direction: Direction::Input,
        action: "enqueue".into(),
        message_type: "x".into(),
        schema: 1,
        data: Json::empty(),
        metadata: Json::empty(),
        target: Some(QUEUE),
        ordered: false,
        cause: None,
        created_at: row.due_at,
        state: Some(state),
        last_error: None,
        lineage: 0,
    };
    QueuedMessage { message, queue: QUEUE, attempts: row.attempts }
}

fn work(position: Position, row: Row) -> Work {
    let Row { due_at, attempts } = row;
    let (target, ordered, forgiven, claim, queued) = (QUEUE, false, 0, None, true);
    Work { position, target, ordered, due_at, attempts, forgiven, claim, queued }
}

/// A store, pending notices, and a read in progress.
struct World {
    chance: SeededEntropy,
    now: Timestamp,
    rows: BTreeMap<Position, Row>,
    last: Position,
    news: VecDeque<Work>,
    answer: Option<(Vec<QueuedMessage>, Timestamp, Option<Timestamp>)>,
    hand: BTreeSet<Position>,
    done: BTreeSet<Position>,
    window: QueueWindow,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            chance: SeededEntropy::new(seed),
            now: Timestamp(1_000),
            rows: BTreeMap::new(),
            last: 0,
            news: VecDeque::new(),
            answer: None,
            hand: BTreeSet::new(),
            done: BTreeSet::new(),
            window: QueueWindow::default(),
        }
    }

    fn below(&self, max: u64) -> u64 {
        self.chance.next() % max
    }

    fn write(&mut self, position: Position, row: Row) {
        self.rows.insert(position, row);
        self.news.push_back(work(position, row));
    }

    fn ask(&mut self) {
        let Some(after) = self.window.wants_read(4, self.now) else { return };
        let due = |it: &(&Position, &Row)| {
            let key = DueCursor { due_at: it.1.due_at, position: *it.0 };
            after < key && it.1.due_at <= self.now
        };
        let mut rows: Vec<(Position, Row)> =
            self.rows.iter().filter(due).map(|(position, row)| (*position, *row)).collect();
        rows.sort_by_key(|(position, row)| (row.due_at, *position));
        let is_all = rows.len() < 3;
        rows.truncate(3);
        let later = self.rows.values().map(|it| it.due_at).filter(|it| self.now < *it).min();
        let next = is_all.then(|| later.unwrap_or(Timestamp::MAX));
        let messages = rows.into_iter().map(|(position, row)| queued(position, row)).collect();
        self.answer = Some((messages, self.now, next));
    }

    fn answer(&mut self) {
        if let Some((messages, until, next)) = self.answer.take() {
            self.window.read(messages, until, next);
        }
    }

    fn take(&mut self, max: usize) {
        for queued in self.window.take(max, |_| true) {
            let position = queued.message.position;
            let row = self.rows.get(&position);
            let seen = Row { due_at: queued.due_at(), attempts: queued.attempts };
            assert_eq!(row, Some(&seen), "{position} is delivered as it is");
            assert!(self.hand.insert(position), "{position} is in one hand at a time");
        }
    }

    fn finish(&mut self) {
        let Some(position) = self.hand.pop_first() else { return };
        let row = self.rows[&position];
        let end = match self.below(4) {
            0 => {
                let due_at = Timestamp(self.now.0 + self.below(3) as i64);
                self.write(position, Row { due_at, attempts: row.attempts + 1 });
                End::Again(due_at)
            }
            1 => End::Unknown,
            _ => {
                self.rows.remove(&position);
                assert!(self.done.insert(position), "{position} is done once");
                End::Gone
            }
        };
        self.window.finish(position, end, self.now);
    }

    fn deliver_notice(&mut self) {
        if let Some(work) = self.news.pop_front() {
            self.window.on_work(&work, self.now);
        }
    }

    fn step(&mut self) {
        match self.below(10) {
            0 | 1 => {
                self.last += 1;
                let due_at = Timestamp(self.now.0 + [0, 0, 1, 5][self.below(4) as usize]);
                self.write(self.last, Row { due_at, attempts: 0 });
                if self.below(2) == 0 {
                    self.window.expect(self.last, due_at, self.now);
                }
            }
            2 | 3 => self.deliver_notice(),
            4 => self.ask(),
            5 => self.answer(),
            6 => self.take(self.below(3) as usize),
            7 => self.finish(),
            8 if self.below(10) == 0 => self.window.start_over(),
            8 if self.below(10) == 0 => {
                self.answer = None;
                self.window.read_failed();
            }
            _ => self.now.0 += self.below(2) as i64,
        }
    }

    /// Nothing more is sent; all messages are consumed if none was lost.
    fn drain(&mut self) {
        while !self.news.is_empty() {
            self.deliver_notice();
        }
        for _ in 0..10_000 {
            self.answer();
            self.ask();
            self.take(usize::MAX);
            self.finish();
            // The window itself returns when to read again.
            let is_idle = self.answer.is_none() && self.hand.is_empty() && self.window.len() == 0;
            let next = self.window.next();
            if is_idle && self.now < next && next < Timestamp::MAX {
                self.now = next;
            }
            while !self.news.is_empty() {
                self.deliver_notice();
            }
        }
        assert_eq!(self.rows, BTreeMap::new(), "pending without a future wake-up");
    }
}

#[test]
fn no_message_is_lost_or_delivered_twice_in_any_order_of_notices_and_reads() {
    let base = SeededEntropy::from_system().next() % 1_000_000;
    for seed in base..base + 300 {
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..300).for_each(|_| world.step());
            world.drain();
        });
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_message_written_during_a_read_is_read_again() {
    let mut world = World::new(1);
    world.ask();
    world.last = 1;
    world.write(1, Row { due_at: world.now, attempts: 0 });
    world.deliver_notice();
    world.answer();
    world.ask();
    world.answer();
    world.take(1);
    assert!(world.hand.contains(&1));
}
