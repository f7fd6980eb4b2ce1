//! The loop: it asks the index what to do, does it, and tells the index how it went.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use steadfast_store::{
    DueCursor, News, Notice, Position, Store, StoreClock, StoreError, Timestamp, Work,
};
use tokio::{
    sync::{Notify, oneshot, watch},
    task::JoinSet,
};

use super::{
    DispatcherOptions, QueueNews,
    deliver::{Begin, Courier},
    index::{End, Index, TargetKey},
    pools::{Loading, Place},
    turnstile::Turnstile,
};

/// One that was under way when a process ended is delivered alone for so long at most.
const ALONE_MAX: Duration = Duration::from_secs(30);

/// Failed reads, one after the other, after which the loop rests.
const FAILURES: u32 = 3;

/// The part of the loop that the dispatcher reads, too.
pub(super) struct Shared {
    index: Mutex<Index>,
    /// Callers that wait until everything is settled. The loop answers them, and misses no notice.
    waiters: Mutex<Vec<oneshot::Sender<()>>>,
    asked: Notify,
}

impl Shared {
    pub(super) fn new(index: Index) -> Self {
        Self { index: Mutex::new(index), waiters: Mutex::default(), asked: Notify::new() }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<oneshot::Sender<()>>> {
        self.waiters.lock()
    }

    pub(super) async fn settled(&self) {
        let (answer, answered) = oneshot::channel();
        self.waiters().push(answer);
        self.asked.notify_one();
        // An error means that the dispatcher has stopped.
        let _ = answered.await;
    }

    pub(super) fn uncovered(&self, page: &[Work]) -> Vec<Position> {
        let index = self.index();
        page.iter().filter(|work| !index.covers(work)).map(|work| work.position).collect()
    }
}

/// Everything that can end while the loop waits.
enum Ended {
    Delivery(Position, TargetKey, End),
    Blamed(Position, TargetKey, End),
    Scan(Result<Vec<Work>, StoreError>),
    Read(TargetKey, Result<Vec<Work>, StoreError>),
}

pub(super) struct Task {
    store: Arc<dyn Store>,
    clock: Arc<StoreClock>,
    options: DispatcherOptions,
    courier: Arc<Courier>,
    shared: Arc<Shared>,
    queues: Option<Arc<dyn QueueNews>>,
    under_way: JoinSet<Ended>,
    loading: Arc<Loading>,
    /// Places that targets have waited for.
    given: HashMap<TargetKey, Place>,
    /// The end of the last delivery of each target, for which the next one waits.
    turns: HashMap<TargetKey, oneshot::Receiver<()>>,
    /// Messages in flight when a process ended, and the one that is delivered alone, until when.
    blamed: VecDeque<Work>,
    alone: Option<(Position, Timestamp)>,
    /// After failed reads the store gets time to come back.
    rest_until: Timestamp,
    /// Reads that failed, one after the other, and whether the last one will never work here.
    failures: u32,
    is_lost: bool,
}

impl Task {
    pub(super) fn new(
        store: Arc<dyn Store>,
        options: DispatcherOptions,
        courier: Arc<Courier>,
        shared: Arc<Shared>,
        queues: Option<Arc<dyn QueueNews>>,
        blamed: Vec<Work>,
    ) -> Self {
        let (under_way, rest_until) = (JoinSet::new(), Timestamp::MIN);
        let (failures, is_lost) = (0, false);
        Self {
            clock: store.clock().clone(),
            store,
            options,
            courier,
            shared,
            queues,
            under_way,
            loading: Loading::new(options.concurrency),
            given: HashMap::new(),
            turns: HashMap::new(),
            blamed: VecDeque::from(blamed),
            alone: None,
            rest_until,
            failures,
            is_lost,
        }
    }

    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        loop {
            let wake = self.start_what_is_due();
            let clock = self.clock.clone();
            let notices = self.store.notices();
            let (loading, pools) = (self.loading.clone(), self.courier.pools.clone());
            tokio::select! {
                _ = stopping.wait_for(|it| *it) => break,
                Some(ended) = self.under_way.join_next() => {
                    if let Ok(ended) = ended {
                        self.take_in(ended);
                    }
                }
                news = notices.next() => self.hear(news),
                () = self.shared.asked.notified() => {}
                () = loading.freed() => {}
                () = pools.changed() => {}
                () = clock.sleep_until(wake.unwrap_or(Timestamp::MAX)), if wake.is_some() => {}
            }
        }
        self.drain().await;
    }

    /// Starts what can start and returns when to look again.
    fn start_what_is_due(&mut self) -> Option<Timestamp> {
        // Taken before the clock is read: a later caller may have turned the clock.
        let waiters = std::mem::take(&mut *self.shared.waiters());
        let now = self.clock.now();
        let mut index = self.shared.index();
        index.wake(now);
        for (target, place) in self.courier.pools.granted() {
            // Not while something of it may come back: that has to be the next.
            if index.is_blocked(target) && index.unblock(target, now) {
                self.given.insert(target, place);
            }
        }
        while let Some((position, target, is_shared)) = index.take(self.loading.is_free(), now) {
            let loading = is_shared.then(|| self.loading.take());
            let (turn, next) = Turnstile::new(self.turns.remove(&target));
            self.turns.insert(target, next);
            let place = self.given.remove(&target);
            let begin = Begin { position, target, is_blamed: false, loading, place, turn };
            let courier = self.courier.clone();
            self.under_way.spawn(async move {
                let end = courier.deliver(begin).await;
                Ended::Delivery(position, target, end)
            });
        }
        // A target that does not need its place any more gives it to the next.
        self.given.retain(|target, _| index.is_ready(*target));
        let is_alone = self.alone.is_some_and(|(_, until)| now < until);
        if !is_alone && let Some(work) = self.blamed.pop_front() {
            let (position, target) = (work.position, TargetKey::of(&work));
            self.alone = Some((position, now.after(ALONE_MAX)));
            let (turn, _) = Turnstile::new(None);
            let begin =
                Begin { position, target, is_blamed: true, loading: None, place: None, turn };
            let courier = self.courier.clone();
            self.under_way.spawn(async move {
                let end = courier.deliver(begin).await;
                Ended::Blamed(position, target, end)
            });
        }
        let resting = now < self.rest_until;
        if !resting && let Some(cursor) = index.begin_scan(now) {
            self.under_way.spawn(scan(self.store.clone(), cursor, self.options.page));
        }
        while !resting && let Some((key, after)) = index.begin_read(now) {
            let read = read(self.store.clone(), key, after, self.options.window);
            self.under_way.spawn(read);
        }
        // Without a store nothing more happens, however much is due.
        let is_lost = resting && self.is_lost;
        let settled = self.under_way.is_empty() && (is_lost || index.is_settled(now));
        let mut wake = index.wake_at(now);
        if !self.blamed.is_empty() {
            let alone_until = self.alone.map(|(_, until)| until);
            wake = wake.into_iter().chain(alone_until).min();
        }
        drop(index);
        if settled && self.store.notices().is_empty() {
            for waiter in waiters {
                // That nobody waits any more is no matter.
                let _ = waiter.send(());
            }
        } else {
            self.shared.waiters().extend(waiters);
        }
        if resting {
            Some(wake.map_or(self.rest_until, |at| at.min(self.rest_until)))
        } else {
            wake
        }
    }

    fn hear(&mut self, news: News) {
        let now = self.clock.now();
        let mut index = self.shared.index();
        match news {
            News::Notices(notices) => {
                let mut in_queues = Vec::new();
                for notice in &notices {
                    match notice {
                        Notice::Due(work) if work.queued => in_queues.push(*work),
                        Notice::Due(_) | Notice::Unblocked(_) => index.learn(notice, now),
                    }
                }
                self.queues.iter().for_each(|it| it.heard(&in_queues));
            }
            News::Overflow => {
                index.start_over(now);
                self.queues.iter().for_each(|it| it.missed());
            }
        }
    }

    fn take_in(&mut self, ended: Ended) {
        let now = self.clock.now();
        let mut index = self.shared.index();
        let failed = match ended {
            Ended::Delivery(position, target, end) => {
                index.finished(target, position, end, now);
                // The place may have come, and gone to another, before it was wanted here.
                if index.is_blocked(target) && !self.courier.pools.is_waiting(target) {
                    index.unblock(target, now);
                }
                if index.is_at_rest(target) {
                    self.turns.remove(&target);
                }
                None
            }
            Ended::Blamed(position, target, end) => {
                self.alone.take_if(|(it, _)| *it == position);
                // Nobody was refused a place.
                let end = if end == End::NoRoom { End::Deferred(now) } else { end };
                index.finished(target, position, end, now);
                None
            }
            Ended::Scan(Ok(page)) => {
                self.failures = 0;
                index.scanned(&page, page.len() < self.options.page, now);
                None
            }
            Ended::Scan(Err(error)) => {
                index.scan_failed();
                Some(error)
            }
            Ended::Read(key, Ok(works)) => {
                self.failures = 0;
                index.read(key, &works, works.len() < self.options.window, now);
                None
            }
            Ended::Read(key, Err(error)) => {
                index.read_failed(key, now);
                Some(error)
            }
        };
        let Some(error) = failed else { return };
        tracing::warn!(error = %error, "work could not be read");
        self.failures += 1;
        self.is_lost = !error.is_retryable();
        // It may have been a moment; only then is it given time.
        if FAILURES <= self.failures || self.is_lost {
            self.rest_until = now.after(Duration::from_secs(1));
        }
    }

    /// Waits for what is under way; what takes too long is stopped and its lease given back.
    async fn drain(mut self) {
        let finished = async { while self.under_way.join_next().await.is_some() {} };
        tokio::select! {
            () = finished => {}
            () = self.clock.sleep(self.options.grace) => {}
        }
        self.under_way.shutdown().await;
        drop(self.courier.pools.granted());
        self.courier.leases.release_all(&*self.store).await;
    }
}

async fn scan(store: Arc<dyn Store>, cursor: DueCursor, page: usize) -> Ended {
    Ended::Scan(store.due(cursor, page).await)
}

async fn read(store: Arc<dyn Store>, key: TargetKey, after: DueCursor, limit: usize) -> Ended {
    Ended::Read(key, store.backlog(key.target, key.ordered, after, limit).await)
}
