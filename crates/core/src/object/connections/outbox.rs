//! The outbound buffer of one connection.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::connection::Closed;

/// Approximate size of an event without its text.
const EVENT_BYTES: usize = 64;

/// An event for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The JSON, shared by all connections that get the event.
    pub text: Arc<str>,
    /// Its number, so that a client can resume after it on a later connection.
    pub number: Option<i64>,
}

/// The events of one connection, in order, until its end. A connection that reads too slowly is
/// closed.
#[derive(Debug)]
pub(in crate::object) struct Outbox {
    bytes_max: usize,
    state: Mutex<State>,
    changed: Notify,
    has_ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    unread: VecDeque<Event>,
    bytes: usize,
    end: Option<Closed>,
}

impl Outbox {
    pub(in crate::object) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            state: Mutex::default(),
            changed: Notify::new(),
            has_ended: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds an event. If the buffer is full, it is cleared and the connection ends.
    pub(in crate::object) fn push(&self, event: Event) {
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        state.bytes += EVENT_BYTES + event.text.len();
        // A single event is never too large.
        if self.bytes_max < state.bytes && !state.unread.is_empty() {
            *state = State { end: Some(Closed::slow()), ..State::default() };
        } else {
            state.unread.push_back(event);
        }
        drop(state);
        self.wake();
    }

    /// Each of the two possible waiters has a notification of its own.
    fn wake(&self) {
        self.changed.notify_one();
        self.has_ended.notify_one();
    }

    /// Ends it after the buffered events; the first end counts.
    pub(in crate::object) fn end(&self, closed: Closed) {
        self.state().end.get_or_insert(closed);
        self.wake();
    }

    /// The next event, or the end.
    pub(in crate::object) async fn next(&self) -> Result<Event, Closed> {
        loop {
            {
                let mut state = self.state();
                if let Some(event) = state.unread.pop_front() {
                    state.bytes -= EVENT_BYTES + event.text.len();
                    if state.end.is_some() {
                        self.has_ended.notify_one();
                    }
                    return Ok(event);
                }
                // An idle connection must not keep the memory of a burst.
                state.unread.shrink_to(4);
                if let Some(end) = &state.end {
                    return Err(end.clone());
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits until the connection has ended and the buffer is empty.
    pub(in crate::object) async fn ended(&self) -> Closed {
        loop {
            {
                let state = self.state();
                if let Some(end) = state.end.as_ref().filter(|_| state.unread.is_empty()) {
                    return end.clone();
                }
            }
            self.has_ended.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        Event { text: text.into(), number: None }
    }

    #[tokio::test]
    async fn events_come_in_order_and_then_the_end() {
        let outbox = Outbox::new(10_000);
        outbox.push(event("a"));
        outbox.push(event("b"));
        outbox.end(Closed::stopping());
        outbox.end(Closed::deleted());
        outbox.push(event("c"));
        assert_eq!(outbox.next().await, Ok(event("a")));
        assert_eq!(outbox.next().await, Ok(event("b")));
        assert_eq!(outbox.next().await, Err(Closed::stopping()));
        assert_eq!(outbox.ended().await, Closed::stopping());
    }

    #[tokio::test]
    async fn a_slow_connection_is_closed_and_its_buffer_is_cleared() {
        let outbox = Outbox::new(1_000);
        for _ in 0..100 {
            outbox.push(event("0123456789"));
        }
        assert_eq!(outbox.next().await, Err(Closed::slow()));
    }

    #[tokio::test]
    async fn a_single_event_may_exceed_the_limit_of_the_buffer() {
        let outbox = Outbox::new(10);
        outbox.push(event("0123456789012345"));
        assert!(outbox.next().await.is_ok());
        outbox.push(event("0123456789012345"));
        assert!(outbox.next().await.is_ok());
    }
}
