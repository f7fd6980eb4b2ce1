//! One delivery to a handler: load, route, take a permit, claim, execute, settle. A process may
//! crash at any line; no message is lost.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use steadfast_store::{
    Commit, Entropy, Lease, Position, Recorded, State, Store, StoreClock, StoreError, Work, Write,
    crash,
};

use super::{
    DispatcherOptions, PermitPool, Unknown,
    attempt::{
        self, Claim, EndKind, Ending, GiveUp, Leases, Policy, Verdict, catch_panic, run_apart,
    },
    handler::{Failure, Handler, HandlerDelivery, Router, SETTLED},
    index::{End, TargetKey},
    pools::{LoadPermit, Permit, PoolKey, Pools, StartOrder},
    waker::LoopWaker,
};
use crate::commit::commit_each;

/// The points of a delivery, in order. `./test` kills a process at each of them.
pub const CRASH_POINTS: &[&str] = &[
    "claim.before",
    "claim.after",
    "execute.before",
    "execute.after",
    "settle.before",
    "settle.after",
];

/// Pause of a target whose delivery could not begin.
const REST: Duration = Duration::from_millis(500);

/// A delivery that is about to begin.
pub(super) struct Begin {
    pub(super) position: Position,
    pub(super) target: TargetKey,
    /// It was in flight when a process crashed: it is delivered apart from all others, one at a
    /// time.
    pub(super) is_blamed: bool,
    /// A permit to load; `None` for targets with a limit of their own.
    pub(super) loading: Option<LoadPermit>,
    /// A permit that its target has waited for.
    pub(super) permit: Option<Permit>,
    pub(super) turn: StartOrder,
}

/// Delivers messages to their handlers.
pub(super) struct Worker {
    pub(super) store: Arc<dyn Store>,
    clock: Arc<StoreClock>,
    entropy: Arc<dyn Entropy>,
    pub(super) options: DispatcherOptions,
    handlers: HashMap<Box<str>, Arc<dyn Handler>>,
    routers: Vec<Arc<dyn Router>>,
    pub(super) leases: Leases,
    /// The last position of a process that ended without a clean shutdown. A message up to here may
    /// have caused the crash, so its attempts are counted before they begin.
    careful_until: Position,
    pub(super) pools: Arc<Pools>,
}

impl Worker {
    pub(super) fn new(
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
        options: DispatcherOptions,
        handlers: HashMap<Box<str>, Arc<dyn Handler>>,
        routers: Vec<Arc<dyn Router>>,
        waker: Arc<LoopWaker>,
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
            pools: Pools::new(options.targets_max, waker),
        }
    }

    /// Delivers a message. A panic in user code, for example in a router, only delays it. `None` if
    /// the store can never be written again.
    pub(super) async fn deliver(&self, begin: Begin) -> Option<End> {
        let position = begin.position;
        match catch_panic(self.attempt(begin)).await {
            Ok(Ok(end)) => Some(end),
            Ok(Err(error)) => {
                tracing::warn!(message_id = position, error = %error, "delivery was deferred");
                if error.is_over() {
                    return None;
                }
                // The message is unchanged: it is due again later.
                let until = self.clock.now().after(Duration::from_secs(1));
                Some(if error.is_retryable() { End::Rest(until) } else { End::Deferred(until) })
            }
            Err(error) => {
                tracing::error!(message_id = position, error = %error, "delivery panicked");
                let later = || End::Deferred(self.clock.now().after(Duration::from_secs(1)));
                Some(self.leases.until(position).map_or_else(later, End::Again))
            }
        }
    }

    async fn attempt(&self, begin: Begin) -> Result<End, StoreError> {
        let Begin { position, target, is_blamed, loading, permit, mut turn } = begin;
        // If the message has changed since, the commit at the end is rejected.
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
        // It may have crashed a process: its attempt is counted before it begins.
        let suspect = position <= self.careful_until && (!leaves || 0 < attempts);
        // Deliveries to one target begin in the order of their messages: if the previous one was
        // requeued, so is this one.
        if !turn.wait().await {
            turn.requeue();
            return Ok(End::NoRoom);
        }
        let pools = match is_blamed {
            true => [None, None],
            false => self.pools_of(&handler, &message, suspect),
        };
        let Some(permits) = self.enter(&pools, target, permit) else {
            turn.requeue();
            return Ok(End::NoRoom);
        };
        drop(loading);
        let turn = handler.as_ref().is_some_and(|it| it.in_order()).then_some(turn);
        let end = if !leaves && !suspect {
            // Its commit alone decides whether it happened.
            self.execute(handler, self.delivery(message, attempts + 1, None, turn)).await
        } else {
            self.claim_and_execute(handler, message, turn).await
        };
        drop(permits);
        end
    }

    /// The pools that a delivery takes permits from, with their sizes.
    fn pools_of(
        &self,
        handler: &Option<Arc<dyn Handler>>,
        message: &Recorded,
        suspect: bool,
    ) -> [Option<(PoolKey, usize)>; 2] {
        let max = self.options.concurrency;
        let (pool, in_order) = match handler {
            Some(it) => (it.pool(), it.in_order()),
            None => (PermitPool::OfType, false),
        };
        let kind = match pool {
            PermitPool::OfType => (PoolKey::Type(message.message_type.as_str().into()), max),
            PermitPool::Of { kind, name, max: more } => {
                (PoolKey::Of(kind, name), more.unwrap_or(max))
            }
            PermitPool::OfTarget => return [None, None],
        };
        // Claims of one target may conflict, for example those of two timers of a process of which
        // one cancels the other.
        let target = message.target.filter(|_| suspect && !in_order);
        [target.map(|it| (PoolKey::Target(it), 1)), Some(kind)]
    }

    /// Takes a permit of each pool; `None` if one is missing, and then the target queues for it.
    fn enter(
        &self,
        pools: &[Option<(PoolKey, usize)>; 2],
        target: TargetKey,
        mut given: Option<Permit>,
    ) -> Option<[Option<Permit>; 2]> {
        let mut permits = [None, None];
        for (permit, (pool, max)) in permits.iter_mut().zip(pools.iter().flatten()) {
            let given = given.take_if(|it| it.is_of(pool));
            *permit = Some(self.pools.enter(pool, *max, target, given)?);
        }
        Some(permits)
    }

    /// Counts the attempt before it begins.
    async fn claim_and_execute(
        &self,
        handler: Option<Arc<dyn Handler>>,
        message: Recorded,
        turn: Option<StartOrder>,
    ) -> Result<End, StoreError> {
        let position = message.position;
        crash::point("claim.before");
        let lasts = handler.as_ref().and_then(|it| it.lease()).unwrap_or(self.options.lease);
        let claims = self.leases.claim(&*self.store, &[position], lasts).await?;
        let (attempt, lease, until) = match claims.first() {
            Some(Claim::Held { attempt, lease, until }) => (*attempt, *lease, *until),
            Some(Claim::NotDue(due_at)) => return Ok(End::Again(*due_at)),
            Some(Claim::Lost) | None => return Ok(End::Gone),
        };
        crash::point("claim.after");
        let delivery = self.delivery(message, attempt, Some(lease), turn);
        match self.execute(handler, delivery).await {
            Ok(end) => {
                self.leases.ended(position);
                Ok(end)
            }
            Err(error) if error.is_over() => Err(error),
            // The store has it under the lease, and the index gets no notice of that.
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

    fn handler(&self, message: &Recorded) -> Option<Arc<dyn Handler>> {
        let routed = || self.routers.iter().find_map(|it| it.route(message));
        self.handlers.get(&*message.message_type).cloned().or_else(routed)
    }

    fn delivery(
        &self,
        message: Recorded,
        attempt: u32,
        lease: Option<Lease>,
        turn: Option<StartOrder>,
    ) -> HandlerDelivery {
        let turn = Arc::new(Mutex::new(turn));
        HandlerDelivery {
            message,
            attempt,
            lease,
            store: self.store.clone(),
            end: Arc::default(),
            turn,
        }
    }

    async fn execute(
        &self,
        handler: Option<Arc<dyn Handler>>,
        delivery: HandlerDelivery,
    ) -> Result<End, StoreError> {
        let (attempt, lease) = (delivery.attempt, delivery.lease);
        let (message, ended) = (delivery.message.clone(), delivery.end.clone());
        let policy = self.policy(handler.as_deref(), &message);
        let result = if policy.retry.attempts_max < attempt {
            Err(Failure::fatal("the attempts before ended without an answer"))
        } else {
            crash::point("execute.before");
            let result = self.run(handler.clone(), delivery).await;
            crash::point("execute.after");
            result
        };
        crash::point("settle.before");
        let verdict = match result {
            // The handler has settled it.
            _ if ended.load(Ordering::Acquire) == SETTLED => Verdict::Settled,
            Ok(commit) => Verdict::Done(commit),
            Err(failure) if failure.is_untried => {
                tracing::debug!(
                    message_id = message.position,
                    error = failure.error,
                    "delivery was deferred"
                );
                // Many runs or jobs share a target: the failure of one must not delay all.
                let is_shared =
                    handler.as_ref().is_some_and(|it| matches!(it.pool(), PermitPool::OfTarget));
                return self.put_off(message.position, lease, is_shared).await;
            }
            Err(failure) if failure.is_final => Verdict::Bury { why: failure.error.into() },
            Err(failure) => Verdict::Retry { after: None, error: failure.error.into() },
        };
        let ending = Ending { position: message.position, attempt, lease, verdict };
        let due_again = attempt::settle(&*self.store, ending, policy, &*self.entropy).await?;
        crash::point("settle.after");
        Ok(due_again.map_or(End::Gone, End::Again))
    }

    /// Retries a message later whose attempt did not begin. That attempt does not count.
    async fn put_off(
        &self,
        position: Position,
        lease: Option<Lease>,
        is_shared: bool,
    ) -> Result<End, StoreError> {
        if let Some(lease) = lease {
            // Its release makes it due immediately.
            if is_shared {
                self.clock.sleep(REST).await;
            }
            self.store.commit(Commit::of(Write::Release { position, lease })).await?;
        }
        crash::point("settle.after");
        Ok(match (is_shared, lease) {
            (true, Some(_)) => End::Again(self.clock.now()),
            (true, None) => End::Deferred(self.clock.now().after(REST)),
            (false, _) => End::Rest(self.clock.now().after(REST)),
        })
    }

    fn policy<'a>(&self, handler: Option<&'a dyn Handler>, message: &'a Recorded) -> Policy<'a> {
        let retry = handler.and_then(|it| it.retry()).unwrap_or(self.options.retry);
        let give_up = handler.map_or(GiveUp::Dead, |it| GiveUp::Report(it, message));
        Policy { retry, give_up }
    }

    /// Runs the handler in a task of its own, so that neither a panic nor a handler that hangs
    /// affects others.
    async fn run(
        &self,
        handler: Option<Arc<dyn Handler>>,
        delivery: HandlerDelivery,
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

    /// Counts the attempts that ended with their process, and schedules those messages again.
    /// Returns those that are to be delivered apart from all others.
    pub(super) async fn take_over(&self) -> Result<Vec<Work>, StoreError> {
        let mut blamed = Vec::new();
        loop {
            let orphans = self.store.orphans(self.store.owner().epoch, false, 500).await?;
            if orphans.is_empty() {
                return Ok(blamed);
            }
            let mut commits = Vec::new();
            for orphan in &orphans {
                let message = self.store.message(orphan.position).await?;
                let handler = message.as_ref().and_then(|it| self.handler(it));
                let apart_after = handler.as_ref().map_or(0, |it| it.apart_after());
                // An ordered message keeps its position in its order.
                let is_blamed = apart_after <= orphan.attempts && !orphan.ordered;
                if is_blamed {
                    blamed.push(*orphan);
                }
                // Most were in flight only by coincidence: the first retry is immediate. One that
                // is delivered apart from all others need not wait at all.
                let is_soon = is_blamed || orphan.tries() < 2;
                let ending = Ending::crashed(orphan, is_soon.then_some(Duration::ZERO));
                let mut policy = Policy { retry: self.options.retry, give_up: GiveUp::Dead };
                if let Some((message, handler)) = message.as_ref().zip(handler.as_deref())
                    && policy.retry.attempts_max <= orphan.tries()
                {
                    // Its handler may allow more attempts. Otherwise a caller may wait for the
                    // failure.
                    policy = self.policy(Some(handler), message);
                }
                let written = attempt::write(&ending, &policy, &*self.entropy);
                if written.kind == EndKind::GivenUp {
                    // A report may be rejected, which must not affect the others.
                    attempt::settle(&*self.store, ending, policy, &*self.entropy).await?;
                } else {
                    commits.extend(written.commit);
                }
            }
            commit_each(&*self.store, &commits).await?;
        }
    }
}

fn unknown_type(message: &Recorded) -> Failure {
    let message_type = &message.message_type;
    Failure::retry(format!(
        "no handler for message type `{message_type}`; register one, then revive the message"
    ))
}
