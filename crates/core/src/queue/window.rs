//! Messages of one queue that were read and wait: their rows in a window, and their bodies. A pure
//! structure without I/O or clock. Memory is bounded: it holds a page.

use std::collections::HashMap;

use steadfast_store::{DueCursor, Position, QueuedMessage, Timestamp, Work};

use crate::dispatch::window::{End, Entry, Rest, Window};

#[derive(Debug)]
pub(super) struct QueueWindow {
    window: Window,
    /// The messages of ready rows.
    messages: HashMap<Position, QueuedMessage>,
}

impl Default for QueueWindow {
    fn default() -> Self {
        Self { window: Window::of_reads(), messages: HashMap::new() }
    }
}

impl QueueWindow {
    /// Processes a notice of written work.
    pub(super) fn on_work(&mut self, work: &Work, now: Timestamp) {
        if self.window.learn(Entry::of(work)) {
            self.window.place(Entry::of(work), now);
        }
    }

    /// Records in advance that a message will be due then, before the notice arrives.
    pub(super) fn expect(&mut self, position: Position, due_at: Timestamp, now: Timestamp) {
        if !self.window.is_in_flight(position) {
            self.window.place(Entry { position, due_at, attempts: 0 }, now);
        }
    }

    /// Reads all due messages again.
    pub(super) fn look_again(&mut self) {
        self.window.read_again();
    }

    /// Clears the ready messages: they are read again, and those in flight when they end, even if
    /// notices were lost.
    pub(super) fn start_over(&mut self) {
        self.window.forget();
        self.window.doubt();
    }

    /// Whether there is room and something to read.
    pub(super) fn would_read(&self, wanted: usize, now: Timestamp) -> bool {
        self.window.would_read(wanted, now)
    }

    /// The cursor to read from, if there is room and something to read. The result goes to `read`
    /// or `read_failed`.
    pub(super) fn wants_read(&mut self, wanted: usize, now: Timestamp) -> Option<DueCursor> {
        self.window.begin_read(wanted, now)
    }

    /// Takes in the messages that were due at `until`. With `next`, the store has no more of them,
    /// and `next` is the time at which another one becomes due.
    pub(super) fn read(
        &mut self,
        messages: Vec<QueuedMessage>,
        until: Timestamp,
        next: Option<Timestamp>,
    ) {
        let rows: Vec<Entry> = messages.iter().map(entry).collect();
        self.window.read(&rows, until, next.map_or(Rest::More, Rest::Later));
        let ready: HashMap<Position, ()> =
            self.window.ready().map(|it| (it.position, ())).collect();
        self.messages.retain(|position, _| ready.contains_key(position));
        let is_ready = |it: &QueuedMessage| ready.contains_key(&it.message.position);
        let new = messages.into_iter().filter(is_ready).map(|it| (it.message.position, it));
        self.messages.extend(new);
    }

    /// A read failed; it is repeated.
    pub(super) fn read_failed(&mut self) {
        self.window.read_failed();
    }

    /// The messages that are ready, in order.
    pub(super) fn messages(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.window.ready().filter_map(|it| self.messages.get(&it.position))
    }

    pub(super) fn len(&self) -> usize {
        self.window.ready().len()
    }

    /// Takes the first messages that `fits` accepts; the others stay.
    pub(super) fn take(
        &mut self,
        max: usize,
        mut fits: impl FnMut(&QueuedMessage) -> bool,
    ) -> Vec<QueuedMessage> {
        let Self { window, messages } = self;
        let taken = window.take(max, |it| messages.get(&it.position).is_some_and(&mut fits));
        taken.iter().filter_map(|it| messages.remove(&it.position)).collect()
    }

    /// Holds one message, wherever it is; `false` if it is in flight already.
    pub(super) fn hold(&mut self, queued: &QueuedMessage) -> bool {
        self.window.hold(entry(queued))
    }

    /// A message is no longer in flight.
    pub(super) fn finish(&mut self, position: Position, end: End, now: Timestamp) {
        debug_assert!(!matches!(end, End::Deferred(_) | End::Back), "a queue defers nothing");
        let placed = self.window.finished(position, end);
        placed.into_iter().flatten().for_each(|it| self.window.place(it, now));
    }

    /// Whether it is in flight.
    pub(super) fn is_in_flight(&self, position: Position) -> bool {
        self.window.is_in_flight(position)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.window.in_flight()
    }

    /// The time at which to read again, if nothing happens before.
    pub(super) fn next(&self) -> Timestamp {
        self.window.next_due()
    }
}

fn entry(queued: &QueuedMessage) -> Entry {
    let (due_at, attempts) = (queued.due_at(), queued.attempts);
    Entry { position: queued.message.position, due_at, attempts }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
