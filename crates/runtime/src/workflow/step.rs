//! One step: it is tried until it succeeds once, and what it gave is recorded.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    Retry,
    ctx::{Ctx, decode},
    journal::Known,
    record::{Attempt, Entry, Key, encode},
};
use crate::{Body, Error, Result};

/// How long one attempt may take unless the step says otherwise.
pub(super) const TIMEOUT: Duration = Duration::from_mins(10);

type Running<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
type Begin<'a, T> = Box<dyn FnOnce(Retry, Duration) -> Running<'a, T> + Send + 'a>;

/// A step on its way. Await it; before that, say how it is retried.
#[must_use = "a step that is not awaited does nothing"]
pub struct Step<'a, T> {
    retry: Retry,
    timeout: Duration,
    begin: Option<Begin<'a, T>>,
    running: Option<Running<'a, T>>,
}

impl Ctx {
    /// Runs `body` until it succeeds once, and records what it gave. In a replay it is not run.
    ///
    /// The body may run more than once: an attempt that a crash cut off is repeated. It is `Fn`, on
    /// purpose: a step that changed captured variables would do something else in a replay.
    pub fn step<'a, T, F, Fut>(&'a self, name: &'a str, body: F) -> Step<'a, T>
    where
        T: Body,
        F: Fn() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        let begin = move |retry, timeout| -> Running<'a, T> {
            Box::pin(run(self, "step", name, body, retry, timeout))
        };
        Step {
            retry: Retry::DEFAULT,
            timeout: TIMEOUT,
            begin: Some(Box::new(begin)),
            running: None,
        }
    }
}

impl<T> Step<'_, T> {
    /// How it is tried again.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<T> Future for Step<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let (retry, timeout) = (self.retry, self.timeout);
        if let Some(begin) = self.begin.take() {
            self.running = Some(begin(retry, timeout));
        }
        match &mut self.running {
            Some(running) => running.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

pub(super) async fn run<T, F, Fut>(
    ctx: &Ctx,
    kind: &'static str,
    name: &str,
    body: F,
    retry: Retry,
    timeout: Duration,
) -> Result<T>
where
    T: Body,
    F: Fn() -> Fut + Send,
    Fut: Future<Output = Result<T>> + Send,
{
    let key = ctx.key(kind, name);
    match ctx.known(&key) {
        Some(Known::Value(value)) => return decode(&key, value),
        Some(Known::Failed(error)) => return Err(error),
        Some(Known::Timer(_)) | None => {}
    }
    loop {
        let number = due(ctx, &key).await;
        let attempt = Attempt { number, began_at: ctx.0.around.clock.now().0 };
        let result = try_once(ctx, body(), timeout).await;
        match result.and_then(|value| encode(&key, &value)) {
            Ok(value) => {
                let attempt = Some(attempt);
                ctx.record(Entry::Done { key: key.clone(), value: value.clone(), attempt }).await;
                return decode(&key, value);
            }
            Err(error) => {
                // A number from 0 to 1.
                let chance = (ctx.0.around.entropy.next() >> 11) as f64 / (1_u64 << 53) as f64;
                let wait = retry.wait(number, chance).filter(|_| !error.is_terminal());
                let Some(wait) = wait else {
                    let failed = Entry::Failed { key: key.clone(), error: error.clone(), attempt };
                    ctx.record(failed).await;
                    return Err(error);
                };
                let retry_at = ctx.0.around.clock.now().after(wait).0;
                ctx.record(Entry::Tried { key: key.clone(), error, attempt, retry_at }).await;
            }
        }
    }
}

/// Waits until the next attempt is due, and says which one it is.
async fn due(ctx: &Ctx, key: &Key) -> u32 {
    poll_fn(|_| {
        let tried = ctx.state().journal.tried.get(key).copied();
        match tried {
            Some((attempts, retry_at)) => ctx.wait_until(key, retry_at).map(|()| attempts + 1),
            None => Poll::Ready(1),
        }
    })
    .await
}

/// One attempt. A panic is its failure.
async fn try_once<T>(
    ctx: &Ctx,
    body: impl Future<Output = Result<T>> + Send,
    timeout: Duration,
) -> Result<T> {
    let _busy = Busy::new(ctx);
    let clock = &ctx.0.around.clock;
    let mut over = clock.sleep_until(clock.now().after(timeout));
    let mut body = Box::pin(body);
    poll_fn(|context| {
        ctx.set_in_step(true);
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(context)));
        ctx.set_in_step(false);
        match polled {
            Ok(Poll::Ready(result)) => Poll::Ready(result),
            Ok(Poll::Pending) => over.as_mut().poll(context).map(|()| {
                let seconds = timeout.as_secs_f32();
                Err(Error::retryable(format!("no result within {seconds} s")).with_code("timeout"))
            }),
            Err(panic) => {
                let text = crate::dispatch::panic_message(&*panic);
                Poll::Ready(Err(
                    Error::retryable(format!("step panicked: {text}")).with_code("step_panicked")
                ))
            }
        }
    })
    .await
}

/// A body is under way, until it ends or is given up.
struct Busy<'a>(&'a Ctx);

impl<'a> Busy<'a> {
    fn new(ctx: &'a Ctx) -> Self {
        ctx.state().busy += 1;
        Self(ctx)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.state().busy -= 1;
    }
}
