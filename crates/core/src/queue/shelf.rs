//! What is known of one queue: a pure structure without I/O or clock.
//!
//! Everything at or before the `cursor`, in due order, stands on the shelf or is in somebody's
//! hand. What is behind it is read when there is room. Memory is bounded: the shelf holds a page.

use std::collections::{HashMap, HashSet, VecDeque};

use steadfast_store::{DueCursor, Letter, Position, Timestamp, Work};

#[derive(Debug)]
pub(super) struct Shelf {
    cursor: DueCursor,
    letters: VecDeque<Letter>,
    /// Being handled, or being changed by an operator: as they were then.
    in_hand: HashMap<Position, Taken>,
    /// What was heard of letters while they were in hand.
    heard: HashMap<Position, DueCursor>,
    reading: Option<Reading>,
    /// The store may hold something due behind the cursor.
    more: bool,
    /// Nothing else becomes due before.
    next: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    key: DueCursor,
    /// Not known of one that an operator may send back to where it is: all news of it counts.
    attempts: Option<u32>,
}

/// What became of a letter that was in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PutDown {
    /// It is no longer in this queue.
    Gone,
    /// It is due again then.
    Again(Timestamp),
    /// Nobody knows: it is looked for.
    Unknown,
}

/// What happened while the store was asked, whose answer may not know of it.
#[derive(Debug)]
struct Reading {
    /// How far the cursor was pulled back.
    floor: DueCursor,
    /// What was put down.
    gone: HashSet<Position>,
    /// What was written.
    heard: Vec<DueCursor>,
}

/// So much is remembered while the store is asked; beyond it, more is read twice.
const HEARD_MAX: usize = 10_000;

impl Default for Shelf {
    fn default() -> Self {
        Self {
            cursor: DueCursor::START,
            letters: VecDeque::new(),
            in_hand: HashMap::new(),
            heard: HashMap::new(),
            reading: None,
            more: true,
            next: Timestamp::MAX,
        }
    }
}

impl Shelf {
    /// Takes in that work was written.
    pub(super) fn hear(&mut self, work: &Work, now: Timestamp) {
        let key = DueCursor { due_at: work.due_at, position: work.position };
        match self.in_hand.get(&work.position) {
            // News that comes late: it was taken like this.
            Some(taken) if *taken == (Taken { key, attempts: Some(work.attempts) }) => {}
            Some(_) => _ = self.heard.insert(work.position, key),
            None => self.place(key, now),
        }
    }

    /// Takes in early what will be news: that a letter is due then.
    pub(super) fn expect(&mut self, position: Position, due_at: Timestamp, now: Timestamp) {
        if !self.in_hand.contains_key(&position) {
            self.place(DueCursor { due_at, position }, now);
        }
    }

    fn place(&mut self, key: DueCursor, now: Timestamp) {
        if key <= self.cursor {
            if self.letters.iter().all(|it| it.message.position != key.position) {
                self.pull_back(before(key));
            }
        } else if key.due_at <= now {
            self.more = true;
        } else {
            self.next = self.next.min(key.due_at);
        }
        if let Some(reading) = &mut self.reading {
            if reading.heard.len() < HEARD_MAX {
                reading.heard.push(key);
            } else {
                reading.floor = reading.floor.min(before(key));
            }
        }
    }

    fn pull_back(&mut self, to: DueCursor) {
        self.cursor = self.cursor.min(to);
        self.more = true;
        if let Some(reading) = &mut self.reading {
            reading.floor = reading.floor.min(to);
        }
    }

    /// Has the store asked again for all that is due.
    pub(super) fn look_again(&mut self) {
        self.pull_back(DueCursor::START);
    }

    /// Forgets what is on the shelf: it is read again, and what is in hand once it is put down,
    /// whatever was not heard of it.
    pub(super) fn start_over(&mut self) {
        self.letters.clear();
        let anywhere = |position: &Position| DueCursor { position: *position, ..DueCursor::START };
        self.heard.extend(self.in_hand.keys().map(|it| (*it, anywhere(it))));
        self.pull_back(DueCursor::START);
    }

    /// Whether there is room and something to read.
    pub(super) fn would_read(&self, wanted: usize, now: Timestamp) -> bool {
        let is_due = self.more || self.next <= now;
        self.reading.is_none() && self.letters.len() < wanted && is_due
    }

    /// Where to read on, if there is room and something to read. The answer goes to `read` or
    /// `read_failed`.
    pub(super) fn wants_read(&mut self, wanted: usize, now: Timestamp) -> Option<DueCursor> {
        if !self.would_read(wanted, now) {
            return None;
        }
        self.more = false;
        let (floor, gone, heard) = (DueCursor::END, HashSet::new(), Vec::new());
        self.reading = Some(Reading { floor, gone, heard });
        Some(self.cursor)
    }

    /// Takes in what was due at `until`; with `next`, the store holds no more of it, and that is
    /// when something else becomes due.
    pub(super) fn read(&mut self, letters: Vec<Letter>, until: Timestamp, next: Option<Timestamp>) {
        let Some(reading) = self.reading.take() else { return };
        let reached = match (next, letters.last()) {
            (Some(_), _) => DueCursor { due_at: until, position: Position::MAX },
            (None, Some(last)) => key(last),
            (None, None) => self.cursor,
        };
        self.cursor = reached.max(self.cursor).min(reading.floor);
        self.more = next.is_none() || reading.floor < reached;
        self.next = next.unwrap_or(Timestamp::MAX);
        let on_shelf: HashSet<Position> = self.positions();
        let answered: HashSet<Position> = letters.iter().map(|it| it.message.position).collect();
        self.letters.extend(letters.into_iter().filter(|it| {
            let position = it.message.position;
            !self.in_hand.contains_key(&position)
                && !reading.gone.contains(&position)
                && !on_shelf.contains(&position)
        }));
        // The answer may be older than what was heard.
        for key in reading.heard {
            let position = key.position;
            // What was put down meanwhile is in the answer as it was before.
            let is_known = self.in_hand.contains_key(&position)
                || on_shelf.contains(&position)
                || answered.contains(&position) && !reading.gone.contains(&position);
            if reached < key || !is_known {
                self.place(key, until);
            }
        }
    }

    fn positions(&self) -> HashSet<Position> {
        self.letters.iter().map(|it| it.message.position).collect()
    }

    /// The store could not be asked; it will be wanted again.
    pub(super) fn read_failed(&mut self) {
        self.reading = None;
        self.more = true;
    }

    /// What is on it, in order.
    pub(super) fn letters(&self) -> impl Iterator<Item = &Letter> {
        self.letters.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.letters.len()
    }

    /// Takes the first letters off that `fits` says yes to; the others stay.
    pub(super) fn take(
        &mut self,
        max: usize,
        mut fits: impl FnMut(&Letter) -> bool,
    ) -> Vec<Letter> {
        let (mut taken, mut index) = (Vec::new(), 0);
        while taken.len() < max
            && let Some(letter) = self.letters.get(index)
        {
            if !fits(letter) {
                index += 1;
            } else if let Some(letter) = self.letters.remove(index) {
                self.in_hand.insert(letter.message.position, Taken::of(&letter));
                taken.push(letter);
            }
        }
        taken
    }

    /// Takes one letter into the hand, wherever it stands; `false` if it is in a hand already.
    pub(super) fn hold(&mut self, letter: &Letter) -> bool {
        let position = letter.message.position;
        if self.in_hand.contains_key(&position) {
            return false;
        }
        self.in_hand.insert(position, Taken { attempts: None, ..Taken::of(letter) });
        self.letters.retain(|it| it.message.position != position);
        true
    }

    /// A letter is not in hand any more.
    pub(super) fn put_down(&mut self, position: Position, end: PutDown, now: Timestamp) {
        let Some(taken) = self.in_hand.remove(&position) else { return };
        if let Some(reading) = &mut self.reading {
            reading.gone.insert(position);
        }
        if let Some(key) = self.heard.remove(&position) {
            self.place(key, now);
        }
        match end {
            PutDown::Gone => {}
            PutDown::Again(due_at) => self.place(DueCursor { due_at, position }, now),
            PutDown::Unknown => self.place(taken.key, now),
        }
    }

    /// Whether somebody handles it.
    pub(super) fn is_in_hand(&self, position: Position) -> bool {
        self.in_hand.contains_key(&position)
    }

    pub(super) fn in_hand(&self) -> usize {
        self.in_hand.len()
    }

    /// When to look again, if nothing happens before.
    pub(super) fn next(&self) -> Timestamp {
        self.next
    }
}

impl Taken {
    fn of(letter: &Letter) -> Self {
        Self { key: key(letter), attempts: Some(letter.attempts) }
    }
}

fn before(key: DueCursor) -> DueCursor {
    DueCursor { position: key.position - 1, ..key }
}

fn key(letter: &Letter) -> DueCursor {
    DueCursor { due_at: letter.due_at(), position: letter.message.position }
}

#[cfg(test)]
mod operators;
#[cfg(test)]
mod tests;
