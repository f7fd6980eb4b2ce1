//! Random events against the machine of a run: a real store, real code and real changes from
//! outside, in every order that a driver, deliveries and crashes can bring about.

use std::{
    collections::HashSet,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use serde_json::{Value, json};
use steadfast_store::{
    Address, Clock, Commit, Due, Entropy, Lease, ManualClock, MemoryStore, Position, Recorded,
    SeededEntropy, State as DeliveryState, Store, StoreError, Timestamp, Write,
};

use super::{
    Code,
    draft::{Alarm, first, poll},
    machine::{Action, Event, Machine},
};
use crate::{
    Error, Objects, Result, Workflow,
    workflow::{
        Ctx, Either, Retry, RunError, RunOptions, Status,
        begin::starting,
        ctx::Environment,
        definition::{Definition, address},
        fold::RunFold,
        fold_cache::FoldCache,
        record::{AT_ONCE, Entry, Key, WakeUp, cancel_wake_up},
        runs::Runs,
    },
};

const SEEDS: u64 = 120;
const STEPS: usize = 160;
/// Steps after which every run has ended, or never will.
const DRAIN_STEPS: usize = 3_000;

/// An operation of the code of the run.
#[derive(Debug)]
enum Op {
    Step { fails: u32 },
    Sleep(u64),
    Event,
    EventWithin(u64),
    Join(Vec<Op>, Vec<Op>),
}

fn ops(chance: &SeededEntropy, depth: u64) -> Vec<Op> {
    (0..=chance.next() % 3).map(|_| op(chance, depth)).collect()
}

fn op(chance: &SeededEntropy, depth: u64) -> Op {
    match chance.next() % (6 + depth) {
        0 | 1 => Op::Step { fails: (chance.next() % 3) as u32 },
        2 => Op::Sleep(chance.next() % 40),
        3 => Op::Event,
        4 | 5 => Op::EventWithin(1 + chance.next() % 40),
        _ => Op::Join(ops(chance, depth - 1), ops(chance, depth - 1)),
    }
}

/// The code of the run, and the state that its bodies share with the world.
#[derive(Clone)]
struct Program {
    ops: Arc<Vec<Op>>,
    store: Arc<dyn Store>,
    run: Address,
    /// Bodies that may end.
    open: Arc<AtomicUsize>,
    /// The last value that a body gave.
    values: Arc<AtomicU64>,
}

impl Workflow for Program {
    const NAME: &'static str = "model";
    type Input = Value;
    type Output = Vec<u64>;

    async fn run(&self, ctx: &Ctx, _: Value) -> Result<Vec<u64>> {
        let mut seen = Vec::new();
        self.all(ctx, &self.ops, &mut seen).await?;
        Ok(seen)
    }
}

impl Program {
    fn all<'a>(
        &'a self,
        ctx: &'a Ctx,
        ops: &'a [Op],
        seen: &'a mut Vec<u64>,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            for op in ops {
                self.one(ctx, op, seen).await?;
            }
            Ok(())
        })
    }

    async fn one(&self, ctx: &Ctx, op: &Op, seen: &mut Vec<u64>) -> Result<()> {
        match op {
            Op::Step { fails } => {
                let (tries, before) = (AtomicUsize::new(0), &*seen);
                let retry = Retry::constant(Duration::from_secs(5)).limit(9);
                let body = async || self.body(before, *fails, &tries).await;
                let value = ctx.step("step", body).retry(retry).await?;
                seen.push(value);
            }
            Op::Sleep(seconds) => ctx.sleep("nap", Duration::from_secs(*seconds)).await?,
            Op::Event => seen.push(ctx.event("go").await?),
            Op::EventWithin(seconds) => {
                let nap = ctx.sleep("limit", Duration::from_secs(*seconds));
                match ctx.select(ctx.event::<u64>("go"), nap).await {
                    Either::Left(value) => seen.push(value?),
                    Either::Right(slept) => slept?,
                }
                ctx.progress(format!("{} seen", seen.len()), None);
            }
            Op::Join(left, right) => {
                let (mut a, mut b) = (seen.clone(), seen.clone());
                ctx.join(self.all(ctx, left, &mut a), self.all(ctx, right, &mut b)).await?;
                seen.extend(a.into_iter().chain(b));
            }
        }
        Ok(())
    }

    /// Everything that the code has seen is durable before a body begins.
    async fn body(&self, seen: &[u64], fails: u32, tries: &AtomicUsize) -> Result<u64> {
        let record = self.store.read_stream(self.run.id(), 1, usize::MAX).await?;
        let text: Vec<&str> = record.iter().map(|it| it.data.as_str()).collect();
        let has = |value: &u64| text.iter().any(|it| it.contains(&format!(":{value}")));
        // An erased run has no record; its code is dropped when it next records something.
        assert!(record.is_empty() || seen.iter().all(has), "{seen:?} not in {text:#?}");
        poll_fn(|_| {
            let take = |open: usize| open.checked_sub(1);
            match self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                Ok(_) => Poll::Ready(()),
                Err(_) => Poll::Pending,
            }
        })
        .await;
        if tries.fetch_add(1, Ordering::Relaxed) < fails as usize {
            return Err(Error::retryable("not yet"));
        }
        Ok(self.values.fetch_add(1, Ordering::Relaxed))
    }
}

/// A run that is driven, and the action that comes next.
struct Driven {
    machine: Machine,
    code: Code,
    action: Action,
}

struct World {
    chance: SeededEntropy,
    clock: ManualClock,
    store: Arc<dyn Store>,
    /// Changes the run from outside.
    runs: Runs,
    /// The cache of the drivers, which others do not update.
    folds: FoldCache,
    definition: Definition,
    objects: Objects,
    program: Program,
    run: Address,
    driven: Option<Driven>,
    settled: HashSet<Position>,
    /// Wake-ups of this driver.
    given: Vec<Position>,
    leases: i64,
    /// Commits when the record was last checked.
    checked: u64,
    log: Vec<String>,
    /// No more faults happen.
    is_calm: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let chance = SeededEntropy::new(seed);
        let clock = ManualClock::at(Timestamp(1_700_000_000_000));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let objects = Objects::builder(store.clone()).start().expect("no classes");
        let run = address("model", "one").expect("an address");
        // A timer wakes the driver that has the body in flight.
        let mut all = vec![Op::Sleep(1 + chance.next() % 9), Op::Step { fails: 2 }];
        all.extend(ops(&chance, 2));
        let program = Program {
            ops: Arc::new(all),
            store: store.clone(),
            run: run.clone(),
            open: Arc::default(),
            // Different from every other number of a record.
            values: Arc::new(AtomicU64::new(7_000_000)),
        };
        let entropy = Arc::new(SeededEntropy::new(seed));
        let runs = Runs::new(store.clone(), entropy, objects.clone()).with(program.clone());
        let definition = Definition::of(program.clone());
        let log = vec![format!("seed {seed}: {:?}", program.ops)];
        let (driven, settled, leases, checked) = (None, HashSet::new(), -1, 0);
        Self {
            chance,
            clock,
            store,
            runs,
            folds: FoldCache::default(),
            definition,
            objects,
            program,
            run,
            driven,
            settled,
            given: Vec::new(),
            leases,
            checked,
            log,
            is_calm: false,
        }
    }

    fn one_of(&self, many: u64) -> bool {
        self.chance.next().is_multiple_of(many)
    }

    fn note(&mut self, text: impl Into<String>) {
        self.log.push(text.into());
    }

    // ---- the driver ----------------------------------------------------------------------

    /// Creates the run; perhaps as a start does that drives it immediately.
    async fn start(&mut self) {
        self.leases -= 1;
        let lease = Lease { holder: self.store.owner().epoch, number: self.leases };
        let is_held = self.driven.is_none() && self.one_of(2);
        let due = match is_held {
            true => Due::Held(lease, Duration::from_hours(9_000)),
            false => AT_ONCE,
        };
        let started = Entry::Started { input: json!(null), on_end: None };
        let commit = starting(&self.run, &started, due).expect("a small commit");
        let answer = self.store.commit(commit).await.expect("an answer");
        self.note(format!("start, held {is_held}"));
        let steadfast_store::Outcome::Committed(receipt) = answer else { return };
        if is_held {
            let [(_, first), (_, position)] = receipt.appended[..] else { panic!("{receipt:?}") };
            let wake_up = WakeUp { position, lease: Some(lease), attempt: 1, delivery: None };
            self.begin(wake_up);
            let fold = RunFold::begun(first, position, json!(null));
            self.load(Some(fold)).await;
        }
    }

    fn begin(&mut self, wake_up: WakeUp) {
        self.given = vec![wake_up.position];
        let mut machine = Machine::new(self.run.clone(), RunOptions::DEFAULT);
        machine.wake_ups.push(wake_up);
        machine.begin();
        let code = self.code(RunFold::default());
        self.driven = Some(Driven { machine, code, action: Action::Load });
    }

    fn code(&self, fold: RunFold) -> Code {
        let environment = Environment {
            clock: self.store.clock().clone(),
            entropy: Arc::new(SeededEntropy::new(self.chance.next())),
            objects: self.objects.clone(),
            script: crate::script::Script::default(),
            buckets: None,
        };
        let ctx = Ctx::new(self.run.clone(), Arc::new(environment), fold, 0);
        let future = Some((self.definition.run)(ctx.clone()));
        Code { ctx, future }
    }

    async fn load(&mut self, fresh: Option<RunFold>) {
        let fold = match fresh {
            Some(fold) => Some(fold),
            None => self.folds.load(&*self.store, &self.run).await.expect("a read"),
        };
        let code = self.code(fold.unwrap_or_default());
        if let Some(driven) = &mut self.driven {
            driven.code = code;
        }
        self.step_machine(Event::Loaded);
    }

    /// Gives an event to the machine, and collects the wake-ups that it has settled.
    fn step_machine(&mut self, event: Event) {
        let now = self.clock.now();
        let Some(driven) = &mut self.driven else { return };
        let Driven { machine, code, action } = driven;
        *action = machine.step(&mut code.ctx.state(), event, now);
        for wake_up in machine.settled.drain(..) {
            assert!(self.settled.insert(wake_up.position), "settled twice");
        }
        // Every delivery of a wake-up is held, or was notified. One that is being settled is in the
        // commit.
        let is_held = |it: &Position| machine.wake_ups.iter().any(|wake| wake.position == *it);
        let is_known = |it: &Position| is_held(it) || self.settled.contains(it);
        let is_settling = matches!(action, Action::Commit(_));
        assert!(is_settling || self.given.iter().all(is_known), "{:?} are lost", self.given);
    }

    /// Performs the next action of the machine.
    async fn act(&mut self) {
        let Some(driven) = &mut self.driven else { return };
        match std::mem::replace(&mut driven.action, Action::Poll) {
            Action::Load => self.load(None).await,
            Action::Poll => self.poll(),
            Action::Refresh => {
                let version = driven.code.ctx.state().fold.head.version;
                let page = self.store.read_stream(self.run.id(), version + 1, usize::MAX >> 1);
                let page = page.await.expect("a read");
                self.step_machine(Event::Refreshed(page));
            }
            Action::Commit(commit) => self.commit(commit).await,
            Action::Pause(_) => self.step_machine(Event::Paused),
            Action::Sleep => {
                let fold = {
                    let mut state = driven.code.ctx.state();
                    assert_eq!(
                        state.given, state.durable,
                        "it sleeps before its entries are durable"
                    );
                    std::mem::take(&mut state.fold)
                };
                self.folds.insert(self.run.id(), fold);
                self.note("sleeps");
                self.leave().await;
            }
            Action::Finish => {
                self.note("finishes");
                self.leave().await;
            }
            Action::GiveUp(error) => {
                assert!(!matches!(error, StoreError::Corrupt { .. }), "{error}");
                self.note(format!("gives up: {error}"));
                self.leave().await;
            }
        }
    }

    fn poll(&mut self) {
        let Some(driven) = &mut self.driven else { return };
        let Code { ctx, future } = &mut driven.code;
        let Some(future) = future else { return };
        let clock = self.clock.clone();
        let mut context = Context::from_waker(Waker::noop());
        match poll(ctx, future, &mut Alarm::new(&clock), &mut context) {
            Poll::Ready(polled) => {
                self.log.push(format!("polled {polled:?}"));
                self.step_machine(Event::Polled(polled));
            }
            // A body is in flight.
            Poll::Pending => driven.action = Action::Poll,
        }
    }

    async fn commit(&mut self, commit: Commit) {
        // Others may commit first.
        if !self.is_calm && self.one_of(4) {
            self.change().await;
        }
        let busy = || StoreError::Busy { waiting: 1 };
        let unknown = || StoreError::Unknown { reason: "the connection was lost".into() };
        let answer = match self.chance.next() % 30 {
            _ if self.is_calm => self.store.commit(commit).await,
            0 | 1 => Err(busy()),
            2 => Err(unknown()),
            3 => self.store.commit(commit).await.and_then(|_| Err(unknown())),
            _ => self.store.commit(commit).await,
        };
        self.note(format!("commit: {answer:?}"));
        self.step_machine(Event::Committed(answer));
    }

    /// The driver ends. A wake-up that this process holds is released, by the driver or by the next
    /// owner.
    async fn leave(&mut self) {
        let Some(driven) = self.driven.take() else { return };
        for wake_up in driven.machine.wake_ups {
            if let (position, Some(lease)) = (wake_up.position, wake_up.lease) {
                let release = Commit::of(Write::Release { position, lease });
                self.store.commit(release).await.expect("an answer");
            }
        }
    }

    // ---- the world around it ------------------------------------------------------------------

    /// Wake-ups that are to be delivered.
    async fn pending(&self) -> Vec<Recorded> {
        let pending = self.store.pending(Some(self.run.id()), 0, 1_000).await.expect("a read");
        pending.into_iter().filter(|it| it.action == "run").collect()
    }

    /// Delivers a wake-up that is due and that no driver has.
    async fn deliver(&mut self) {
        let now = self.clock.now();
        let taken = |position| {
            let machine = self.driven.as_ref().map(|it| &it.machine);
            machine.is_some_and(|it| it.wake_ups.iter().any(|it| it.position == position))
        };
        let is_due = |it: &Recorded| match it.state {
            Some(DeliveryState::Pending { due_at, .. }) => due_at <= now,
            Some(DeliveryState::InFlight { .. } | DeliveryState::Settled(_)) | None => false,
        };
        let pending = self.pending().await;
        let mut due = pending.iter().filter(|it| is_due(it) && !taken(it.position));
        let Some(position) = due.next().map(|it| it.position) else { return };
        let wake_up = WakeUp { position, lease: None, attempt: 1, delivery: None };
        self.note(format!("wake-up {position} is delivered"));
        match &self.driven {
            None => self.begin(wake_up),
            // A driver processes notifications while it polls.
            Some(Driven { action: Action::Poll, .. }) => {
                self.given.push(position);
                self.step_machine(Event::Notified(Some(wake_up)));
            }
            Some(_) => {}
        }
    }

    /// Changes the run from outside.
    async fn change(&mut self) {
        let (runs, choice) = (self.runs.clone(), self.chance.next() % 16);
        let (workflow, id) = ("model", "one");
        let changed = match choice {
            0..6 => {
                let value = self.program.values.fetch_add(1, Ordering::Relaxed);
                runs.send_event(workflow, id, "go", &value).await
            }
            6 | 7 => runs.pause(workflow, id).await,
            8..11 => runs.resume(workflow, id).await,
            11 | 12 => runs.retry(workflow, id).await,
            13 | 14 => {
                let terminated = runs.terminate(workflow, id).await;
                let from = self.one_of(2).then_some("step");
                // A driver may get both notifications at once.
                if self.one_of(3) { terminated } else { runs.restart(workflow, id, from).await }
            }
            // A run is not erased while it is driven.
            _ if self.driven.is_none() => self.replace().await,
            _ => Ok(()),
        };
        if let Err(RunError::Store(error)) = &changed {
            panic!("{error}");
        }
        self.note(format!("change {choice}: {}", changed.is_ok()));
    }

    /// An operator cancels one of several wake-ups; the others keep the run alive.
    async fn cancel(&mut self) {
        let pending = self.pending().await;
        let is_spare = |it: &Recorded| matches!(it.state, Some(DeliveryState::Pending { .. }));
        if let (true, Some(message)) = (1 < pending.len(), pending.iter().find(|it| is_spare(it))) {
            let cancel = Commit::of(cancel_wake_up(message.position));
            self.store.commit(cancel).await.expect("an answer");
            self.note(format!("wake-up {} is cancelled", message.position));
        }
    }

    /// Another run of this id, with a record of about the same length.
    async fn replace(&mut self) -> Result<(), RunError> {
        let (workflow, id) = ("model", "one");
        let before = self.store.version(self.run.id()).await?;
        _ = self.runs.terminate(workflow, id).await;
        self.runs.delete(workflow, id).await?;
        let started = Entry::Started { input: json!(null), on_end: None };
        self.store.commit(starting(&self.run, &started, AT_ONCE)?).await?;
        while self.one_of(8) || self.store.version(self.run.id()).await? < before {
            let value = self.program.values.fetch_add(1, Ordering::Relaxed);
            self.runs.send_event(workflow, id, "go", &value).await?;
        }
        self.note("replaced");
        Ok(())
    }

    async fn step(&mut self) {
        match self.chance.next() % 20 {
            0 => {
                self.change().await;
                // A second wake-up arrives before the driver has processed the change.
                if self.one_of(2) {
                    self.deliver().await;
                }
            }
            1 => self.clock.advance(Duration::from_secs(self.chance.next() % 20)),
            2 | 3 => _ = self.program.open.fetch_add(1, Ordering::Relaxed),
            4..8 => self.deliver().await,
            8 if self.polls() => self.step_machine(Event::Notified(None)),
            9 if self.one_of(3) => {
                self.note("crash");
                self.leave().await;
            }
            10 if self.one_of(2) => self.folds.remove(self.run.id()),
            11 if self.one_of(2) => self.cancel().await,
            _ => self.act().await,
        }
        self.check().await;
    }

    fn polls(&self) -> bool {
        matches!(&self.driven, Some(Driven { action: Action::Poll, .. }))
    }

    // ---- what holds after every step -----------------------------------------------------

    async fn check(&mut self) {
        let commits = self.store.activity().commits;
        if std::mem::replace(&mut self.checked, commits) == commits {
            return;
        }
        let fold = RunFold::load(&*self.store, &self.run).await.expect("a read");
        let Some(fold) = fold else { return };
        let pending = self.pending().await;
        let mut timers = 0;
        for message in &pending {
            assert!(!self.settled.contains(&message.position), "notified, but it is pending");
            let entry = Entry::of(message).expect("an entry");
            timers +=
                usize::from(matches!(entry, Some(Entry::Wake { waits }) if !waits.is_empty()));
        }
        assert!(timers <= 1, "{timers} wake-ups for times");
        let status = &fold.head.status;
        let needs_wake_up = match status {
            Status::Queued | Status::Running => true,
            Status::Waiting => first(&fold.waits).is_some(),
            Status::Paused(report) => {
                assert_eq!(*report, None, "the code is unchanged");
                false
            }
            Status::Complete(_) | Status::Errored(_) | Status::Terminated => false,
        };
        assert!(!needs_wake_up || !pending.is_empty(), "nothing wakes a run that is {status:?}");
        let row = self.store.run(self.run.id()).await.expect("a read").expect("a row");
        assert_eq!(row.status.tag(), status.tag(), "the table says something else");
        self.assert_once().await;
        self.assert_same(&fold);
    }

    /// No result is recorded twice.
    async fn assert_once(&self) {
        let record = self.store.read_stream(self.run.id(), 1, usize::MAX).await.expect("a read");
        let mut known: Vec<Key> = Vec::new();
        for message in &record {
            match Entry::of(message).expect("an entry") {
                Some(
                    Entry::Done { key, .. }
                    | Entry::Failed { key, .. }
                    | Entry::Timer { key, .. }
                    | Entry::Took { key, .. },
                ) => {
                    assert!(!known.contains(&key), "{key} is recorded twice");
                    known.push(key);
                }
                Some(Entry::Restarted { from }) => {
                    let kept = from.and_then(|key| known.iter().position(|it| *it == key));
                    known.truncate(kept.unwrap_or(0));
                }
                Some(_) | None => {}
            }
        }
    }

    /// A driver that is not ahead of the record, or behind it, has the fold of the record.
    fn assert_same(&self, recorded: &RunFold) {
        let Some(driven) = &self.driven else { return };
        let state = driven.code.ctx.state();
        let fold = &state.fold;
        let (ours, theirs) = (&fold.head, &recorded.head);
        let is_other = (ours.first, ours.version) != (theirs.first, theirs.version);
        if is_other || state.given != state.durable {
            return;
        }
        let steps = |fold: &RunFold| -> Vec<_> {
            let steps = fold.steps.iter();
            steps
                .map(|it| (it.key.clone(), it.result.clone(), it.retry_at, it.attempts.len()))
                .collect()
        };
        assert_eq!(steps(fold), steps(recorded));
        assert_eq!((ours.last, &ours.status), (theirs.last, &theirs.status));
        assert_eq!((&fold.waits, &fold.events), (&recorded.waits, &recorded.events));
        assert_eq!((fold.generation, &fold.progress), (recorded.generation, &recorded.progress));
        let branch = |fold: &RunFold| fold.branch("").map(|it| it.key.clone()).collect::<Vec<_>>();
        assert_eq!(branch(fold), branch(recorded));
    }

    // ---- the end -------------------------------------------------------------------------

    /// Without faults every run ends, and nothing is left to deliver.
    async fn drain(&mut self) {
        self.note("drain");
        self.is_calm = true;
        let (mut status, mut commits) = (Status::Queued, None);
        for step in 0..DRAIN_STEPS {
            // A run changes by commits only, and is folded from all of its record.
            let now = Some(self.store.activity().commits);
            if std::mem::replace(&mut commits, now) != now {
                status = match RunFold::load(&*self.store, &self.run).await {
                    Ok(Some(fold)) => fold.head.status,
                    Ok(None) | Err(_) => return,
                };
            }
            if status.is_final() && self.driven.is_none() && self.pending().await.is_empty() {
                return self.assert_output(&status).await;
            }
            match (step % 10, &self.driven) {
                (0, _) => self.deliver().await,
                (1, None) => {
                    self.clock.advance(Duration::from_secs(50));
                    _ = self.runs.resume("model", "one").await;
                    let value = self.program.values.fetch_add(1, Ordering::Relaxed);
                    _ = self.runs.send_event("model", "one", "go", &value).await;
                }
                (1, Some(_)) => _ = self.program.open.fetch_add(1, Ordering::Relaxed),
                (_, None) => {}
                (_, Some(_)) => self.act().await,
            }
            self.check().await;
        }
        panic!("the run does not end");
    }

    /// The output has every value of the record that the code has seen.
    async fn assert_output(&self, status: &Status) {
        let Status::Complete(output) = status else { return };
        let fold = RunFold::load(&*self.store, &self.run).await.expect("a read").expect("a run");
        let text = format!("{:?}", fold.steps);
        for value in output.as_array().into_iter().flatten() {
            assert!(text.contains(&format!("Number({value})")), "{value} is not in {text}");
        }
    }
}

/// Shows the steps of a seed that fails.
struct Show(World);

impl Drop for Show {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0.log.join("\n"));
        }
    }
}

#[tokio::test]
async fn the_record_and_the_wake_ups_of_a_run_are_right_after_any_events() {
    for seed in 1..=SEEDS {
        let mut world = Show(World::new(seed));
        world.0.start().await;
        for _ in 0..STEPS {
            world.0.step().await;
        }
        world.0.drain().await;
    }
}
