//! Slots of connections. When all are taken, the server closes the connection that has kept it
//! waiting longest.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// While all connections are busy, interval of checks for one that waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// All slots of one port.
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Mutex<HashMap<u64, Arc<Taken>>>,
    /// The last number of a connection or a wait: of two waits, the lower one began earlier.
    last: AtomicU64,
    /// Number of connections that are closed at once.
    cut_count: usize,
}

impl Places {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(count)),
            taken: Mutex::default(),
            last: AtomicU64::new(0),
            cut_count: (count / 16).max(1),
        })
    }

    /// Waits for a slot for an accepted connection.
    pub(super) async fn take(self: &Arc<Self>) -> Seat {
        loop {
            if let Ok(permit) = self.free.clone().try_acquire_owned() {
                return self.seat(permit);
            }
            self.cut_longest_waits();
            let freed = tokio::time::timeout(LOOK_EVERY, self.free.clone().acquire_owned()).await;
            // The semaphore is never closed.
            if let Ok(Ok(permit)) = freed {
                return self.seat(permit);
            }
        }
    }

    fn seat(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Seat {
        let number = self.next();
        let taken = Arc::new(Taken {
            number,
            permit: Mutex::new(Some(permit)),
            cut: CancellationToken::new(),
            reading_since: AtomicU64::new(0),
            writing_since: AtomicU64::new(0),
            slow: AtomicBool::new(false),
        });
        self.lock().insert(number, taken.clone());
        Seat { places: self.clone(), taken }
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Closes several connections at once: when all slots are taken, more clients are connecting.
    fn cut_longest_waits(&self) {
        let mut taken = self.lock();
        let waits = taken.values().filter_map(|it| Some((it.waits_since()?, it.number)));
        let mut waits: Vec<_> = waits.collect();
        waits.sort_unstable();
        waits.truncate(self.cut_count);
        for (_, number) in &waits {
            if let Some(longest) = taken.remove(number) {
                longest.cut.cancel();
            }
        }
        if !waits.is_empty() {
            let count = waits.len();
            tracing::debug!(
                count,
                "all connection slots are taken; closed the connections that waited longest"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Taken>>> {
        self.taken.lock()
    }
}

struct Taken {
    number: u64,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    cut: CancellationToken,
    /// Number of the current wait for bytes from the client; 0 if there is none.
    reading_since: AtomicU64,
    /// Number of the current wait until the client reads.
    writing_since: AtomicU64,
    /// The body of the last request did not arrive in time.
    slow: AtomicBool,
}

impl Taken {
    fn waits_since(&self) -> Option<u64> {
        let marks = [&self.reading_since, &self.writing_since];
        marks.into_iter().map(|it| it.load(Ordering::Relaxed)).filter(|it| *it != 0).min()
    }
}

/// The slot of one connection.
#[derive(Clone)]
pub(crate) struct Seat {
    places: Arc<Places>,
    taken: Arc<Taken>,
}

impl Seat {
    /// Releases the slot early, for a connection that is counted elsewhere.
    pub(crate) fn leave(&self) {
        self.places.lock().remove(&self.taken.number);
        self.taken.permit.lock().take();
    }

    /// Closes the connection at once: a client that does not read cannot receive an error.
    pub(crate) fn cut(&self) {
        self.taken.cut.cancel();
    }

    /// Returns when the connection must be closed.
    pub(super) async fn is_cut(&self) {
        self.taken.cut.cancelled().await;
    }

    /// Whether the body of the request did not arrive in time.
    pub(crate) fn was_slow(&self) -> bool {
        self.taken.slow.load(Ordering::Relaxed)
    }

    pub(super) fn note_slow(&self, is_slow: bool) {
        self.taken.slow.store(is_slow, Ordering::Relaxed);
    }

    /// Begins a wait for bytes from the client.
    pub(super) fn waits_to_read(&self) {
        self.mark(&self.taken.reading_since);
    }

    /// Ends it.
    pub(super) fn has_read(&self) {
        self.taken.reading_since.store(0, Ordering::Relaxed);
    }

    /// Begins a wait until the client reads.
    pub(super) fn waits_to_write(&self) {
        self.mark(&self.taken.writing_since);
    }

    /// Ends it.
    pub(super) fn has_written(&self) {
        self.taken.writing_since.store(0, Ordering::Relaxed);
    }

    /// A continued wait keeps its number.
    fn mark(&self, wait: &AtomicU64) {
        let next = self.places.next();
        let _ = wait.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests a slot in vain once, for which a connection is closed.
    async fn knock(places: &Arc<Places>, cut: &Seat) {
        let taken = tokio::time::timeout(Duration::ZERO, places.take()).await;
        assert!(taken.is_err() && cut.taken.cut.is_cancelled());
    }

    #[tokio::test]
    async fn the_longest_wait_is_closed_and_busy_connections_stay() {
        let places = Places::new(3);
        let (works, reads, writes) =
            (places.take().await, places.take().await, places.take().await);
        writes.waits_to_write();
        reads.waits_to_read();
        knock(&places, &writes).await;
        assert!(!reads.taken.cut.is_cancelled() && !works.taken.cut.is_cancelled());
        writes.leave();
        let next = places.take().await;
        // `reads` has received bytes: its new wait is the latest.
        next.waits_to_read();
        reads.has_read();
        reads.waits_to_read();
        knock(&places, &next).await;
        assert!(!reads.taken.cut.is_cancelled() && !works.taken.cut.is_cancelled());
    }

    #[tokio::test]
    async fn a_new_connection_waits_while_all_are_busy() {
        let places = Places::new(1);
        let works = places.take().await;
        let mut next = std::pin::pin!(places.take());
        assert!(tokio::time::timeout(2 * LOOK_EVERY, &mut next).await.is_err());
        assert!(!works.taken.cut.is_cancelled());
        works.waits_to_read();
        knock(&places, &works).await;
        works.leave();
        next.await;
    }
}
