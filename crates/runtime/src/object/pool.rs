//! The threads that run turns. A turn is synchronous and may take long, so it has a thread to
//! itself; objects that have something to do wait for the next free one.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{cell::Cell, held::Held};

/// Commits that a thread holds back while it has turns to run.
const HELD_MAX: usize = 64;

/// For so long at most, while a thread is idle.
const MOMENT: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(super) struct Pool {
    queue: Mutex<Queue>,
    wake: Condvar,
}

/// Objects that somebody waits for are taken first, but only so many before one of the others.
const ASKED_IN_A_ROW: usize = 4;

#[derive(Default)]
struct Queue {
    ready: Ready<Arc<Cell>>,
    /// Objects whose commits wait for company. They are shared: if one thread is caught in a long
    /// turn, the next that ends one lets them go.
    held: Vec<Held>,
    /// How many commits that are.
    commits: usize,
    /// Threads that run turns.
    running: usize,
    /// Threads that wait for something to do.
    idle: usize,
    stopped: bool,
}

/// Objects that have something to do.
struct Ready<T> {
    /// Those that somebody waits for.
    asked: VecDeque<T>,
    /// Those with deliveries only, which can be many, and nobody looks at the clock.
    others: VecDeque<T>,
    /// How many of the first were taken in a row.
    in_a_row: usize,
}

impl<T> Default for Ready<T> {
    fn default() -> Self {
        Self { asked: VecDeque::new(), others: VecDeque::new(), in_a_row: 0 }
    }
}

impl<T> Ready<T> {
    fn push(&mut self, it: T, is_asked: bool) {
        if is_asked { self.asked.push_back(it) } else { self.others.push_back(it) }
    }

    fn take(&mut self) -> Option<T> {
        let is_enough = ASKED_IN_A_ROW <= self.in_a_row && !self.others.is_empty();
        let asked = if is_enough { None } else { self.asked.pop_front() };
        self.in_a_row = if asked.is_some() { self.in_a_row + 1 } else { 0 };
        asked.or_else(|| self.others.pop_front())
    }

    /// Somebody waits for one that is among the others.
    fn promote(&mut self, is_it: impl Fn(&T) -> bool) {
        let found = self.others.iter().position(is_it);
        self.asked.extend(found.and_then(|at| self.others.remove(at)));
    }

    fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.others.is_empty()
    }

    fn clear(&mut self) {
        self.asked.clear();
        self.others.clear();
    }
}

impl Queue {
    fn release(&mut self) -> Vec<Held> {
        self.commits = 0;
        std::mem::take(&mut self.held)
    }
}

impl Pool {
    pub(super) fn start(threads: usize) -> std::io::Result<Arc<Self>> {
        let pool = Arc::new(Self::default());
        for number in 0..threads.max(1) {
            let pool = pool.clone();
            let thread = std::thread::Builder::new().name(format!("turns-{number}"));
            thread.spawn(move || pool.run())?;
        }
        Ok(pool)
    }

    /// Has the turns of an object run, before those of others if somebody waits for it.
    pub(super) fn push(&self, cell: Arc<Cell>, is_asked: bool) {
        self.lock().ready.push(cell, is_asked);
        self.wake.notify_one();
    }

    /// Somebody waits for an object that is in the queue already.
    pub(super) fn promote(&self, cell: &Arc<Cell>) {
        self.lock().ready.promote(|it| Arc::ptr_eq(it, cell));
    }

    /// Lets the threads end when they have finished their turns.
    pub(super) fn stop(&self) {
        let mut queue = self.lock();
        queue.stopped = true;
        queue.ready.clear();
        drop(queue);
        self.wake.notify_all();
    }

    fn run(&self) {
        while let Some((next, released)) = self.next() {
            released.into_iter().for_each(Held::release);
            let Some(cell) = next else { continue };
            let held = cell.work();
            let mut queue = self.lock();
            queue.running -= 1;
            if let Some(held) = held {
                queue.commits += held.len();
                queue.held.push(held);
            }
            // Should the next turn here take long, another thread lets them go.
            if 0 < queue.idle && !queue.ready.is_empty() {
                self.wake.notify_one();
            }
        }
    }

    /// What to run and what to let go; `None` when all is over. Whoever ends the last turn lets
    /// everything go; who was idle does, too, after a moment.
    fn next(&self) -> Option<(Option<Arc<Cell>>, Vec<Held>)> {
        let mut queue = self.lock();
        let mut patience = true;
        loop {
            if let Some(cell) = queue.ready.take() {
                queue.running += 1;
                // Nobody's reply waits for a turn that may take long.
                let release = cell.is_slow() || HELD_MAX <= queue.commits;
                let released = if release { queue.release() } else { Vec::new() };
                return Some((Some(cell), released));
            }
            if !queue.held.is_empty() && (queue.running == 0 || !patience || queue.stopped) {
                return Some((None, queue.release()));
            }
            if queue.stopped {
                return None;
            }
            queue.idle += 1;
            if queue.held.is_empty() {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            } else {
                let waited = self.wake.wait_timeout(queue, MOMENT);
                let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                queue = back;
                patience = !timeout.timed_out();
            }
            queue.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_waited_for_comes_first_and_the_others_come_all_the_same() {
        let mut ready = Ready::default();
        (0..3).for_each(|it| ready.push(it, false));
        (10..20).for_each(|it| ready.push(it, true));
        let order: Vec<i32> = std::iter::from_fn(|| ready.take()).collect();
        assert_eq!(order, [10, 11, 12, 13, 0, 14, 15, 16, 17, 1, 18, 19, 2]);
        assert!(ready.is_empty());
    }

    #[test]
    fn one_that_is_asked_later_goes_over_once() {
        let mut ready = Ready::default();
        (0..4).for_each(|it| ready.push(it, false));
        ready.promote(|it| *it == 2);
        ready.promote(|it| *it == 2);
        let order: Vec<i32> = std::iter::from_fn(|| ready.take()).collect();
        assert_eq!(order, [2, 0, 1, 3]);
    }
}
