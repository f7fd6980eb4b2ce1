//! The context of a workflow while it runs, and its branches: concurrent ones, and the first of
//! several. Each branch is a sequence of its own, so that a replay can identify its operations.

use std::{
    future::poll_fn,
    panic::Location,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use steadfast_bucket::Buckets;
use steadfast_store::{Address, Entropy, OpaqueArc, StoreClock, Timestamp};

use super::{
    fold::{RunFold, StepResult},
    record::{Entry, Key, Progress, encode},
    state::{PendingEntry, State},
};
use crate::{Body, Error, Objects, Result, body::from_value, object::CallKey, script::Script};

/// The context of a run. Cheap to clone.
#[derive(Clone)]
pub struct Ctx(pub(super) OpaqueArc<Inner>);

pub(super) struct Inner {
    pub(super) run: Address,
    pub(super) environment: Arc<Environment>,
    state: Mutex<State>,
}

/// The environment of the runs of a program.
pub(crate) struct Environment {
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) objects: Objects,
    pub(crate) script: Script,
    pub(crate) buckets: Option<Buckets>,
}

/// Maximum bytes of reported progress; the rest is cut off.
const PROGRESS_BYTES_MAX: usize = 4_000;

/// The source line of an operation of the workflow.
pub(super) type SourceLine = &'static Location<'static>;

impl Ctx {
    pub(super) fn new(
        run: Address,
        environment: Arc<Environment>,
        fold: RunFold,
        cut_off: u32,
    ) -> Self {
        let state = Mutex::new(State::new(fold, cut_off));
        Self(OpaqueArc::new(Inner { run, environment, state }))
    }

    /// The id of the run.
    pub fn id(&self) -> &str {
        self.0.run.name()
    }

    /// The buckets of the program, if it has any.
    pub(crate) fn buckets(&self) -> Option<&Buckets> {
        self.0.environment.buckets.as_ref()
    }

    /// The clock of the store, for the bodies of steps: its time is not recorded. Elsewhere use
    /// [`now`](Ctx::now).
    pub fn clock(&self) -> &StoreClock {
        &self.0.environment.clock
    }

    /// The time; the first call records it for every replay.
    #[track_caller]
    pub fn now(&self) -> impl Future<Output = Result<Timestamp>> + Send {
        let line = Location::caller();
        async move { Ok(Timestamp(self.value("now", line, || self.clock_now().0).await?)) }
    }

    /// A random number, the same in every replay.
    #[track_caller]
    pub fn random(&self) -> impl Future<Output = Result<u64>> + Send {
        let line = Location::caller();
        async move { self.value("random", line, || self.0.environment.entropy.next()).await }
    }

    /// A random UUID, the same in every replay.
    #[track_caller]
    pub fn uuid(&self) -> impl Future<Output = Result<String>> + Send {
        let (line, entropy) = (Location::caller(), &self.0.environment.entropy);
        async move { self.value("uuid", line, || uuid(entropy.next(), entropy.next())).await }
    }

    async fn value<T: Body>(
        &self,
        kind: &'static str,
        line: SourceLine,
        make: impl FnOnce() -> T,
    ) -> Result<T> {
        let key = self.key(kind, "", line).await;
        let value = match self.known_value(&key) {
            Some(value) => value,
            None => {
                let made = encode(&key, &make())?;
                let (key, value) = (key.clone(), made.clone());
                self.give(Entry::Done { key, value, attempt: None, input: None });
                made
            }
        };
        decode(&key, &value)
    }

    /// Reports the progress of the run: a message, and a percentage if it is known. Views show it
    /// immediately; it is recorded with the next entry. Bodies of steps may call it.
    pub fn progress(&self, message: impl Into<String>, percent: impl Into<Option<f64>>) {
        let percent = percent.into().filter(|it| !it.is_nan()).map(|it| it.clamp(0.0, 100.0));
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(PROGRESS_BYTES_MAX));
        self.state().set_progress(Progress { message, percent });
    }

    // ---- for the others in here ----------------------------------------------------------

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    pub(super) fn clock_now(&self) -> Timestamp {
        self.0.environment.clock.now()
    }

    /// Enters another branch; returns the previous one.
    pub(super) fn enter(&self, scope: String) -> String {
        std::mem::replace(&mut self.state().scope, scope)
    }

    /// The next key of this name in the branch. It never returns if the code does not match the
    /// record, or while the run is paused.
    pub(super) async fn key(&self, kind: &'static str, name: &str, line: SourceLine) -> Key {
        let key = poll_fn(|_| {
            let mut state = self.state();
            match state.is_paused() && !state.in_step {
                true => Poll::Pending,
                false => Poll::Ready(state.key(kind, name, line)),
            }
        })
        .await;
        if self.state().stuck.is_some() {
            std::future::pending::<()>().await;
        }
        key
    }

    pub(super) fn known(&self, key: &Key) -> Option<StepResult> {
        self.state().fold.result(key).cloned()
    }

    pub(super) fn known_value(&self, key: &Key) -> Option<Value> {
        match self.known(key) {
            Some(StepResult::Value(value)) => Some(value),
            Some(StepResult::Failed(_) | StepResult::Timer(_)) | None => None,
        }
    }

    pub(super) fn give(&self, entry: Entry) {
        let now = self.clock_now();
        self.state().give(now, entry, None);
    }

    /// Records the result of a step or call; the commit that records it removes the stored reply.
    pub(super) fn give_result(&self, entry: Entry, call: Option<CallKey>) {
        let now = self.clock_now();
        self.state().give_all(now, PendingEntry { entry, sends: None, call });
    }

    /// Waits until everything that was recorded so far is durable: only then may an effect begin.
    /// It does not return while the run is paused.
    pub(super) async fn may_act(&self) {
        let number = self.state().given;
        poll_fn(|_| {
            let mut state = self.state();
            if state.is_paused() || state.stuck.is_some() {
                return Poll::Pending;
            }
            if number <= state.durable {
                return Poll::Ready(());
            }
            state.wants = true;
            Poll::Pending
        })
        .await;
    }
}

pub(super) fn decode<T: Body>(key: &Key, value: &Value) -> Result<T> {
    from_value(value).map_err(|error| unreadable(key, &error))
}

pub(super) fn unreadable(key: &Key, error: &serde_json::Error) -> Error {
    Error::terminal(format!("the record of {key} cannot be read: {error}"))
        .with_code("unreadable_record")
}

fn uuid(high: u64, low: u64) -> String {
    let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// The prefix of the scopes of the branches of a combination.
pub(super) fn within(key: &Key) -> String {
    let Key { scope, kind, name, count } = key;
    format!("{scope}{kind}{name}#{count}.")
}

/// A future whose steps are in a branch of their own.
pub(super) struct Branch<'a, F> {
    ctx: &'a Ctx,
    scope: String,
    future: Pin<Box<F>>,
}

impl<'a, F: Future> Branch<'a, F> {
    /// The branch with this number of a combination.
    pub(super) fn new(ctx: &'a Ctx, of: &Key, number: usize, future: F) -> Self {
        Self { ctx, scope: format!("{}{number}/", within(of)), future: Box::pin(future) }
    }

    /// Polls it as the current branch of the run.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = self.ctx.enter(self.scope.clone());
        let polled = self.future.as_mut().poll(context);
        self.ctx.enter(before);
        polled
    }

    /// Polls it, unless it has ended.
    fn poll_into(&mut self, context: &mut Context<'_>, result: &mut Option<F::Output>) {
        if result.is_none()
            && let Poll::Ready(value) = self.poll(context)
        {
            *result = Some(value);
        }
    }
}

/// One of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

impl Ctx {
    /// Runs both concurrently to their ends; returns the first error in source order.
    #[track_caller]
    pub fn join<A: Send, B: Send>(
        &self,
        a: impl Future<Output = Result<A>> + Send,
        b: impl Future<Output = Result<B>> + Send,
    ) -> impl Future<Output = Result<(A, B)>> + Send {
        let line = Location::caller();
        async move {
            let key = self.key("join", "", line).await;
            let (mut a, mut b) = (Branch::new(self, &key, 0, a), Branch::new(self, &key, 1, b));
            let (mut x, mut y) = (None, None);
            poll_fn(|context| {
                a.poll_into(context, &mut x);
                b.poll_into(context, &mut y);
                if x.is_some() && y.is_some() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            match (x, y) {
                (Some(x), Some(y)) => Ok((x?, y?)),
                _ => unreachable!("both were polled to their ends"),
            }
        }
    }

    /// The first of two that is ready; the other is dropped. The winner is recorded.
    #[track_caller]
    pub fn select<A: Send, B: Send>(
        &self,
        a: impl Future<Output = A> + Send,
        b: impl Future<Output = B> + Send,
    ) -> impl Future<Output = Either<A, B>> + Send {
        self.first_of(a, b, Location::caller())
    }

    async fn first_of<A, B>(
        &self,
        a: impl Future<Output = A> + Send,
        b: impl Future<Output = B> + Send,
        line: SourceLine,
    ) -> Either<A, B> {
        let key = self.key("select", "", line).await;
        let known = self.known_value(&key).and_then(|it| it.as_u64());
        let (mut a, mut b) = (Branch::new(self, &key, 0, a), Branch::new(self, &key, 1, b));
        let won = poll_fn(|context| {
            if known != Some(1)
                && let Poll::Ready(value) = a.poll(context)
            {
                return Poll::Ready(Either::Left(value));
            }
            if known != Some(0)
                && let Poll::Ready(value) = b.poll(context)
            {
                return Poll::Ready(Either::Right(value));
            }
            Poll::Pending
        })
        .await;
        if known.is_none() {
            let value = u8::from(matches!(won, Either::Right(_))).into();
            self.give(Entry::Done { key, value, attempt: None, input: None });
        }
        won
    }

    /// The value, or `None` after the timeout.
    #[track_caller]
    pub fn timeout<T: Send>(
        &self,
        name: &str,
        after: Duration,
        body: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<Option<T>>> + Send {
        let line = Location::caller();
        async move {
            match self.first_of(body, self.sleep_for(name, after, line), line).await {
                Either::Left(value) => value.map(Some),
                Either::Right(slept) => slept.map(|()| None),
            }
        }
    }

    /// Runs `body` for each item, at most `limit` at once; returns the results in the order of the
    /// items. The first error in that order is returned when all have ended.
    #[track_caller]
    pub fn map<X, T, F, Fut>(
        &self,
        items: impl IntoIterator<Item = X>,
        limit: usize,
        body: F,
    ) -> impl Future<Output = Result<Vec<T>>> + Send
    where
        T: Send,
        F: Fn(X) -> Fut,
        Fut: Future<Output = Result<T>> + Send,
    {
        let line = Location::caller();
        let bodies: Vec<Fut> = items.into_iter().map(body).collect();
        async move {
            let key = self.key("map", "", line).await;
            let branches = bodies.into_iter().enumerate();
            let mut all: Vec<_> =
                branches.map(|(it, body)| (Branch::new(self, &key, it, body), None)).collect();
            poll_fn(|context| {
                let mut active = 0;
                // A branch that has ended frees its slot.
                for (branch, result) in all.iter_mut().filter(|it| it.1.is_none()) {
                    if active == limit.max(1) {
                        break;
                    }
                    branch.poll_into(context, result);
                    active += usize::from(result.is_none());
                }
                let is_over = all.iter().all(|it| it.1.is_some());
                if is_over { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            all.into_iter().filter_map(|it| it.1).collect()
        }
    }
}
