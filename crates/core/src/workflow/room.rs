//! Limits the active runs of a workflow. Resumed runs are admitted before new ones.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The permits of one workflow.
pub(super) struct Room(Mutex<Places>);

struct Places {
    free: usize,
    goes_on: VecDeque<oneshot::Sender<Place>>,
    begins: VecDeque<oneshot::Sender<Place>>,
}

/// One permit, until it is dropped.
pub(super) struct Place(Arc<Room>);

impl Room {
    pub(super) fn new(places: usize) -> Arc<Self> {
        let (goes_on, begins) = (VecDeque::new(), VecDeque::new());
        Arc::new(Self(Mutex::new(Places { free: places.max(1), goes_on, begins })))
    }

    /// Waits for a permit.
    pub(super) async fn place(self: &Arc<Self>, begins: bool) -> Place {
        let waiting = {
            let mut places = self.places();
            if 0 < places.free {
                places.free -= 1;
                return Place(self.clone());
            }
            let (given, waiting) = oneshot::channel();
            if begins {
                places.begins.push_back(given);
            } else {
                places.goes_on.push_back(given);
            }
            waiting
        };
        // The queue that has the sender is never dropped while a task waits.
        waiting.await.unwrap_or_else(|_| Place(self.clone()))
    }

    /// A permit, if one is free.
    pub(super) fn try_place(self: &Arc<Self>) -> Option<Place> {
        let mut places = self.places();
        places.free = places.free.checked_sub(1)?;
        Some(Place(self.clone()))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.0.places();
        // Skip waiters that were dropped.
        let next = loop {
            match places.goes_on.pop_front().or_else(|| places.begins.pop_front()) {
                Some(next) if next.is_closed() => {}
                next => break next,
            }
        };
        match next {
            None => places.free += 1,
            Some(next) => {
                drop(places);
                // If the waiter was dropped just now, the permit is returned and goes to the next
                // one.
                let _ = next.send(Place(self.0.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    #[test]
    fn who_goes_on_comes_before_who_begins_and_who_has_gone_away_is_passed_over() {
        let (room, mut context) = (Room::new(1), Context::from_waker(Waker::noop()));
        let mut poll = |it: std::pin::Pin<&mut dyn Future<Output = Place>>| it.poll(&mut context);
        let first = poll(pin!(room.place(true))).map(Some);
        let mut begins = pin!(room.place(true));
        assert!(poll(begins.as_mut()).is_pending());
        {
            let mut gone = pin!(room.place(false));
            assert!(poll(gone.as_mut()).is_pending());
        }
        let mut goes_on = pin!(room.place(false));
        assert!(poll(goes_on.as_mut()).is_pending());
        drop(first);
        assert!(poll(begins.as_mut()).is_pending());
        let second = poll(goes_on.as_mut());
        assert!(second.is_ready());
        assert!(poll(begins.as_mut()).is_pending());
        drop(second);
        assert!(poll(begins.as_mut()).is_ready());
    }
}
