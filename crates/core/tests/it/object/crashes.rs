//! One order of all calls explains the replies of every caller, over crashes and restarts.

use std::sync::Arc;

use steadfast_core::{
    CallError, Object,
    store::{Entropy, ManualClock, MemoryStore, Moment, SeededEntropy, Store},
};

use super::Program;
use crate::{
    gated_store::GatedStore,
    history::{Counter, CounterOp, CounterReply, Recorder, linearization},
    lab::{Lab, START},
    ledger::{Add, Cas, Ledger, Read},
};

type History = Recorder<Counter>;

fn some_op(chance: &SeededEntropy) -> CounterOp {
    let below = |limit| i64::try_from(chance.next() % limit).unwrap();
    match below(6) {
        0 | 1 => CounterOp::Read,
        2 => CounterOp::Cas { expected: below(8), new: below(8) },
        _ => CounterOp::Add(1 + below(5)),
    }
}

async fn perform(app: &Program, op: &CounterOp) -> Result<CounterReply, CallError> {
    let to = || Ledger::at("a");
    Ok(match *op {
        CounterOp::Add(by) => CounterReply::Value(app.call(to(), Add { by }).await?),
        CounterOp::Read => CounterReply::Value(app.call(to(), Read).await?.0),
        CounterOp::Cas { expected, new } => {
            CounterReply::Swapped(app.call(to(), Cas { expected, new }).await?)
        }
    })
}

/// One caller: as many calls as it may make, until the store does not answer any more.
async fn caller(app: Arc<Program>, history: Arc<History>, seed: u64, calls: usize) {
    let chance = SeededEntropy::new(seed);
    for _ in 0..calls {
        let op = some_op(&chance);
        let ticket = history.begin(op.clone());
        match perform(&app, &op).await {
            Ok(reply) => history.end(ticket, reply),
            Err(error) if error.surely_unapplied() => history.forget(ticket),
            // It may have happened.
            Err(_) => return,
        }
    }
}

/// The concurrent callers of one process.
async fn process(app: Program, history: &Arc<History>, chance: &SeededEntropy) -> Arc<Program> {
    let app = Arc::new(app);
    let callers: Vec<_> = (0..4)
        .map(|_| tokio::spawn(caller(app.clone(), history.clone(), chance.next(), 4)))
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    app
}

async fn read(app: &Program, history: &History) {
    let ticket = history.begin(CounterOp::Read);
    history.end(ticket, perform(app, &CounterOp::Read).await.unwrap());
}

fn check(history: &History, seed: u64) {
    let history = history.finish();
    assert!(linearization(&history).is_some(), "no order explains seed {seed}: {history:#?}");
}

fn seeds(many: u64) -> std::ops::Range<u64> {
    let any = || SeededEntropy::from_system().next() % 1_000_000;
    let given = std::env::var("STEADFAST_TEST_SEED");
    let base = given.map_or_else(|_| any(), |seed| seed.parse().expect("a number"));
    eprintln!("seeds from {base} (set STEADFAST_TEST_SEED to run them again)");
    base..base + many
}

async fn start(store: Arc<dyn Store>, clock: &ManualClock) -> Program {
    Program::of(store, clock, |it| it.class(Ledger::default())).await
}

/// Crashes the store in memory at a random commit, twice, and checks the end.
async fn run_with_crashes(seed: u64) {
    let chance = SeededEntropy::new(seed);
    let history = Arc::new(History::new());
    let clock = ManualClock::at(START);
    let mut store = MemoryStore::new(Arc::new(clock.clone()));
    for _ in 0..2 {
        let moment = if chance.next().is_multiple_of(2) { Moment::Before } else { Moment::After };
        store.crash_at(1 + chance.next() as usize % 10, moment);
        // Commits take time, so that several are in flight.
        let held = GatedStore::new(store);
        held.hold();
        let answers = {
            let held = held.clone();
            tokio::spawn(async move {
                loop {
                    held.came().await;
                    held.release();
                }
            })
        };
        drop(process(start(held.clone(), &clock).await, &history, &chance).await);
        answers.abort();
        store = held.inner.restart();
    }
    let app = process(start(Arc::new(store), &clock).await, &history, &chance).await;
    read(&app, &history).await;
    check(&history, seed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_order_explains_all_replies_whenever_the_process_ends() {
    for seed in seeds(200) {
        run_with_crashes(seed).await;
    }
}

/// Closes the store under load, without a kill, and opens it again.
async fn run_with_closing(lab: &mut Lab, seed: u64) {
    let chance = SeededEntropy::new(seed);
    let history = Arc::new(History::new());
    for _ in 0..2 {
        let app = start(lab.store.clone(), &lab.clock).await;
        let store = lab.store.clone();
        let steps = chance.next() % 40;
        let closing = tokio::spawn(async move {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            store.close().await;
        });
        drop(process(app, &history, &chance).await);
        closing.await.unwrap();
        lab.reopen().await;
    }
    let app = process(start(lab.store.clone(), &lab.clock).await, &history, &chance).await;
    read(&app, &history).await;
    check(&history, seed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_order_explains_all_replies_whenever_sqlite_is_closed() {
    for seed in seeds(20) {
        let mut lab = Lab::sqlite().await;
        run_with_closing(&mut lab, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_order_explains_all_replies_whenever_postgres_is_closed() {
    for seed in seeds(4) {
        let mut lab = Lab::postgres().await;
        run_with_closing(&mut lab, seed).await;
    }
}
