//! The threads that run turns. A turn is synchronous and may take long, so it has a thread to
//! itself; objects that have something to do wait for the next free one.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{cell::Cell, held::Held};

/// Commits that a thread holds back while it has turns to run.
const HELD_MAX: usize = 48;

#[derive(Default)]
pub(super) struct Pool {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Arc<Cell>>,
    stopped: bool,
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
        let mut held: Vec<Held> = Vec::new();
        let mut commits = 0;
        loop {
            let next = if held.is_empty() { self.wait() } else { self.lock().ready.pop_front() };
            let is_last = next.is_none();
            if is_last && held.is_empty() {
                return;
            }
            // Nobody's reply waits for a turn that may take long.
            if is_last || HELD_MAX <= commits || next.as_ref().is_some_and(|it| it.is_slow()) {
                held.drain(..).for_each(Held::release);
                commits = 0;
            }
            if let Some(cell) = next
                && let Some(worked) = cell.work()
            {
                commits += worked.len();
                held.push(worked);
            }
        }
    }

    fn wait(&self) -> Option<Arc<Cell>> {
        let idle = |queue: &mut Queue| queue.ready.is_empty() && !queue.stopped;
        let waited = self.wake.wait_while(self.lock(), idle);
        waited.unwrap_or_else(PoisonError::into_inner).ready.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
