//! One delivery: claim, execute, settle. It can end at any line; nothing is lost.

use std::{
    any::Any,
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use steadfast_store::{
    Clock, Commit, Entropy, Lease, Outcome, Position, Recorded, Rejection, SettledAs, State, Store,
    StoreError, Timestamp, Work, Write, crash, failed,
};
use tokio::{sync::Semaphore, task::JoinHandle};

use super::{
    DispatcherOptions, Unknown,
    handler::{Delivery, Failure, Handler, Router, SETTLED},
};

/// The points of a delivery, in order. `./test` ends a process at each of them.
pub const CRASH_POINTS: &[&str] = &[
    "claim.before",
    "claim.after",
    "execute.before",
    "execute.after",
    "settle.before",
    "settle.after",
];

/// A message that waits for another program is looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_hours(1);

/// How a delivery ended for the agenda: when the message is due again, if it is.
pub(super) type Again = Option<Timestamp>;

/// Carries messages to their handlers.
pub(super) struct Courier {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    options: DispatcherOptions,
    handlers: HashMap<Box<str>, Arc<dyn Handler>>,
    routers: Vec<Arc<dyn Router>>,
    leases: AtomicI64,
    held: Mutex<HashMap<Position, Lease>>,
    /// Up to here somebody was at work who did not say goodbye: a message there may be the one that
    /// ended the process, so its attempts are counted before they begin.
    careful_until: Position,
    /// Held by the delivery of a suspect; and by that of one that may take long, which must not
    /// hold up the others.
    alone: tokio::sync::Mutex<()>,
    alone_for_long: tokio::sync::Mutex<()>,
    /// Places to wait for that.
    queue: Semaphore,
}

impl Courier {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: DispatcherOptions,
        handlers: HashMap<Box<str>, Arc<dyn Handler>>,
        routers: Vec<Arc<dyn Router>>,
    ) -> Self {
        let careful_until = store.owner().unclean_until.unwrap_or(0);
        let (leases, held) = (AtomicI64::new(1), Mutex::default());
        let (alone, queue) = (tokio::sync::Mutex::default(), Semaphore::new(4));
        let alone_for_long = tokio::sync::Mutex::default();
        Self {
            store,
            clock,
            entropy,
            options,
            handlers,
            routers,
            leases,
            held,
            careful_until,
            alone,
            alone_for_long,
            queue,
        }
    }

    /// Counts the attempts that ended with their process, and has those messages delivered again.
    pub(super) async fn take_over_orphans(&self) -> Result<(), StoreError> {
        loop {
            let epoch = self.store.owner().epoch;
            let orphans = self.store.orphans(epoch, false, 500).await?;
            if orphans.is_empty() {
                return Ok(());
            }
            for Work { position, claim, attempts, forgiven, .. } in orphans {
                let tries = attempts - forgiven;
                let mut wait = self.options.retry.wait(tries, &*self.entropy);
                if wait.is_none()
                    && let Some(message) = self.store.message(position).await?
                {
                    // Its handler may be more patient.
                    let retry = self.handler(&message).and_then(|it| it.retry());
                    wait = retry.and_then(|it| it.wait(tries, &*self.entropy));
                }
                // Most were only near when another one ended the process: first time at once.
                let wait = if tries < 2 { wait.map(|_| Duration::ZERO) } else { wait };
                let error = format!("the process ended during attempt {tries}");
                let lease = claim.map(|(lease, _)| lease);
                self.store.commit(Commit::of(failed(position, lease, &error, wait))).await?;
            }
        }
    }

    /// Delivers a message in a task of its own, so that a panic in code of the user's, in a router
    /// say, only puts it off.
    pub(super) async fn deliver(self: &Arc<Self>, position: Position) -> Again {
        let courier = self.clone();
        let mut task = Abandon(tokio::spawn(async move { courier.carry(position).await }));
        match (&mut task.0).await {
            Ok(again) => again,
            Err(error) => {
                let error = panic_text(error);
                tracing::error!(message_id = position, error = %error, "delivery panicked");
                Some(self.clock.now().after(Duration::from_secs(1)))
            }
        }
    }

    /// Delivers a message. An error of the store leaves it as it is: it is due again later.
    async fn carry(&self, position: Position) -> Again {
        match self.attempt(position).await {
            Ok(again) => again,
            Err(error) => {
                tracing::warn!(message_id = position, error = %error, "delivery was put off");
                Some(self.clock.now().after(Duration::from_secs(1)))
            }
        }
    }

    async fn attempt(&self, position: Position) -> Result<Again, StoreError> {
        // Should it not be as it was written any more, the commit at its end is refused.
        let message = match self.store.notices().fresh(position) {
            None => self.store.message(position).await?,
            fresh => fresh,
        };
        let Some(message) = message else { return Ok(None) };
        let attempts = match message.state {
            Some(State::Pending { attempts, .. } | State::InFlight { attempts, .. }) => attempts,
            Some(State::Settled(_)) | None => return Ok(None),
        };
        let handler = self.handler(&message);
        if handler.is_none() && self.options.unknown == Unknown::Waits {
            return Ok(Some(self.clock.now().after(LOOK_AGAIN)));
        }
        let leaves = handler.as_ref().is_none_or(|it| it.leaves_the_process());
        // It may be what ended a process. Then it runs alone, so that no other is blamed for it.
        let suspect = position <= self.careful_until && (!leaves || 0 < attempts);
        let apart_after = handler.as_ref().map_or(0, |it| it.apart_after());
        let apart = suspect && apart_after <= attempts;
        let _alone = match apart.then(|| self.queue.try_acquire()) {
            Some(Ok(_waiting)) if 0 < apart_after => Some(self.alone_for_long.lock().await),
            Some(Ok(_waiting)) => Some(self.alone.lock().await),
            // Enough of them wait already; they must not take up the room of others.
            Some(Err(_)) => return Ok(Some(self.clock.now().after(Duration::from_millis(50)))),
            None => None,
        };
        if !leaves && !suspect {
            // Its commit alone decides whether it happened.
            let delivery = self.delivery(message, attempts + 1, None);
            return self.execute(handler, delivery).await;
        }
        crash::point("claim.before");
        let lease = self.new_lease();
        let lasts = handler.as_ref().and_then(|it| it.lease()).unwrap_or(self.options.lease);
        let write = Write::Claim { position, lease, lasts };
        let receipt = match self.store.commit(Commit::of(write)).await? {
            Outcome::Committed(receipt) => receipt,
            Outcome::Rejected(Rejection::NotDue { due_at, .. }) => return Ok(Some(due_at)),
            Outcome::Rejected(_) | Outcome::Duplicate(_) => return Ok(None),
        };
        crash::point("claim.after");
        self.hold(position, lease);
        let attempt = receipt.claimed.first().map_or(1, |it| it.attempt);
        let again = self.execute(handler, self.delivery(message, attempt, Some(lease))).await;
        self.let_go(position);
        again
    }

    fn handler(&self, message: &Recorded) -> Option<Arc<dyn Handler>> {
        let routed = || self.routers.iter().find_map(|it| it.route(message));
        self.handlers.get(&*message.message_type).cloned().or_else(routed)
    }

    fn delivery(&self, message: Recorded, attempt: u32, lease: Option<Lease>) -> Delivery {
        Delivery { message, attempt, lease, store: self.store.clone(), end: Arc::default() }
    }

    async fn execute(
        &self,
        handler: Option<Arc<dyn Handler>>,
        delivery: Delivery,
    ) -> Result<Again, StoreError> {
        let (position, attempt) = (delivery.message.position, delivery.attempt);
        let (lease, end) = (delivery.lease, delivery.end.clone());
        let retry = handler.as_ref().and_then(|it| it.retry()).unwrap_or(self.options.retry);
        let message = delivery.message.clone();
        let result = if retry.attempts_max < attempt {
            Err(Failure::fatal("the attempts before ended without an answer"))
        } else {
            crash::point("execute.before");
            let result = self.run(handler.clone(), delivery).await;
            crash::point("execute.after");
            result
        };
        crash::point("settle.before");
        let again = match result {
            // The handler has ended it itself.
            _ if end.load(Ordering::Acquire) == SETTLED => None,
            Ok(commit) => self.settle(position, lease, attempt, commit).await?,
            Err(failure) if failure.is_untried => {
                tracing::debug!(message_id = position, error = failure.error, "put off");
                if let Some(lease) = lease {
                    self.store.commit(Commit::of(Write::Release { position, lease })).await?;
                }
                Some(self.clock.now().after(Duration::from_millis(500)))
            }
            Err(failure) => {
                let wait = retry.wait(attempt, &*self.entropy).filter(|_| !failure.is_final);
                let given_up = || handler?.give_up(&message, &failure.error);
                match wait.is_none().then(given_up).flatten() {
                    Some(commit) => self.settle(position, lease, attempt, commit).await?,
                    None => self.fail(position, lease, &failure, wait).await?,
                }
            }
        };
        crash::point("settle.after");
        Ok(again)
    }

    /// Runs the handler in a task of its own, so that neither a panic nor a handler that never
    /// comes back harms others.
    async fn run(
        &self,
        handler: Option<Arc<dyn Handler>>,
        delivery: Delivery,
    ) -> Result<Commit, Failure> {
        let Some(handler) = handler else { return Err(unknown_type(&delivery.message)) };
        let lease = handler.lease().unwrap_or(self.options.lease);
        let until = self.clock.now().after(lease);
        let mut task = Abandon(tokio::spawn(async move { handler.handle(delivery).await }));
        tokio::select! {
            done = &mut task.0 => match done {
                Ok(result) => result,
                Err(error) => Err(Failure::retry(panic_text(error))),
            },
            () = self.clock.sleep_until(until) => {
                let seconds = lease.as_secs_f32();
                Err(Failure::retry(format!("no answer within its lease of {seconds} s")))
            }
        }
    }

    /// Commits what the handler decided together with the end of the delivery.
    async fn settle(
        &self,
        position: Position,
        lease: Option<Lease>,
        attempt: u32,
        commit: Commit,
    ) -> Result<Again, StoreError> {
        let done = Write::Settle { position, lease, as_: SettledAs::Done, error: None };
        match self.store.commit(commit.write(done)).await {
            Ok(Outcome::Committed(_)) => Ok(None),
            Ok(Outcome::Rejected(
                Rejection::NotPending { position: at } | Rejection::LeaseLost { position: at },
            )) if at == position => Ok(None),
            // The consequences were recorded before, so the delivery is done.
            Ok(Outcome::Duplicate(_)) => {
                let done = Write::Settle { position, lease, as_: SettledAs::Done, error: None };
                self.store.commit(Commit::of(done)).await?;
                Ok(None)
            }
            Ok(Outcome::Rejected(rejection)) => {
                let failure = Failure::retry(rejection.to_string());
                let wait = self.options.retry.wait(attempt, &*self.entropy);
                self.fail(position, lease, &failure, wait).await
            }
            Err(StoreError::Invalid(error)) => {
                self.fail(position, lease, &Failure::fatal(error.to_string()), None).await
            }
            Err(error) => Err(error),
        }
    }

    async fn fail(
        &self,
        position: Position,
        lease: Option<Lease>,
        failure: &Failure,
        wait: Option<Duration>,
    ) -> Result<Again, StoreError> {
        let write = failed(position, lease, &failure.error, wait);
        let outcome = self.store.commit(Commit::of(write)).await?;
        let (Some(wait), Outcome::Committed(receipt)) = (wait, outcome) else { return Ok(None) };
        Ok(Some(receipt.at.after(wait)))
    }

    /// Gives back the leases of deliveries that were stopped, as if they had not begun.
    pub(super) async fn release_all(&self) {
        let held = std::mem::take(&mut *self.held());
        for (position, lease) in held {
            let release = Commit::of(Write::Release { position, lease });
            if let Err(error) = self.store.commit(release).await {
                tracing::warn!(message_id = position, error = %error, "lease was not given back");
            }
        }
    }

    fn new_lease(&self) -> Lease {
        let number = self.leases.fetch_add(1, Ordering::Relaxed);
        Lease { holder: self.store.owner().epoch, number }
    }

    fn hold(&self, position: Position, lease: Lease) {
        self.held().insert(position, lease);
    }

    fn let_go(&self, position: Position) {
        self.held().remove(&position);
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<Position, Lease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown_type(message: &Recorded) -> Failure {
    let message_type = &message.message_type;
    Failure::retry(format!(
        "no handler for message type `{message_type}`; register one, then revive the message"
    ))
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the handler was cancelled".into() };
    format!("the handler panicked: {}", panic_message(&*panic))
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a text".into())
}

/// A task that ends with the one who waits for it.
struct Abandon<T>(JoinHandle<T>);

impl<T> Drop for Abandon<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
