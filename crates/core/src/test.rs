//! The test kit: a whole program on a store in memory, with a virtual clock, and with a crash
//! before and after every commit.

use std::{fmt::Debug, ops::Deref, sync::Arc, time::Duration};

use steadfast_store::{
    Clock, DueCursor, ManualClock, MemoryStore, Moment, Position, Seal, SeededEntropy, Store,
    Timestamp, Work,
};

use crate::{
    App, Body, Error, Job, Queue, Result, Runtime, StartError, Workflow,
    bucket::{BlobLocation, MemoryBlobs},
    script::{Script, ScriptKey, ScriptedResult},
};

/// The initial time of the virtual clock.
const START: Timestamp = Timestamp(1_700_000_000_000);

/// A program under test. It derefs to [`Runtime`].
pub struct TestApp {
    runtime: Runtime,
    clock: ManualClock,
    script: Script,
}

impl Deref for TestApp {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// The program ends like a killed process.
impl Drop for TestApp {
    fn drop(&mut self) {
        self.runtime.end_at_once();
    }
}

impl App {
    /// Starts the program on an empty store in memory; time passes only by [`TestApp::advance`].
    #[steadfast_store::boxed]
    pub async fn test(self) -> Result<TestApp, StartError> {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        TestApp::start(self, store, MemoryBlobs::default(), clock).await
    }

    /// Starts the program on this store, which must use the same clock. The program's own settings
    /// say where its blobs are. A test can keep the store to check data after the process has
    /// ended.
    #[steadfast_store::boxed]
    pub async fn test_on(
        mut self,
        store: Arc<dyn Store>,
        clock: ManualClock,
    ) -> Result<TestApp, StartError> {
        let script = Script::written();
        self.script = script.clone();
        let app = self.entropy(SeededEntropy::new(1)).seal(Seal::of_key([1; 32]));
        let runtime = app.start(store).await?;
        Ok(TestApp { runtime, clock, script })
    }
}

impl TestApp {
    async fn start(
        mut app: App,
        store: Arc<MemoryStore>,
        blobs: MemoryBlobs,
        clock: ManualClock,
    ) -> Result<Self, StartError> {
        // A program without buckets has no name to write into its store.
        if !app.buckets.specs.is_empty() {
            app.buckets.location = BlobLocation::Given(Arc::new(blobs));
        }
        app.test_on(store, clock).await
    }

    /// Waits until all due work is done.
    #[steadfast_store::boxed]
    pub async fn settle(&self) {
        let (queues, runs) = (self.runtime.queues(), self.runtime.runs());
        let Some(dispatcher) = self.runtime.dispatcher() else { return };
        let commits = || self.runtime.store().activity().commits;
        loop {
            dispatcher.settled().await;
            runs.idle().await;
            queues.settled().await;
            // A queue may have made work for another one meanwhile, which is a commit.
            let before = commits();
            dispatcher.settled().await;
            if runs.is_idle() && queues.is_settled() && commits() == before {
                return;
            }
        }
    }

    /// Lets time pass. Work that becomes due meanwhile runs at its time.
    #[steadfast_store::boxed]
    pub async fn advance(&self, duration: Duration) {
        let until = self.clock.now().after(duration);
        self.settle().await;
        while self.clock.now() < until {
            let now = self.clock.now();
            let behind = DueCursor { due_at: now, position: Position::MAX };
            let next = match self.runtime.store().due(behind, 100).await {
                // Work that this process holds becomes due only for the next process.
                Ok(works) => works.iter().find(|it| !is_held(it)).map_or(until, |it| it.due_at),
                // The program has crashed, as the test wanted.
                Err(_) => until,
            };
            let queues = self.runtime.queues().next_wake().filter(|it| now < *it);
            let next = next.min(queues.unwrap_or(until)).min(until);
            self.clock.advance(next.since(now));
            self.settle().await;
        }
    }

    /// Scripts the results of the next attempts of a step or call, one for each attempt. Later
    /// attempts run.
    pub fn script<W: Workflow>(&self, step: &str) -> ScriptBuilder<'_> {
        let (workflow, step) = (W::NAME.into(), step.into());
        ScriptBuilder { script: &self.script, key: ScriptKey::Step { workflow, step } }
    }

    /// Scripts the results of the next attempts of a job, one for each attempt.
    pub fn script_job<J: Job>(&self) -> ScriptBuilder<'_> {
        ScriptBuilder { script: &self.script, key: ScriptKey::Job(J::NAME) }
    }

    /// Scripts the results of the next deliveries of a queue, one for each delivery. A value
    /// settles the message as done, whatever the value is.
    pub fn script_consumer<T>(&self, queue: Queue<T>) -> ScriptBuilder<'_> {
        ScriptBuilder { script: &self.script, key: ScriptKey::Consumer(queue.name()) }
    }

    /// The virtual time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

fn is_held(work: &Work) -> bool {
    work.claim.is_some_and(|(lease, _)| lease.holder != 0)
}

/// Scripts the next attempts of a step, a job or a consumer.
pub struct ScriptBuilder<'a> {
    script: &'a Script,
    key: ScriptKey,
}

impl ScriptBuilder<'_> {
    /// The next attempt returns this value.
    pub fn gives(self, value: &impl Body) -> Self {
        let value = serde_json::to_value(value).expect("the value is JSON");
        self.add(ScriptedResult::Value(value))
    }

    /// The next attempt fails.
    pub fn fails(self, error: Error) -> Self {
        self.add(ScriptedResult::Fails(error))
    }

    /// The next attempt times out.
    pub fn times_out(self) -> Self {
        self.add(ScriptedResult::TimesOut)
    }

    fn add(self, result: ScriptedResult) -> Self {
        self.script.add(self.key.clone(), result);
        self
    }
}

/// Runs a scenario without a fault, and then twice for each of its commits: with a crash before
/// that commit, and with one after it. Each time the next process runs the scenario again on the
/// stored data. All runs must return the same value. Returns the number of crashes.
///
/// A client must be able to repeat the scenario: with idempotency keys, or because a repetition is
/// harmless.
pub async fn assert_survives_crashes<T: PartialEq + Debug>(
    program: impl Fn() -> App,
    scenario: impl AsyncFn(&TestApp) -> Result<T>,
) -> usize {
    let clock = ManualClock::at(START);
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let blobs = MemoryBlobs::default();
    let app = TestApp::start(program(), store.clone(), blobs, clock).await.expect("program starts");
    let wanted = scenario(&app).await.expect("the scenario works without faults");
    let commits = usize::try_from(store.activity().commits).unwrap_or(usize::MAX);
    let mut survived = 0;
    for number in 1..=commits {
        for moment in [Moment::Before, Moment::After] {
            let clock = ManualClock::at(START);
            let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
            let blobs = MemoryBlobs::default();
            store.crash_at(number, moment);
            let started =
                TestApp::start(program(), store.clone(), blobs.clone(), clock.clone()).await;
            if let Ok(app) = started {
                // The scenario may fail here: the program has crashed.
                let _ = scenario(&app).await;
            }
            let next = Arc::new(store.restart());
            let app =
                TestApp::start(program(), next, blobs, clock).await.expect("program starts again");
            let found = scenario(&app).await;
            let found = found.unwrap_or_else(|error| {
                panic!("after the end {moment:?} commit {number}: {error:?}")
            });
            assert_eq!(found, wanted, "after the end {moment:?} commit {number}");
            survived += 1;
        }
    }
    survived
}
