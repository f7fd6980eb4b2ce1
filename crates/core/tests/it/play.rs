//! A workflow for the laws whose body the test writes, and a program that runs it on any store.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use steadfast_core::{
    App, Ctx, Result, RunError, Runs, Runtime, Workflow,
    store::{Clock, DueCursor, ManualClock, Position, SeededEntropy, Store, Work},
    workflow::{HistoryEntry, RunOptions, Status, StepStatus, StepView},
};
use tokio::sync::Semaphore;

pub(crate) use crate::wait::{Pace, until};

/// The operations that a run has recorded outside of branches, and their results.
pub(crate) async fn results(
    runs: &Runs,
    workflow: &str,
    id: &str,
) -> Result<Vec<(String, Option<Value>)>, RunError> {
    let view = runs.look(workflow, id).await?;
    let is_recorded = |it: &StepView| {
        it.output.is_some()
            || it.kind == "sleep"
            || it.status == StepStatus::Failed
            || !it.attempts.is_empty()
    };
    let own = view.steps.into_iter().filter(|it| it.branch.is_empty() && is_recorded(it));
    let key = |it: &StepView| match it.count {
        1 => format!("{} `{}`", it.kind, it.name),
        count => format!("{} `{}` ({count})", it.kind, it.name),
    };
    Ok(own.map(|it| (key(&it), it.output)).collect())
}

type Going = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;
type Body = dyn Fn(Ctx, Stage, Value) -> Going + Send + Sync;

/// One of two workflows.
#[derive(Clone)]
pub(crate) struct Named<const N: usize> {
    body: Arc<Body>,
    pub(crate) stage: Stage,
    options: RunOptions,
}

pub(crate) type Play = Named<0>;
pub(crate) type Other = Named<1>;

impl<const N: usize> Named<N> {
    pub(crate) fn of<Fut>(body: impl Fn(Ctx, Stage, Value) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Value>> + Send + 'static,
    {
        let body: Arc<Body> = Arc::new(move |ctx, stage, input| Box::pin(body(ctx, stage, input)));
        Self { body, stage: Stage::default(), options: RunOptions::DEFAULT }
    }

    /// The same stage as another one: a later version of it, or a rival.
    pub(crate) fn on(mut self, stage: &Stage) -> Self {
        self.stage = stage.clone();
        self
    }

    pub(crate) fn options(mut self, options: RunOptions) -> Self {
        self.options = options;
        self
    }
}

impl<const N: usize> Workflow for Named<N> {
    const NAME: &'static str = ["play", "other"][N];
    type Input = Value;
    type Output = Value;

    async fn run(&self, ctx: &Ctx, input: Value) -> Result<Value> {
        (self.body)(ctx.clone(), self.stage.clone(), input).await
    }

    fn options(&self) -> RunOptions {
        self.options
    }
}

/// State that bodies and the test share, over all processes: counters, and doors that are closed at
/// first.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    counts: Arc<Mutex<BTreeMap<String, u32>>>,
    doors: Arc<Mutex<BTreeMap<String, Arc<Door>>>>,
}

struct Door {
    came: Semaphore,
    open: Semaphore,
}

impl Stage {
    /// Increments a counter and returns it.
    pub(crate) fn count(&self, name: &str) -> u32 {
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn ran(&self, name: &str) -> u32 {
        self.counts.lock().unwrap().get(name).copied().unwrap_or(0)
    }

    fn door(&self, name: &str) -> Arc<Door> {
        let door = || Arc::new(Door { came: Semaphore::new(0), open: Semaphore::new(0) });
        self.doors.lock().unwrap().entry(name.to_owned()).or_insert_with(door).clone()
    }

    /// Waits until the test opens the door for one.
    pub(crate) async fn pass(&self, name: &str) {
        let door = self.door(name);
        let mut open = pin!(door.open.acquire());
        let mut came = false;
        // A test that is notified of the arrival must find it waiting.
        poll_fn(|context| {
            let polled = open.as_mut().poll(context);
            if !std::mem::replace(&mut came, true) {
                door.came.add_permits(1);
            }
            polled
        })
        .await
        .unwrap()
        .forget();
    }

    /// Returns when one more has arrived at the door.
    pub(crate) async fn came(&self, name: &str) {
        self.door(name).came.acquire().await.unwrap().forget();
    }

    /// Opens the door for this many.
    pub(crate) fn open(&self, name: &str, many: usize) {
        self.door(name).open.add_permits(many);
    }
}

/// Reads due work. A database whose disk hangs for longer than a lease refuses reads until it has
/// answered; the read is repeated.
pub(crate) async fn due(store: &dyn Store, after: DueCursor, limit: usize) -> Vec<Work> {
    let mut works = None;
    until("the store answers", async || {
        match store.due(after, limit).await {
            Err(error) if error.is_retryable() => {}
            read => works = Some(read.expect("it can be read")),
        }
        works.is_some()
    })
    .await;
    works.unwrap_or_default()
}

/// Waits for the end of a run, in the same way.
pub(crate) async fn ends(program: &Runtime, workflow: &str, id: &str) -> Status {
    let mut ended = None;
    until("the run ends", async || {
        match program.runs().wait(workflow, id).await {
            Err(RunError::Store(error)) if error.is_retryable() => {}
            status => ended = Some(status.expect("it can be read")),
        }
        ended.is_some()
    })
    .await;
    ended.expect("it has ended")
}

/// A program that runs plays.
pub(crate) struct Theatre {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: ManualClock,
    pub(crate) app: Runtime,
    pub(crate) stage: Stage,
}

impl Theatre {
    pub(crate) async fn on(store: Arc<dyn Store>, clock: ManualClock, play: &Play) -> Self {
        let builder = App::new("test").workflow(play.clone());
        let builder = builder.entropy(SeededEntropy::new(1));
        let app = builder.start(store.clone()).await.expect("runtime starts");
        Self { store, clock, app, stage: play.stage.clone() }
    }

    /// The next process, with this play, after this time.
    pub(crate) async fn again(self, play: &Play, away: Duration) -> Self {
        let Self { store, clock, app, .. } = self;
        app.stop().await;
        clock.advance(away);
        Self::on(store, clock, play).await
    }

    pub(crate) async fn start(&self, id: &str) {
        let started = self.app.start(Play::at(id), Value::Null).await.unwrap();
        assert!(started.created, "{id} was there");
    }

    pub(crate) async fn send(&self, id: &str, name: &str, payload: &Value) {
        self.app.runs().send_event("play", id, name, payload).await.unwrap();
    }

    pub(crate) async fn status(&self, id: &str) -> Status {
        self.app.runs().status("play", id).await.unwrap()
    }

    /// Waits until it sleeps.
    pub(crate) async fn sleeps(&self, id: &str) {
        until("it sleeps", async || self.status(id).await == Status::Waiting).await;
    }

    pub(crate) async fn ends(&self, id: &str) -> Status {
        ends(&self.app, "play", id).await
    }

    pub(crate) async fn completes(&self, id: &str) -> Value {
        match self.ends(id).await {
            Status::Complete(output) => output,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn history(&self, id: &str) -> Vec<HistoryEntry> {
        self.app.runs().history("play", id, 0, 1_000).await.unwrap()
    }

    /// All pending work, due or not.
    pub(crate) async fn works(&self) -> Vec<Work> {
        due(self.store.as_ref(), DueCursor::START, 1_000).await
    }

    /// Waits until nothing is in flight, and advances the clock to the next due time.
    pub(crate) async fn go_to_next(&self) -> Duration {
        let now = self.clock.now();
        let is_quiet = async || {
            let works = self.works().await;
            !works.is_empty() && works.iter().all(|it| now < it.due_at && it.claim.is_none())
        };
        until("only later things are left", is_quiet).await;
        let later = DueCursor { due_at: now, position: Position::MAX };
        let far = due(self.store.as_ref(), later, 1).await[0].due_at.since(now);
        self.clock.advance(far);
        far
    }
}
