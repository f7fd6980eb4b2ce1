//! The test kit: a whole program on a store in memory, with a clock that the test turns, and with
//! the end of the process at every commit.

use std::{fmt::Debug, ops::Deref, sync::Arc, time::Duration};

use steadfast_store::{
    Clock, DueCursor, ManualClock, MemoryStore, Moment, Position, SeededEntropy, Store, Timestamp,
    Work,
};

use crate::{
    App, Body, Error, Job, Queue, Result, Runtime, StartError, Workflow,
    bucket::{MemoryBlobs, Place},
    script::{Says, Scene, Script},
};

/// Where the clock of a test stands at first.
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

/// The program ends as a process does that is killed.
impl Drop for TestApp {
    fn drop(&mut self) {
        self.runtime.end_at_once();
    }
}

impl App {
    /// Starts the program on an empty store in memory; its clock stands still.
    pub async fn test(self) -> Result<TestApp, StartError> {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        TestApp::start(self, store, MemoryBlobs::default(), clock).await
    }

    /// Starts the program on this store, which tells the time by the same clock. Its blobs are
    /// where the program says. So a test can have data that outlives the process.
    pub async fn test_on(
        mut self,
        store: Arc<dyn Store>,
        clock: ManualClock,
    ) -> Result<TestApp, StartError> {
        let script = Script::written();
        self.script = script.clone();
        let runtime = self.entropy(SeededEntropy::new(1)).start(store).await?;
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
            app.buckets.place = Place::Given(Arc::new(blobs));
        }
        app.test_on(store, clock).await
    }

    /// Waits until everything that is due is done.
    pub async fn settle(&self) {
        let (queues, runs) = (self.runtime.queues(), self.runtime.runs());
        let Some(dispatcher) = self.runtime.dispatcher() else { return };
        let commits = || self.runtime.store().activity().commits;
        loop {
            dispatcher.settled().await;
            runs.idle().await;
            queues.settled().await;
            // While one of them was asked another may have made work for it, which is a commit.
            let before = commits();
            dispatcher.settled().await;
            if runs.is_idle() && queues.is_settled() && commits() == before {
                return;
            }
        }
    }

    /// Lets time pass. What becomes due on the way happens at its time.
    pub async fn advance(&self, duration: Duration) {
        let until = self.clock.now().after(duration);
        self.settle().await;
        while self.clock.now() < until {
            let now = self.clock.now();
            let behind = DueCursor { due_at: now, position: Position::MAX };
            let next = match self.runtime.store().due(behind, 100).await {
                // What is held in here becomes due only for the next process.
                Ok(works) => works.iter().find(|it| !is_held(it)).map_or(until, |it| it.due_at),
                // It has ended, as the test wanted.
                Err(_) => until,
            };
            let queues = self.runtime.queues().next_wake().filter(|it| now < *it);
            let next = next.min(queues.unwrap_or(until)).min(until);
            self.clock.advance(next.since(now));
            self.settle().await;
        }
    }

    /// Says what the next attempts of a step or call give, one each, instead of running. When all
    /// is said it runs as it is.
    pub fn script<W: Workflow>(&self, step: &str) -> Scripted<'_> {
        let (workflow, step) = (W::NAME.into(), step.into());
        Scripted { script: &self.script, scene: Scene::Step { workflow, step } }
    }

    /// Says what the next attempts of a job give, one each, instead of being performed.
    pub fn script_job<J: Job>(&self) -> Scripted<'_> {
        Scripted { script: &self.script, scene: Scene::Job(J::NAME) }
    }

    /// Says how the next deliveries of a queue end, one each, instead of reaching the consumer.
    /// What one gives is not looked at: the message is done.
    pub fn script_consumer<T>(&self, queue: Queue<T>) -> Scripted<'_> {
        Scripted { script: &self.script, scene: Scene::Consumer(queue.name()) }
    }

    /// The time in the test.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

fn is_held(work: &Work) -> bool {
    work.claim.is_some_and(|(lease, _)| lease.holder != 0)
}

/// What the next attempts of a step, a job or a consumer give.
pub struct Scripted<'a> {
    script: &'a Script,
    scene: Scene,
}

impl Scripted<'_> {
    /// One attempt gives this.
    pub fn gives(self, value: &impl Body) -> Self {
        let value = serde_json::to_value(value).expect("the value is JSON");
        self.say(Says::Gives(value))
    }

    /// One attempt fails.
    pub fn fails(self, error: Error) -> Self {
        self.say(Says::Fails(error))
    }

    /// One attempt fails as if its time were over.
    pub fn times_out(self) -> Self {
        self.say(Says::TimesOut)
    }

    fn say(self, says: Says) -> Self {
        self.script.say(self.scene.clone(), says);
        self
    }
}

/// Runs a scenario without a fault, and then once for each commit that it makes, with the end of
/// the process before that commit and once more after it; each time the next process runs the
/// scenario again on what is stored. All must end with the same observation. Returns how many ends
/// were survived.
///
/// A scenario must be one that a client could repeat: with idempotency keys, or without harm.
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
                // How far it comes is no matter.
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
