//! A process that crashes at every commit of a scenario, before it and after it: in the end its
//! streams are the same as without crashes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use steadfast_core::{
    Dispatcher,
    process::Processes,
    store::{EntityKind, Entropy, ManualClock, MemoryStore, Moment, SeededEntropy, Store},
};

use crate::{
    handlers::OPTIONS,
    lab::{START, address_of},
    play::until,
    shop::{Carrier, Input, Order, paid, place},
};

/// A step of a scenario.
#[derive(Clone, Debug)]
enum Step {
    Give(Input, String),
    Wait(Duration),
}

fn scenario(seed: u64) -> Vec<Step> {
    let chance = SeededEntropy::new(seed);
    let mut steps = Vec::new();
    for number in 0..10 {
        let id = (chance.next() % 3).to_string();
        let input = match chance.next() % 4 {
            0 | 1 => place(&id),
            2 => paid(&id),
            _ => Input::Ask { order_id: id },
        };
        steps.push(Step::Give(input.clone(), format!("key {number}")));
        if chance.next().is_multiple_of(3) {
            // A duplicate.
            steps.push(Step::Give(input, format!("key {number}")));
        }
        if chance.next().is_multiple_of(3) {
            steps.push(Step::Wait(Duration::from_secs(chance.next() % 70)));
        }
    }
    steps.push(Step::Wait(Duration::from_hours(1)));
    steps
}

/// A program that runs on a store until the store crashes.
struct Program {
    store: Arc<MemoryStore>,
    processes: Processes,
    dispatcher: Dispatcher,
}

impl Program {
    async fn start(store: Arc<MemoryStore>) -> Option<Self> {
        let processes = Processes::new(store.clone()).with::<Order>(Carrier::default());
        let dispatcher = Dispatcher::builder(store.clone())
            .entropy(SeededEntropy::new(1))
            .options(OPTIONS)
            .route(processes.clone());
        Some(Self { store, processes, dispatcher: dispatcher.start().await.ok()? })
    }

    /// Waits until all due work is done; if the store crashes meanwhile, starts again.
    async fn settle(&mut self) -> bool {
        self.quiet().await;
        let crashed = self.store.has_crashed();
        if crashed {
            let store = Arc::new(self.store.restart());
            *self = Self::start(store).await.expect("starts again");
            self.quiet().await;
        }
        crashed
    }

    /// All due work is done, or the store has crashed.
    async fn quiet(&self) {
        tokio::select! {
            () = self.dispatcher.settled() => {}
            () = until("the store crashes", async || self.store.has_crashed()) => {}
        }
    }
}

/// Runs a scenario with one crash; returns the streams, and whether the crash happened.
async fn run(steps: &[Step], crash: Option<(usize, Moment)>) -> (Vec<String>, bool) {
    let clock = ManualClock::at(START);
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    if let Some((commit, moment)) = crash {
        store.crash_at(commit, moment);
    }
    let mut program = Program::start(store).await.expect("starts");
    let mut crashed = false;
    let mut taken = BTreeSet::new();
    for step in steps {
        match step {
            Step::Give(input, key) => loop {
                let given = program.processes.input::<Order>(input, Some(key)).await;
                let refused = given.as_ref().is_err_and(|it| it.code() == "refused");
                crashed |= program.settle().await;
                // A caller without an answer repeats the input, and an accepted input is never
                // refused.
                taken.extend(given.is_ok().then(|| key.clone()));
                assert!(!(refused && taken.contains(key)), "{key} was taken before");
                if given.is_ok() || refused {
                    break;
                }
            },
            Step::Wait(duration) => {
                clock.advance(*duration);
                crashed |= program.settle().await;
            }
        }
    }
    (streams(&*program.store).await, crashed)
}

/// The contents of the streams, without times and positions.
async fn streams(store: &dyn Store) -> Vec<String> {
    let mut all = Vec::new();
    for id in ["0", "1", "2"] {
        let stream = address_of(EntityKind::Process, "order", id);
        for it in store.read_stream(stream.id(), 1, 1_000).await.unwrap() {
            let (action, kind) = (&it.action, &it.message_type);
            // Of two that are due at the same time, it is random which is delivered first and which
            // is cancelled.
            let processed = it.processed().filter(|_| action != "schedule");
            all.push(format!("{id}: {action} {kind} {} {processed:?}", it.data.as_str()));
        }
    }
    assert_eq!(store.violations().await.unwrap(), Vec::<String>::new());
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_or_after_any_commit_leaves_the_same_streams() {
    let mut crashes = 0;
    for seed in 0..12 {
        let steps = scenario(seed);
        let (expected, _) = run(&steps, None).await;
        for moment in [Moment::Before, Moment::After] {
            for commit in 1.. {
                let (found, crashed) = run(&steps, Some((commit, moment))).await;
                assert_eq!(found, expected, "seed {seed}, commit {commit}, {moment:?}");
                if !crashed {
                    break;
                }
                crashes += 1;
            }
        }
    }
    assert!(300 < crashes, "{crashes} crashes");
}
