//! Has a run look again at what it waits for while it is awake: a body may be under way in one of
//! its branches when the time of another has come.

use std::task::{Context, Poll};

use steadfast_store::{Clock, Sleep, Timestamp};

pub(super) struct Alarm<'a> {
    clock: &'a dyn Clock,
    set: Option<(Timestamp, Sleep<'a>)>,
}

impl<'a> Alarm<'a> {
    pub(super) fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, set: None }
    }

    /// Ready when it is time, if there is one to wait for.
    pub(super) fn poll(&mut self, at: Option<Timestamp>, context: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at else {
            self.set = None;
            return Poll::Pending;
        };
        let sleep = match self.set.take() {
            Some((set, sleep)) if set == at => sleep,
            _ => self.clock.sleep_until(at),
        };
        let (_, sleep) = self.set.insert((at, sleep));
        let polled = sleep.as_mut().poll(context);
        if polled.is_ready() {
            self.set = None;
        }
        polled
    }
}
