//! The loop of one queue that is consumed in this process: it hands out what is due while there is
//! room, and reads on in time. It never polls.

use std::{sync::Arc, time::Duration};

use steadfast_store::{Letter, State, StoreError, Timestamp};
use tokio::{sync::watch, task::JoinSet};

use super::{
    ConsumeOptions, QueueSettings,
    carry::Handing,
    consumer::Consume,
    desk::{Desk, Rest},
    queues::Shared,
    rate::Rate,
    suspects::{Admission, Care},
};

/// Letters read at once.
const PAGE: usize = 512;

/// So many reads fail before the store is given time.
const FAILURES: u32 = 3;

pub(super) struct Pump {
    pub(super) shared: Arc<Shared>,
    pub(super) desk: Arc<Desk>,
    pub(super) consumer: Arc<dyn Consume>,
    pub(super) options: ConsumeOptions,
    under_way: JoinSet<Ended>,
    running: usize,
    reading: bool,
    /// Since when the first letter on the shelf waits for company.
    waiting_since: Option<Timestamp>,
    rate: Rate,
    /// Letters on the shelf that were not admitted the last time.
    refused: usize,
    failures: u32,
    rest_until: Timestamp,
    is_lost: bool,
}

enum Ended {
    /// And whether what was decided is recorded.
    Handing(bool),
    Read(Result<bool, StoreError>),
}

/// Whether a set of letters can be handed over.
enum Next {
    Now(usize),
    At(Timestamp),
    Nothing,
}

/// Whether something was handed over.
enum Handed {
    Yes,
    /// Not before something else ends, or this time.
    Wait(Option<Timestamp>),
}

impl Pump {
    pub(super) fn new(
        shared: Arc<Shared>,
        desk: Arc<Desk>,
        consumer: Arc<dyn Consume>,
        options: ConsumeOptions,
    ) -> Self {
        Self {
            shared,
            desk,
            consumer,
            options,
            under_way: JoinSet::new(),
            running: 0,
            reading: false,
            waiting_since: None,
            rate: Rate::default(),
            refused: 0,
            failures: 0,
            rest_until: Timestamp::MIN,
            is_lost: false,
        }
    }

    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>, grace: Duration) {
        let desk = self.desk.clone();
        while !self.is_lost {
            let changed = desk.changed.notified();
            let wake = self.step();
            let clock = self.shared.clock.clone();
            tokio::select! {
                _ = stopping.wait_for(|it| *it) => break,
                Some(ended) = self.under_way.join_next() => self.take_in(ended),
                () = changed => {}
                () = clock.sleep_until(wake.unwrap_or(Timestamp::MAX)), if wake.is_some() => {}
            }
        }
        self.drain(grace).await;
    }

    /// Starts what can start and returns when to look again.
    fn step(&mut self) -> Option<Timestamp> {
        let now = self.shared.clock.now();
        let news = self.desk.rest.lock().news;
        let rules = self.desk.rules();
        let mut wake = None;
        let is_resting = now < self.rest_until;
        while !rules.paused && !is_resting && self.running < self.options.concurrency {
            match self.next(&rules.settings, now) {
                Next::Now(size) => match self.hand_over(size, &rules.settings, now) {
                    Handed::Yes => {}
                    Handed::Wait(at) => {
                        wake = at;
                        break;
                    }
                },
                Next::At(at) => {
                    wake = Some(at);
                    break;
                }
                Next::Nothing => break,
            }
        }
        if !rules.paused && !is_resting {
            self.read_on(&rules.settings, now);
        }
        let next = self.desk.shelf().next();
        // What is due already waits for a read or for room, and both come with news.
        let is_ahead = |it: &Timestamp| now < *it && *it < Timestamp::MAX && !rules.paused;
        let soonest = [wake, Some(next).filter(is_ahead)];
        let rest = Some(self.rest_until).filter(|_| is_resting);
        let wake = soonest.into_iter().flatten().min().map(|it| it.max(self.rest_until)).or(rest);
        let mut rest = self.desk.rest.lock();
        // One that rests has nothing to do before that is over: a clock that a test turns stands
        // still until then.
        rest.settled = self.under_way.is_empty() && rest.news == news;
        rest.wake = wake;
        drop(rest);
        self.shared.rested.notify_waiters();
        wake
    }

    fn next(&mut self, settings: &QueueSettings, now: Timestamp) -> Next {
        let shelf = self.desk.shelf();
        let waiting = shelf.len();
        drop(shelf);
        if waiting == 0 {
            self.waiting_since = None;
            return Next::Nothing;
        }
        let size = if self.consumer.is_batch() { settings.batch_size } else { 1 };
        let since = *self.waiting_since.get_or_insert(now);
        let full_at = since.after(settings.batch_timeout());
        if waiting < size && now < full_at {
            return Next::At(full_at);
        }
        match self.rate.allows(settings.rate_per_second, size.min(waiting), now) {
            Ok(size) => Next::Now(size),
            Err(at) => Next::At(at),
        }
    }

    /// Hands over the first letters that may be delivered now.
    fn hand_over(&mut self, size: usize, settings: &QueueSettings, now: Timestamp) -> Handed {
        let mut shelf = self.desk.shelf();
        let care_of = |it: &Letter| self.shared.care(it, settings);
        let (mut tried, mut admitted, mut until) = (Vec::new(), None, None);
        for care in shelf.letters().map(care_of) {
            if tried.contains(&care) {
                continue;
            }
            match self.shared.suspects.admit(care, now) {
                Admission::Yes(it) => {
                    admitted = Some((it, care));
                    break;
                }
                Admission::Wait(at) => {
                    tried.push(care);
                    until = until.into_iter().chain(at).min();
                }
            }
        }
        self.refused = match tried.is_empty() {
            true => 0,
            false => shelf.letters().filter(|it| tried.contains(&care_of(it))).count(),
        };
        let Some((admitted, care)) = admitted else { return Handed::Wait(until) };
        let size = if let Care::Blamed { .. } = care { 1 } else { size };
        let letters = shelf.take(size, |it| care_of(it) == care);
        drop(shelf);
        self.rate.spend(letters.len(), now);
        self.waiting_since = None;
        let handing = Handing {
            shared: self.shared.clone(),
            desk: self.desk.clone(),
            consumer: self.consumer.clone(),
            letters,
            care,
            is_exclusive: admitted.is_exclusive(),
            timeout: self.options.timeout,
        };
        self.running += 1;
        self.under_way.spawn(async move { Ended::Handing(handing.carry(admitted).await) });
        Handed::Yes
    }

    /// Reads on before the shelf is empty.
    fn read_on(&mut self, settings: &QueueSettings, now: Timestamp) {
        let size = if self.consumer.is_batch() { settings.batch_size } else { 1 };
        let page = (size * self.options.concurrency).clamp(size, PAGE.max(size));
        let page = self.desk.fitting(page);
        // Those that have to wait must not keep others from being read.
        let wanted = page.div_ceil(2).max(size) + self.refused.min(PAGE);
        if self.reading || !self.desk.shelf().would_read(wanted, now) {
            return;
        }
        self.reading = true;
        let (shared, desk) = (self.shared.clone(), self.desk.clone());
        self.under_way.spawn(async move {
            Ended::Read(desk.fill(&*shared.store, &*shared.clock, wanted, page).await)
        });
    }

    fn take_in(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        match ended {
            Ok(Ended::Read(result)) => {
                self.reading = false;
                let Err(error) = result else {
                    self.failures = 0;
                    return;
                };
                let queue = &*self.desk.name;
                tracing::warn!(queue, error = %error, "a queue could not be read");
                self.failures += 1;
                // Others may have to do with what was read, not with the store.
                self.is_lost = error.is_over();
                if FAILURES <= self.failures || !error.is_retryable() {
                    self.rest_until = self.shared.clock.now().after(Duration::from_secs(1));
                }
            }
            Ok(Ended::Handing(is_recorded)) => {
                self.running = self.running.saturating_sub(1);
                // The same would be delivered again at once, and perhaps in vain.
                if !is_recorded {
                    self.rest_until = self.shared.clock.now().after(Duration::from_secs(1));
                }
            }
            Err(_) => self.running = self.running.saturating_sub(1),
        }
    }

    /// Waits for what is under way; what takes too long is stopped and its claims given back.
    async fn drain(mut self, grace: Duration) {
        let finished = async { while self.under_way.join_next().await.is_some() {} };
        tokio::select! {
            () = finished => {}
            () = self.shared.clock.sleep(grace) => {}
        }
        self.under_way.shutdown().await;
        self.desk.leases.release_all(&*self.shared.store).await;
        *self.desk.rest.lock() = Rest { settled: true, over: true, ..Rest::default() };
        self.shared.rested.notify_waiters();
    }
}

impl Shared {
    /// How careful the delivery of a letter must be.
    fn care(&self, letter: &Letter, settings: &QueueSettings) -> Care {
        let position = letter.message.position;
        if self.blamed.lock().contains(&position) {
            Care::Blamed { is_last: settings.attempts_max() <= letter.tries() + 1 }
        } else if position <= self.careful_until
            || matches!(letter.message.state, Some(State::InFlight { .. }))
        {
            Care::Counted
        } else {
            Care::Plain
        }
    }
}
