//! Responses to calls of objects that fail in various ways.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_bucket::MemoryBlobs;
use steadfast_core::{App, Error, Handle, Object, ObjectOptions, Result, Turn};
use steadfast_store::{MemoryStore, SystemClock};
use tower::ServiceExt;

use super::{disposition, file_name};
use crate::{
    app,
    location::Location,
    server::{Policy, Server},
};

struct Rascal;

#[derive(Serialize, Deserialize)]
struct Secret {}

#[derive(Serialize, Deserialize)]
struct Entry {
    by: i64,
}

#[derive(Serialize, Deserialize)]
struct Sum {
    entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Do {
    Panic,
    Refuse,
    Fail,
    TakeLong,
    GrowLarge,
    HideAnError,
    Nest,
}

impl Object for Rascal {
    const CLASS: &'static str = "rascal";
    type Calls = (Secret, Sum, Do);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE note (data BLOB)"];
}

impl Handle<Secret> for Rascal {
    const NAME: &'static str = "secret";
    type Reply = ();
    fn handle(&self, _: &Turn<Self>, _: Secret) -> Result<()> {
        Ok(())
    }
}

impl Handle<Sum> for Rascal {
    const NAME: &'static str = "sum";
    const PUBLIC: bool = true;
    type Reply = Value;
    fn handle(&self, _: &Turn<Self>, msg: Sum) -> Result<Value> {
        Ok(json!({ "sum": msg.entries.iter().map(|it| it.by).sum::<i64>() }))
    }
}

impl Handle<Do> for Rascal {
    const NAME: &'static str = "do";
    const PUBLIC: bool = true;
    type Reply = Value;
    fn handle(&self, turn: &Turn<Self>, msg: Do) -> Result<Value> {
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
             SELECT count(*) FROM n";
        let run = |sql: &str| turn.sql().query_row(sql, (), |_| Ok(()));
        let note = "INSERT INTO note VALUES (zeroblob(1000000)) RETURNING 1";
        match msg {
            Do::Panic => panic!("on purpose"),
            Do::Refuse => Err(Error::terminal("not today").with_code("closed_on_sundays")),
            Do::Fail => Err(Error::retryable("not now")),
            Do::TakeLong => Ok(json!(run(endless)?)),
            Do::GrowLarge => {
                (0..100).try_for_each(|_| run(note))?;
                Ok(Value::Null)
            }
            Do::Nest => Ok((0..200).fold(json!(1), |inner, _| json!([inner]))),
            Do::HideAnError => {
                let _ = run(endless);
                Ok(json!(run(note)?))
            }
        }
    }
}

async fn router() -> Router {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let options = ObjectOptions {
        turn_time: Duration::from_millis(50),
        database_bytes_max: 1 << 20,
        ..ObjectOptions::default()
    };
    let app = App::new("test");
    let app = app.object(Rascal).object_options(options);
    let app = app.blobs(Arc::new(MemoryBlobs::default()));
    let location = Location::Folder("memory".into());
    let server = Server::prepare(app, store, location, Policy::Loopback).await.unwrap();
    app::router(Arc::new(server)).unwrap()
}

async fn call(router: &Router, message: &str, body: &Value) -> (u16, Value) {
    let request = Request::post(format!("/v1/objects/rascal/r/calls/{message}"));
    let request = request.header("host", "localhost").body(Body::from(body.to_string()));
    let response = router.clone().oneshot(request.unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn a_private_message_gets_the_same_error_as_an_unknown_one() {
    let router = router().await;
    let (status, mut private) = call(&router, "secret", &json!({})).await;
    let (_, mut unknown) = call(&router, "nosuch", &json!({})).await;
    assert_eq!((status, &private["code"]), (404, &json!("message_not_found")));
    for (answer, name) in [(&mut private, "secret"), (&mut unknown, "nosuch")] {
        answer["requestId"].take();
        *answer = serde_json::from_str(&answer.to_string().replace(name, "x")).unwrap();
    }
    assert_eq!(private, unknown);
}

#[tokio::test]
async fn a_field_is_named_by_its_path() {
    let router = router().await;
    let good = json!({"entries": [{"by": 1}, {"by": 2}]});
    assert_eq!(call(&router, "sum", &good).await, (200, json!({"sum": 3})));
    let (status, problem) =
        call(&router, "sum", &json!({"entries": [{"by": 1}, {"by": "2"}]})).await;
    assert_eq!((status, &problem["field"]), (400, &json!("entries[1].by")), "{problem}");
}

#[tokio::test]
async fn a_failed_turn_has_its_error_code_and_the_next_one_works() {
    let router = router().await;
    for (what, status, code, retryable) in [
        ("panic", 500, "handler_panicked", false),
        ("refuse", 422, "closed_on_sundays", false),
        ("fail", 422, "failed", true),
        ("takeLong", 422, "turn_rolled_back", false),
        ("growLarge", 422, "turn_rolled_back", false),
        ("hideAnError", 422, "turn_rolled_back", false),
    ] {
        let (found, problem) = call(&router, "do", &json!(what)).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{problem}");
        assert_eq!(problem["retryable"], retryable, "{problem}");
        assert_eq!(call(&router, "sum", &json!({"entries": []})).await.0, 200);
    }
}

#[test]
fn a_file_has_an_ascii_name_and_its_full_name() {
    assert_eq!(file_name("counter", "a/../ü\"\r\n", None), "counter-a_.._____.sqlite");
    assert_eq!(
        disposition("counter", "ü\"", Some(7)),
        "attachment; filename=\"counter-__-7.sqlite\"; \
         filename*=UTF-8''counter-%C3%BC%22-7.sqlite"
    );
}

#[tokio::test]
async fn a_reply_may_be_nested_deeper_than_stored_json() {
    let router = router().await;
    let request = Request::post("/v1/objects/rascal/r/calls/do").header("host", "localhost");
    let request = request.body(Body::from(json!("nest").to_string())).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert_eq!(bytes.iter().filter(|it| **it == b'[').count(), 200);
}
