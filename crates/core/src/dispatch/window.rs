//! The work of one target, as far as it is known: a pure structure without I/O or clock.
//!
//! Rows up to the *horizon*, in the order of the window, are ready, in flight or deferred. Rows
//! behind it are in the store, and are read when there is room. Memory is bounded: a row without
//! room pulls the horizon back to before it.
//!
//! Notices may be late, and the result of a read may be older than a notice. Notices that arrive
//! during a read are therefore applied again to its result.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use steadfast_store::{DueCursor, Position, Timestamp, Work};

/// A row of work. Its message is not kept here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) position: Position,
    pub(crate) due_at: Timestamp,
    pub(crate) attempts: u32,
}

/// In which order work is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By due time, several at once.
    Due,
    /// By position, one at a time: the first row is waited for.
    Position,
}

/// The end of a delivery, for the window of its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The row is settled, or belongs to another owner.
    Gone,
    /// It is due again at this time, which the store has.
    Again(Timestamp),
    /// It is retried at this time, which the store does not have.
    Deferred(Timestamp),
    /// It did not begin, and is the next.
    Back,
    /// The outcome is unknown: it is read again.
    Unknown,
}

/// The rows that the store has after those of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// More of them.
    More,
    /// None, as far as this window has to know.
    Nothing,
    /// None that is due before then.
    Later(Timestamp),
}

/// The way in which rows become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// By notices, up to this many, and by reads.
    Notices(usize),
    /// By reads only, because they bring the bodies of messages.
    Reads,
}

#[derive(Debug)]
pub(crate) struct Window {
    order: Order,
    fill: Fill,
    horizon: DueCursor,
    /// In the order of the window. Rows behind the horizon wait until it has passed them.
    ready: VecDeque<Entry>,
    in_flight: HashMap<Position, InFlight>,
    /// Rows in flight that are not held by an operator.
    running: usize,
    deferred: BTreeMap<(Timestamp, Position), Entry>,
    read: Option<OpenRead>,
    /// The store may hold something due behind the horizon.
    more: bool,
    /// When something else becomes due behind the horizon.
    next_due: Timestamp,
}

#[derive(Debug)]
struct InFlight {
    /// The row as it was taken.
    entry: Entry,
    news: Option<News>,
    /// Held, not delivered: the row may be written again as it was.
    is_held: bool,
}

/// The last notice of a row while it was in flight.
#[derive(Clone, Copy, Debug)]
enum News {
    Written(Entry),
    Settled,
}

/// Changes during a read, which its result may not contain.
#[derive(Debug)]
struct OpenRead {
    /// The lowest cursor that the horizon was pulled back to.
    floor: DueCursor,
    gone: HashSet<Position>,
    written: HashMap<Position, Entry>,
}

/// Maximum notices that an open read records. Rows of others are read twice.
const WRITTEN_MAX: usize = 10_000;

impl OpenRead {
    /// A row was settled or written: its row in the answer is old, and so are notices of it.
    fn ended(&mut self, position: Position) {
        self.gone.insert(position);
        self.written.remove(&position);
    }
}

impl Entry {
    pub(crate) fn of(work: &Work) -> Self {
        Self { position: work.position, due_at: work.due_at, attempts: work.attempts }
    }
}

impl Window {
    /// A window whose rows are all known: there are none yet.
    pub(crate) fn empty(order: Order, ready_max: usize) -> Self {
        Self {
            order,
            fill: Fill::Notices(ready_max),
            horizon: DueCursor::END,
            ready: VecDeque::new(),
            in_flight: HashMap::new(),
            running: 0,
            deferred: BTreeMap::new(),
            read: None,
            more: false,
            next_due: Timestamp::MAX,
        }
    }

    /// A window that has to be read first.
    pub(crate) fn unread(order: Order, ready_max: usize) -> Self {
        Self { horizon: DueCursor::START, more: true, ..Self::empty(order, ready_max) }
    }

    /// A window in due order whose rows become ready when they are read.
    pub(crate) fn of_reads() -> Self {
        Self { fill: Fill::Reads, ..Self::unread(Order::Due, 0) }
    }

    fn key(&self, entry: &Entry) -> DueCursor {
        match self.order {
            Order::Due => DueCursor { due_at: entry.due_at, position: entry.position },
            Order::Position => DueCursor { due_at: Timestamp::MIN, position: entry.position },
        }
    }

    /// Learns that a row was written, or was found. Returns whether it is to be placed: one in
    /// flight is looked at when its delivery ends.
    pub(crate) fn learn(&mut self, entry: Entry) -> bool {
        let Some(known) = self.in_flight.get_mut(&entry.position) else {
            self.deferred.retain(|_, it| it.position != entry.position);
            return true;
        };
        // Rows that only reads make ready are often taken before their notice arrives.
        let is_late = self.fill == Fill::Reads && !known.is_held && known.entry == entry;
        if !is_late {
            known.news = Some(News::Written(entry));
        }
        false
    }

    /// Records that a row was settled by another commit.
    pub(crate) fn settled(&mut self, position: Position) {
        if let Some(known) = self.in_flight.get_mut(&position) {
            known.news = Some(News::Settled);
            return;
        }
        self.ready.retain(|it| it.position != position);
        self.deferred.retain(|_, it| it.position != position);
        if let Some(read) = &mut self.read {
            read.ended(position);
        }
    }

    /// Places a row that is not in flight.
    pub(crate) fn place(&mut self, entry: Entry, now: Timestamp) {
        let key = self.key(&entry);
        if let Some(read) = &mut self.read {
            if read.written.len() < WRITTEN_MAX {
                read.written.insert(entry.position, entry);
            } else {
                read.floor = read.floor.min(before(key));
            }
        }
        if self.horizon < key {
            // After rows that only the store has, it has to wait.
            if self.order == Order::Position || entry.due_at <= now {
                self.more = true;
            } else {
                self.next_due = self.next_due.min(entry.due_at);
            }
        } else if let Some(at) = self.ready.iter().position(|it| it.position == entry.position) {
            self.ready.remove(at);
            self.insert(entry);
        } else if matches!(self.fill, Fill::Notices(max) if self.ready.len() < max) {
            self.insert(entry);
        } else {
            self.pull_back(before(key));
        }
    }

    fn insert(&mut self, entry: Entry) {
        let key = self.key(&entry);
        let index = self.ready.partition_point(|it| self.key(it) < key);
        self.ready.insert(index, entry);
    }

    /// Makes a row ready again that no read would find.
    pub(crate) fn put_back(&mut self, entry: Entry) {
        // In the order of positions it is read again.
        if self.order == Order::Due || self.key(&entry) <= self.horizon {
            self.ready.retain(|it| it.position != entry.position);
            self.insert(entry);
        }
    }

    fn pull_back(&mut self, to: DueCursor) {
        self.horizon = self.horizon.min(to);
        self.more = true;
        // In the order of positions, rows behind it are read again. In due order they stay, and
        // wait for those that are read: their due time in the store may be another by now.
        while self.order == Order::Position
            && self.ready.back().is_some_and(|it| self.horizon < self.key(it))
        {
            self.ready.pop_back();
        }
        if let Some(read) = &mut self.read {
            read.floor = read.floor.min(to);
        }
    }

    /// Reads all rows again.
    pub(crate) fn read_again(&mut self) {
        self.pull_back(DueCursor::START);
    }

    /// Clears the ready rows, and reads all of them again.
    pub(crate) fn forget(&mut self) {
        self.ready.clear();
        self.read_again();
    }

    /// Forgets all rows but those in flight: another node delivers them.
    pub(crate) fn disown(&mut self) {
        self.deferred.clear();
        self.in_flight.values_mut().for_each(|it| it.news = None);
        self.forget();
    }

    /// Some notices were lost: rows in flight are read again when they end.
    pub(crate) fn doubt(&mut self) {
        for (position, it) in &mut self.in_flight {
            let (due_at, attempts) = (Timestamp::MIN, it.entry.attempts);
            it.news = Some(News::Written(Entry { position: *position, due_at, attempts }));
        }
    }

    /// Whether fewer than `wanted` rows are ready and there is something to read.
    pub(crate) fn would_read(&self, wanted: usize, now: Timestamp) -> bool {
        let is_due = self.more || self.next_due <= now;
        self.read.is_none() && self.available() < wanted && is_due
    }

    /// Begins a read if it would. Returns behind which row to read; the answer goes to `read` or
    /// `read_failed`.
    pub(crate) fn begin_read(&mut self, wanted: usize, now: Timestamp) -> Option<DueCursor> {
        if !self.would_read(wanted, now) {
            return None;
        }
        self.more = false;
        let (floor, gone, written) = (DueCursor::END, HashSet::new(), HashMap::new());
        self.read = Some(OpenRead { floor, gone, written });
        Some(self.horizon)
    }

    /// Takes in rows that were due at `until`, in order. Returns those that are ready now.
    pub(crate) fn read(&mut self, rows: &[Entry], until: Timestamp, rest: Rest) -> Vec<Position> {
        let Some(read) = self.read.take() else { return Vec::new() };
        let reached = match (rest, rows.last()) {
            (Rest::Nothing, _) => DueCursor::END,
            (Rest::Later(_), _) => DueCursor { due_at: until, position: Position::MAX },
            (Rest::More, Some(last)) => self.key(last),
            (Rest::More, None) => self.horizon,
        };
        self.horizon = reached.max(self.horizon).min(read.floor);
        self.more = rest == Rest::More || read.floor < reached;
        self.next_due = if let Rest::Later(next) = rest { next } else { Timestamp::MAX };
        rows.iter().for_each(|it| _ = self.refresh_deferred(*it));
        let known: HashSet<Position> = self.known().collect();
        let is_new = |it: &&Entry| {
            !known.contains(&it.position)
                && !read.gone.contains(&it.position)
                && (self.fill == Fill::Reads || self.key(it) <= self.horizon)
        };
        let new: Vec<Entry> = rows.iter().filter(is_new).copied().collect();
        self.ready.extend(&new);
        let order = self.order;
        self.ready.make_contiguous().sort_by_key(|it| match order {
            Order::Due => (it.due_at, it.position),
            Order::Position => (Timestamp::MIN, it.position),
        });
        let answered: HashSet<Position> = rows.iter().map(|it| it.position).collect();
        let ready: HashMap<Position, Entry> =
            self.ready.iter().map(|it| (it.position, *it)).collect();
        let mut written: Vec<Entry> = read.written.into_values().collect();
        written.sort_unstable_by_key(|it| self.key(it));
        for entry in written {
            let position = entry.position;
            // One that ended meanwhile is in the answer as it was before.
            let is_known = known.contains(&position)
                || answered.contains(&position) && !read.gone.contains(&position);
            // The answer may have an old due time.
            let is_old = ready.get(&position).is_some_and(|it| *it != entry);
            if reached < self.key(&entry) || !is_known || is_old {
                self.place(entry, until);
            }
        }
        new.into_iter().map(|it| it.position).collect()
    }

    /// A read failed; it is repeated.
    pub(crate) fn read_failed(&mut self) {
        if self.read.take().is_some() {
            self.more = true;
        }
    }

    /// The number of rows that can be taken. Rows of reads need not wait for others.
    fn available(&self) -> usize {
        match self.fill {
            Fill::Reads => self.ready.len(),
            Fill::Notices(_) => self.ready.partition_point(|it| self.key(it) <= self.horizon),
        }
    }

    fn known(&self) -> impl Iterator<Item = Position> {
        let deferred = self.deferred.values();
        let listed = self.ready.iter().chain(deferred).map(|it| it.position);
        listed.chain(self.in_flight.keys().copied())
    }

    /// Takes the first ready rows that `fits` accepts.
    pub(crate) fn take(&mut self, max: usize, mut fits: impl FnMut(&Entry) -> bool) -> Vec<Entry> {
        let (mut taken, mut index) = (Vec::new(), 0);
        let available = self.available();
        while taken.len() < max
            && taken.len() + index < available
            && let Some(entry) = self.ready.get(index).copied()
        {
            if !fits(&entry) {
                index += 1;
                continue;
            }
            self.ready.remove(index);
            self.in_flight.insert(entry.position, InFlight { entry, news: None, is_held: false });
            self.running += 1;
            taken.push(entry);
        }
        taken
    }

    /// Holds a row apart, wherever it is; `false` if it is in flight already.
    pub(crate) fn hold(&mut self, entry: Entry) -> bool {
        if self.in_flight.contains_key(&entry.position) {
            return false;
        }
        self.ready.retain(|it| it.position != entry.position);
        self.deferred.retain(|_, it| it.position != entry.position);
        self.in_flight.insert(entry.position, InFlight { entry, news: None, is_held: true });
        true
    }

    /// A row is no longer in flight. Returns rows to be placed, according to this end and to
    /// notices since.
    pub(crate) fn finished(&mut self, position: Position, end: End) -> [Option<Entry>; 2] {
        let Some(InFlight { entry, news, is_held }) = self.in_flight.remove(&position) else {
            return [None, None];
        };
        self.running -= usize::from(!is_held);
        let (end, news) = match news {
            Some(News::Settled) => (End::Gone, None),
            Some(News::Written(news)) => match end {
                // It was written since, and that counts.
                End::Deferred(_) | End::Back => (End::Gone, Some(news)),
                End::Gone | End::Again(_) | End::Unknown => (end, Some(news)),
            },
            None => (end, None),
        };
        let again = match end {
            End::Gone => None,
            End::Again(due_at) => Some(Entry { due_at, ..entry }),
            End::Unknown => Some(entry),
            End::Deferred(until) => {
                self.deferred.insert((until, position), entry);
                // The others wait for it, and take no memory meanwhile.
                if self.order == Order::Position {
                    self.forget();
                }
                return [None, news];
            }
            End::Back => {
                self.put_back(entry);
                return [None, news];
            }
        };
        if let Some(read) = &mut self.read {
            read.ended(position);
        }
        [again, news]
    }

    /// Makes rows ready whose deferral is over.
    pub(crate) fn undefer(&mut self, now: Timestamp) {
        let later = self.deferred.split_off(&(Timestamp(now.0.saturating_add(1)), Position::MIN));
        for entry in std::mem::replace(&mut self.deferred, later).into_values() {
            self.put_back(entry);
        }
    }

    pub(crate) fn front(&self) -> Option<&Entry> {
        self.ready.front().filter(|_| 0 < self.available())
    }

    pub(crate) fn ready(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.ready.iter()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Rows in flight that are not held.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn is_in_flight(&self, position: Position) -> bool {
        self.in_flight.contains_key(&position)
    }

    /// Rows that count against the limit of the target.
    pub(crate) fn busy(&self) -> usize {
        self.running + self.deferred.len()
    }

    pub(crate) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Notes how the store has a deferred row; `false` if it is not deferred.
    pub(crate) fn refresh_deferred(&mut self, entry: Entry) -> bool {
        let known = self.deferred.values_mut().find(|it| it.position == entry.position);
        known.map(|it| *it = entry).is_some()
    }

    pub(crate) fn is_deferred(&self, position: Position) -> bool {
        self.deferred.values().any(|it| it.position == position)
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.read.is_some()
    }

    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    pub(crate) fn next_due(&self) -> Timestamp {
        self.next_due
    }

    /// Whether a row in flight may have others before it, in the order of positions.
    pub(crate) fn has_before(&self, position: Position) -> bool {
        let is_before = self.ready.front().is_some_and(|it| it.position < position);
        is_before || self.horizon.position < position || self.read.is_some()
    }

    /// Whether nothing of it has to be remembered.
    pub(crate) fn is_idle(&self) -> bool {
        let is_empty = self.ready.is_empty() && self.in_flight.is_empty();
        is_empty && self.deferred.is_empty() && self.read.is_none() && !self.more
    }

    /// Whether the window covers a row, so that it will be delivered.
    pub(crate) fn covers(&self, entry: &Entry) -> bool {
        let is_read = self.more || self.read.is_some() || self.next_due <= entry.due_at;
        self.known().any(|it| it == entry.position) || is_read && self.horizon < self.key(entry)
    }
}

fn before(key: DueCursor) -> DueCursor {
    DueCursor { position: key.position - 1, ..key }
}
