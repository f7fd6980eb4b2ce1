//! The client of a program in another process: `steadfast::connect(url)`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicI64, Ordering},
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast::{
    Bucket, BucketError, CallError, Client, Event, Object, RunError, Workflow,
    api::{
        ApiError, Code, Connection, Operation, audit as au, buckets as b, connect, keys as k,
        objects as o, payload, processes as p, queues as q, quotas as qu, runs as r, server as d,
        sessions as se, streams as s, tokens as t,
    },
    store::StoreError,
    workflow::Status,
};
use steadfast_bucket::{Attributes, Condition, ExpectedContent, ListOptions, Match, PutOptions};
use steadfast_checkout::group_checkout::{GroupCheckout, Input};
use steadfast_counter::{Counter, Increment, Read};
use steadfast_mail::{MAIL, Mail};
use steadfast_order::{Order, OrderInput, Outcome, Payment};

use crate::{harness::Server, queues::letters, seed};

const PAYMENT: Event<Payment> = Event::named("payment");
const PHOTOS: Bucket = Bucket::named("photos");

fn order(id: &str) -> OrderInput {
    OrderInput { order_id: id.into(), amount: 100 }
}

#[tokio::test]
async fn objects_are_called_with_their_types_and_refuse_with_their_codes() {
    let server = Server::empty();
    let client = connect(&server.url).client();
    let counter = || Counter::at("a/b ü");
    assert_eq!(client.call(counter(), Increment { by: 3 }).key("k").await.unwrap(), 3);
    assert_eq!(client.call(counter(), Increment { by: 3 }).key("k").await.unwrap(), 3);
    let reused = client.call(counter(), Increment { by: 4 }).key("k").await.unwrap_err();
    assert_eq!(reused.code(), "key_reused");
    assert_eq!(client.call(counter(), Read {}).await.unwrap(), 3);
    let refused = client.call(counter(), Increment { by: i64::MAX }).await.unwrap_err();
    let CallError::Refused(error) = &refused else { panic!("{refused:?}") };
    assert_eq!((error.code(), error.is_terminal()), ("out_of_range", true));
    assert!(client.delete(counter()).await.unwrap());
    assert!(!client.delete(counter()).await.unwrap());
    assert!(client.runtime().is_none());
}

#[tokio::test]
async fn runs_are_started_sent_events_and_awaited() {
    let server = Server::empty();
    let client = connect(&server.url).client();
    let started = client.start(Order::at("o-1"), order("o-1")).await.unwrap();
    assert!(started.created);
    assert!(!client.start(Order::at("o-1"), order("o-1")).await.unwrap().created);
    client.send(Order::at("o-1").event(PAYMENT), Payment { amount: 100 }).await.unwrap();
    let output = client.run(Order::at("o-1")).wait().await.unwrap();
    assert_eq!((output.outcome, output.tracking.as_deref()), (Outcome::Shipped, Some("T-o-1")));

    client.start(Order::at("o-2"), order("o-2")).await.unwrap();
    let run = client.run(Order::at("o-2"));
    run.pause().await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Paused(None));
    let paused = run.wait().await.unwrap_err();
    assert!(matches!(paused, RunError::WrongStatus { .. }), "{paused:?}");
    run.resume().await.unwrap();
    run.terminate().await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Terminated);
    let missing = client.run(Order::at("none")).status().await.unwrap_err();
    assert_eq!(missing.code(), "run_not_found");
}

#[tokio::test]
async fn queues_and_processes_accept_messages_of_a_client() {
    let server = Server::empty();
    let client = connect(&server.url).client();
    let mail = Mail { to: "ada@example.org".into(), subject: "Hello".into() };
    client.send(MAIL, mail.clone()).await.unwrap();
    server.json_until("/v1/queues/mail", |it| it["depth"] == 0 && it["inFlight"] == 0);
    assert_eq!(letters(&server, "ada@example.org").len(), 1);
    client.send(MAIL.after(std::time::Duration::from_hours(1)), mail).await.unwrap();
    assert_eq!(server.json("/v1/queues/mail")["delayed"], 1);
    let initiate = Input::InitiateGroupCheckout {
        group_checkout_id: "g-1".into(),
        clerk_id: "c-1".into(),
        guest_stay_account_ids: vec!["a-1".into()],
        now: 0,
    };
    let decided = client.input::<GroupCheckout>(initiate).await.unwrap();
    assert!(!decided.outputs.is_empty() && !decided.ignored);
    let nobody = Input::GuestCheckedOut {
        guest_stay_account_id: "a-1".into(),
        checked_out_at: 0,
        group_checkout_id: None,
    };
    let refused = client.input::<GroupCheckout>(nobody).await.unwrap_err();
    assert_eq!(refused.code(), "invalid_input");
}

#[tokio::test]
async fn blobs_are_written_read_listed_and_deleted() {
    let server = Server::empty();
    assert_eq!(server.put_json("/v1/buckets/photos", &json!({})).status, 200);
    let photos = connect(&server.url).client().bucket(PHOTOS);
    let attributes = Attributes::of_type("text/plain");
    let condition = Condition { if_none_match: Some(Match::Any), ..Condition::default() };
    let put = PutOptions { attributes, condition, ..PutOptions::default() };
    let written = photos.put_with("2026/a ü.txt", "hello", put.clone()).await.unwrap();
    assert_eq!((written.size, written.attributes.content_type.as_deref()), (5, Some("text/plain")));
    let taken = photos.put_with("2026/a ü.txt", "again", put).await.unwrap_err();
    assert_eq!(taken.code(), "precondition_failed");
    assert_eq!(photos.get("2026/a ü.txt").await.unwrap().as_deref(), Some(&b"hello"[..]));
    assert_eq!(photos.head("2026/a ü.txt").await.unwrap(), Some(written));
    assert_eq!(photos.head("2026/a").await.unwrap(), None);
    assert_eq!(photos.get("none").await.unwrap(), None);
    photos.put("2026/b", "x").await.unwrap();
    let one = ListOptions { limit: Some(1), ..ListOptions::default() };
    let first = photos.list(&one).await.unwrap();
    let next = ListOptions { after: first.next.clone(), ..one };
    let second = photos.list(&next).await.unwrap();
    let key = |page: &steadfast_bucket::Listing| page.blobs[0].key.to_string();
    assert_eq!((key(&first), key(&second)), ("2026/a ü.txt".into(), "2026/b".into()));
    assert_eq!(photos.delete("2026/b").await.unwrap(), Some(2));
    assert_eq!(photos.delete("2026/b").await.unwrap(), None);
    let expected = ExpectedContent { size: Some(9), ..ExpectedContent::default() };
    let put = PutOptions { expected, ..PutOptions::default() };
    let unchecked = photos.put_with("d", "x", put).await.unwrap_err();
    assert_eq!(unchecked.code(), "bad_request", "what cannot be checked is not written");
    assert_eq!(photos.head("d").await.unwrap(), None);
    let copied = photos.copy("2026/a ü.txt", "c").await.unwrap_err();
    assert!(matches!(&copied, BucketError::Store(StoreError::Remote(_))), "{copied:?}");
    assert!(copied.to_string().contains("S3 API"), "{copied}");
}

#[tokio::test]
async fn an_unreachable_program_certainly_did_nothing() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = connect(format!("http://{nobody}/")).client();
    let error = client.call(Counter::at("a"), Read {}).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable");
    assert!(error.is_retryable() && error.surely_unapplied(), "{error:?}");
    assert!(error.to_string().contains(&nobody.to_string()), "{error}");
    for url in ["ftp://localhost:1", "localhost:8787", "nonsense", ""] {
        let error = connect(url).send(&q::ListQueues::default()).await.unwrap_err();
        assert!(matches!(error, ApiError::Invalid { .. }), "{url}: {error:?}");
    }
}

/// Counts until the program has ended.
async fn count(client: &Client, heard: &AtomicI64, unknown: &AtomicI64) {
    loop {
        match client.call(Counter::at("a"), Increment { by: 1 }).await {
            Ok(_) => _ = heard.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.surely_unapplied() => return,
            Err(_) => _ = unknown.fetch_add(1, Ordering::Relaxed),
        }
    }
}

#[tokio::test]
async fn acknowledged_changes_of_a_client_survive_a_kill() {
    let server = Server::empty();
    let client = connect(&server.url).client();
    let (heard, unknown) = (AtomicI64::new(0), AtomicI64::new(0));
    let kill = async {
        let mut pause = tokio::time::interval(std::time::Duration::from_millis(1));
        while heard.load(Ordering::Relaxed) < 50 {
            pause.tick().await;
        }
        server.kill()
    };
    let one = count(&client, &heard, &unknown);
    let other = count(&client, &heard, &unknown);
    let ((), (), folder) = tokio::join!(one, other, kill);
    let server = Server::on(folder);
    let found = connect(&server.url).client().call(Counter::at("a"), Read {}).await.unwrap();
    let (heard, unknown) = (heard.into_inner(), unknown.into_inner());
    assert!(heard <= found && found <= heard + unknown, "{heard} {found} {unknown}");
}

/// Sends operations, and records which.
struct Walk {
    program: Connection,
    seen: BTreeSet<(String, String)>,
}

impl Walk {
    /// Builds an operation from the fields of its path and its query or body, and sends it.
    async fn send<O: Operation + DeserializeOwned>(
        &mut self,
        path: &[&str],
        fields: Value,
    ) -> O::Response {
        let answer = self.try_send::<O>(path, fields).await;
        answer.unwrap_or_else(|error| panic!("{}: {error}", O::INFO.path))
    }

    /// Sends an operation that is not possible now.
    async fn refused<O: Operation + DeserializeOwned>(&mut self, path: &[&str], code: Code) {
        let answer = self.try_send::<O>(path, json!({})).await;
        assert_eq!(answer.err().and_then(|it| it.kind()), Some(code), "{}", O::INFO.path);
    }

    async fn try_send<O: Operation + DeserializeOwned>(
        &mut self,
        path: &[&str],
        fields: Value,
    ) -> Result<O::Response, ApiError> {
        let mut operation: O = serde_json::from_value(fields).expect(O::INFO.path);
        let values = path.iter().map(|it| it.to_string()).collect();
        operation.set_path_values(values).expect(O::INFO.path);
        self.seen.insert((O::INFO.method.name().to_lowercase(), O::INFO.path.replace("{*", "{")));
        self.program.send(&operation).await
    }

    /// Sends a request that is not an operation: its response has bytes, or does not end.
    async fn open(&mut self, method: &str, route: &str, path: &str, body: &'static str) {
        self.seen.insert((method.to_lowercase(), route.into()));
        let request = self.program.start(method, path).body(payload(body)).expect("a request");
        let answer = self.program.exchange(request).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    }

    async fn queues(&mut self) {
        self.send::<q::ConfigureQueue>(&["jobs"], json!({"maxRetries": 0})).await;
        self.send::<q::SendMessages>(&["jobs"], json!({"body": 1})).await;
        self.send::<q::ListQueues>(&[], json!({})).await;
        self.send::<q::ShowQueue>(&["jobs"], json!({})).await;
        self.send::<q::PauseQueue>(&["jobs"], json!({})).await;
        self.send::<q::ResumeQueue>(&["jobs"], json!({})).await;
        self.send::<q::PeekQueue>(&["jobs"], json!({})).await;
        let pulled = self.send::<q::PullMessages>(&["jobs"], json!({})).await;
        let retry = json!({"retries": [{"leaseId": pulled.items[0].lease_id}]});
        self.send::<q::AckMessages>(&["jobs"], retry).await;
        let dead = json!({"state": "dead"});
        let dead = self.send::<q::PeekQueue>(&["jobs"], dead).await.items[0].id.to_string();
        self.send::<q::RedriveQueue>(&["jobs"], json!({"dryRun": true})).await;
        self.send::<q::EditMessage>(&["jobs", &dead], json!({"body": 2})).await;
        self.send::<q::PurgeQueue>(&["jobs"], json!({})).await;
    }

    async fn objects(&mut self) {
        let a = ["counter", "a"];
        self.send::<o::CallObject>(&["counter", "a", "increment"], json!({"by": 1})).await;
        self.send::<o::ListClasses>(&[], json!({})).await;
        self.send::<o::ListObjects>(&["counter"], json!({})).await;
        self.send::<o::ShowObject>(&a, json!({})).await;
        self.send::<o::QueryObject>(&a, json!({"sql": "SELECT n FROM counter"})).await;
        self.send::<o::ListTurns>(&a, json!({})).await;
        self.send::<o::ShowTurn>(&["counter", "a", "1"], json!({})).await;
        let export = "/v1/objects/{class}/{name}/export";
        self.open("GET", export, "/v1/objects/counter/a/export", "").await;
        self.send::<o::DeleteObject>(&a, json!({})).await;
    }

    async fn runs(&mut self) {
        let run = ["order", "o-1"];
        let input = json!({"orderId": "o-1", "amount": 1});
        self.send::<r::StartRun>(&["order"], json!({"id": "o-1", "input": input})).await;
        self.send::<r::ListWorkflows>(&[], json!({})).await;
        self.send::<r::ListRuns>(&["order"], json!({})).await;
        self.send::<r::ShowRun>(&run, json!({})).await;
        self.send::<r::RunHistory>(&run, json!({})).await;
        let live = "/v1/workflows/{workflow}/runs/{id}/live";
        self.open("GET", live, "/v1/workflows/order/runs/o-1/live", "").await;
        self.refused::<r::RetryRun>(&run, Code::WrongStatus).await;
        self.send::<r::PauseRun>(&run, json!({})).await;
        self.send::<r::ResumeRun>(&run, json!({})).await;
        self.send::<r::SendEvent>(&["order", "o-1", "other"], json!({"amount": 1})).await;
        self.send::<r::TerminateRun>(&run, json!({})).await;
        self.send::<r::RestartRun>(&run, json!({})).await;
        self.send::<r::TerminateRun>(&run, json!({})).await;
        self.send::<r::DeleteRun>(&run, json!({})).await;
    }

    async fn buckets(&mut self) {
        let rule = ["photos", "r"];
        self.send::<b::PutBucket>(&["photos"], json!({})).await;
        self.send::<b::ListBuckets>(&[], json!({})).await;
        self.send::<b::ShowBucket>(&["photos"], json!({})).await;
        let to = json!({"queue": "photo-events", "events": ["object-create"]});
        self.send::<b::PutBucketRule>(&rule, to).await;
        self.send::<b::ListBucketRules>(&["photos"], json!({})).await;
        self.send::<b::ShowBucketRule>(&rule, json!({})).await;
        let week = json!({"prefix": "tmp/", "deleteAfterMs": 604_800_000});
        self.send::<b::PutLifecycleRule>(&rule, week).await;
        self.send::<b::ListLifecycleRules>(&["photos"], json!({})).await;
        self.send::<b::ShowLifecycleRule>(&rule, json!({})).await;
        let app = json!({"origins": ["https://app.example"], "methods": ["GET", "PUT"]});
        self.send::<b::PutCorsRule>(&rule, app).await;
        self.send::<b::ListCorsRules>(&["photos"], json!({})).await;
        let (blob, a) = ("/v1/buckets/{bucket}/objects/{key}", "/v1/buckets/photos/objects/a");
        self.open("PUT", blob, a, "bytes").await;
        self.open("GET", blob, a, "").await;
        self.open("HEAD", blob, a, "").await;
        self.send::<b::ListBlobs>(&["photos"], json!({})).await;
        self.send::<b::ListBucketEvents>(&["photos"], json!({})).await;
        self.send::<b::PresignBlob>(&["photos"], json!({"key": "a"})).await;
        self.send::<b::DeleteBlob>(&["photos", "a"], json!({})).await;
        self.send::<b::DeleteBucketRule>(&rule, json!({})).await;
        self.send::<b::DeleteLifecycleRule>(&rule, json!({})).await;
        self.send::<b::DeleteCorsRule>(&rule, json!({})).await;
        self.send::<b::DeleteBucket>(&["photos"], json!({})).await;
    }

    async fn rest(&mut self) {
        let key = self.send::<k::CreateKey>(&[], json!({})).await.key.id;
        self.send::<k::ListKeys>(&[], json!({})).await;
        self.send::<k::RotateKey>(&[&key], json!({"overlapHours": 1})).await;
        self.send::<k::RevokeKey>(&[&key], json!({})).await;
        self.send::<qu::SetQuota>(&["acme"], json!({"bytes": 9})).await;
        self.send::<qu::ListQuotas>(&[], json!({})).await;
        self.send::<qu::ShowQuota>(&["acme"], json!({})).await;
        self.send::<qu::RemoveQuota>(&["acme"], json!({})).await;
        self.send::<p::ListProcesses>(&[], json!({})).await;
        let input = json!({"type": "PoliceReportPublished",
            "data": {"policeReportId": "p-1", "offense": "parkingViolation"}});
        self.send::<p::SendInput>(&["traffic-fine", "p-1"], input).await;
        self.send::<p::ListInstances>(&["traffic-fine"], json!({})).await;
        self.send::<p::ShowInstance>(&["traffic-fine", "p-1"], json!({})).await;
        self.send::<s::ListStreams>(&[], json!({})).await;
        self.send::<s::ShowStream>(&[seed::ORDER], json!({})).await;
        self.send::<s::ListPending>(&[], json!({})).await;
        let dead = self.send::<s::ListDead>(&[], json!({})).await.items[0].global_position;
        let dead = dead.to_string();
        self.send::<s::ShowMessage>(&[&dead], json!({})).await;
        self.send::<s::ReviveMessage>(&[&dead], json!({})).await;
        let overview = self.send::<d::ShowOverview>(&[], json!({})).await;
        assert!(overview.workflows.contains(&"order".to_owned()), "{overview:?}");
        self.send::<d::Examine>(&[], json!({})).await;
        self.send::<d::CheckBlobs>(&[], json!({})).await;
        for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
            self.open("GET", path, path, "").await;
        }
    }
}

impl Walk {
    /// The first token closes access: the others need it.
    async fn tokens(&mut self) {
        let admin = self.send::<t::CreateToken>(&[], json!({"role": "admin"})).await;
        self.program = self.program.clone().token(admin.token);
        let token = json!({"organization": "acme", "expiresDays": 9});
        let token = self.send::<t::CreateToken>(&[], token).await.entry.id;
        self.send::<t::ListTokens>(&[], json!({})).await;
        self.send::<t::RotateToken>(&[&token], json!({})).await;
        self.send::<t::RevokeToken>(&[&token], json!({})).await;
        let none = json!({"before": "1970-01-01T00:00:00Z"});
        assert_eq!(self.send::<t::RevokeOlder>(&[], none).await.tokens, 0);
        let me = self.send::<t::WhoAmI>(&[], json!({})).await;
        assert_eq!((&*me.access, &*me.role), ("closed", "admin"));
        self.send::<t::CreateLoginLink>(&[], json!({})).await;
        assert!(self.send::<se::ListSessions>(&[], json!({})).await.items.is_empty());
        self.refused::<se::EndSession>(&["nothing"], Code::SessionNotFound).await;
        self.send::<au::ListAudit>(&[], json!({})).await;
    }
}

#[tokio::test]
async fn the_typed_client_uses_every_route_of_the_document() {
    // The seed blocks in its own runtime.
    let server = tokio::task::spawn_blocking(Server::seeded).await.unwrap();
    let program = connect(&server.url);
    let mut walk = Walk { program, seen: BTreeSet::new() };
    walk.rest().await;
    walk.queues().await;
    walk.objects().await;
    walk.runs().await;
    walk.buckets().await;
    let described = server.json("/openapi.json");
    walk.tokens().await;
    // A connection needs an upgrade, which this client does not support.
    walk.seen.insert(("get".into(), "/v1/objects/{class}/{name}/connect".into()));
    let program = walk.program.clone();
    let paths: BTreeMap<String, BTreeMap<String, Value>> =
        serde_json::from_value(described["paths"].clone()).unwrap();
    let all = paths.iter().flat_map(|(path, it)| it.keys().map(|it| (it.clone(), path.clone())));
    let (own, others): (BTreeSet<_>, BTreeSet<_>) =
        all.partition(|it| !it.1.starts_with("/api/") && it.1.starts_with("/v1/"));
    let walked = walk.seen.iter().filter(|it| it.1.starts_with("/v1/")).cloned();
    assert_eq!(walked.collect::<BTreeSet<_>>(), own);
    // Applications: each route responds, with a problem for an unknown item.
    for (method, path) in others {
        let named = |it: &str| if it.starts_with('{') { "x".to_owned() } else { it.to_owned() };
        let uri = path.split('/').map(named).collect::<Vec<_>>().join("/");
        let request = program.start(&method.to_uppercase(), &uri);
        let request = request.header("content-type", "application/json").body(payload("{}"));
        match program.exchange(request.unwrap()).await {
            Ok(_) => {}
            Err(ApiError::Problem(problem)) => {
                let code = Code::of_tag(&problem.code);
                let missing = [Some(Code::RouteNotFound), Some(Code::WrongMethod)];
                assert!(!missing.contains(&code) && problem.status < 500, "{problem:?}");
            }
            Err(error) => panic!("{method} {uri}: {error}"),
        }
    }
}
