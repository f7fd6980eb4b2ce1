//! Providers have places of their own: a full one does not block another.

use std::sync::Arc;

use serde_json::{Map, json};
use steadfast_core::Object;
use steadfast_generations::{
    Create, GenerationManager, GenerationStatus, GetState, Request,
    providers::{Embedded, OutputKind},
};
use steadfast_images::Pool;

use crate::stage::{Fake, program_with, request, until};

#[tokio::test]
async fn what_is_made_here_does_not_wait_for_places_at_another_provider() {
    let here = Embedded::new(Pool::new("here", 1).unwrap());
    let app = program_with(vec![Arc::new(Fake::new()), Arc::new(here)]).test().await.unwrap();
    let id = |number: u32| format!("0190b0a0-0000-7000-8000-{number:012}");
    // More than all providers together have places for, and none of them comes to an end.
    for number in 0..4 {
        let endless = GenerationManager::at(id(number));
        app.call(endless, request("endless", 16)).await.unwrap();
    }
    let mut input = Map::new();
    for (name, value) in [("width", json!(64)), ("height", json!(64)), ("seed", json!(5))] {
        input.insert(name.into(), value);
    }
    input.insert("positivePrompt".into(), "a quiet harbour".into());
    let asked = Request {
        provider: "embedded".into(),
        model: "embedded:art@1".into(),
        kind: OutputKind::Image,
        input,
        count: 1,
        tags: Vec::new(),
    };
    let create = Create { request: asked, ..request("", 1) };
    app.call(GenerationManager::at(id(9)), create).await.unwrap();
    // Nothing is to come of the others, so only this one is waited for.
    let mut status = GenerationStatus::Active;
    until(async || {
        let now = app.call(GenerationManager::at(id(9)), GetState).await.unwrap().unwrap();
        status = now.status;
        status != GenerationStatus::Active
    })
    .await;
    assert_eq!(status, GenerationStatus::Ready);
}
