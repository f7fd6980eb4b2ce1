//! Waits: for a time, and for events. A sleeping run has no task, and no memory beyond the fold
//! cache.

use std::{future::poll_fn, panic::Location, task::Poll, time::Duration};

use steadfast_store::Timestamp;

use super::{
    ctx::{Ctx, SourceLine, decode},
    fold::StepResult,
    record::{Entry, Key, Wait},
};
use crate::{Body, Result};

impl Ctx {
    /// Waits for this duration.
    #[track_caller]
    pub fn sleep(&self, name: &str, duration: Duration) -> impl Future<Output = Result<()>> + Send {
        self.sleep_for(name, duration, Location::caller())
    }

    /// Waits until this time; a past time is no wait.
    #[track_caller]
    pub fn sleep_until(
        &self,
        name: &str,
        until: Timestamp,
    ) -> impl Future<Output = Result<()>> + Send {
        let line = Location::caller();
        async move { self.sleep_to(name, || until, line).await }
    }

    pub(super) async fn sleep_for(
        &self,
        name: &str,
        duration: Duration,
        line: SourceLine,
    ) -> Result<()> {
        self.sleep_to(name, || self.clock_now().after(duration), line).await
    }

    async fn sleep_to(
        &self,
        name: &str,
        until: impl FnOnce() -> Timestamp,
        line: SourceLine,
    ) -> Result<()> {
        let key = self.key("sleep", name, line).await;
        if self.known(&key).is_none() {
            self.give(Entry::Timer { key: key.clone(), due_at: until().0 });
        }
        // A pause shifts it, so it is read each time.
        poll_fn(|_| match self.known(&key) {
            Some(StepResult::Timer(due_at)) => self.wait_until(&key, due_at),
            Some(StepResult::Value(_) | StepResult::Failed(_)) | None => Poll::Pending,
        })
        .await;
        Ok(())
    }

    /// The next event of this name, in the order of arrival, each taken once. An event that arrived
    /// earlier is returned immediately.
    #[track_caller]
    pub fn event<T: Body>(&self, name: &str) -> impl Future<Output = Result<T>> + Send {
        let line = Location::caller();
        async move {
            let key = self.key("event", name, line).await;
            let value = poll_fn(|_| {
                if let Some(value) = self.known_value(&key) {
                    return Poll::Ready(value);
                }
                let now = self.clock_now();
                let mut state = self.state();
                let waiting = state.fold.events.get(name).and_then(|it| it.front());
                let Some((event, payload)) = waiting.map(|it| (it.version, it.payload.clone()))
                else {
                    state.waits.push(Wait { key: key.clone(), until: None });
                    return Poll::Pending;
                };
                state.give(now, Entry::Took { key: key.clone(), event }, None);
                Poll::Ready(payload)
            })
            .await;
            decode(&key, &value)
        }
    }

    /// Ready when the time has come; until then the run waits for it.
    pub(super) fn wait_until(&self, key: &Key, due_at: Timestamp) -> Poll<()> {
        let now = self.clock_now();
        let mut state = self.state();
        if due_at <= now && !state.is_paused() {
            return Poll::Ready(());
        }
        state.waits.push(Wait { key: key.clone(), until: Some(due_at.0) });
        Poll::Pending
    }
}
