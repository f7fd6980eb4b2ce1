//! The window against a model of a store, with operators that redrive messages and with notices
//! that overflow: in every order, no message is lost.

use std::collections::{BTreeMap, VecDeque};

use steadfast_store::{
    Direction, EntityId, Entropy, Json, MessageKind, Recorded, SeededEntropy, State,
};

use super::*;

/// The due time and the number of attempts.
type Row = (i64, u32);

const PAGE: usize = 4;

fn queued(position: Position, (due_at, attempts): Row) -> QueuedMessage {
    let (queue, created_at) = (EntityId([0; 16]), Timestamp(0));
    let message = Recorded {
        position,
        stream: queue,
        version: position,
        kind: MessageKind::Command,
        direction: Direction::Input,
        action: "enqueue".into(),
        message_type: "mail".into(),
        schema: 1,
        data: Json::empty(),
        metadata: Json::empty(),
        target: Some(queue),
        ordered: false,
        cause: None,
        created_at,
        state: Some(State::Pending { due_at: Timestamp(due_at), attempts }),
        last_error: None,
        lineage: 0,
    };
    QueuedMessage { message, queue, attempts }
}

/// A read of the store: first the due messages, then the next due time, then the window is updated.
struct Read {
    cursor: DueCursor,
    until: i64,
    messages: Option<Vec<QueuedMessage>>,
    next: Option<Timestamp>,
}

struct World {
    chance: SeededEntropy,
    now: i64,
    window: QueueWindow,
    rows: BTreeMap<Position, Row>,
    sent: Position,
    notices: VecDeque<(Position, Row)>,
    read: Option<Read>,
    /// Held messages, with their decided ends.
    held: Vec<(Position, Option<End>)>,
    /// A message that an operator has read, perhaps long ago.
    seen: Option<QueuedMessage>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            chance: SeededEntropy::new(seed),
            now: 1_000,
            window: QueueWindow::default(),
            rows: BTreeMap::new(),
            sent: 0,
            notices: VecDeque::new(),
            read: None,
            held: Vec::new(),
            seen: None,
        }
    }

    fn below(&self, limit: usize) -> usize {
        (self.chance.next() % limit as u64) as usize
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.now)
    }

    /// A commit takes time: its timestamp may precede that of a read which does not see it.
    fn commit_time(&self) -> i64 {
        self.now - self.below(3) as i64
    }

    fn write(&mut self, position: Position, row: Row) {
        self.rows.insert(position, row);
        self.notices.push_back((position, row));
    }

    fn hear_one(&mut self) {
        let Some((position, (due_at, attempts))) = self.notices.pop_front() else { return };
        let (target, due_at) = (EntityId([0; 16]), Timestamp(due_at));
        let (ordered, forgiven, claim, queued) = (false, 0, None, true);
        let work = Work { position, target, ordered, due_at, attempts, forgiven, claim, queued };
        self.window.on_work(&work, self.now());
    }

    fn read_on(&mut self) {
        let Some(mut read) = self.read.take() else {
            let (until, cursor) = (self.now, self.window.wants_read(PAGE, self.now()));
            let begin = |cursor| Read { cursor, until, messages: None, next: None };
            self.read = cursor.map(begin);
            return;
        };
        let key = |position: Position, row: &Row| DueCursor { due_at: Timestamp(row.0), position };
        match &read.messages {
            None => {
                let of = |(position, row): (&Position, &Row)| (key(*position, row), *row);
                let mut due: Vec<_> = self.rows.iter().map(of).collect();
                due.retain(|(key, row)| read.cursor < *key && row.0 <= read.until);
                due.sort_unstable();
                due.truncate(PAGE);
                let messages = due.into_iter().map(|(key, row)| queued(key.position, row));
                read.messages = Some(messages.collect());
            }
            Some(_) => {
                let later = self.rows.values().map(|it| it.0).filter(|it| read.until < *it).min();
                read.next = Some(later.map_or(Timestamp::MAX, Timestamp));
            }
        }
        self.read = Some(read);
    }

    fn is_read(&self) -> bool {
        let whole = |it: &Vec<QueuedMessage>| it.len() == PAGE;
        self.read.as_ref().is_some_and(|it| {
            it.messages.as_ref().is_some_and(|messages| whole(messages) || it.next.is_some())
        })
    }

    fn end_read(&mut self) {
        let Some(Read { until, messages: Some(messages), next, .. }) = self.read.take() else {
            return;
        };
        if self.below(20) == 0 {
            self.window.read_failed();
        } else {
            self.window.read(messages, Timestamp(until), next);
        }
    }

    fn take(&mut self) {
        let max = 1 + self.below(2);
        for queued in self.window.take(max, |_| true) {
            let position = queued.message.position;
            assert!(self.held.iter().all(|it| it.0 != position), "{position} is in two held");
            self.held.push((position, None));
        }
    }

    /// The decision on a message is committed or not, and the holder may not learn which.
    fn decide(&mut self) {
        let undecided: Vec<usize> =
            (0..self.held.len()).filter(|it| self.held[*it].1.is_none()).collect();
        if undecided.is_empty() {
            return;
        }
        let hand = undecided[self.below(undecided.len())];
        let position = self.held[hand].0;
        let end = match (self.rows.get(&position).copied(), self.below(4)) {
            (None, _) | (_, 0) => End::Unknown,
            (Some(_), 1) => {
                self.rows.remove(&position);
                End::Gone
            }
            (Some((_, attempts)), kind) => {
                let due_at = self.commit_time() + [0, 0, 3, 10][self.below(4)];
                self.write(position, (due_at, attempts + 1));
                if kind == 2 { End::Again(Timestamp(due_at)) } else { End::Unknown }
            }
        };
        self.held[hand].1 = Some(end);
    }

    fn finish(&mut self) {
        let decided = self.held.iter().position(|it| it.1.is_some());
        if let Some((position, Some(end))) = decided.map(|it| self.held.swap_remove(it)) {
            self.window.finish(position, end, self.now());
        }
    }

    /// An operator moves a message out of the queue and back, if it has not changed.
    fn operate(&mut self) {
        let Some(seen) = self.seen.take() else {
            let index = self.below(self.rows.len().max(1));
            self.seen = self.rows.iter().nth(index).map(|(it, row)| queued(*it, *row));
            return;
        };
        let position = seen.message.position;
        if !self.window.hold(&seen) {
            return;
        }
        let end = match self.rows.get(&position).copied() {
            Some((_, attempts)) if self.below(2) == 0 => {
                let due_at = self.commit_time();
                self.write(position, (due_at, attempts));
                End::Gone
            }
            Some(_) | None => End::Unknown,
        };
        self.held.push((position, Some(end)));
    }

    fn step(&mut self) {
        match self.below(16) {
            0 | 1 => {
                self.sent += 1;
                let due_at = self.commit_time() + [0, 0, 0, 5][self.below(4)];
                self.write(self.sent, (due_at, 0));
            }
            2..=4 => self.hear_one(),
            5..=7 if self.is_read() => self.end_read(),
            5..=8 if !self.is_read() => self.read_on(),
            9 | 10 => self.take(),
            11 => self.decide(),
            12 | 13 => self.finish(),
            14 => self.operate(),
            15 if self.below(30) == 0 => {
                self.notices.clear();
                self.window.start_over();
            }
            _ => self.now += 1,
        }
    }

    /// Nothing new happens: all known messages are handled, and then none may be left.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            while !self.notices.is_empty() {
                self.hear_one();
            }
            while !self.is_read() && (self.read.is_some() || self.wants_read()) {
                self.read_on();
            }
            self.end_read();
            while let Some((position, end)) = self.held.pop() {
                self.window.finish(position, end.unwrap_or(End::Unknown), self.now());
            }
            for queued in self.window.take(PAGE, |_| true) {
                let position = queued.message.position;
                self.rows.remove(&position);
                self.held.push((position, Some(End::Gone)));
            }
            let is_idle = self.held.is_empty() && !self.wants_read() && self.window.len() == 0;
            match self.window.next() {
                Timestamp::MAX if is_idle => return,
                next if is_idle => self.now = self.now.max(next.0),
                _ => {}
            }
        }
        panic!("it never comes to rest");
    }

    fn wants_read(&self) -> bool {
        self.window.would_read(PAGE, self.now())
    }
}

#[test]
fn no_message_is_lost_in_any_order_of_events() {
    for seed in 0..1_000 {
        let mut world = World::new(seed);
        (0..300).for_each(|_| world.step());
        world.drain();
        assert!(world.rows.is_empty(), "seed {seed}: lost {:?}", world.rows);
    }
}
