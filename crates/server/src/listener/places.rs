//! The places of connections. When all are taken, the connection that has kept us waiting longest
//! makes room.

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

/// While all connections work, we look so often for one that waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// All places of one port.
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Mutex<HashMap<u64, Arc<Taken>>>,
    /// The last number of a connection or of a wait: of two waits, the lower began earlier.
    last: AtomicU64,
    /// How many make room at once.
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

    /// A place for a connection that has been accepted.
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

    /// Cuts several at once: where all places are taken, more connections come.
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
                "all places are taken; connections that kept us waiting were cut"
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
    /// The number of our wait for bytes; 0 while we do not wait.
    reading_since: AtomicU64,
    /// The number of our wait until the client takes bytes.
    writing_since: AtomicU64,
    /// The body of the last request did not come in time.
    slow: AtomicBool,
}

impl Taken {
    fn waits_since(&self) -> Option<u64> {
        let marks = [&self.reading_since, &self.writing_since];
        marks.into_iter().map(|it| it.load(Ordering::Relaxed)).filter(|it| *it != 0).min()
    }
}

/// The place of one connection.
#[derive(Clone)]
pub(crate) struct Seat {
    places: Arc<Places>,
    taken: Arc<Taken>,
}

impl Seat {
    /// Leaves the place to the next, for a connection that is counted elsewhere.
    pub(crate) fn leave(&self) {
        self.places.lock().remove(&self.taken.number);
        self.taken.permit.lock().take();
    }

    /// Ends the connection at once: who does not read cannot be told anything.
    pub(crate) fn cut(&self) {
        self.taken.cut.cancel();
    }

    /// Returns when the connection is to end.
    pub(super) async fn is_cut(&self) {
        self.taken.cut.cancelled().await;
    }

    /// Whether the body of the request did not come in time.
    pub(crate) fn was_slow(&self) -> bool {
        self.taken.slow.load(Ordering::Relaxed)
    }

    pub(super) fn note_slow(&self, is_slow: bool) {
        self.taken.slow.store(is_slow, Ordering::Relaxed);
    }

    /// From now on we wait for bytes of the client.
    pub(super) fn waits_to_read(&self) {
        self.mark(&self.taken.reading_since);
    }

    /// The bytes are there.
    pub(super) fn has_read(&self) {
        self.taken.reading_since.store(0, Ordering::Relaxed);
    }

    /// From now on we wait until the client takes bytes.
    pub(super) fn waits_to_write(&self) {
        self.mark(&self.taken.writing_since);
    }

    /// The bytes are taken.
    pub(super) fn has_written(&self) {
        self.taken.writing_since.store(0, Ordering::Relaxed);
    }

    /// A wait that goes on keeps its beginning.
    fn mark(&self, wait: &AtomicU64) {
        let next = self.places.next();
        let _ = wait.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for a place once, in vain; a connection is cut for it.
    async fn knock(places: &Arc<Places>, cut: &Seat) {
        let taken = tokio::time::timeout(Duration::ZERO, places.take()).await;
        assert!(taken.is_err() && cut.taken.cut.is_cancelled());
    }

    #[tokio::test]
    async fn the_longest_wait_makes_room_and_who_works_stays() {
        let places = Places::new(3);
        let (works, reads, writes) =
            (places.take().await, places.take().await, places.take().await);
        writes.waits_to_write();
        reads.waits_to_read();
        knock(&places, &writes).await;
        assert!(!reads.taken.cut.is_cancelled() && !works.taken.cut.is_cancelled());
        writes.leave();
        let next = places.take().await;
        // Bytes come from `reads` again: its wait is that for the last one.
        next.waits_to_read();
        reads.has_read();
        reads.waits_to_read();
        knock(&places, &next).await;
        assert!(!reads.taken.cut.is_cancelled() && !works.taken.cut.is_cancelled());
    }

    #[tokio::test]
    async fn while_all_work_the_next_waits_until_one_waits_for_its_client() {
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
