//! Places for work of callers: they wait for one, and one caller has at most half of them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use steadfast_store::{Clock, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How often work that found no place looks for one, that of all callers together.
const TURNS_PER_SECOND: u32 = 32;

/// How long work waits for a place before it takes turns.
const SOON: Duration = Duration::from_millis(100);

/// Places that callers share, in the order in which they asked.
#[derive(Debug)]
pub struct Places {
    places: Shares,
    /// Bounds the work that waits for a place a short time.
    waits: Shares,
    /// The last turn that was given to a caller, while it is in the future.
    turns: Mutex<HashMap<String, Timestamp>>,
}

/// Permits, of which one caller has at most a share.
#[derive(Debug)]
struct Shares {
    all: Arc<Semaphore>,
    share: usize,
    /// The shares of callers that have a permit or wait for one.
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    _of_share: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// Places, of which one caller may have a half.
    pub fn new(max: usize) -> Self {
        let (places, waits) = (Shares::new(max, max / 2), Shares::new(max / 2, max / 8));
        Self { places, waits, turns: Mutex::default() }
    }

    /// Waits for a place. A caller whose share is taken waits for that first, so that it is not
    /// before others in the common queue. Without a caller there is no share.
    #[steadfast_store::boxed]
    pub async fn take(&self, caller: Option<&str>) -> Place {
        // Nobody closes the semaphores, so each permit comes.
        let of_share = match caller.map(|it| self.places.share_of(it)) {
            Some(share) => share.acquire_owned().await.ok(),
            None => None,
        };
        let of_all = self.places.all.clone().acquire_owned().await.ok();
        Place { _of_share: of_share, _of_all: of_all }
    }

    /// A place, if one is free for this caller within 100 ms. At most as much work waits at a time
    /// as half of the places, a quarter of it of one caller; other work gets its answer at once.
    #[steadfast_store::boxed]
    pub async fn take_soon(&self, caller: &str, clock: &dyn Clock) -> Option<Place> {
        if let Some(place) = self.places.try_take(caller) {
            return Some(place);
        }
        let _wait = self.waits.try_take(caller)?;
        tokio::select! {
            place = self.take(Some(caller)) => Some(place),
            () = clock.sleep(SOON) => None,
        }
    }

    /// The pause after which work of this caller that found no place looks for one again. Callers
    /// take turns, and the work of each does, so that the number of attempts depends neither on how
    /// many callers wait nor on how much work.
    pub fn pause(&self, caller: &str, now: Timestamp) -> Duration {
        let mut turns = self.turns.lock();
        turns.retain(|_, at| now < *at);
        let last = turns.get(caller).copied();
        let callers = turns.len() + usize::from(last.is_none());
        let callers = u32::try_from(callers).unwrap_or(u32::MAX);
        let step = Duration::from_secs(1) / TURNS_PER_SECOND * callers;
        let at = last.unwrap_or(now).after(step);
        turns.insert(caller.to_owned(), at);
        at.since(now)
    }
}

impl Shares {
    fn new(max: usize, share: usize) -> Self {
        let all = Arc::new(Semaphore::new(max));
        Self { all, share: share.max(1), shares: Mutex::default() }
    }

    fn try_take(&self, caller: &str) -> Option<Place> {
        let of_share = self.share_of(caller).try_acquire_owned().ok()?;
        let of_all = self.all.clone().try_acquire_owned().ok()?;
        Some(Place { _of_share: Some(of_share), _of_all: Some(of_all) })
    }

    fn share_of(&self, caller: &str) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(caller).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, it| 0 < it.strong_count());
        let share = Arc::new(Semaphore::new(self.share));
        shares.insert(caller.to_owned(), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use steadfast_store::ManualClock;

    use super::*;

    fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_caller_takes_half_of_the_places_and_waits_behind_no_other() {
        let places = Places::new(4);
        let take = |caller: Option<&'static str>| poll(&mut Box::pin(places.take(caller)));
        let (first, second) = (take(Some("a")).unwrap(), take(Some("a")).unwrap());
        let mut waiting = Box::pin(places.take(Some("a")));
        assert!(poll(&mut waiting).is_none(), "its share is taken");
        let (third, fourth) = (take(Some("b")).unwrap(), take(None).unwrap());
        assert!(take(Some("c")).is_none(), "all are taken");
        drop(fourth);
        assert!(poll(&mut waiting).is_none());
        let fourth = take(Some("c")).unwrap();
        drop(first);
        let again = poll(&mut waiting).unwrap();
        drop((second, third, fourth, again));
        let _one = take(Some("d")).unwrap();
        assert_eq!(places.places.shares.lock().len(), 1, "the others are forgotten");
    }

    #[test]
    fn some_work_of_a_caller_waits_a_short_time_for_a_place() {
        let (places, clock) = (Places::new(16), ManualClock::at(Timestamp(1_000)));
        let soon = |caller: &'static str| Box::pin(places.take_soon(caller, &clock));
        let take = |caller: &'static str| poll(&mut soon(caller));
        let mut of_one: Vec<_> = (0..8).map(|_| take("one").flatten().unwrap()).collect();
        let _of_two: Vec<_> = (0..8).map(|_| take("two").flatten().unwrap()).collect();
        let (mut first, mut second, mut third) = (soon("one"), soon("one"), soon("three"));
        for waiting in [&mut first, &mut second, &mut third] {
            assert!(poll(waiting).is_none());
        }
        assert!(take("one").unwrap().is_none(), "two of one caller wait");
        of_one.pop();
        assert!(poll(&mut first).is_none(), "its place goes to the caller that has none");
        let of_third = poll(&mut third).flatten().unwrap();
        drop(of_third);
        let _again = poll(&mut first).flatten().unwrap();
        clock.advance(SOON);
        assert!(poll(&mut second).unwrap().is_none(), "it has waited long enough");
        let mut later = soon("one");
        assert!(poll(&mut later).is_none(), "its wait is over, so another may wait");
    }

    #[test]
    fn callers_take_turns_at_one_rate_and_so_does_the_work_of_each() {
        let (places, now) = (Places::new(4), Timestamp(1_000));
        let pauses: Vec<_> = (0..64).map(|_| places.pause("a", now)).collect();
        assert!(pauses.is_sorted() && pauses[0] < pauses[1], "{pauses:?}");
        assert!(Duration::from_millis(1_900) <= pauses[63], "{pauses:?}");
        assert_eq!(places.pause("b", now), pauses[0] * 2, "two callers wait");
        assert_eq!(places.pause("a", now.after(Duration::from_secs(9))), pauses[0]);
        assert_eq!(places.turns.lock().len(), 1, "the others are forgotten");
        let many = Places::new(4);
        let rounds = (0..32).flat_map(|_| 0..50);
        let pauses = rounds.map(|it: u32| many.pause(&it.to_string(), now));
        let soon = pauses.filter(|it| *it <= Duration::from_secs(10)).count();
        assert!((200..=400).contains(&soon), "{soon} attempts of 50 callers in 10 s");
    }
}
