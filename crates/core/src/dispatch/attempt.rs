//! One attempt to deliver a message: the lease that counts it, the task that runs user code, and
//! the commit that ends it. A process may crash at any line; no message is lost.

use std::{
    any::Any,
    collections::HashMap,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use parking_lot::Mutex;
use steadfast_store::{
    Address, Commit, Entropy, GrantedClaim, Lease, Outcome, Position, Receipt, Recorded, Rejection,
    RetryPolicy, SettledAs, State, Store, StoreError, Timestamp, Work, Write, futures::FutureExt,
    limits,
};
use tokio::task::JoinSet;

use super::handler::{Handler, done};
use crate::commit::commit_each;

/// The leases of deliveries in flight.
#[derive(Default)]
pub(crate) struct Leases {
    last: Arc<AtomicI64>,
    held: Mutex<HashMap<Position, (Lease, Timestamp)>>,
}

/// The answer to a claim.
pub(crate) enum Claim {
    /// This attempt is counted.
    Held { attempt: u32, lease: Lease, until: Timestamp },
    /// It is not due before this time.
    NotDue(Timestamp),
    /// Another consumer has the message, or it is settled.
    Lost,
}

impl Leases {
    /// Leases with other numbers than these.
    pub(crate) fn with_other_numbers(&self) -> Self {
        Self { last: self.last.clone(), held: Mutex::default() }
    }

    /// A lease that this process has not used before.
    fn next(&self, store: &dyn Store) -> Lease {
        let number = 1 + self.last.fetch_add(1, Ordering::Relaxed);
        Lease { holder: store.owner().epoch, number }
    }

    /// Counts attempts before they begin, in one commit where possible.
    pub(crate) async fn claim(
        &self,
        store: &dyn Store,
        positions: &[Position],
        lasts: Duration,
    ) -> Result<Vec<Claim>, StoreError> {
        let lease = self.next(store);
        let claim =
            |position: &Position| Commit::of(Write::Claim { position: *position, lease, lasts });
        let claims: Vec<Commit> = positions.iter().map(claim).collect();
        let outcomes = commit_each(store, &claims).await?;
        let held = |(position, outcome): (&Position, Outcome)| match outcome {
            Outcome::Committed(receipt) => {
                let is_it = |it: &&GrantedClaim| it.position == *position;
                let Some(claimed) = receipt.claimed.iter().find(is_it) else { return Claim::Lost };
                let (attempt, until) = (claimed.attempt, claimed.until);
                self.held.lock().insert(*position, (lease, until));
                Claim::Held { attempt, lease, until }
            }
            Outcome::Rejected(Rejection::NotDue { due_at, .. }) => Claim::NotDue(due_at),
            Outcome::Rejected(_) | Outcome::Duplicate(_) => Claim::Lost,
        };
        Ok(positions.iter().zip(outcomes).map(held).collect())
    }

    /// The end of the lease of a message, if it has one.
    pub(crate) fn until(&self, position: Position) -> Option<Timestamp> {
        self.held.lock().get(&position).map(|(_, until)| *until)
    }

    /// Removes the lease of a delivery that has ended.
    pub(crate) fn ended(&self, position: Position) {
        self.held.lock().remove(&position);
    }

    /// Returns the leases of cancelled deliveries, as if they had not begun.
    pub(crate) async fn release_all(&self, store: &dyn Store) {
        let held = std::mem::take(&mut *self.held.lock());
        for (position, (lease, _)) in held {
            let release = Commit::of(Write::Release { position, lease });
            if let Err(error) = store.commit(release).await {
                tracing::warn!(message_id = position, error = %error, "lease was not released");
            }
        }
    }
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It succeeded. This is committed with the end of the delivery.
    Done(Commit),
    /// Another commit, such as a turn's, has ended the delivery.
    Settled,
    /// It is retried after this delay, or after that of the policy, if attempts are left.
    Retry { after: Option<Duration>, error: ErrorText },
    /// It is a dead letter.
    Bury { why: ErrorText },
}

/// The text of an error, as long as it is stored at most: the ends of a full batch fit one commit,
/// whatever the consumer's errors are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorText(Box<str>);

impl<T: AsRef<str>> From<T> for ErrorText {
    fn from(text: T) -> Self {
        Self(limits::cut_error(text.as_ref()).into())
    }
}

/// The end of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) position: Position,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) lease: Option<Lease>,
    pub(crate) verdict: Verdict,
}

impl Ending {
    /// The end of an attempt whose process ended.
    pub(crate) fn crashed(work: &Work, after: Option<Duration>) -> Self {
        let attempt = work.tries();
        let error = format!("the process ended during attempt {attempt}");
        let lease = work.claim.map(|(lease, _)| lease);
        let verdict = Verdict::Retry { after, error: error.into() };
        Self { position: work.position, attempt, lease, verdict }
    }
}

/// The policy for retries and dead letters.
pub(crate) struct Policy<'a> {
    pub(crate) retry: RetryPolicy,
    pub(crate) give_up: GiveUp<'a>,
}

/// The end of a message that is given up. No message is deleted.
pub(crate) enum GiveUp<'a> {
    /// It stays in its queue, dead.
    Dead,
    /// It moves to another queue.
    Move(Address),
    /// The handler reports the failure to those that wait for the result; else it is dead.
    Report(&'a dyn Handler, &'a Recorded),
}

/// The writes for the end of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct EndingCommit {
    pub(crate) position: Position,
    /// Nothing if the delivery is settled already.
    pub(crate) commit: Option<Commit>,
    pub(crate) kind: EndKind,
    /// The delay until the message is due again, if it is retried.
    again: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    Done,
    Retried,
    GivenUp,
}

impl EndingCommit {
    /// The time at which the message is due again, if it is retried, once it is committed.
    pub(crate) fn due_again(&self, receipt: &Receipt) -> Option<Timestamp> {
        self.again.map(|it| receipt.at.after(it))
    }
}

/// Makes the writes for the end of an attempt under a policy.
pub(crate) fn write(ending: &Ending, policy: &Policy<'_>, entropy: &dyn Entropy) -> EndingCommit {
    let Ending { position, attempt, lease, verdict } = ending;
    let (position, lease) = (*position, *lease);
    let written = |commit, kind| EndingCommit { position, commit, kind, again: None };
    match verdict {
        Verdict::Settled => written(None, EndKind::Done),
        Verdict::Done(commit) => {
            written(Some(commit.clone().write(done(position, lease))), EndKind::Done)
        }
        Verdict::Retry { after, error } => {
            let wait = policy.retry.wait(*attempt, entropy);
            let Some(wait) = wait.map(|it| after.unwrap_or(it)) else {
                let commit = give_up(position, lease, &error.0, &policy.give_up);
                return written(Some(commit), EndKind::GivenUp);
            };
            let error = error.0.to_string();
            let retry = Write::Retry { position, lease, error, after: wait };
            let again = Some(wait);
            EndingCommit { again, ..written(Some(Commit::of(retry)), EndKind::Retried) }
        }
        Verdict::Bury { why } => {
            written(Some(give_up(position, lease, &why.0, &policy.give_up)), EndKind::GivenUp)
        }
    }
}

/// The lease of a message, which may have expired.
pub(crate) fn lease_of(message: &Recorded) -> Option<Lease> {
    if let Some(State::InFlight { lease, .. }) = message.state { Some(lease) } else { None }
}

fn give_up(position: Position, lease: Option<Lease>, error: &str, how: &GiveUp<'_>) -> Commit {
    let dead = || {
        let error = Some(error.to_owned());
        Commit::of(Write::Settle { position, lease, as_: SettledAs::Dead, error })
    };
    match how {
        GiveUp::Dead => dead(),
        GiveUp::Move(to) => {
            let (to, error, after) = (to.clone(), Some(error.to_owned()), Duration::ZERO);
            Commit::of(Write::Move { position, lease, to, error, after })
        }
        GiveUp::Report(handler, message) => match handler.give_up(message, error) {
            Some(commit) => commit.write(done(position, lease)),
            None => dead(),
        },
    }
}

/// Commits the ends of attempts: all in one transaction, or one by one if one of them is rejected.
/// Returns the outcome of each; `None` if there was nothing to write.
pub(crate) async fn commit(
    store: &dyn Store,
    all: &[EndingCommit],
) -> Result<Vec<Option<Outcome>>, StoreError> {
    let commits = all.iter().filter_map(|it| it.commit.as_ref());
    let mut outcomes = commit_each(store, commits).await?.into_iter();
    Ok(all.iter().map(|it| it.commit.as_ref().and_then(|_| outcomes.next())).collect())
}

/// Commits the end of one attempt. Returns the time at which the message is due again, if it is
/// retried. If the store refuses the consequences, the attempt has failed. If it refuses a report,
/// the message is dead.
pub(crate) async fn settle(
    store: &dyn Store,
    mut ending: Ending,
    mut policy: Policy<'_>,
    entropy: &dyn Entropy,
) -> Result<Option<Timestamp>, StoreError> {
    loop {
        let written = write(&ending, &policy, entropy);
        let Some(commit) = &written.commit else { return Ok(None) };
        let is_given_up = written.kind == EndKind::GivenUp;
        let is_last = is_given_up && matches!(policy.give_up, GiveUp::Dead);
        ending.verdict = match store.commit(commit.clone()).await {
            Ok(Outcome::Committed(receipt)) => return Ok(written.due_again(&receipt)),
            Ok(Outcome::Rejected(
                Rejection::NotPending { position: at } | Rejection::LeaseLost { position: at },
            )) if at == ending.position => return Ok(None),
            // The consequences were recorded before, so the delivery is done.
            Ok(Outcome::Duplicate(_)) => Verdict::Done(Commit::default()),
            Ok(Outcome::Rejected(rejection)) => {
                Verdict::Retry { after: None, error: rejection.to_string().into() }
            }
            Err(StoreError::Invalid(error)) if !is_last => {
                Verdict::Bury { why: error.to_string().into() }
            }
            Err(error) => return Err(error),
        };
        if is_given_up {
            policy.give_up = GiveUp::Dead;
        }
    }
}

/// Runs user code in a task of its own, so that a panic affects nothing else. The task ends when
/// its caller is dropped, or with the error that `over` returns.
pub(crate) async fn run_apart<T: Send + 'static>(
    who: &str,
    work: impl Future<Output = T> + Send + 'static,
    over: impl Future<Output = String>,
) -> Result<T, String> {
    let mut task = JoinSet::new();
    task.spawn(work.boxed());
    tokio::select! {
        Some(done) = task.join_next() => done.map_err(|error| match error.try_into_panic() {
            Ok(panic) => format!("the {who} panicked: {}", panic_message(&*panic)),
            Err(_) => format!("the {who} was cancelled"),
        }),
        reason = over => Err(reason),
    }
}

/// Runs a future in this task; a panic in it is an error.
pub(super) async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic_message(&*panic))),
        }
    })
    .await
}

/// The text of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a text".into())
}
