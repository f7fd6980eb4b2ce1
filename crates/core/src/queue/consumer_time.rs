//! The timeout of a consumer. The wait for the mailbox of an object does not count: the consumer
//! cannot shorten it.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::StoreClock;
use tokio::sync::Notify;

/// The elapsed time of one delivery.
#[derive(Clone)]
pub(super) struct ConsumerTime(Arc<Shared>);

struct Shared {
    clock: Arc<StoreClock>,
    began: Duration,
    paused: Mutex<Paused>,
    changed: Notify,
}

#[derive(Default)]
struct Paused {
    /// The number of waits in progress, and since when there are any.
    waiting: usize,
    since: Duration,
    /// The duration of earlier waits.
    total: Duration,
}

/// While it exists, time does not count.
pub(super) struct TimePause(Arc<Shared>);

impl ConsumerTime {
    /// Starts to count.
    pub(super) fn new(clock: Arc<StoreClock>) -> Self {
        let (paused, changed) = (Mutex::default(), Notify::new());
        let began = clock.elapsed();
        Self(Arc::new(Shared { clock, began, paused, changed }))
    }

    pub(super) fn pause(&self) -> TimePause {
        let mut paused = self.0.lock();
        if paused.waiting == 0 {
            paused.since = self.0.clock.elapsed();
        }
        paused.waiting += 1;
        TimePause(self.0.clone())
    }

    /// Returns when this much time has counted.
    pub(super) async fn over(&self, timeout: Duration) {
        let shared = &*self.0;
        loop {
            let changed = shared.changed.notified();
            let (is_paused, total) = {
                let paused = shared.lock();
                (0 < paused.waiting, paused.total)
            };
            if is_paused {
                changed.await;
                continue;
            }
            let spent = shared.clock.elapsed().saturating_sub(shared.began + total);
            let left = timeout.saturating_sub(spent);
            if left.is_zero() {
                return;
            }
            // A pause that begins meanwhile is noticed after this sleep.
            shared.clock.sleep(left).await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Paused> {
        self.paused.lock()
    }
}

impl Drop for TimePause {
    fn drop(&mut self) {
        let mut paused = self.0.lock();
        paused.waiting -= 1;
        if paused.waiting == 0 {
            let waited = self.0.clock.elapsed().saturating_sub(paused.since);
            paused.total += waited;
            self.0.changed.notify_one();
        }
    }
}
