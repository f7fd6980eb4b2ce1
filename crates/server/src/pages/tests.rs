//! Effects and costs of pages, with their own program.

use std::{ops::Range, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, header},
};
use serde_json::{Value, json};
use steadfast_core::{
    App, Ctx, Error, Result, Retry, Role, TokenSpec, Workflow,
    queue::{Outgoing, Redrive},
    workflow::{Phase, StepStatus},
};
use steadfast_store::{
    Address, Commit, EntityKind, Json, Message, Outcome, RunStatus, SettledAs, SqliteOptions,
    SqliteStore, Store, SystemClock, Write, queue_address,
};
use tower::ServiceExt;

use crate::http::{Policy, router};

/// Charges a card that is always declined.
struct Charge;

impl Workflow for Charge {
    const NAME: &'static str = "charge";
    type Input = ();
    type Output = ();

    async fn run(&self, ctx: &Ctx, (): ()) -> Result<()> {
        let charge = ctx.step("charge", async || Err(Error::retryable("card declined")));
        charge.retry(Retry::constant(Duration::from_hours(1)).limit(9)).await
    }
}

async fn ask(site: &Router, request: Request<Body>) -> (u16, String) {
    let response = site.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 16 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(site: &Router, path: &str) -> String {
    let (status, body) = ask(site, Request::get(path).body(Body::empty()).unwrap()).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

async fn press(site: &Router, path: &str, form: &str) -> (u16, String) {
    let kind = "application/x-www-form-urlencoded";
    let request = Request::post(path).header(header::CONTENT_TYPE, kind);
    ask(site, request.body(Body::from(form.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_step_that_waits_for_its_next_attempt_is_retried_from_the_page() {
    let program = App::new("shop").workflow(Charge).test().await.unwrap();
    let site = router(&program, Policy::HostDecides).expect("the routes can be served");
    program.runs().start(Charge::at("c-1"), ()).await.unwrap();
    program.settle().await;
    let page = get(&site, "/workflows/charge/c-1").await;
    let action = "method=\"post\" action=\"/workflows/charge/c-1/retry\">";
    assert_eq!(page.matches(action).count(), 2, "beside the reason and in the step: {page}");
    assert!(page.contains("card declined") && page.contains("Blocked on"), "{page}");
    let attempts = async || {
        let run = program.runs().look("charge", "c-1").await.unwrap();
        assert_eq!(run.steps[0].status, StepStatus::Retrying);
        (run.status, run.steps[0].attempts.len())
    };
    assert_eq!(attempts().await, (Phase::Waiting, 1));
    assert_eq!(press(&site, "/workflows/charge/c-1/retry", "").await.0, 303);
    program.settle().await;
    assert_eq!(attempts().await, (Phase::Waiting, 2), "no time has passed");
    program.runs().pause("charge", "c-1").await.unwrap();
    assert_eq!(press(&site, "/workflows/charge/c-1/retry", "").await.0, 409);
    assert!(!get(&site, "/workflows/charge/c-1").await.contains(action));
}

#[tokio::test]
async fn a_preview_of_a_redrive_moves_nothing() {
    let program = App::new("shop").test().await.unwrap();
    let site = router(&program, Policy::HostDecides).expect("the routes can be served");
    for _ in 0..2 {
        let outgoing = Outgoing { body: Json::empty(), delay: Duration::ZERO };
        program.queues().send_json("q", vec![outgoing], None).await.unwrap();
    }
    let (status, page) = press(&site, "/queues/q/redrive", "preview=1&to=other&rate=2").await;
    assert_eq!(status, 200, "{page}");
    for shown in [
        "2 messages</strong> would move to <a href=\"/queues/other\">other</a>, 2 per second",
        "<input type=\"hidden\" name=\"to\" value=\"other\">",
        "<input type=\"hidden\" name=\"rate\" value=\"2\">",
        "<button class=\"button\">Redrive 2</button>",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert_eq!(program.queues().show("q").await.unwrap().depth, 2);
    assert_eq!(press(&site, "/queues/q/redrive", "to=other&rate=2&eror=x").await.0, 400);
    assert_eq!(press(&site, "/queues/q/redrive", "to=other&rate=2").await.0, 303);
    assert_eq!(program.queues().show("other").await.unwrap().depth, 2);
    let none = Redrive { dry_run: true, ..Redrive::default() };
    assert_eq!(program.queues().redrive("q", &none).await.unwrap().matched, 0);
}

#[tokio::test]
async fn a_large_record_is_read_in_pages() {
    let program = App::new("shop").workflow(Charge).test().await.unwrap();
    let site = router(&program, Policy::HostDecides).expect("the routes can be served");
    program.runs().start(Charge::at("c-1"), ()).await.unwrap();
    program.settle().await;
    let page = get(&site, "/workflows/charge/c-1").await;
    assert!(page.contains("card declined") && !page.contains("This one is larger"), "{page}");
    let payload = "x".repeat(900_000);
    for _ in 0..12 {
        program.runs().send_event("charge", "c-1", "paid", &payload).await.unwrap();
    }
    program.settle().await;
    let page = get(&site, "/workflows/charge/c-1").await;
    assert!(page.contains("8 MiB. This one is larger"), "{}", page.len());
    let (mut numbers, mut cursor) = (Vec::new(), String::from("0"));
    let length = program.runs().length("charge", "c-1").await.unwrap();
    while numbers.len() < length as usize {
        let path = format!("/v1/workflows/charge/runs/c-1/history?limit=1000&cursor={cursor}");
        let part: Value = serde_json::from_str(&get(&site, &path).await).unwrap();
        let items = part["items"].as_array().unwrap();
        assert!((1..10).contains(&items.len()) || cursor == "0", "{}", items.len());
        numbers.extend(items.iter().map(|it| it["number"].as_i64().unwrap()));
        let Some(next) = part["next"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert_ne!(cursor, "0", "one part would have more than 8 MiB");
    assert!(numbers.iter().copied().eq(1..=length), "{numbers:?}");
}

#[tokio::test]
async fn tokens_are_listed_in_pages() {
    let program = App::new("shop").test().await.unwrap();
    let site = router(&program, Policy::HostDecides).expect("the routes can be served");
    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        made.push(program.tokens().create(TokenSpec::member(name), None).await.unwrap().token.id);
    }
    made.sort_unstable();
    let part = async |query: &str| -> Value {
        serde_json::from_str(&get(&site, &format!("/v1/tokens?limit=2{query}")).await).unwrap()
    };
    let first = part("").await;
    assert_eq!((&first["items"][0]["id"], &first["next"]), (&json!(made[0]), &json!(made[1])));
    let last = part(&format!("&cursor={}", made[1])).await;
    assert_eq!((&last["items"][0]["id"], &last["next"]), (&json!(made[2]), &Value::Null));
}

#[tokio::test]
async fn sessions_are_listed_to_their_token_and_ended_by_a_button() {
    let program = App::new("shop").test().await.unwrap();
    let site = router(&program, Policy::Loopback).expect("the routes can be served");
    let begin = async |spec: TokenSpec| {
        let secret = program.tokens().create(spec, None).await.unwrap().secret;
        let begun = program.sessions().begin(&secret, Some("203.0.113.9")).await.unwrap();
        let (token, own) = (begun.principal.token, format!("steadfast={}", begun.secret));
        let id = program.sessions().list(Some(&token), None, 9).await.unwrap().0.pop().unwrap().id;
        (own, format!("/sessions/{id}/end"), token)
    };
    let admin_of = |name: &str| TokenSpec { role: Role::Admin, ..TokenSpec::member(name) };
    let (acme, acme_end, acme_token) = begin(admin_of("acme")).await;
    let (_, other_end, other_token) = begin(admin_of("other")).await;
    let (platform, platform_end, _) = begin(TokenSpec::role(Role::Admin)).await;
    let ask_as = async |cookie: &str, method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header(header::COOKIE, cookie);
        ask(&site, request.body(Body::empty()).unwrap()).await
    };
    // An admin of an organization has the sessions of its own token only.
    let (status, own) = ask_as(&acme, "GET", "/sessions").await;
    assert_eq!(status, 200, "{own}");
    for shown in [&*acme_end, &*acme_token, "acme", "203.0.113.9"] {
        assert!(own.contains(shown), "{shown} is missing in {own}");
    }
    for hidden in [&other_end, &platform_end, &other_token] {
        assert!(!own.contains(hidden.as_str()), "{hidden} is shown in {own}");
    }
    assert_eq!(ask_as(&acme, "POST", &other_end).await.0, 404);
    let (_, all) = ask_as(&platform, "GET", "/sessions").await;
    for end in [&acme_end, &other_end, &platform_end] {
        assert!(all.contains(&format!("method=\"post\" action=\"{end}\"")), "{all}");
    }
    assert!(all.contains("href=\"/sessions\""), "the footer has a link: {all}");
    assert_eq!(ask_as(&platform, "POST", &acme_end).await.0, 303);
    assert_eq!(ask_as(&acme, "GET", "/sessions").await.0, 401);
    let (_, left) = ask_as(&platform, "GET", "/sessions").await;
    assert!(!left.contains(&acme_end) && left.contains(&other_end), "{left}");
    let record = program.audit().list(None, 1).await.unwrap().pop().unwrap().event;
    assert_eq!((&*record.action, &*record.outcome), ("POST /sessions/{id}/end", "303"));
    // A page of another origin cannot press the button.
    let foreign = Request::post(&other_end).header("host", "localhost");
    let foreign = foreign.header(header::COOKIE, &platform).header("origin", "https://x.example");
    assert_eq!(ask(&site, foreign.body(Body::empty()).unwrap()).await.0, 403);
}

#[tokio::test]
async fn a_page_without_sessions_does_not_hide_those_of_the_next() {
    let program = App::new("shop").test().await.unwrap();
    let site = router(&program, Policy::Loopback).expect("the routes can be served");
    let create = async |name: &str| program.tokens().create(TokenSpec::member(name), None).await;
    let (acme, other) = (create("acme").await.unwrap(), create("other").await.unwrap());
    let (sessions, token) = (program.sessions(), &acme.token.id);
    // Ids are random, and this one is behind most of the others.
    let cookie = loop {
        let begun = sessions.begin(&acme.secret, None).await.unwrap();
        let id = sessions.list(Some(token), None, 9).await.unwrap().0.pop().unwrap().id;
        if "e" < &*id {
            break format!("steadfast={}", begun.secret);
        }
        sessions.end(&begun.secret).await.unwrap();
    };
    // As many before it as one list reads.
    let is_foreign = async || {
        let (listed, next) = sessions.list(Some(token), None, 9).await.unwrap();
        listed.is_empty() && next.is_some()
    };
    while !is_foreign().await {
        for _ in 0..250 {
            sessions.begin(&other.secret, None).await.unwrap();
        }
    }
    let page = async |path: &str| {
        let request = Request::get(path).header("host", "localhost");
        let request = request.header(header::COOKIE, &cookie);
        ask(&site, request.body(Body::empty()).unwrap()).await.1
    };
    let first = page("/sessions").await;
    assert!(!first.contains("No browser is logged in."), "{first}");
    let next = first.split("/sessions?cursor=").nth(1).and_then(|it| it.split('"').next());
    let second = page(&format!("/sessions?cursor={}", next.unwrap())).await;
    assert!(second.contains("/end\""), "{second}");
}

/// More runs of each status than a page has rows, and ten times as many.
const FEW: usize = 110;
const MANY: usize = 10 * FEW;
const COUNTED_MAX: usize = 1_200;

fn event() -> Message {
    Message::new("noted", Json::empty()).unwrap().event()
}

/// Streams, runs, queues with a message, pending messages and dead messages.
async fn fill(store: &dyn Store, numbers: Range<usize>) {
    let target = Address::new(EntityKind::Object, "unserved", "x").unwrap();
    for number in numbers {
        let name = format!("{number:05}");
        let stream = Address::new(EntityKind::Stream, "bulk", &name).unwrap();
        let run = Address::new(EntityKind::Run, "charge", &name).unwrap();
        let own = queue_address(&format!("q-{name}")).unwrap();
        let queue = queue_address("busy").unwrap();
        let paused = if number % 2 == 0 { RunStatus::Paused } else { RunStatus::Errored };
        let started = Json::of(&json!({ "entry": "started", "input": null })).unwrap();
        let started = Message::new("started", started).unwrap().event();
        let commit = Commit::default()
            .write(Write::Append {
                stream: stream.clone(),
                messages: vec![
                    event(),
                    event().to(&own),
                    event().to(&queue),
                    event().to(&target),
                    event().to(&target),
                ],
            })
            .write(Write::Append { stream: run.clone(), messages: vec![started] })
            .write(Write::Run { run, status: paused, expires: None });
        let Outcome::Committed(receipt) = store.commit(commit).await.unwrap() else {
            panic!("not committed")
        };
        let (position, error) = (receipt.appended[4].1, Some("no such object".into()));
        let dead = Write::Settle { position, lease: None, as_: SettledAs::Dead, error };
        store.commit(Commit::of(dead)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_reads_no_more_rows_in_a_store_ten_times_as_large() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(folder.path(), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    fill(&*store, 0..FEW).await;
    // More than are counted for the depth of a queue.
    let (stream, queue) = (queue_address("busy").unwrap(), queue_address("busy").unwrap());
    let messages = vec![event().to(&queue); COUNTED_MAX];
    store.commit(Commit::of(Write::Append { stream, messages })).await.unwrap();
    // It delivers nothing, so that nothing else reads.
    let program = App::new("shop").workflow(Charge).prepare(store.clone()).await.unwrap();
    let site = router(&program, Policy::HostDecides).expect("the routes can be served");
    let pages = [
        "/",
        "/search?q=0000",
        "/streams",
        "/streams/pending",
        "/streams/dead",
        "/streams/stream/bulk/00001",
        "/workflows/charge",
        "/workflows/charge?status=paused&prefix=0000",
        "/workflows/charge/00001",
        "/queues",
        "/queues/q-00001",
        "/queues/busy",
        "/queues/busy?limit=10",
        "/metrics",
    ];
    let costs = async || {
        let mut costs = Vec::new();
        for path in pages {
            // The first request opens queues and prepares statements.
            get(&site, path).await;
            let before = store.activity().steps;
            get(&site, path).await;
            costs.push(store.activity().steps - before);
        }
        costs
    };
    let small = costs().await;
    fill(&*store, FEW..MANY).await;
    for ((path, small), large) in pages.into_iter().zip(small).zip(costs().await) {
        assert!(0 < small, "{path}");
        assert!(large <= small + small / 4, "{path}: {small} steps, then {large}");
    }
}
