//! The loop: it asks the agenda what to do, does it, and tells the agenda how it went.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steadfast_store::{
    Clock, DueCursor, News, Notice, Position, Store, StoreError, Timestamp, Work,
};
use tokio::{
    sync::{Notify, oneshot, watch},
    task::JoinSet,
};

use super::{
    DispatcherOptions, QueueNews,
    agenda::Agenda,
    deliver::{Again, Courier},
    lane::LaneKey,
};

/// So many reads fail before the store is given time.
const FAILURES: u32 = 3;

/// What others may look at.
pub(super) struct Shared {
    agenda: Mutex<Agenda>,
    /// Who waits until everything is settled. The loop itself answers, so no news is missed.
    waiters: Mutex<Vec<oneshot::Sender<()>>>,
    asked: Notify,
}

impl Shared {
    pub(super) fn new(agenda: Agenda) -> Self {
        Self { agenda: Mutex::new(agenda), waiters: Mutex::default(), asked: Notify::new() }
    }

    fn agenda(&self) -> MutexGuard<'_, Agenda> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<oneshot::Sender<()>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn settled(&self) {
        let (answer, answered) = oneshot::channel();
        self.waiters().push(answer);
        self.asked.notify_one();
        // An error means that the dispatcher has stopped.
        let _ = answered.await;
    }

    pub(super) fn uncovered(&self, page: &[Work]) -> Vec<Position> {
        let agenda = self.agenda();
        page.iter().filter(|work| !agenda.covers(work)).map(|work| work.position).collect()
    }
}

/// Everything that can end while the loop waits.
enum Ended {
    /// And whether it took one of the places that all share.
    Delivery(Position, bool, Again),
    Scan(Result<Vec<Work>, StoreError>),
    Fill(LaneKey, usize, Result<Vec<Work>, StoreError>),
}

pub(super) struct Task {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    options: DispatcherOptions,
    courier: Arc<Courier>,
    shared: Arc<Shared>,
    queues: Option<Arc<dyn QueueNews>>,
    under_way: JoinSet<Ended>,
    deliveries: usize,
    /// After failed reads the store gets time to come back.
    rest_until: Timestamp,
    /// Reads that failed, one after the other, and whether the last one will never work here.
    failures: u32,
    is_lost: bool,
}

impl Task {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: DispatcherOptions,
        courier: Arc<Courier>,
        shared: Arc<Shared>,
        queues: Option<Arc<dyn QueueNews>>,
    ) -> Self {
        let (under_way, deliveries, rest_until) = (JoinSet::new(), 0, Timestamp::MIN);
        let (failures, is_lost) = (0, false);
        Self {
            store,
            clock,
            options,
            courier,
            shared,
            queues,
            under_way,
            deliveries,
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
            tokio::select! {
                _ = stopping.wait_for(|it| *it) => break,
                Some(ended) = self.under_way.join_next() => {
                    if let Ok(ended) = ended {
                        self.take_in(ended);
                    }
                }
                news = notices.next() => self.hear(news),
                () = self.shared.asked.notified() => {}
                () = clock.sleep_until(wake.unwrap_or(Timestamp::MAX)), if wake.is_some() => {}
            }
        }
        self.drain().await;
    }

    /// Starts what can start and returns when to look again.
    fn start_what_is_due(&mut self) -> Option<Timestamp> {
        let now = self.clock.now();
        let mut agenda = self.shared.agenda();
        agenda.wake(now);
        while let room = self.deliveries < self.options.concurrency
            && let Some((position, is_shared)) = agenda.take(room, now)
        {
            self.deliveries += usize::from(is_shared);
            let courier = self.courier.clone();
            self.under_way.spawn(async move {
                let again = courier.deliver(position).await;
                Ended::Delivery(position, is_shared, again)
            });
        }
        let resting = now < self.rest_until;
        if !resting && let Some(cursor) = agenda.wants_scan(now) {
            self.under_way.spawn(scan(self.store.clone(), cursor, self.options.page));
        }
        while !resting && let Some((key, limit)) = agenda.wants_fill() {
            self.under_way.spawn(fill(self.store.clone(), key, limit));
        }
        // Without a store nothing more happens, however much is due.
        let is_lost = resting && self.is_lost;
        let settled = self.under_way.is_empty() && (is_lost || agenda.is_settled(now));
        let wake = agenda.next_wake(now);
        drop(agenda);
        if settled && self.store.notices().is_empty() {
            for waiter in self.shared.waiters().drain(..) {
                // That nobody waits any more is no matter.
                let _ = waiter.send(());
            }
        }
        if resting {
            Some(wake.map_or(self.rest_until, |at| at.min(self.rest_until)))
        } else {
            wake
        }
    }

    fn hear(&mut self, news: News) {
        let now = self.clock.now();
        let mut agenda = self.shared.agenda();
        match news {
            News::Notices(notices) => {
                let mut in_queues = Vec::new();
                for notice in &notices {
                    match notice {
                        Notice::Due(work) if work.queued => in_queues.push(*work),
                        Notice::Due(_) | Notice::Unblocked(_) => agenda.learn(notice, now),
                    }
                }
                self.queues.iter().for_each(|it| it.heard(&in_queues));
            }
            News::Overflow => {
                agenda.start_over();
                self.queues.iter().for_each(|it| it.missed());
            }
        }
    }

    fn take_in(&mut self, ended: Ended) {
        let now = self.clock.now();
        let mut agenda = self.shared.agenda();
        let failed = match ended {
            Ended::Delivery(position, is_shared, again) => {
                self.deliveries -= usize::from(is_shared);
                agenda.finished(position, again, now);
                None
            }
            Ended::Scan(Ok(page)) => {
                self.failures = 0;
                agenda.scanned(&page, page.len() < self.options.page, now);
                None
            }
            Ended::Scan(Err(error)) => {
                agenda.scan_failed();
                Some(error)
            }
            Ended::Fill(key, limit, Ok(works)) => {
                self.failures = 0;
                agenda.filled(key, &works, works.len() < limit, now);
                None
            }
            Ended::Fill(key, _, Err(error)) => {
                agenda.fill_failed(key);
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
        let until = self.clock.now().after(self.options.grace);
        let finished = async { while self.under_way.join_next().await.is_some() {} };
        tokio::select! {
            () = finished => {}
            () = self.clock.sleep_until(until) => {}
        }
        self.under_way.shutdown().await;
        self.courier.release_all().await;
    }
}

async fn scan(store: Arc<dyn Store>, cursor: DueCursor, page: usize) -> Ended {
    Ended::Scan(store.due(cursor, page).await)
}

async fn fill(store: Arc<dyn Store>, key: LaneKey, limit: usize) -> Ended {
    Ended::Fill(key, limit, store.backlog(key.target, key.ordered, limit).await)
}
