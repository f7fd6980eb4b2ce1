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

#[derive(Default)]
struct Queue {
    ready: VecDeque<Arc<Cell>>,
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

    /// Has the turns of an object run.
    pub(super) fn push(&self, cell: Arc<Cell>) {
        self.lock().ready.push_back(cell);
        self.wake.notify_one();
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
            if let Some(cell) = queue.ready.pop_front() {
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
