//! The threads that run turns. A turn is synchronous and may take long, so it has a thread to
//! itself; objects with mail wait for the next free one.
//!
//! Half of the threads run only objects with waiting callers: however many deliveries there are, a
//! call finds a thread. All threads have the same OS priority: a caller may begin to wait for an
//! object while a delivery runs on it.
//!
//! Commits of finished turns are held back for a moment, to share a transaction. A thread of its
//! own submits them when that is over: how long other turns take, or how many threads are free,
//! does not matter.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::priority::{Priority, PriorityQueue};

/// Maximum commits that are held back while there are turns to run.
const HELD_MAX: usize = 64;

/// Maximum batching delay: callers wait for these commits.
pub(super) const DELAY_MAX: Duration = Duration::from_millis(1);

thread_local! {
    static IN_TURN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether this thread runs turns: then it must not wait for another one.
pub(super) fn is_in_turn() -> bool {
    IN_TURN.get()
}

/// Runs turns on this thread.
pub(super) fn in_turn(run: impl FnOnce()) {
    IN_TURN.set(true);
    run();
    IN_TURN.set(false);
}

/// Something that a thread runs.
pub(super) trait Runnable: Send + Sync + 'static {
    type Batch: Batch;

    /// Runs it; the result is held back until it is submitted.
    fn run(self: Arc<Self>) -> Option<Self::Batch>;

    /// Whether it may take long, so that nothing should be held back behind it.
    fn is_slow(&self) -> bool;
}

/// Commits that are held back to share a transaction.
pub(super) trait Batch: Send + 'static {
    fn len(&self) -> usize;

    fn submit(self);
}

/// The objects that a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadRole {
    /// Objects with waiting callers.
    Calls,
    /// All objects.
    All,
}

pub(super) struct Pool<T: Runnable> {
    queue: Mutex<Queue<T>>,
    calls: Condvar,
    all: Condvar,
    /// Batches are held back while turns run.
    late: Condvar,
}

struct Queue<T: Runnable> {
    ready: PriorityQueue<Arc<T>>,
    /// Batches that are held back. They are shared by all threads.
    held: Vec<T::Batch>,
    /// The number of commits in them.
    commits: usize,
    /// Since when the first of them waits.
    since: Option<Instant>,
    /// The thread for late batches knows that some are held back.
    is_watched: bool,
    /// Threads that run turns.
    running: usize,
    /// Threads for calls that wait for something to do.
    idle_for_calls: usize,
    /// And those for all.
    idle_for_all: usize,
    stopped: bool,
}

impl<T: Runnable> Default for Queue<T> {
    fn default() -> Self {
        Self {
            ready: PriorityQueue::default(),
            held: Vec::new(),
            commits: 0,
            since: None,
            is_watched: false,
            running: 0,
            idle_for_calls: 0,
            idle_for_all: 0,
            stopped: false,
        }
    }
}

impl<T: Runnable> Queue<T> {
    fn take(&mut self, role: ThreadRole) -> Option<Arc<T>> {
        match role {
            ThreadRole::Calls => self.ready.take_call(),
            ThreadRole::All => self.ready.take(),
        }
    }

    fn idle(&mut self, role: ThreadRole) -> &mut usize {
        match role {
            ThreadRole::Calls => &mut self.idle_for_calls,
            ThreadRole::All => &mut self.idle_for_all,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "turns take real time, in tests as well")]
    fn hold(&mut self, batch: T::Batch) {
        self.commits += batch.len();
        self.held.push(batch);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Whether the batches must be submitted now.
    fn is_time(&self) -> bool {
        HELD_MAX <= self.commits || self.since.is_some_and(|it| DELAY_MAX <= it.elapsed())
    }

    fn release(&mut self) -> Vec<T::Batch> {
        (self.commits, self.since) = (0, None);
        std::mem::take(&mut self.held)
    }
}

type Next<T> = (Option<Arc<T>>, Vec<<T as Runnable>::Batch>);

impl<T: Runnable> Pool<T> {
    /// Starts this many threads for all objects, and as many for calls.
    pub(super) fn start(threads: usize) -> std::io::Result<Arc<Self>> {
        let (calls, all, late) = (Condvar::new(), Condvar::new(), Condvar::new());
        let pool = Arc::new(Self { queue: Mutex::default(), calls, all, late });
        let submitter = pool.clone();
        let thread = std::thread::Builder::new().name("commits".into());
        thread.spawn(move || submitter.submit_late())?;
        for number in 0..threads.max(1) {
            for (name, role) in [("calls", ThreadRole::Calls), ("turns", ThreadRole::All)] {
                let pool = pool.clone();
                let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
                thread.spawn(move || pool.run(role))?;
            }
        }
        Ok(pool)
    }

    /// Queues something to run.
    pub(super) fn push(&self, it: Arc<T>, priority: Priority) {
        let mut queue = self.queue.lock();
        queue.ready.push(it, priority);
        self.wake(&queue, priority);
    }

    /// Gives something that is in the queue the priority of a call.
    pub(super) fn promote(&self, it: &Arc<T>) {
        let mut queue = self.queue.lock();
        if queue.ready.promote(|other| Arc::ptr_eq(other, it)) {
            self.wake(&queue, Priority::Call);
        }
    }

    /// Wakes an idle thread that may run it, if there is one.
    fn wake(&self, queue: &Queue<T>, priority: Priority) {
        if priority == Priority::Call && 0 < queue.idle_for_calls {
            self.calls.notify_one();
        } else if 0 < queue.idle_for_all {
            self.all.notify_one();
        }
    }

    /// Lets the threads end when they have finished their turns.
    pub(super) fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.stopped = true;
        queue.ready.drain().for_each(drop);
        drop(queue);
        self.calls.notify_all();
        self.all.notify_all();
        self.late.notify_all();
    }

    fn run(&self, role: ThreadRole) {
        while let Some((next, released)) = self.next(role) {
            released.into_iter().for_each(Batch::submit);
            let Some(it) = next else { continue };
            let batch = it.run();
            let mut queue = self.queue.lock();
            queue.running -= 1;
            if let Some(batch) = batch {
                queue.hold(batch);
            }
        }
    }

    /// Submits batches that were held back for long enough while turns run.
    fn submit_late(&self) {
        let mut queue = self.queue.lock();
        while !queue.stopped {
            match queue.since {
                None => {
                    queue.is_watched = false;
                    self.late.wait(&mut queue);
                }
                Some(_) if queue.is_time() => {
                    let released = queue.release();
                    MutexGuard::unlocked(&mut queue, || {
                        released.into_iter().for_each(Batch::submit);
                    });
                }
                Some(since) => _ = self.late.wait_until(&mut queue, since + DELAY_MAX),
            }
        }
    }

    /// Has batches that are held back submitted in time, whatever runs meanwhile.
    fn watch(&self, queue: &mut Queue<T>) {
        if !queue.held.is_empty() && !std::mem::replace(&mut queue.is_watched, true) {
            self.late.notify_one();
        }
    }

    /// The next one to run, and the batches to submit; `None` when the pool has stopped. The thread
    /// that ends the last turn submits everything.
    fn next(&self, role: ThreadRole) -> Option<Next<T>> {
        let wake = match role {
            ThreadRole::Calls => &self.calls,
            ThreadRole::All => &self.all,
        };
        let mut queue = self.queue.lock();
        loop {
            if let Some(it) = queue.take(role) {
                queue.running += 1;
                // No reply waits behind a turn that may take long.
                let release = it.is_slow() || queue.is_time();
                let released = if release { queue.release() } else { Vec::new() };
                self.watch(&mut queue);
                // Several may have been queued before the thread that was woken got the lock.
                if !queue.ready.is_empty() {
                    self.wake(&queue, queue.ready.priority());
                }
                return Some((Some(it), released));
            }
            if !queue.held.is_empty() && (queue.running == 0 || queue.stopped) {
                return Some((None, queue.release()));
            }
            if queue.stopped {
                return None;
            }
            self.watch(&mut queue);
            *queue.idle(role) += 1;
            wake.wait(&mut queue);
            *queue.idle(role) -= 1;
        }
    }
}

/// Replies of other objects do not wait behind a turn that takes longer.
const SLOW_MICROS: u64 = 500;

/// A decaying maximum of turn durations, in microseconds; each quick turn takes an eighth off.
#[derive(Debug, Default)]
pub(super) struct TurnDuration(AtomicU64);

impl TurnDuration {
    #[expect(clippy::disallowed_methods, reason = "turns take real time, in tests as well")]
    pub(super) fn measure<T>(&self, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = run();
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(took.max(before - before / 8), Ordering::Relaxed);
        result
    }

    pub(super) fn is_slow(&self) -> bool {
        SLOW_MICROS < self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Longer than a busy machine pauses.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Reports its start, and ends at a signal, or with the test.
    struct Task {
        name: &'static str,
        began: Sender<&'static str>,
        end: Mutex<Receiver<()>>,
        submitted: Sender<&'static str>,
    }

    struct Commits(&'static str, Sender<&'static str>);

    impl Batch for Commits {
        fn len(&self) -> usize {
            1
        }

        fn submit(self) {
            let _ = self.1.send(self.0);
        }
    }

    impl Runnable for Task {
        type Batch = Commits;

        fn run(self: Arc<Self>) -> Option<Commits> {
            let _ = self.began.send(self.name);
            let _ = self.end.lock().recv();
            Some(Commits(self.name, self.submitted.clone()))
        }

        fn is_slow(&self) -> bool {
            false
        }
    }

    /// Threads for calls and for all, and what they take first.
    fn begins_behind(threads: usize, others: usize) {
        let (began, begins) = channel();
        let (submitted, submits) = channel();
        let pool = Pool::start(threads).unwrap();
        let mut ends = Vec::new();
        let mut push = |name| {
            let (end, ended) = channel();
            ends.push(end);
            let (began, submitted) = (began.clone(), submitted.clone());
            let task = Task { name, began, end: Mutex::new(ended), submitted };
            pool.push(Arc::new(task), Priority::Delivery);
        };
        push("first");
        assert_eq!(begins.recv_timeout(PATIENCE), Ok("first"));
        (0..others).for_each(|_| push("long"));
        // It ends, and each thread for deliveries has one that does not.
        ends[0].send(()).unwrap();
        for _ in 0..threads.min(others) {
            assert_eq!(begins.recv_timeout(PATIENCE), Ok("long"));
        }
        assert_eq!(submits.recv_timeout(PATIENCE), Ok("first"), "the commit waits");
        drop(ends);
        pool.stop();
    }

    #[test]
    fn a_commit_waits_behind_no_other_turn() {
        begins_behind(1, 1);
        begins_behind(2, 3);
        begins_behind(2, 2);
    }

    #[test]
    fn a_class_is_slow_after_a_slow_turn_and_quick_again_after_many_quick_ones() {
        let duration = TurnDuration::default();
        assert!(!duration.is_slow());
        duration.0.store(100_000, Ordering::Relaxed);
        assert!(duration.is_slow());
        (0..100).for_each(|_| duration.measure(|| ()));
        assert!(!duration.is_slow());
    }
}
