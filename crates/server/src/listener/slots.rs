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
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// All slots of one port.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    state: Mutex<HashMap<u64, Arc<SlotState>>>,
    /// The last number of a connection or a wait: of two waits, the lower one began earlier.
    last: AtomicU64,
    /// Number of connections that are closed at once.
    close_count: usize,
}

impl ConnectionSlots {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(count)),
            state: Mutex::default(),
            last: AtomicU64::new(0),
            close_count: (count / 16).max(1),
        })
    }

    /// Waits for a slot for an accepted connection.
    pub(super) async fn take(self: &Arc<Self>) -> ConnectionSlot {
        loop {
            if let Ok(permit) = self.free.clone().try_acquire_owned() {
                return self.slot(permit);
            }
            self.close_longest_waits();
            let freed =
                tokio::time::timeout(POLL_INTERVAL, self.free.clone().acquire_owned()).await;
            // The semaphore is never closed.
            if let Ok(Ok(permit)) = freed {
                return self.slot(permit);
            }
        }
    }

    fn slot(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> ConnectionSlot {
        let number = self.next();
        let state = Arc::new(SlotState {
            number,
            permit: Mutex::new(Some(permit)),
            close: CancellationToken::new(),
            reading_since: AtomicU64::new(0),
            writing_since: AtomicU64::new(0),
            slow: AtomicBool::new(false),
        });
        self.lock().insert(number, state.clone());
        ConnectionSlot { slots: self.clone(), state }
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Closes several connections at once: when all slots are taken, more clients are connecting.
    fn close_longest_waits(&self) {
        let mut state = self.lock();
        let waits = state.values().filter_map(|it| Some((it.waits_since()?, it.number)));
        let mut waits: Vec<_> = waits.collect();
        waits.sort_unstable();
        waits.truncate(self.close_count);
        for (_, number) in &waits {
            if let Some(longest) = state.remove(number) {
                longest.close.cancel();
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

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<SlotState>>> {
        self.state.lock()
    }
}

struct SlotState {
    number: u64,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    close: CancellationToken,
    /// Number of the current wait for bytes from the client; 0 if there is none.
    reading_since: AtomicU64,
    /// Number of the current wait until the client reads.
    writing_since: AtomicU64,
    /// The body of the last request did not arrive in time.
    slow: AtomicBool,
}

impl SlotState {
    fn waits_since(&self) -> Option<u64> {
        let marks = [&self.reading_since, &self.writing_since];
        marks.into_iter().map(|it| it.load(Ordering::Relaxed)).filter(|it| *it != 0).min()
    }
}

/// The slot of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    state: Arc<SlotState>,
}

impl ConnectionSlot {
    /// Releases the slot early, for a connection that is counted elsewhere.
    pub(crate) fn release(&self) {
        self.slots.lock().remove(&self.state.number);
        self.state.permit.lock().take();
    }

    /// Closes the connection at once: a client that does not read cannot receive an error.
    pub(crate) fn close(&self) {
        self.state.close.cancel();
    }

    /// Returns when the connection must be closed.
    pub(super) async fn closed(&self) {
        self.state.close.cancelled().await;
    }

    /// Whether the body of the request did not arrive in time.
    pub(crate) fn was_slow(&self) -> bool {
        self.state.slow.load(Ordering::Relaxed)
    }

    pub(super) fn note_slow(&self, is_slow: bool) {
        self.state.slow.store(is_slow, Ordering::Relaxed);
    }

    /// Begins a wait for bytes from the client.
    pub(super) fn waits_to_read(&self) {
        self.mark(&self.state.reading_since);
    }

    /// Ends it.
    pub(super) fn has_read(&self) {
        self.state.reading_since.store(0, Ordering::Relaxed);
    }

    /// Begins a wait until the client reads.
    pub(super) fn waits_to_write(&self) {
        self.mark(&self.state.writing_since);
    }

    /// Ends it.
    pub(super) fn has_written(&self) {
        self.state.writing_since.store(0, Ordering::Relaxed);
    }

    /// A continued wait keeps its number.
    fn mark(&self, wait: &AtomicU64) {
        let next = self.slots.next();
        let _ = wait.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests a slot in vain once, for which a connection is closed.
    async fn request_in_vain(slots: &Arc<ConnectionSlots>, close: &ConnectionSlot) {
        let state = tokio::time::timeout(Duration::ZERO, slots.take()).await;
        assert!(state.is_err() && close.state.close.is_cancelled());
    }

    #[tokio::test]
    async fn the_longest_wait_is_closed_and_busy_connections_stay() {
        let slots = ConnectionSlots::new(3);
        let (works, reads, writes) = (slots.take().await, slots.take().await, slots.take().await);
        writes.waits_to_write();
        reads.waits_to_read();
        request_in_vain(&slots, &writes).await;
        assert!(!reads.state.close.is_cancelled() && !works.state.close.is_cancelled());
        writes.release();
        let next = slots.take().await;
        // `reads` has received bytes: its new wait is the latest.
        next.waits_to_read();
        reads.has_read();
        reads.waits_to_read();
        request_in_vain(&slots, &next).await;
        assert!(!reads.state.close.is_cancelled() && !works.state.close.is_cancelled());
    }

    #[tokio::test]
    async fn a_new_connection_waits_while_all_are_busy() {
        let slots = ConnectionSlots::new(1);
        let works = slots.take().await;
        let mut next = std::pin::pin!(slots.take());
        assert!(tokio::time::timeout(2 * POLL_INTERVAL, &mut next).await.is_err());
        assert!(!works.state.close.is_cancelled());
        works.waits_to_read();
        request_in_vain(&slots, &works).await;
        works.release();
        next.await;
    }
}
