//! The threads that run turns. A turn is synchronous and may take long, so it has a thread to
//! itself; objects that have something to do wait for the next free one.
//!
//! Half of the threads are only for objects that somebody waits for: however many deliveries there
//! are, a call finds a thread. None of them has a lower priority than the others: while it runs an
//! object, somebody may begin to wait for that.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{cell::Cell, held::Held, precedence::Precedence};
use parking_lot::{Condvar, Mutex, MutexGuard};

/// Commits that are held back while there are turns to run.
const HELD_MAX: usize = 64;

/// For so long at most, give or take a turn: somebody waits for each of them.
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// Objects that somebody waits for.
    Calls,
    /// All of them.
    All,
}

#[derive(Default)]
pub(super) struct Pool {
    queue: Mutex<Queue>,
    calls: Condvar,
    all: Condvar,
}

#[derive(Default)]
struct Queue {
    ready: Precedence<Arc<Cell>>,
    /// Objects whose commits wait for company. They are shared: if one thread is caught in a long
    /// turn, the next that ends one lets them go.
    held: Vec<Held>,
    /// How many commits that are.
    commits: usize,
    /// Since when the first of them waits.
    since: Option<Instant>,
    /// Threads that run turns.
    running: usize,
    /// Threads for calls that wait for something to do.
    idle_for_calls: usize,
    /// And those for all.
    idle_for_all: usize,
    stopped: bool,
}

impl Queue {
    fn take(&mut self, is_for: For) -> Option<Arc<Cell>> {
        match is_for {
            For::Calls => self.ready.take_asked(),
            For::All => self.ready.take(),
        }
    }

    fn idle(&mut self, is_for: For) -> &mut usize {
        match is_for {
            For::Calls => &mut self.idle_for_calls,
            For::All => &mut self.idle_for_all,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "turns take real time, in tests as well")]
    fn hold(&mut self, held: Held) {
        self.commits += held.len();
        self.held.push(held);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Whether those that wait for company have waited enough.
    fn is_time(&self) -> bool {
        HELD_MAX <= self.commits || self.since.is_some_and(|it| MOMENT <= it.elapsed())
    }

    fn release(&mut self) -> Vec<Held> {
        (self.commits, self.since) = (0, None);
        std::mem::take(&mut self.held)
    }
}

impl Pool {
    /// Starts so many threads for all objects, and as many for calls.
    pub(super) fn start(threads: usize) -> std::io::Result<Arc<Self>> {
        let pool = Arc::new(Self::default());
        for number in 0..threads.max(1) {
            for (name, is_for) in [("calls", For::Calls), ("turns", For::All)] {
                let pool = pool.clone();
                let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
                thread.spawn(move || pool.run(is_for))?;
            }
        }
        Ok(pool)
    }

    /// Has the turns of an object run, before those of others if somebody waits for it.
    pub(super) fn push(&self, cell: Arc<Cell>, is_asked: bool) {
        let mut queue = self.lock();
        queue.ready.push(cell, is_asked);
        self.wake(&queue, is_asked);
    }

    /// Somebody waits for an object that is in the queue already.
    pub(super) fn promote(&self, cell: &Arc<Cell>) {
        let mut queue = self.lock();
        if queue.ready.promote(|it| Arc::ptr_eq(it, cell)) {
            self.wake(&queue, true);
        }
    }

    /// Wakes a thread that may take what came, if one sleeps.
    fn wake(&self, queue: &Queue, is_asked: bool) {
        if is_asked && 0 < queue.idle_for_calls {
            self.calls.notify_one();
        } else if 0 < queue.idle_for_all {
            self.all.notify_one();
        }
    }

    /// Lets the threads end when they have finished their turns.
    pub(super) fn stop(&self) {
        let mut queue = self.lock();
        queue.stopped = true;
        queue.ready.drain().for_each(drop);
        drop(queue);
        self.calls.notify_all();
        self.all.notify_all();
    }

    fn run(&self, is_for: For) {
        while let Some((next, released)) = self.next(is_for) {
            released.into_iter().for_each(Held::release);
            let Some(cell) = next else { continue };
            let held = cell.work();
            let mut queue = self.lock();
            queue.running -= 1;
            if let Some(held) = held {
                queue.hold(held);
            }
            // Should the next turn here take long, another thread lets them go.
            if !queue.ready.is_empty() {
                self.wake(&queue, queue.ready.has_asked());
            }
        }
    }

    /// What to run and what to let go; `None` when all is over. Whoever ends the last turn lets
    /// everything go; who was idle does, too, after a moment.
    fn next(&self, is_for: For) -> Option<(Option<Arc<Cell>>, Vec<Held>)> {
        let wake = match is_for {
            For::Calls => &self.calls,
            For::All => &self.all,
        };
        let mut queue = self.lock();
        let mut patience = true;
        loop {
            if let Some(cell) = queue.take(is_for) {
                queue.running += 1;
                // Nobody's reply waits for a turn that may take long.
                let release = cell.is_slow() || queue.is_time();
                let released = if release { queue.release() } else { Vec::new() };
                return Some((Some(cell), released));
            }
            if !queue.held.is_empty() && (queue.running == 0 || !patience || queue.stopped) {
                return Some((None, queue.release()));
            }
            if queue.stopped {
                return None;
            }
            *queue.idle(is_for) += 1;
            if queue.held.is_empty() {
                wake.wait(&mut queue);
            } else {
                patience = !wake.wait_for(&mut queue, MOMENT).timed_out();
            }
            *queue.idle(is_for) -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}
