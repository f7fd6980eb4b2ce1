//! Places for work of callers: they wait for one, and one caller has at most half of them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use steadfast_store::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How often work of one caller that found no place looks for one, all of it together.
const TURNS_PER_SECOND: u32 = 32;

/// Places that callers share, in the order in which they asked.
#[derive(Debug)]
pub struct Places {
    all: Arc<Semaphore>,
    share: usize,
    /// The shares of callers that have a place or wait for one.
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
    /// The last turn that was given to a caller, while it is in the future.
    turns: Mutex<HashMap<String, Timestamp>>,
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
        let (all, share) = (Arc::new(Semaphore::new(max)), (max / 2).max(1));
        Self { all, share, shares: Mutex::default(), turns: Mutex::default() }
    }

    /// Waits for a place. A caller whose share is taken waits for that first, so that it is not
    /// before others in the common queue. Without a caller there is no share.
    #[steadfast_store::boxed]
    pub async fn take(&self, caller: Option<&str>) -> Place {
        // Nobody closes the semaphores, so each permit comes.
        let of_share = match caller.map(|it| self.share_of(it)) {
            Some(share) => share.acquire_owned().await.ok(),
            None => None,
        };
        Place { _of_share: of_share, _of_all: self.all.clone().acquire_owned().await.ok() }
    }

    /// A place, if one is free for this caller now.
    pub fn try_take(&self, caller: &str) -> Option<Place> {
        let of_share = self.share_of(caller).try_acquire_owned().ok()?;
        let of_all = self.all.clone().try_acquire_owned().ok()?;
        Some(Place { _of_share: Some(of_share), _of_all: Some(of_all) })
    }

    /// The pause after which work of this caller that found no place looks for one again. It takes
    /// turns, so that the number of attempts does not depend on how much of it waits.
    pub fn pause(&self, caller: &str, now: Timestamp) -> Duration {
        let mut turns = self.turns.lock();
        turns.retain(|_, at| now < *at);
        let last = turns.get(caller).copied().unwrap_or(now);
        let at = last.after(Duration::from_secs(1) / TURNS_PER_SECOND);
        turns.insert(caller.to_owned(), at);
        at.since(now)
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
        assert!(places.try_take("a").is_none() && places.try_take("b").is_some());
        let (third, fourth) = (take(Some("b")).unwrap(), take(None).unwrap());
        assert!(take(Some("c")).is_none() && places.try_take("c").is_none(), "all are taken");
        drop(fourth);
        assert!(poll(&mut waiting).is_none());
        let fourth = take(Some("c")).unwrap();
        drop(first);
        let again = poll(&mut waiting).unwrap();
        drop((second, third, fourth, again));
        let _one = take(Some("d")).unwrap();
        assert_eq!(places.shares.lock().len(), 1, "the others are forgotten");
    }

    #[test]
    fn the_work_of_a_caller_takes_turns_apart_from_that_of_others() {
        let (places, now) = (Places::new(4), Timestamp(1_000));
        let pauses: Vec<_> = (0..64).map(|_| places.pause("a", now)).collect();
        assert!(pauses.is_sorted() && pauses[0] < pauses[1], "{pauses:?}");
        assert!(Duration::from_millis(1_900) <= pauses[63], "{pauses:?}");
        assert_eq!(places.pause("b", now), pauses[0]);
        assert_eq!(places.pause("a", now.after(Duration::from_secs(9))), pauses[0]);
        assert_eq!(places.turns.lock().len(), 1, "the others are forgotten");
    }
}
