//! One step: it is retried by its policy until it succeeds once, and its result is recorded.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use serde_json::Value;
use steadfast_store::{Timestamp, backoff};

use super::{
    ctx::{Ctx, SourceLine, unreadable},
    fold::StepResult,
    record::{Attempt, Entry, Key, StepInput, encode_text},
    state::AttemptInFlight,
};
use crate::{
    Body, Error, Result,
    body::from_value,
    object::CallKey,
    on_drop::on_drop,
    script::{ScriptKey, ScriptedResult},
};

/// Default timeout of one attempt.
pub(super) const TIMEOUT: Duration = Duration::from_mins(10);

/// Maximum attempts that end with the process: the step may be the cause.
const CUT_OFFS_MAX: u32 = 8;

type Running<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
type Begin<'a, T> = Box<dyn FnOnce(Retry, Duration) -> Running<'a, T> + Send + 'a>;

/// A step that is being built. Await it; before that, set its retry policy.
#[must_use = "a step that is not awaited does nothing"]
pub struct Step<'a, T> {
    retry: Retry,
    timeout: Duration,
    begin: Option<Begin<'a, T>>,
    running: Option<Running<'a, T>>,
}

impl Ctx {
    /// Runs `body` until it succeeds once, and records the result. A replay does not run it.
    ///
    /// The body may run more than once: an attempt that a crash interrupted is repeated. It must
    /// not change captured variables (the compiler reports that a captured variable escapes, or
    /// that the closure is not `Fn`): a replay does not run the body, and the change would be
    /// missing. Change a local variable of the body, return it, and use the result of the step:
    ///
    /// ```
    /// # use steadfast::{Ctx, Result};
    /// # async fn run(ctx: &Ctx, prices: Vec<u64>) -> Result<u64> {
    /// let total = ctx.step("add up", async || {
    ///     let mut total = 0;
    ///     for price in &prices {
    ///         total += price;
    ///     }
    ///     Ok(total)
    /// });
    /// let total: u64 = total.await?;
    /// # Ok(total) }
    /// ```
    ///
    /// A body clones captured values that it would otherwise move: `let name = name.clone();`.
    #[track_caller]
    pub fn step<'a, T, F, Fut>(&'a self, name: &'a str, body: F) -> Step<'a, T>
    where
        T: Body,
        F: Fn() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
    {
        let line = Location::caller();
        let begin = move |retry, timeout| -> Running<'a, T> {
            let asked = StepRequest { kind: "step", name, line, retry, timeout, call: None };
            Box::pin(run(self, asked, body))
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
    /// Sets the retry policy.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the timeout of one attempt.
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

/// A step or a call, with its options.
pub(super) struct StepRequest<'a> {
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    pub(super) line: SourceLine,
    pub(super) retry: Retry,
    pub(super) timeout: Duration,
    /// The key and the input of a call. A step has no input: its body uses captured values.
    pub(super) call: Option<(CallKey, StepInput)>,
}

/// One attempt of a body: its result, written as JSON.
pub(super) type BodyAttempt<'a> =
    Pin<Box<dyn Future<Output = Result<serde_json::Result<String>>> + Send + 'a>>;

/// The parts of a step that depend on the type of its result. The loop around them is compiled
/// once, for all steps.
pub(super) trait StepBody<'a>: Send {
    /// Begins an attempt.
    fn begin(&mut self) -> BodyAttempt<'a>;

    /// Reads the result from its JSON and keeps it.
    fn read(&mut self, value: &Value) -> serde_json::Result<()>;
}

struct ClosureBody<F, T> {
    body: F,
    result: Option<T>,
}

impl<'a, T, F, Fut> StepBody<'a> for ClosureBody<F, T>
where
    T: Body,
    F: Fn() -> Fut + Send,
    Fut: Future<Output = Result<T>> + Send + 'a,
{
    fn begin(&mut self) -> BodyAttempt<'a> {
        let body = (self.body)();
        Box::pin(async move { Ok(serde_json::to_string(&body.await?)) })
    }

    fn read(&mut self, value: &Value) -> serde_json::Result<()> {
        self.result = Some(from_value(value)?);
        Ok(())
    }
}

/// Makes attempts until one succeeds or the step has failed for good.
async fn run<'a, T, F, Fut>(ctx: &Ctx, asked: StepRequest<'_>, body: F) -> Result<T>
where
    T: Body,
    F: Fn() -> Fut + Send,
    Fut: Future<Output = Result<T>> + Send + 'a,
{
    let mut body = ClosureBody { body, result: None };
    attempts(ctx, asked, &mut body).await?;
    body.result.ok_or_else(|| Error::terminal("a step ended without a result"))
}

/// Makes attempts until the body has read a result. It is boxed: each crate that awaits it would
/// compile it again.
pub(super) fn attempts<'a, 'b: 'a>(
    ctx: &'a Ctx,
    asked: StepRequest<'a>,
    body: &'a mut (dyn StepBody<'b> + 'a),
) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
    Box::pin(make_attempts(ctx, asked, body))
}

async fn make_attempts<'b>(
    ctx: &Ctx,
    asked: StepRequest<'_>,
    body: &mut (dyn StepBody<'b> + '_),
) -> Result<()> {
    let key = ctx.key(asked.kind, asked.name, asked.line).await;
    let (call_key, input) = asked.call.unzip();
    match ctx.known(&key) {
        Some(StepResult::Value(value)) => {
            return body.read(&value).map_err(|error| unreadable(&key, &error));
        }
        Some(StepResult::Failed(error)) => return Err(error),
        Some(StepResult::Timer(_)) | None => {}
    }
    loop {
        let number = due(ctx, &key).await;
        ctx.may_act().await;
        let attempt = Attempt { number, began_at: ctx.clock_now().0 };
        let input = input.clone().filter(|_| number == 1);
        let cut_off = ctx.state().cut_off;
        let result = if CUT_OFFS_MAX <= cut_off {
            let text = format!("attempt {number} ended with its process {cut_off} times");
            Err(Error::terminal(text).with_code("process_ended"))
        } else {
            let (attempt, began_at) = (number, Timestamp(attempt.began_at));
            ctx.state().in_flight.push(AttemptInFlight { key: key.clone(), attempt, began_at });
            let _ended = on_drop(|| ctx.state().in_flight.retain(|it| it.key != key));
            try_once(ctx, &key, body, asked.timeout).await
        };
        match result {
            Ok(value) => {
                let done = Entry::Done { key, value, attempt: Some(attempt), input };
                ctx.give_result(done, call_key);
                return Ok(());
            }
            Err(error) => {
                let error = error.shortened();
                // A number from 0 to 1.
                let chance = (ctx.0.environment.entropy.next() >> 11) as f64 / (1_u64 << 53) as f64;
                let wait = asked.retry.wait(number, chance).filter(|_| !error.is_terminal());
                let Some(wait) = wait else {
                    let failed = Entry::Failed { key, error: error.clone(), attempt, input };
                    ctx.give_result(failed, call_key);
                    return Err(error);
                };
                let retry_at = ctx.clock_now().after(wait).0;
                ctx.give(Entry::Tried { key: key.clone(), error, attempt, retry_at, input });
            }
        }
    }
}

/// Waits until the next attempt is due, and returns its number.
async fn due(ctx: &Ctx, key: &Key) -> u32 {
    poll_fn(|_| {
        let tried = ctx.state().fold.step(key).and_then(|it| {
            let last = it.attempts.last()?;
            Some((last.attempt.number, it.retry_at?))
        });
        match tried {
            Some((number, retry_at)) => ctx.wait_until(key, retry_at).map(|()| number + 1),
            None => Poll::Ready(1),
        }
    })
    .await
}

/// Makes one attempt, or returns the scripted result of a test.
async fn try_once<'b>(
    ctx: &Ctx,
    key: &Key,
    body: &mut (dyn StepBody<'b> + '_),
    timeout: Duration,
) -> Result<Value> {
    let says = ctx
        .0
        .environment
        .script
        .next(|| ScriptKey::Step { workflow: ctx.0.run.class().into(), step: key.name.clone() });
    let value = match says {
        Some(ScriptedResult::Value(value)) => value,
        Some(ScriptedResult::Fails(error)) => return Err(error),
        Some(ScriptedResult::TimesOut) => return Err(timed_out(timeout)),
        None => {
            // A body may panic before its first await.
            let begun = catch_unwind(AssertUnwindSafe(|| body.begin()));
            let attempt = begun.map_err(|panic| panicked(&*panic))?;
            encode_text(key, within(ctx, attempt, timeout).await?)?
        }
    };
    // The run gets the same value as a replay.
    body.read(&value).map_err(|error| {
        Error::terminal(format!("the result of {key} cannot be read back from JSON: {error}"))
            .with_code("unserializable_result")
    })?;
    Ok(value)
}

/// Runs the body with a timeout. A panic is an error.
async fn within<T>(
    ctx: &Ctx,
    mut body: Pin<Box<dyn Future<Output = Result<T>> + Send + '_>>,
    timeout: Duration,
) -> Result<T> {
    let clock = &ctx.0.environment.clock;
    let (mut over, began) = (None, clock.elapsed());
    poll_fn(|context| {
        ctx.state().in_step = true;
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(context)));
        ctx.state().in_step = false;
        match polled {
            Ok(Poll::Ready(result)) => Poll::Ready(result),
            Ok(Poll::Pending) => {
                // Most bodies are ready immediately: only others need a timer.
                let left = || timeout.saturating_sub(clock.elapsed().saturating_sub(began));
                let over = over.get_or_insert_with(|| clock.sleep(left()));
                over.as_mut().poll(context).map(|()| Err(timed_out(timeout)))
            }
            Err(panic) => Poll::Ready(Err(panicked(&*panic))),
        }
    })
    .await
}

fn timed_out(timeout: Duration) -> Error {
    let seconds = timeout.as_secs_f32();
    Error::retryable(format!("no result within {seconds} s")).with_code("timeout")
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = crate::dispatch::panic_message(panic);
    Error::retryable(format!("step panicked: {text}")).with_code("step_panicked")
}

/// The growth of delays between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// The same delay each time.
    Constant,
    /// The first delay is added each time.
    Linear,
    /// The delay doubles each time.
    Exponential,
}

/// The retry policy of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    limit: u32,
    delay: Duration,
    backoff: Backoff,
    delay_max: Duration,
}

impl Retry {
    /// Five retries, after 1, 2, 4, 8 and 16 seconds.
    pub const DEFAULT: Retry = Retry::exponential(Duration::from_secs(1));
    /// No retries.
    pub const NEVER: Retry = Retry::constant(Duration::ZERO).limit(0);

    /// A constant delay.
    pub const fn constant(delay: Duration) -> Self {
        Self::new(delay, Backoff::Constant)
    }

    /// A delay that grows by `first` each time.
    pub const fn linear(first: Duration) -> Self {
        Self::new(first, Backoff::Linear)
    }

    /// A delay that doubles each time.
    pub const fn exponential(first: Duration) -> Self {
        Self::new(first, Backoff::Exponential)
    }

    const fn new(delay: Duration, backoff: Backoff) -> Self {
        Self { limit: 5, delay, backoff, delay_max: Duration::from_hours(1) }
    }

    /// Sets the maximum of retries: there is one attempt more.
    pub const fn limit(mut self, retries: u32) -> Self {
        self.limit = retries;
        self
    }

    /// Sets the maximum delay; an hour by default.
    pub const fn delay_max(mut self, longest: Duration) -> Self {
        self.delay_max = longest;
        self
    }

    /// The delay after a failed attempt, from 1; `None` if it was the last. `chance` is from 0 to
    /// 1, and makes the delay up to a quarter longer, so that retries spread out.
    pub(super) fn wait(&self, attempt: u32, chance: f64) -> Option<Duration> {
        if self.limit < attempt {
            return None;
        }
        let wait = match self.backoff {
            Backoff::Constant => self.delay.min(self.delay_max),
            Backoff::Linear => self.delay.saturating_mul(attempt).min(self.delay_max),
            Backoff::Exponential => backoff(self.delay, attempt, self.delay_max),
        };
        Some(wait + wait.mul_f64(chance.clamp(0.0, 1.0) / 4.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waits(retry: Retry) -> Vec<Option<u64>> {
        (1..=4).map(|it| retry.wait(it, 0.0).map(|it| it.as_secs())).collect()
    }

    #[test]
    fn there_is_one_attempt_more_than_retries_and_waits_grow_as_said() {
        let some = |waits: [u64; 3]| [waits.map(Some).as_slice(), &[None]].concat();
        assert_eq!(waits(Retry::constant(SECOND).limit(3)), some([1, 1, 1]));
        assert_eq!(waits(Retry::linear(SECOND).limit(3)), some([1, 2, 3]));
        assert_eq!(waits(Retry::exponential(SECOND).limit(3)), some([1, 2, 4]));
        assert_eq!(waits(Retry::NEVER), [None; 4]);
        let longest = Retry::exponential(SECOND).limit(u32::MAX).delay_max(SECOND * 60);
        assert_eq!(longest.wait(4_000_000, 1.0), Some(SECOND * 75));
    }
}
