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
use steadfast_core::{Object, test::TestApp};
use steadfast_generations::{
    Create, GenerationManager, GenerationStatus, GetState, Request,
    providers::{
        Checked, Embedded, GenerateError, Model, OutputKind, OutputSource, OutputStream, Provider,
        Report, Request as Asked, Submitted, Task,
    },
};
use steadfast_images::Pool;

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

/// Draws on this machine, and never ends with the prompt `endless`.
#[derive(Clone)]
struct Slow {
    embedded: Embedded,
    begun: Arc<AtomicUsize>,
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
        match source {
            OutputSource::Inline { drawing } if drawing.prompt == "endless" => {
                std::future::pending().await
            }
            OutputSource::Inline { .. } | OutputSource::Url { .. } => {
                self.embedded.open(source, max).await
            }
        }
    }

    fn parse_webhook(&self, body: &[u8]) -> Result<Vec<Report>, GenerateError> {
        self.embedded.parse_webhook(body)
    }
}

#[tokio::test]
async fn many_drawings_of_one_workspace_do_not_delay_another() {
    let slow = Slow { embedded: embedded(), begun: Arc::default() };
    let app = program_with(vec![Arc::new(slow.clone())]).test().await.unwrap();
    // More than are drawn at a time.
    for number in 0..3 {
        let endless = drawn("acme", "endless", 16);
        app.call(GenerationManager::at(id(number)), endless).await.unwrap();
    }
    until(async || 16 <= slow.begun.load(Ordering::SeqCst)).await;
    let create = drawn("other", "a quiet harbour", 1);
    app.call(GenerationManager::at(id(9)), create).await.unwrap();
    until(async || status(&app, &id(9)).await == GenerationStatus::Ready).await;
    assert_eq!(slow.begun.load(Ordering::SeqCst), 17, "half of the places, and one");
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
