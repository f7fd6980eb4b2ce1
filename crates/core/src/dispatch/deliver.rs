//! One delivery: claim, execute, settle. It can end at any line; nothing is lost.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    DispatcherOptions, Places, Unknown,
    attempt::{Leases, run_apart},
    handler::{Delivery, Failure, Handler, Router, SETTLED},
    index::{End, TargetKey},
    pools::{LoadingPlace, Place, Pool, Pools},
    turnstile::Turnstile,
};
use parking_lot::Mutex;
use steadfast_store::{
    Commit, Entropy, Lease, Outcome, Position, Recorded, Rejection, SettledAs, State, Store,
    StoreClock, StoreError, Write, crash, failed,
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

/// A target that is in trouble is left alone for so long.
const REST: Duration = Duration::from_millis(500);

/// A delivery that is about to begin.
pub(super) struct Begin {
    pub(super) position: Position,
    pub(super) target: TargetKey,
    /// It was under way when a process ended: it is delivered apart from all others, one at a time.
    pub(super) is_blamed: bool,
    /// One of the places to load, for those that share them.
    pub(super) loading: Option<LoadingPlace>,
    /// A place that its target has waited for.
    pub(super) place: Option<Place>,
    pub(super) turn: Turnstile,
}

/// Carries messages to their handlers.
pub(super) struct Courier {
    pub(super) store: Arc<dyn Store>,
    clock: Arc<StoreClock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) options: DispatcherOptions,
    handlers: HashMap<Box<str>, Arc<dyn Handler>>,
    routers: Vec<Arc<dyn Router>>,
    pub(super) leases: Leases,
    /// Up to here somebody was at work who did not say goodbye: a message there may be the one that
    /// ended the process, so its attempts are counted before they begin.
    careful_until: Position,
    pub(super) pools: Arc<Pools>,
}

impl Courier {
    pub(super) fn new(
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
        options: DispatcherOptions,
        handlers: HashMap<Box<str>, Arc<dyn Handler>>,
        routers: Vec<Arc<dyn Router>>,
    ) -> Self {
        let careful_until = store.owner().unclean_until.unwrap_or(0);
        Self {
            clock: store.clock().clone(),
            store,
            entropy,
            options,
            handlers,
            routers,
            leases: Leases::default(),
            careful_until,
            pools: Arc::default(),
        }
    }

    /// Delivers a message in a task of its own, so that a panic in code of the user's, in a router
    /// say, only puts it off.
    pub(super) async fn deliver(self: &Arc<Self>, begin: Begin) -> End {
        let (courier, position) = (self.clone(), begin.position);
        let carried = async move { courier.carry(begin).await };
        match run_apart("handler", carried, std::future::pending()).await {
            Ok(end) => end,
            Err(error) => {
                tracing::error!(message_id = position, error = %error, "delivery panicked");
                let later = || End::Deferred(self.clock.now().after(Duration::from_secs(1)));
                self.leases.until(position).map_or_else(later, End::Again)
            }
        }
    }

    /// Delivers a message. An error of the store leaves it as it is: it is due again later.
    async fn carry(&self, begin: Begin) -> End {
        let position = begin.position;
        match self.attempt(begin).await {
            Ok(end) => end,
            Err(error) => {
                tracing::warn!(message_id = position, error = %error, "delivery was put off");
                let until = self.clock.now().after(Duration::from_secs(1));
                if error.is_retryable() { End::Rest(until) } else { End::Deferred(until) }
            }
        }
    }

    async fn attempt(&self, begin: Begin) -> Result<End, StoreError> {
        let Begin { position, target, is_blamed, loading, place, mut turn } = begin;
        // Should it not be as it was written any more, the commit at its end is refused.
        let message = match self.store.notices().fresh(position) {
            None => self.store.message(position).await?,
            fresh => fresh,
        };
        let Some(message) = message else { return Ok(End::Gone) };
        let attempts = match message.state {
            Some(State::Pending { due_at, .. }) if self.clock.now() < due_at => {
                return Ok(End::Again(due_at));
            }
            Some(State::Pending { attempts, .. } | State::InFlight { attempts, .. }) => attempts,
            Some(State::Settled(_)) | None => return Ok(End::Gone),
        };
        let handler = self.handler(&message);
        if handler.is_none() && self.options.unknown == Unknown::Waits {
            return Ok(End::Unserved);
        }
        let leaves = handler.as_ref().is_none_or(|it| it.leaves_the_process());
        // It may be what ended a process: its attempt is counted before it begins.
        let suspect = position <= self.careful_until && (!leaves || 0 < attempts);
        // Deliveries to one target begin in the order of their messages: behind one that went back,
        // all go back.
        if !turn.come().await {
            turn.go_back();
            return Ok(End::NoRoom);
        }
        let pools = if is_blamed { Vec::new() } else { self.pools_of(&handler, &message, suspect) };
        let Some(places) = self.enter(&pools, target, place) else {
            turn.go_back();
            return Ok(End::NoRoom);
        };
        drop(loading);
        let turn = handler.as_ref().is_some_and(|it| it.in_order()).then_some(turn);
        let end = if !leaves && !suspect {
            // Its commit alone decides whether it happened.
            self.execute(handler, self.delivery(message, attempts + 1, None, turn)).await
        } else {
            self.claim(handler, message, turn).await
        };
        drop(places);
        end
    }

    /// Which places a delivery takes, and of how many.
    fn pools_of(
        &self,
        handler: &Option<Arc<dyn Handler>>,
        message: &Recorded,
        suspect: bool,
    ) -> Vec<(Pool, usize)> {
        let max = self.options.concurrency;
        let (places, in_order) = match handler {
            Some(it) => (it.places(), it.in_order()),
            None => (Places::OfType, false),
        };
        let kind = match places {
            Places::OfType => (Pool::Type(message.message_type.as_str().into()), max),
            Places::Of { kind, name, max: more } => (Pool::Of(kind, name), more.unwrap_or(max)),
            Places::OfTarget => return Vec::new(),
        };
        // Claims of one target may be in each other's way, as those of two timers of a process of
        // which one cancels the other.
        match message.target.filter(|_| suspect && !in_order) {
            Some(target) => vec![(Pool::Target(target), 1), kind],
            None => vec![kind],
        }
    }

    /// Takes these places; `None` if one of them is not free, for which the target then waits
    /// in line.
    fn enter(
        &self,
        pools: &[(Pool, usize)],
        target: TargetKey,
        mut given: Option<Place>,
    ) -> Option<Vec<Place>> {
        let mut places = Vec::with_capacity(pools.len());
        for (pool, max) in pools {
            let given = given.take_if(|it| it.is_of(pool));
            places.push(self.pools.enter(pool, *max, target, given)?);
        }
        Some(places)
    }

    /// Counts the attempt before it begins.
    async fn claim(
        &self,
        handler: Option<Arc<dyn Handler>>,
        message: Recorded,
        turn: Option<Turnstile>,
    ) -> Result<End, StoreError> {
        let position = message.position;
        crash::point("claim.before");
        let lease = self.leases.next(&*self.store, false);
        let lasts = handler.as_ref().and_then(|it| it.lease()).unwrap_or(self.options.lease);
        let write = Write::Claim { position, lease, lasts };
        let receipt = match self.store.commit(Commit::of(write)).await? {
            Outcome::Committed(receipt) => receipt,
            Outcome::Rejected(Rejection::NotDue { due_at, .. }) => return Ok(End::Again(due_at)),
            Outcome::Rejected(_) | Outcome::Duplicate(_) => return Ok(End::Gone),
        };
        crash::point("claim.after");
        let claimed = receipt.claimed.first();
        let (attempt, until) = claimed.map_or((1, receipt.at), |it| (it.attempt, it.until));
        self.leases.hold(position, lease, until);
        let delivery = self.delivery(message, attempt, Some(lease), turn);
        match self.execute(handler, delivery).await {
            Ok(end) => {
                self.leases.let_go(position);
                Ok(end)
            }
            // The store has it under the lease, which nobody tells the index.
            Err(error) => {
                tracing::warn!(message_id = position, error = %error, "delivery was not settled");
                Ok(End::Again(until))
            }
        }
    }

    /// Whether a message is left for a program that has a handler for it.
    pub(super) fn leaves(&self, message: &Recorded) -> bool {
        self.options.unknown == Unknown::Waits && self.handler(message).is_none()
    }

    pub(super) fn handler(&self, message: &Recorded) -> Option<Arc<dyn Handler>> {
        let routed = || self.routers.iter().find_map(|it| it.route(message));
        self.handlers.get(&*message.message_type).cloned().or_else(routed)
    }

    fn delivery(
        &self,
        message: Recorded,
        attempt: u32,
        lease: Option<Lease>,
        turn: Option<Turnstile>,
    ) -> Delivery {
        let turn = Arc::new(Mutex::new(turn));
        Delivery { message, attempt, lease, store: self.store.clone(), end: Arc::default(), turn }
    }

    async fn execute(
        &self,
        handler: Option<Arc<dyn Handler>>,
        delivery: Delivery,
    ) -> Result<End, StoreError> {
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
        let end = match result {
            // The handler has ended it itself.
            _ if end.load(Ordering::Acquire) == SETTLED => End::Gone,
            Ok(commit) => self.settle(position, lease, attempt, commit).await?,
            Err(failure) if failure.is_untried => {
                tracing::debug!(message_id = position, error = failure.error, "put off");
                // Many runs or jobs share a target: the trouble of one is not that of all.
                let is_shared = handler.is_some_and(|it| matches!(it.places(), Places::OfTarget));
                if let Some(lease) = lease {
                    // Its release makes it due at once.
                    if is_shared {
                        self.clock.sleep(REST).await;
                    }
                    self.store.commit(Commit::of(Write::Release { position, lease })).await?;
                }
                match (is_shared, lease) {
                    (true, Some(_)) => End::Again(self.clock.now()),
                    (true, None) => End::Deferred(self.clock.now().after(REST)),
                    (false, _) => End::Rest(self.clock.now().after(REST)),
                }
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
        Ok(end)
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
        let sleep = self.clock.sleep(lease);
        let is_timed = handler.is_timed();
        let over = async {
            if !is_timed {
                return std::future::pending().await;
            }
            sleep.await;
            format!("no answer within its lease of {} s", lease.as_secs_f32())
        };
        let handled = async move { handler.handle(delivery).await };
        run_apart("handler", handled, over).await.map_err(Failure::retry)?
    }

    /// Commits what the handler decided together with the end of the delivery.
    async fn settle(
        &self,
        position: Position,
        lease: Option<Lease>,
        attempt: u32,
        commit: Commit,
    ) -> Result<End, StoreError> {
        let done = Write::Settle { position, lease, as_: SettledAs::Done, error: None };
        match self.store.commit(commit.write(done)).await {
            Ok(Outcome::Committed(_)) => Ok(End::Gone),
            Ok(Outcome::Rejected(
                Rejection::NotPending { position: at } | Rejection::LeaseLost { position: at },
            )) if at == position => Ok(End::Gone),
            // The consequences were recorded before, so the delivery is done.
            Ok(Outcome::Duplicate(_)) => {
                let done = Write::Settle { position, lease, as_: SettledAs::Done, error: None };
                self.store.commit(Commit::of(done)).await?;
                Ok(End::Gone)
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
    ) -> Result<End, StoreError> {
        let write = failed(position, lease, &failure.error, wait);
        let outcome = self.store.commit(Commit::of(write)).await?;
        match (wait, outcome) {
            (Some(wait), Outcome::Committed(receipt)) => Ok(End::Again(receipt.at.after(wait))),
            (None, _) | (_, Outcome::Rejected(_) | Outcome::Duplicate(_)) => Ok(End::Gone),
        }
    }
}

fn unknown_type(message: &Recorded) -> Failure {
    let message_type = &message.message_type;
    Failure::retry(format!(
        "no handler for message type `{message_type}`; register one, then revive the message"
    ))
}
