//! Places of connections. When all are taken, the server ends waits for clients. On a connection
//! without a place only health checks and operators are served.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Time for connections whose wait was ended to release their places.
const RELEASE_TIME: Duration = Duration::from_millis(500);

/// Attempts to get a place for a request by ending waits.
const ATTEMPTS: usize = 5;

/// A body that did not arrive for this time may be given up.
const BODY_WAIT: Duration = Duration::from_secs(1);

/// All places of one port.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    /// Connections without a place.
    extra: Arc<Semaphore>,
    state: Mutex<HashMap<u64, Arc<SlotState>>>,
    /// The last number of a connection.
    last: AtomicU64,
    since: Instant,
    /// Number of connections without a request that are ended at once.
    end_count: usize,
    /// A new connection that has sent no request for this time may be closed.
    silence: Duration,
}

impl ConnectionSlots {
    pub(super) fn new(count: usize, silence: Duration) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(count)),
            extra: Arc::new(Semaphore::new(extra(count))),
            state: Mutex::default(),
            last: AtomicU64::new(0),
            since: Instant::now(),
            end_count: (count / 16).max(1),
            silence,
        })
    }

    /// The slot of an accepted connection: with a place if one is free, else without, while waits
    /// for other clients end.
    pub(super) async fn take(self: &Arc<Self>) -> ConnectionSlot {
        loop {
            if let Ok(place) = self.free.clone().try_acquire_owned() {
                return self.slot(place, true);
            }
            self.end_longest_waits();
            let (place, extra) = (self.free.clone(), self.extra.clone());
            let any = async {
                tokio::select! {
                    biased;
                    extra = extra.acquire_owned() => (extra, false),
                    place = place.acquire_owned() => (place, true),
                }
            };
            // The semaphores are never closed.
            if let Ok((Ok(permit), has_place)) = tokio::time::timeout(RELEASE_TIME, any).await {
                return self.slot(permit, has_place);
            }
        }
    }

    fn slot(self: &Arc<Self>, permit: OwnedSemaphorePermit, has_place: bool) -> ConnectionSlot {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let state = Arc::new(SlotState {
            number,
            permit: Mutex::new(Some(permit)),
            has_place: AtomicBool::new(has_place),
            close: CancellationToken::new(),
            evict: CancellationToken::new(),
            finish: CancellationToken::new(),
            hurry: CancellationToken::new(),
            accepted_at: self.now(),
            has_served: AtomicBool::new(false),
            head_since: AtomicU64::new(0),
            body_since: AtomicU64::new(0),
            slow: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        self.lock().insert(number, state.clone());
        ConnectionSlot { slots: self.clone(), state }
    }

    /// Microseconds, never 0.
    fn now(&self) -> u64 {
        self.since.elapsed().as_micros() as u64 + 1
    }

    /// Ends waits for clients when all places are taken: for requests, of several connections at
    /// once, because more clients are connecting; else for the body that has waited longest.
    /// `false` if no connection waits.
    fn end_longest_waits(&self) -> bool {
        let (mut state, now) = (self.lock(), self.now());
        let any_waits = state.values().any(|it| it.waits_for_head() || it.waits_for_body());
        let age = |it: u64| Duration::from_micros(now.saturating_sub(it));
        let is_old = |it: &&Arc<SlotState>| it.has_served() || self.silence <= age(it.accepted_at);
        let heads = state.values().filter(|it| it.waits_for_head()).filter(is_old);
        let mut waits: Vec<_> = heads.map(|it| (load(&it.head_since), it.number)).collect();
        waits.sort_unstable();
        waits.truncate(self.end_count);
        if waits.is_empty() {
            let bodies = state.values().filter(|it| it.waits_for_body());
            let bodies = bodies.map(|it| (load(&it.body_since), it.number));
            waits.extend(bodies.min().filter(|it| BODY_WAIT <= age(it.0)));
        }
        for (_, number) in &waits {
            if let Some(longest) = state.remove(number) {
                longest.end();
            }
        }
        if !waits.is_empty() {
            let count = waits.len();
            tracing::debug!(count, "all places are taken; the longest waits for clients ended");
        }
        any_waits
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<SlotState>>> {
        self.state.lock()
    }
}

/// The number of connections beside this many places.
pub(super) fn extra(places: usize) -> usize {
    (places / 4).max(1)
}

fn load(since: &AtomicU64) -> u64 {
    since.load(Ordering::Relaxed)
}

struct SlotState {
    number: u64,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    has_place: AtomicBool,
    /// Closes the connection at once.
    close: CancellationToken,
    /// Closes it if it has not sent a request.
    evict: CancellationToken,
    /// Closes it when no request is in flight.
    finish: CancellationToken,
    /// Ends the wait for the body of a request, which is answered.
    hurry: CancellationToken,
    accepted_at: u64,
    has_served: AtomicBool,
    /// When the current wait for the head of a request began; 0 if there is none.
    head_since: AtomicU64,
    /// The same for bytes of a body.
    body_since: AtomicU64,
    /// The body of the last request did not arrive in time.
    slow: AtomicBool,
    /// The access of its sender ended while it arrived.
    ended: AtomicBool,
}

impl SlotState {
    fn waits_for_head(&self) -> bool {
        load(&self.head_since) != 0
    }

    fn waits_for_body(&self) -> bool {
        load(&self.body_since) != 0
    }

    fn has_served(&self) -> bool {
        self.has_served.load(Ordering::Relaxed)
    }

    fn end(&self) {
        if self.waits_for_body() {
            // The answer may be the last: the next body must not be given up.
            self.finish.cancel();
            self.hurry.cancel();
        } else if self.has_served() {
            self.finish.cancel();
        } else {
            self.evict.cancel();
        }
    }
}

/// The slot of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    state: Arc<SlotState>,
}

impl ConnectionSlot {
    /// Whether it has a place, or takes one that is free.
    pub(super) fn has_place(&self) -> bool {
        if self.state.has_place.load(Ordering::Relaxed) {
            return true;
        }
        let free = self.slots.free.clone().try_acquire_owned();
        free.map(|it| self.keep_place(it)).is_ok()
    }

    /// Waits for a place for a short time, while waits for other clients end.
    pub(crate) async fn gets_place(&self) -> bool {
        for attempt in 0..ATTEMPTS {
            if self.has_place() {
                return true;
            }
            let any_waits = self.slots.end_longest_waits();
            let free = self.slots.free.clone().acquire_owned();
            // The semaphores are never closed.
            if let Ok(Ok(place)) = tokio::time::timeout(RELEASE_TIME, free).await {
                self.keep_place(place);
                return true;
            }
            // At first, requests that will wait for their bodies may still be on their way.
            if !any_waits && attempt != 0 {
                break;
            }
        }
        false
    }

    fn keep_place(&self, place: OwnedSemaphorePermit) {
        *self.state.permit.lock() = Some(place);
        self.state.has_place.store(true, Ordering::Relaxed);
    }

    /// Releases the place early, for a connection that is counted elsewhere.
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

    /// Returns when the connection must be closed unless it has sent a request by now.
    pub(super) async fn evicted(&self) {
        self.state.evict.cancelled().await;
    }

    /// Whether it has never sent a request.
    pub(super) fn is_silent(&self) -> bool {
        self.state.waits_for_head() && !self.state.has_served()
    }

    /// Returns when the connection must be closed as soon as no request is in flight.
    pub(super) async fn finished(&self) {
        self.state.finish.cancelled().await;
    }

    /// Cancelled when the server waits no longer for the body of a request.
    pub(super) fn hurry(&self) -> CancellationToken {
        self.state.hurry.clone()
    }

    /// Whether the body of the request did not arrive in time.
    pub(crate) fn was_slow(&self) -> bool {
        self.state.slow.load(Ordering::Relaxed)
    }

    pub(super) fn note_slow(&self, is_slow: bool) {
        self.state.slow.store(is_slow, Ordering::Relaxed);
    }

    /// Whether the access of the sender ended while the body arrived.
    pub(crate) fn was_ended(&self) -> bool {
        self.state.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn note_ended(&self, is_ended: bool) {
        self.state.ended.store(is_ended, Ordering::Relaxed);
    }

    /// Begins the wait for the first request.
    pub(super) fn waits_for_head(&self) {
        self.mark(&self.state.head_since);
    }

    /// Begins the wait for the next request.
    pub(super) fn has_answered(&self) {
        self.state.has_served.store(true, Ordering::Relaxed);
        self.mark(&self.state.head_since);
    }

    /// A request has arrived: the connection stays until it is answered.
    pub(super) fn has_head(&self) {
        self.state.head_since.store(0, Ordering::Relaxed);
        self.note_slow(false);
        self.note_ended(false);
    }

    /// Begins a wait for bytes of a body.
    pub(super) fn waits_for_body(&self) {
        self.mark(&self.state.body_since);
    }

    /// Ends it.
    pub(super) fn has_body(&self) {
        self.state.body_since.store(0, Ordering::Relaxed);
    }

    /// A continued wait keeps its beginning.
    fn mark(&self, wait: &AtomicU64) {
        let now = self.slots.now();
        let _ = wait.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(10);

    const TICK: Duration = Duration::from_millis(1);

    /// A request on a new connection that gets no place, and ends.
    async fn no_place(slots: &Arc<ConnectionSlots>) {
        let slot = slots.take().await;
        assert!(!slot.gets_place().await);
        slot.release();
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_wait_is_ended_and_requests_in_flight_stay() {
        let slots = ConnectionSlots::new(3, SILENCE);
        let (works, body, idle) = (slots.take().await, slots.take().await, slots.take().await);
        works.has_head();
        body.has_head();
        body.waits_for_body();
        tokio::time::advance(TICK).await;
        idle.waits_for_head();
        idle.has_head();
        idle.has_answered();
        assert!(slots.end_longest_waits());
        assert!(idle.state.finish.is_cancelled() && !idle.state.close.is_cancelled());
        assert!(!body.state.hurry.is_cancelled(), "a connection without a request comes first");
        tokio::time::advance(BODY_WAIT).await;
        assert!(slots.end_longest_waits());
        assert!(body.state.hurry.is_cancelled() && !body.state.close.is_cancelled());
        assert!(!slots.end_longest_waits());
        let tokens = [&works.state.close, &works.state.finish, &works.state.hurry];
        assert!(tokens.iter().all(|it| !it.is_cancelled()), "it is answered");
        idle.release();
        assert!(slots.take().await.gets_place().await);
    }

    #[tokio::test(start_paused = true)]
    async fn of_bodies_only_the_one_that_waits_longest_is_given_up() {
        let slots = ConnectionSlots::new(2, SILENCE);
        let (first, second) = (slots.take().await, slots.take().await);
        first.waits_for_body();
        tokio::time::advance(TICK).await;
        second.waits_for_body();
        tokio::time::advance(TICK).await;
        assert!(slots.end_longest_waits());
        assert!(!first.state.hurry.is_cancelled(), "its next bytes may be on the way");
        tokio::time::advance(BODY_WAIT).await;
        let slot = slots.take().await;
        assert!(first.state.hurry.is_cancelled() && !second.state.hurry.is_cancelled());
        first.release();
        assert!(slot.gets_place().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_is_closed_only_if_it_sends_nothing() {
        let slots = ConnectionSlots::new(1, SILENCE);
        let new = slots.take().await;
        new.waits_for_head();
        assert!(slots.end_longest_waits());
        assert!(!new.state.evict.is_cancelled());
        tokio::time::advance(SILENCE).await;
        assert!(slots.end_longest_waits());
        assert!(new.state.evict.is_cancelled() && new.is_silent());
        assert!(!new.state.close.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_place_is_accepted_at_once_and_takes_one_that_becomes_free() {
        let slots = ConnectionSlots::new(4, SILENCE);
        let mut works = Vec::new();
        for _ in 0..4 {
            works.push(slots.take().await);
        }
        let began = Instant::now();
        let next = slots.take().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "the next client need not wait for it");
        assert!(!next.gets_place().await);
        works[0].release();
        assert!(next.gets_place().await);
        no_place(&slots).await;
        next.release();
        assert!(slots.take().await.gets_place().await);
    }
}
