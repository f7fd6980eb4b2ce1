//! Providers have places of their own, and so have workspaces: a full one does not block another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Map, json};
use steadfast_core::{
    Object, Outcome,
    bucket::{Attributes, PutOptions},
    test::TestApp,
};
use steadfast_generations::{
    ARTIFACTS, Cancel, Create, Fetch, FetchHere, Fetched, GenerationManager, GenerationStatus,
    GetState, Request, TaskState, artifact_id, blob_key,
    providers::{
        Checked, Embedded, GenerateError, Model, OutputKind, OutputSource, OutputStream, Provider,
        Report, Request as Asked, Submitted, Task,
    },
    task_id,
};
use steadfast_images::Pool;
use tokio::sync::Semaphore;

use crate::stage::{Fake, program_with, request, until};

fn embedded() -> Embedded {
    Embedded::new(Pool::new("here", 1).unwrap())
}

fn id(number: u32) -> String {
    format!("0190b0a0-0000-7000-8000-{number:012}")
}

/// Pictures that are drawn on this machine.
fn drawn(workspace: &str, prompt: &str, count: u32) -> Create {
    let mut input = Map::new();
    for (name, value) in [("width", json!(64)), ("height", json!(64)), ("seed", json!(5))] {
        input.insert(name.into(), value);
    }
    input.insert("positivePrompt".into(), prompt.into());
    let request = Request {
        provider: Embedded::NAME.into(),
        model: "embedded:art@1".into(),
        kind: OutputKind::Image,
        input,
        count,
        tags: Vec::new(),
    };
    Create { request, workspace: workspace.into(), ..crate::stage::request("", 1) }
}

async fn status(app: &TestApp, id: &str) -> GenerationStatus {
    app.call(GenerationManager::at(id), GetState).await.unwrap().unwrap().status
}

#[tokio::test]
async fn what_is_made_here_does_not_wait_for_places_at_another_provider() {
    let app = program_with(vec![Arc::new(Fake::new()), Arc::new(embedded())]).test().await.unwrap();
    // More than all providers together have places for, and none of them comes to an end.
    for number in 0..4 {
        let endless = GenerationManager::at(id(number));
        app.call(endless, request("endless", 16)).await.unwrap();
    }
    let create = drawn("default", "a quiet harbour", 1);
    app.call(GenerationManager::at(id(9)), create).await.unwrap();
    // Nothing is to come of the others, so only this one is waited for.
    until(async || status(&app, &id(9)).await != GenerationStatus::Active).await;
    assert_eq!(status(&app, &id(9)).await, GenerationStatus::Ready);
}

/// Draws on this machine. With the prompt `gated` it waits for the gate.
#[derive(Clone)]
struct Slow {
    embedded: Embedded,
    begun: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Slow {
    fn new() -> Self {
        Self { embedded: embedded(), begun: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    async fn app(&self) -> TestApp {
        program_with(vec![Arc::new(self.clone())]).test().await.unwrap()
    }
}

#[async_trait]
impl Provider for Slow {
    fn name(&self) -> &'static str {
        Embedded::NAME
    }

    fn models(&self) -> Vec<Model> {
        self.embedded.models()
    }

    fn check(&self, request: &Asked) -> Result<Checked, GenerateError> {
        self.embedded.check(request)
    }

    async fn submit(&self, task: &Task) -> Result<Submitted, GenerateError> {
        self.embedded.submit(task).await
    }

    async fn poll(&self, tasks: &[String]) -> Result<Vec<Report>, GenerateError> {
        self.embedded.poll(tasks).await
    }

    async fn open(&self, source: &OutputSource, max: u64) -> Result<OutputStream, GenerateError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if let OutputSource::Inline { drawing } = source
            && drawing.prompt == "gated"
        {
            self.gate.acquire().await.unwrap().forget();
        }
        self.embedded.open(source, max).await
    }

    fn parse_webhook(&self, body: &[u8]) -> Result<Vec<Report>, GenerateError> {
        self.embedded.parse_webhook(body)
    }
}

#[tokio::test]
async fn many_drawings_of_one_workspace_do_not_delay_another() {
    let slow = Slow::new();
    let app = slow.app().await;
    // More than are drawn at a time.
    for number in 0..3 {
        app.call(GenerationManager::at(id(number)), drawn("acme", "gated", 16)).await.unwrap();
    }
    until(async || 16 <= slow.begun()).await;
    let create = drawn("other", "a quiet harbour", 1);
    app.call(GenerationManager::at(id(9)), create).await.unwrap();
    until(async || status(&app, &id(9)).await == GenerationStatus::Ready).await;
    assert_eq!(slow.begun(), 17, "half of the places, and one");
}

#[tokio::test]
async fn a_third_workspace_is_next_when_two_have_all_places() {
    let slow = Slow::new();
    let app = slow.app().await;
    let is_made = async |number: u32| {
        let shown = app.call(GenerationManager::at(id(number)), GetState).await.unwrap().unwrap();
        shown.tasks.iter().all(|it| it.status == TaskState::Streaming)
    };
    for number in 0..6 {
        let workspace = if number < 3 { "acme" } else { "other" };
        app.call(GenerationManager::at(id(number)), drawn(workspace, "gated", 16)).await.unwrap();
        until(async || is_made(number).await).await;
    }
    until(async || slow.begun() == 32).await;
    let create = drawn("third", "a quiet harbour", 1);
    app.call(GenerationManager::at(id(9)), create).await.unwrap();
    until(async || is_made(9).await).await;
    // Four drawings of each of the others wait for a place, and most look for one later.
    let is_ready = async || status(&app, &id(9)).await == GenerationStatus::Ready;
    let mut ended = 0;
    while !is_ready().await {
        ended += 1;
        assert!(ended <= 16, "it waits behind the others");
        slow.gate.add_permits(1);
        until(async || is_ready().await || 32 + ended <= slow.begun()).await;
    }
}

#[tokio::test]
async fn a_drawing_that_an_earlier_attempt_stored_needs_no_place() {
    let slow = Slow::new();
    let app = slow.app().await;
    app.call(GenerationManager::at(id(0)), drawn("acme", "gated", 16)).await.unwrap();
    until(async || slow.begun() == 16).await;
    let mut attributes = Attributes::of_type("image/png");
    for (name, value) in [("task", task_id(&id(9), 0, 0)), ("extension", "png".into())] {
        attributes.metadata.insert(name.into(), value);
    }
    let put = PutOptions { attributes, ..PutOptions::default() };
    let key = blob_key("acme", &artifact_id(&id(9), 0));
    app.bucket(ARTIFACTS).put_with(&key, b"bytes", put).await.unwrap();
    app.call(GenerationManager::at(id(9)), drawn("acme", "gated", 1)).await.unwrap();
    until(async || status(&app, &id(9)).await == GenerationStatus::Ready).await;
    assert_eq!(slow.begun(), 16);
}

#[tokio::test]
async fn cancelled_drawings_take_no_turns_from_others() {
    let app = Slow::new().app().await;
    let no_place = || app.script_job::<FetchHere>().gives(&None::<Fetched>);
    no_place();
    let cancelled = || GenerationManager::at(id(0));
    app.call(cancelled(), drawn("acme", "a quiet harbour", 1)).await.unwrap();
    app.settle().await;
    app.call(cancelled(), Cancel).await.unwrap();
    let job = FetchHere(Fetch {
        provider: Embedded::NAME.into(),
        index: 0,
        artifact: artifact_id(&id(0), 0),
        task: task_id(&id(0), 0, 0),
        generation: id(0),
        workspace: "acme".into(),
        made: Fake::new().made("any"),
    });
    for _ in 0..64 {
        let late = Outcome { job: job.clone(), result: Ok(None) };
        app.call(cancelled(), late).await.unwrap();
    }
    no_place();
    app.call(GenerationManager::at(id(1)), drawn("acme", "a quiet harbour", 1)).await.unwrap();
    app.advance(Duration::from_millis(100)).await;
    assert_eq!(status(&app, &id(1)).await, GenerationStatus::Ready);
}

#[tokio::test]
async fn drawings_of_one_workspace_take_turns() {
    let app = program_with(vec![Arc::new(embedded())]).test().await.unwrap();
    for number in 0..3 {
        let create = drawn("acme", "a quiet harbour", 16);
        app.call(GenerationManager::at(id(number)), create).await.unwrap();
    }
    until(async || {
        app.advance(Duration::from_millis(100)).await;
        let mut is_done = true;
        for number in 0..3 {
            is_done &= status(&app, &id(number)).await == GenerationStatus::Ready;
        }
        is_done
    })
    .await;
}
