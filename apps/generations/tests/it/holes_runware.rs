//! Holes that only show with the provider's own words.

use std::{net::TcpListener, sync::Arc};

use serde_json::{Map, Value, json};
use steadfast_core::{Object, test::TestApp};
use steadfast_fake_runware::FakeRunware;
use steadfast_generations::{
    Create, DEFAULT_WORKSPACE, GenerationManager, GenerationStatus, Request, TaskState, blob_key,
    providers::{OutputKind, Runware, RunwareOptions},
    task_id,
};

use crate::stage::{ID, advance, blobs, kept, live, program_with, request, tell};

async fn start(options: RunwareOptions) -> TestApp {
    let runware = Runware::new(options).unwrap();
    program_with(vec![Arc::new(runware)]).test().await.unwrap()
}

/// Asks for one clip, which comes by a webhook.
async fn ask(app: &TestApp, prompt: &str) {
    let mut input = Map::new();
    input.insert("positivePrompt".into(), prompt.into());
    let asked = Request {
        provider: "runware".into(),
        model: "klingai:5@3".into(),
        kind: OutputKind::Video,
        input,
        count: 1,
        tags: Vec::new(),
    };
    // No server listens at that address: the test delivers webhooks itself.
    let create =
        Create { request: asked, webhooks: Some("http://127.0.0.1:9".into()), ..request("", 1) };
    app.call(GenerationManager::at(ID), create).await.unwrap();
    app.settle().await;
    assert_eq!(live(app).await.unwrap().tasks[0].status, TaskState::Submitted);
}

/// A webhook that says where the clip is.
async fn told(app: &TestApp, url: &str) {
    let task = task_id(ID, 0, 0);
    let clip = json!({ "taskType": "videoInference", "taskUUID": task, "videoURL": url });
    tell(app, &task, json!({ "data": [clip] }).to_string()).await.unwrap();
    app.settle().await;
}

#[tokio::test]
async fn hole_03_an_address_in_a_webhook_that_is_private_or_not_the_providers_is_not_fetched() {
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let here = trap.local_addr().unwrap();
    let (private, named) =
        (format!("http://{here}/a.mp4"), format!("http://localhost:{}/", here.port()));
    let anywhere: &[&str] = &[];
    for (url, hosts) in [
        // Any host is allowed, so it is the address that is refused.
        (private.as_str(), anywhere),
        (&named, anywhere),
        ("http://169.254.169.254/latest/meta-data/", anywhere),
        ("http://[::1]/a.mp4", anywhere),
        ("file:///etc/passwd", anywhere),
        // Only the provider's own hosts are allowed.
        (&private, &["runware.ai"]),
        ("http://runware.ai.example/a.mp4", &["runware.ai"]),
        ("http://im.runware.ai@127.0.0.1/a.mp4", &["runware.ai"]),
    ] {
        let fake = FakeRunware::start().unwrap();
        let mut options = fake.options();
        options.fetch.private.clear();
        options.fetch.hosts = hosts.iter().map(|it| (*it).to_owned()).collect();
        let app = start(options).await;
        ask(&app, "a clip never-done no-webhook").await;
        told(&app, url).await;
        let kept = kept(&app).await.unwrap();
        assert_eq!((kept.status, kept.counts.ready), (GenerationStatus::Failed, 0), "{url}");
        let error = kept.tasks[0].error.as_ref().unwrap();
        assert_eq!(error.code, "output_address_refused", "{url}: {}", error.message);
        assert_eq!(blobs(&app).await, Vec::<String>::new());
    }
    let knocked = trap.accept().map(|it| it.1);
    assert!(knocked.is_err(), "{knocked:?} was here");
}

#[tokio::test]
async fn hole_16_an_artifact_counts_when_its_own_bytes_are_here_and_nobody_is_asked_to_bring_them()
{
    let fake = FakeRunware::start().unwrap();
    let runware = Runware::new(fake.options()).unwrap();
    // Nobody can have it asked for either.
    let input = json!({ "positivePrompt": "xy", "uploadEndpoint": "http://127.0.0.1:9/" });
    let Value::Object(input) = input else { panic!("it is one") };
    let asked = steadfast_generations::providers::Request { model: "runware:100@1".into(), input };
    let refused = steadfast_generations::providers::Provider::check(&runware, &asked).unwrap_err();
    assert_eq!(refused.code(), "generation_input_invalid");

    // The provider says that it is done, and has only half of it.
    let app = start(fake.options()).await;
    ask(&app, "cut polls:1").await;
    let sent = fake.request(&task_id(ID, 0, 0)).unwrap();
    assert_eq!((sent.get("uploadEndpoint"), &sent["numberResults"]), (None, &json!(1)));
    let file = format!("{}/file/{}.mp4", fake.url().trim_end_matches("/v1"), task_id(ID, 0, 0));
    told(&app, &file).await;
    let now = live(&app).await.unwrap();
    assert_eq!((now.tasks[0].status, now.counts.ready), (TaskState::Streaming, 0));
    assert_eq!(kept(&app).await.unwrap().artifacts, []);
    advance(&app, 3_600).await;
    let kept = kept(&app).await.unwrap();
    assert_eq!((kept.status, kept.artifacts.len()), (GenerationStatus::Failed, 0));
    assert_eq!(blobs(&app).await, Vec::<String>::new());
}

#[tokio::test]
async fn hole_16_an_artifact_has_as_many_bytes_as_the_bucket_has_of_it() {
    let fake = FakeRunware::start().unwrap();
    let app = start(fake.options()).await;
    ask(&app, "a clip never-done no-webhook").await;
    let file = format!("{}/file/{}.mp4", fake.url().trim_end_matches("/v1"), task_id(ID, 0, 0));
    told(&app, &file).await;
    let kept = kept(&app).await.unwrap();
    assert_eq!((kept.status, kept.artifacts.len()), (GenerationStatus::Ready, 1));
    let bucket = app.bucket(steadfast_generations::ARTIFACTS);
    let key = blob_key(DEFAULT_WORKSPACE, &kept.artifacts[0].id);
    let blob = bucket.get(&key).await.unwrap();
    assert_eq!(blob.unwrap().len() as u64, kept.artifacts[0].size);
    let size = (kept.artifacts[0].width, kept.artifacts[0].height);
    assert_eq!(size, (Some(640), Some(360)), "its header comes last");
}
