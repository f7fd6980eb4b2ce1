//! Limits the active runs of a workflow. Resumed runs are admitted before new ones.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The permits of one workflow.
pub(super) struct RunLimit(Mutex<PermitQueues>);

struct PermitQueues {
    free: usize,
    resumed: VecDeque<oneshot::Sender<RunPermit>>,
    new: VecDeque<oneshot::Sender<RunPermit>>,
}

/// One permit, until it is dropped.
pub(super) struct RunPermit(Arc<RunLimit>);

impl RunLimit {
    pub(super) fn new(permits: usize) -> Arc<Self> {
        let (resumed, new) = (VecDeque::new(), VecDeque::new());
        Arc::new(Self(Mutex::new(PermitQueues { free: permits.max(1), resumed, new })))
    }

    /// Waits for a permit.
    pub(super) async fn permit(self: &Arc<Self>, new: bool) -> RunPermit {
        let waiting = {
            let mut permits = self.permits();
            if 0 < permits.free {
                permits.free -= 1;
                return RunPermit(self.clone());
            }
            let (given, waiting) = oneshot::channel();
            if new {
                permits.new.push_back(given);
            } else {
                permits.resumed.push_back(given);
            }
            waiting
        };
        // The queue that has the sender is never dropped while a task waits.
        waiting.await.unwrap_or_else(|_| RunPermit(self.clone()))
    }

    /// A permit, if one is free.
    pub(super) fn try_permit(self: &Arc<Self>) -> Option<RunPermit> {
        let mut permits = self.permits();
        permits.free = permits.free.checked_sub(1)?;
        Some(RunPermit(self.clone()))
    }

    fn permits(&self) -> MutexGuard<'_, PermitQueues> {
        self.0.lock()
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut permits = self.0.permits();
        // Skip waiters that were dropped.
        let next = loop {
            match permits.resumed.pop_front().or_else(|| permits.new.pop_front()) {
                Some(next) if next.is_closed() => {}
                next => break next,
            }
        };
        match next {
            None => permits.free += 1,
            Some(next) => {
                drop(permits);
                // If the waiter was dropped just now, the permit is returned and goes to the next
                // one.
                let _ = next.send(RunPermit(self.0.clone()));
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
    fn resumed_runs_are_admitted_before_new_ones_and_dropped_waiters_are_skipped() {
        let (limit, mut context) = (RunLimit::new(1), Context::from_waker(Waker::noop()));
        let mut poll =
            |it: std::pin::Pin<&mut dyn Future<Output = RunPermit>>| it.poll(&mut context);
        let first = poll(pin!(limit.permit(true))).map(Some);
        let mut new = pin!(limit.permit(true));
        assert!(poll(new.as_mut()).is_pending());
        {
            let mut gone = pin!(limit.permit(false));
            assert!(poll(gone.as_mut()).is_pending());
        }
        let mut resumed = pin!(limit.permit(false));
        assert!(poll(resumed.as_mut()).is_pending());
        drop(first);
        assert!(poll(new.as_mut()).is_pending());
        let second = poll(resumed.as_mut());
        assert!(second.is_ready());
        assert!(poll(new.as_mut()).is_pending());
        drop(second);
        assert!(poll(new.as_mut()).is_ready());
    }
}
