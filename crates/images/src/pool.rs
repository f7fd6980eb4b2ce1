//! A few threads for work that keeps a processor busy, and a queue in front of them.

use std::{
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that decode and classify. Clones share them; they end with the last one.
///
/// However many wait, only as much is in memory as the threads work on and one more for each: those
/// who wait have not handed anything over yet.
#[derive(Clone, Debug)]
pub struct Pool {
    jobs: Sender<Job>,
    places: Arc<Semaphore>,
    threads: usize,
}

/// Work that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// No thread could be started.
    #[error("cannot start a thread: {reason}")]
    Start {
        /// The error of the system.
        reason: String,
    },
    /// The work ended in a panic.
    #[error("work ended unexpectedly; the log has more")]
    Panicked,
}

impl Pool {
    /// A pool with so many threads, one at least.
    pub fn new(name: &str, threads: usize) -> Result<Self, PoolError> {
        let threads = threads.max(1);
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for index in 0..threads {
            let queue = Arc::clone(&queue);
            let thread = thread::Builder::new().name(format!("{name}-{index}"));
            let started = thread.spawn(move || work(&queue));
            started.map_err(|error| PoolError::Start { reason: error.to_string() })?;
        }
        Ok(Self { jobs, places: Arc::new(Semaphore::new(2 * threads)), threads })
    }

    /// As many threads as the machine has processors, but not more than eight: each classification
    /// has helpers of its own.
    pub fn for_this_machine(name: &str) -> Result<Self, PoolError> {
        Self::new(name, thread::available_parallelism().map_or(1, NonZero::get).min(8))
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Waits for a place, then makes the work and runs it on a thread.
    ///
    /// Work takes what it needs along when it has its place, not before. If the caller drops the
    /// future, work that has not begun is cancelled.
    pub async fn run<T, W>(&self, work: impl FnOnce() -> W) -> Result<T, PoolError>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        // Nobody closes the places while `self` is there.
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| PoolError::Panicked)?;
        let work = work();
        let (sender, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            // The place is given back when the work is done, even if the caller is gone.
            let _place = place;
            if sender.is_closed() {
                return;
            }
            // Work owns what it works on, so nobody sees what a panic leaves behind.
            if let Ok(done) = catch_unwind(AssertUnwindSafe(work)) {
                // Nobody waits any more: nothing to tell.
                let _ = sender.send(done);
            }
        });
        self.jobs.send(job).map_err(|_| PoolError::Panicked)?;
        result.await.map_err(|_| PoolError::Panicked)
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().recv();
        match job {
            Ok(job) => job(),
            Err(_) => return, // the pool is gone
        }
    }
}

#[cfg(test)]
mod tests;
