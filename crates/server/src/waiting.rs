//! Places of requests that wait by design, such as long polls: they never take all places of
//! connections, and one caller never takes all of theirs.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::Arc,
};

use parking_lot::Mutex;

/// A waiting caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Waiter {
    /// The holder of a token.
    Token(String),
    /// A client, as the last trusted proxy names it.
    Address(IpAddr),
}

/// Whether a query asks for an answer that may come later.
pub(crate) fn asks_to_wait(query: &str) -> bool {
    // A name may be encoded.
    form_urlencoded::parse(query.as_bytes()).any(|it| it.0 == "wait")
}

/// Places of requests that wait.
#[derive(Debug)]
pub(crate) struct WaitPlaces {
    max: usize,
    share: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<Waiter, usize>,
}

impl WaitPlaces {
    /// Places, of which one caller may have a half.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, share: (max / 2).max(1), taken: Mutex::default() })
    }

    /// Takes a place, unless all are taken, or all of one of these.
    pub(crate) fn take(self: &Arc<Self>, waiters: Vec<Waiter>) -> Option<WaitPlace> {
        let mut taken = self.taken.lock();
        let has_share = |it: &Waiter| taken.by.get(it).is_none_or(|it| *it < self.share);
        if self.max <= taken.all || !waiters.iter().all(has_share) {
            return None;
        }
        taken.all += 1;
        waiters.iter().for_each(|it| *taken.by.entry(it.clone()).or_default() += 1);
        Some(WaitPlace { places: self.clone(), waiters })
    }
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitPlace {
    places: Arc<WaitPlaces>,
    waiters: Vec<Waiter>,
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        for waiter in self.waiters.drain(..) {
            if let Entry::Occupied(mut count) = taken.by.entry(waiter) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_recognized_however_it_is_written() {
        for asks in ["wait=60", "a=b&wait=60", "w%61it=60", "%77ait=1", "wait"] {
            assert!(asks_to_wait(asks), "{asks}");
        }
        for other in ["", "waiter=60", "await=60", "a=wait=60"] {
            assert!(!asks_to_wait(other), "{other}");
        }
    }

    #[test]
    fn one_caller_takes_at_most_half_of_the_places() {
        let places = WaitPlaces::new(4);
        let token = |it: &str| Waiter::Token(it.into());
        let address = |it: [u8; 4]| Waiter::Address(it.into());
        let take = |token, address| places.take(vec![token, address]);
        let first = [
            take(token("a"), address([1, 1, 1, 1])).unwrap(),
            take(token("a"), address([2, 2, 2, 2])).unwrap(),
        ];
        assert!(take(token("a"), address([3, 3, 3, 3])).is_none(), "its share is taken");
        let third = take(token("b"), address([2, 2, 2, 2])).unwrap();
        assert!(take(token("c"), address([2, 2, 2, 2])).is_none(), "from one address");
        let last = take(token("c"), address([4, 4, 4, 4])).unwrap();
        assert!(places.take(Vec::new()).is_none(), "all are taken");
        drop((first, third, last));
        assert!(places.taken.lock().by.is_empty());
        assert!(take(token("a"), address([3, 3, 3, 3])).is_some());
    }
}
