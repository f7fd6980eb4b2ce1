//! The routes nested in another axum program.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::ready,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::Duration,
};

use axum::{
    Extension, Json,
    body::{Body, Bytes, to_bytes},
    extract::State,
    http::{Request, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use steadfast_core::{App, Handle, Object, Queue, Result, TokenSpec, Turn, object};
use steadfast_store::{Commit, MemoryStore, Moment, Store, SystemClock};
use steadfast_web::{Caller, Needs, Problem, Role, Routes, Serve, needs};
use tower::ServiceExt;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::*;
use crate::{
    listener::{Answer, ConnectionInfo},
    network::Scheme,
    transport::ClientInfo,
};

mod prefix;

const HOST: &str = "shop.example.com";

async fn ask(site: &Router, request: Request<Body>) -> Response {
    site.clone().oneshot(request).await.unwrap()
}

async fn answer(site: &Router, path: &str) -> Response {
    let request = Request::get(path).header("host", HOST).header("accept", "text/html");
    ask(site, request.body(Body::empty()).unwrap()).await
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn status(site: &Router, path: &str, host: &str) -> u16 {
    let request = Request::get(path).header("host", host).body(Body::empty()).unwrap();
    ask(site, request).await.status().as_u16()
}

#[tokio::test]
async fn an_axum_program_serves_the_routes_with_its_own() {
    let program = App::new("host").test().await.unwrap();
    let own = Router::new().route("/hello", get(async || "hello"));
    let decides = own.clone().fallback_service(router(&program, Policy::HostDecides).unwrap());
    for path in ["/hello", "/", "/v1/streams", "/openapi.json", "/metrics", "/healthz"] {
        assert_eq!(status(&decides, path, HOST).await, 200, "{path}");
    }
    // A program without buckets reports that.
    assert_eq!(status(&decides, "/v1/buckets", HOST).await, 404);
    let loopback = own.fallback_service(router(&program, Policy::Loopback).unwrap());
    assert_eq!(status(&loopback, "/v1/streams", "localhost").await, 200);
    assert_eq!(status(&loopback, "/v1/streams", HOST).await, 403);
}

#[tokio::test]
async fn health_checks_and_assets_answer_while_the_store_cannot_be_read() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let program = App::new("host").prepare(store.clone()).await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    store.crash_at(1, Moment::Before);
    assert!(store.commit(Commit::default()).await.is_err());
    for path in ["/healthz", "/readyz", "/assets/steadfast.css", "/login"] {
        assert_eq!(status(&site, path, "localhost").await, 200, "{path}");
    }
    let health = Request::get("/healthz").header("host", "localhost");
    let known = health.header("authorization", "Bearer sf_x_y").body(Body::empty()).unwrap();
    assert_eq!(ask(&site, known).await.status(), 200);
    assert_eq!(status(&site, "/v1/streams", "localhost").await, 503);
}

#[tokio::test]
async fn an_application_with_a_route_of_the_server_is_an_error_of_the_router() {
    fn own() -> Routes {
        Routes::new("own").get("/v1/objects/{kind}", Role::Viewer, "Lists", async || "")
    }
    let program = App::new("host").routes("", own).test().await.unwrap();
    let Err(StartError::Program { problems }) = router(&program, Policy::HostDecides) else {
        panic!("the routes are served");
    };
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("route `/v1/objects/{}` is declared by host ("),
        "{problems:?}"
    );
    assert!(problems[0].ends_with("and by the server"), "{problems:?}");
}

/// The links of a page to its own server.
fn links(page: &str) -> Vec<String> {
    let parts = ["href", "src", "action"].map(|it| format!(" {it}=\""));
    let found = parts.iter().flat_map(|it| page.split(it.as_str()).skip(1));
    let found = found.filter_map(|it| it.split('"').next()).map(|it| it.replace("&amp;", "&"));
    found.filter(|it| it.starts_with('/')).collect()
}

const MAIL: Queue<String> = Queue::named("mail");

#[tokio::test]
async fn all_links_of_the_console_work_below_a_path() {
    let program = App::new("host").queue(MAIL).object(Porter);
    let program =
        program.routes("/porter", porter_routes).page("Porter", "/porter/outside", "asks");
    let program = program.test().await.unwrap();
    program.call(Porter::at("a"), Ask).await.unwrap();
    let durable = router(&program, Policy::HostDecides).unwrap();
    let nested = Router::new().nest("/acme/durable", durable.clone());
    let service = Router::new().nest_service("/acme/durable", durable);
    for site in [nested, service] {
        let (mut seen, mut next) = (BTreeSet::new(), vec!["/acme/durable".to_owned()]);
        while let Some(path) = next.pop() {
            let response = answer(&site, &path).await;
            let html = response.headers().get(header::CONTENT_TYPE).cloned();
            let html = html.is_some_and(|it| it.to_str().unwrap().starts_with("text/html"));
            // Forms need other methods, and this program has no buckets.
            let of_buckets = ["/acme/durable/buckets", "/acme/durable/quotas"];
            let is_served = matches!(response.status().as_u16(), 200 | 405)
                || of_buckets.iter().any(|it| path.starts_with(it));
            assert!(is_served, "{path}: {}", text(response).await);
            if html {
                for link in links(&text(response).await) {
                    assert!(link.starts_with("/acme/durable"), "{link} on {path}");
                    if seen.insert(link.clone()) {
                        next.push(link);
                    }
                }
            }
        }
        for path in ["/queues/mail", "/objects/porter", "/assets/steadfast.css", "/porter/outside"]
        {
            let is_seen = seen.iter().any(|it| it.contains(path));
            assert!(is_seen, "{path} is not linked: {seen:?}");
        }
    }
}

#[tokio::test]
async fn forms_redirect_to_pages_below_the_path() {
    let program = App::new("host").queue(MAIL).test().await.unwrap();
    let site = Router::new().nest("/durable", router(&program, Policy::HostDecides).unwrap());
    let form = Request::post("/durable/queues/mail/pause").header("host", HOST);
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let response = ask(&site, form.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), 303, "{:?}", response.headers());
    let to = response.headers()[header::LOCATION].to_str().unwrap();
    assert!(to.starts_with("/durable/queues/mail"), "{to}");
}

#[tokio::test]
async fn a_route_that_is_not_described_is_not_served() {
    async fn hidden() -> &'static str {
        "hidden"
    }
    let routes = || porter_routes().route("/hidden", get(hidden)).route("/outside", get_too());
    fn get_too() -> axum::routing::MethodRouter<Runtime> {
        axum::routing::delete(hidden)
    }
    let program = App::new("host").object(Porter).routes("/porter", routes).test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    assert_eq!(status(&site, "/porter/outside", HOST).await, 200);
    let response = answer(&site, "/porter/hidden").await;
    assert_eq!(response.status(), 404);
    assert!(text(response).await.contains("does not declare the role"));
    let delete = Request::delete("/porter/outside").header("host", HOST);
    let response = ask(&site, delete.body(Body::empty()).unwrap()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["allow"]),
        (405, &"GET,HEAD".parse().unwrap())
    );
}

/// Returns the caller.
struct Porter;

#[derive(Serialize, Deserialize)]
struct Ask;

impl Object for Porter {
    const CLASS: &'static str = "porter";
    type Calls = (Ask,);
}

impl Handle<Ask> for Porter {
    const NAME: &'static str = "ask";
    const PUBLIC: bool = true;
    type Reply = String;
    fn handle(&self, turn: &Turn<Self>, _: Ask) -> Result<String> {
        turn.kv().put("asked", &1)?;
        Ok(format!("{:?}", turn.caller()))
    }
}

#[utoipa::path(get, path = "/outside", responses((status = 200)))]
async fn outside(caller: Caller) -> Result<Json<String>, Problem> {
    Ok(Json(caller.call(Porter::at("a"), Ask).await?))
}

#[utoipa::path(get, path = "/inside", responses((status = 200)))]
async fn inside(program: State<Runtime>) -> Result<Json<String>, Problem> {
    Ok(Json(program.call(Porter::at("a"), Ask).await?))
}

fn porter_routes() -> OpenApiRouter<Runtime> {
    let routes = OpenApiRouter::new().routes(needs(Needs::NOTHING, routes!(outside)));
    needs(Role::Viewer, routes.routes(routes!(inside)))
}

#[tokio::test]
async fn a_turn_distinguishes_a_caller_from_the_program_itself() {
    let program = App::new("host").object(Porter).routes("/porter", porter_routes);
    let program = program.test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    assert_eq!(text(answer(&site, "/porter/outside").await).await, "\"Anonymous\"");
    assert_eq!(text(answer(&site, "/porter/inside").await).await, "\"Internal\"");
    // A host program that knows its callers sets them.
    let known = site.layer(Extension(object::Caller::Internal));
    assert_eq!(text(answer(&known, "/porter/outside").await).await, "\"Internal\"");
    let own = router(&program, Policy::Loopback).unwrap();
    let own = own.layer(Extension(object::Caller::Internal));
    let request = Request::get("/porter/outside").header("host", "localhost");
    let response = ask(&own, request.body(Body::empty()).unwrap()).await;
    assert_eq!(text(response).await, "\"Anonymous\"");
}

async fn bearing(site: &Router, method: &str, path: &str, token: &str) -> Response {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {token}"));
    let request = request.header("content-type", "application/json");
    ask(site, request.body(Body::from("null")).unwrap()).await
}

#[tokio::test]
async fn a_turn_sees_the_principal_of_its_caller() {
    let program = App::new("host").object(Porter).routes("/porter", porter_routes);
    let program = program.test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let member = program.tokens().create(TokenSpec::member("acme"), None).await.unwrap();
    let shown = text(bearing(&site, "GET", "/porter/outside", &member.secret).await).await;
    for part in ["Principal", &member.token.id, "acme", "Member"] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    assert!(!shown.contains(&member.secret), "{shown}");
    // By the API of the server.
    let operator = program.tokens().create(TokenSpec::role(Role::Operator), None).await.unwrap();
    let call = "/v1/objects/porter/a/calls/ask";
    let shown = text(bearing(&site, "POST", call, &operator.secret).await).await;
    assert!(shown.contains(&operator.token.id) && shown.contains("Operator"), "{shown}");
    // A route that acts as the program itself.
    let shown = text(bearing(&site, "GET", "/porter/inside", &operator.secret).await).await;
    assert_eq!(shown, "\"Internal\"");
}

#[tokio::test]
async fn the_audit_log_has_changes_by_routes_of_applications_and_no_calls() {
    fn shop() -> Routes {
        let member = Needs::of_organization(Role::Member);
        Routes::new("shop")
            .delete("/things/{id}", member, "Deletes", async || "")
            .post("/orders", member, "Orders", async || {
                Problem::of(steadfast_api::Code::BadRequest, "some were stored").into_response()
            })
            .post("/carts", member, "Empties", async || {
                Problem::not_found("cart_not_found", "no").into_response()
            })
            .post("/clicks", member.unrecorded(), "Counts", async || "")
            .get("/things", Needs::of_organization(Role::Viewer), "Lists", async || "")
    }
    let program = App::new("host").object(Porter).queue(MAIL).routes("/shop", shop);
    let program = program.test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let create = async |spec| program.tokens().create(spec, None).await.unwrap();
    let acme = create(TokenSpec::member("acme")).await;
    let member = create(TokenSpec::role(Role::Member)).await;
    // The first request closes access.
    assert_eq!(bearing(&site, "GET", "/shop/things", &acme.secret).await.status(), 200);
    // A task of its own writes the use of the token.
    let uses = async || program.tokens().list(None, 9).await.unwrap();
    while uses().await.iter().all(|it| it.last_used_at.is_none()) {
        tokio::task::yield_now().await;
    }
    let commits = program.store().activity().commits;
    let deleted = bearing(&site, "DELETE", "/shop/things/t-1", &acme.secret).await;
    assert_eq!(deleted.status(), 200);
    assert_eq!(program.store().activity().commits, commits + 1, "its record");
    for (method, path) in [("POST", "/shop/clicks"), ("GET", "/shop/things")] {
        assert_eq!(bearing(&site, method, path, &acme.secret).await.status(), 200, "{path}");
    }
    assert_eq!(program.store().activity().commits, commits + 1);
    // Requests without an effect have a budget; others may have had one.
    for _ in 0..30 {
        assert_eq!(bearing(&site, "POST", "/shop/orders", &acme.secret).await.status(), 400);
        assert_eq!(bearing(&site, "POST", "/shop/carts", &acme.secret).await.status(), 404);
    }
    // Calls and sends of members are data.
    for path in ["/v1/objects/porter/a/calls/ask", "/v1/queues/mail/messages"] {
        let answer = bearing(&site, "POST", path, &member.secret).await;
        assert!(answer.status() != 403 && answer.status() != 401, "{path}");
    }
    bearing(&site, "POST", "/v1/queues/mail/purge", &member.secret).await;
    let records = program.audit().list(None, 99).await.unwrap();
    let count = |action: &str| records.iter().filter(|it| it.event.action == action).count();
    let first = records.last().unwrap();
    assert_eq!((&*first.event.action, &*first.event.outcome), ("DELETE /shop/things/{id}", "200"));
    assert_eq!(first.event.target, "/shop/things/t-1");
    assert_eq!(first.event.token.as_ref(), Some(&acme.token.id));
    assert_eq!(count("POST /shop/orders"), 30);
    let carts = count("POST /shop/carts");
    assert!((20..30).contains(&carts), "{carts}");
    assert_eq!(count("POST /v1/queues/{queue}/purge"), 1, "refused");
    assert_eq!(records.len(), 2 + 30 + carts);
}

#[tokio::test]
async fn bodies_without_a_credential_have_little_memory_and_block_no_token() {
    fn open() -> Routes {
        Routes::new("open").post("/read", Needs::NOTHING, "Reads", async |_: Bytes| "read")
    }
    let program = App::new("host").routes("/open", open).test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let member = program.tokens().create(TokenSpec::role(Role::Member), None).await.unwrap();
    // The first request closes access.
    assert_eq!(bearing(&site, "POST", "/open/read", &member.secret).await.status(), 200);
    let waiting = Arc::new(AtomicUsize::new(0));
    let unfinished = || {
        let (waiting, mut is_counted) = (waiting.clone(), false);
        let first = stream::once(ready(Ok::<_, Infallible>(vec![b'x'; 1 << 20])));
        let rest = stream::poll_fn(move |_| {
            let was_counted = std::mem::replace(&mut is_counted, true);
            waiting.fetch_add(usize::from(!was_counted), Ordering::Relaxed);
            Poll::Pending
        });
        Body::from_stream(first.chain(rest))
    };
    let send = |body: Body| {
        let request = Request::post("/open/read").header("host", "localhost");
        site.clone().oneshot(request.body(body).unwrap())
    };
    let slow: Vec<_> = (0..16).map(|_| tokio::spawn(send(unfinished()))).collect();
    while waiting.load(Ordering::Relaxed) < slow.len() {
        tokio::task::yield_now().await;
    }
    let refused = text(send(Body::from(vec![b'x'; 4_097])).await.unwrap()).await;
    assert!(refused.contains("\"busy\""), "{refused}");
    let small = send(Body::from(vec![b'x'; 4_096])).await.unwrap();
    assert_eq!(small.status(), 200, "a login has no more bytes");
    assert_eq!(bearing(&site, "POST", "/open/read", &member.secret).await.status(), 200);
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_token_takes_at_most_half_of_the_places_of_exports() {
    let program = App::new("host").object(Porter).test().await.unwrap();
    program.call(Porter::at("a"), Ask).await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let create = async || program.tokens().create(TokenSpec::role(Role::Viewer), None).await;
    let (one, other) = (create().await.unwrap(), create().await.unwrap());
    let path = "/v1/objects/porter/a/export";
    let export = async |token: &str| bearing(&site, "GET", path, token).await;
    // A response holds its place until its body is dropped.
    let held = [export(&one.secret).await, export(&one.secret).await];
    assert!(held.iter().all(|it| it.status() == 200));
    let (third, another) = tokio::join!(export(&one.secret), export(&other.secret));
    assert_eq!((third.status().as_u16(), another.status().as_u16()), (429, 200));
    drop(held);
    assert_eq!(export(&one.secret).await.status(), 200);
}

#[tokio::test]
async fn refusals_of_one_network_share_a_budget_and_displace_no_change() {
    fn shop() -> Routes {
        Routes::new("shop").delete("/things/{id}", Role::Operator, "Deletes", async || "")
    }
    let program = App::new("host").routes("/shop", shop).test().await.unwrap();
    let runtime = (*program).clone();
    let server = Arc::new(Server::new(runtime, Location::Host, Policy::Loopback));
    let site = app::router(server.clone()).unwrap();
    let admin = program.tokens().create(TokenSpec::role(Role::Admin), None).await.unwrap();
    // The first request closes access.
    assert_eq!(bearing(&site, "GET", "/v1/queues", &admin.secret).await.status(), 200);
    let log_in = async |address: &str| {
        let request = Request::post("/login").header("host", "localhost");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let mut request = request.body(Body::from("token=wrong")).unwrap();
        let peer = address.parse().unwrap();
        let client = ClientInfo::direct(peer, Scheme::Http, request.uri(), request.headers());
        request.extensions_mut().insert(ConnectionInfo::of(client).await);
        ask(&site, request).await.status().as_u16()
    };
    let records = async || {
        let records = program.audit().list(None, 999).await.unwrap();
        records.into_iter().map(|it| it.event).collect::<Vec<_>>()
    };
    let wait = async || {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(90)).await;
        tokio::time::resume();
    };
    // A client has all addresses of an IPv6 network. One record has the number of the others.
    let lost = |_| u64::from(server.rates().record_refusal(None, "2001:db8::").is_none());
    let lost: u64 = (0..60).map(lost).sum();
    wait().await;
    assert_eq!(log_in("2001:db8::7").await, 401);
    assert_eq!(records().await[0].repeated, Some(lost));
    // Nothing is left for refusals. A change is recorded.
    for it in 0..1_000 {
        server.rates().record_refusal(None, &it.to_string());
        server.rates().record_refusal(Some(&it.to_string()), "");
    }
    for _ in 0..3 {
        assert_eq!(log_in("203.0.113.9").await, 401);
    }
    assert_eq!(bearing(&site, "DELETE", "/shop/things/t-1", &admin.secret).await.status(), 200);
    let known = records().await;
    assert_eq!((known.len(), &*known[0].action), (2, "DELETE /shop/things/{id}"));
    wait().await;
    assert_eq!(log_in("203.0.113.9").await, 401);
    assert_eq!(records().await[0].repeated, Some(3));
}

async fn post(site: &Router, path: &str, token: Option<&str>, body: &str) -> Response {
    let mut request = Request::post(path).header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.header("content-type", "application/json");
    ask(site, request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_new_token_is_answered_although_that_of_the_machine_cannot_be_written() {
    let (program, data) = (App::new("host").test().await.unwrap(), tempfile::tempdir().unwrap());
    let server = Arc::new(Server::new((*program).clone(), Location::Host, Policy::Loopback));
    server.data.set(data.path().to_owned()).unwrap();
    let site = app::router(server.clone()).unwrap();
    let obstacle = data.path().join("admin.token.part");
    std::fs::create_dir(&obstacle).unwrap();
    let created = post(&site, "/v1/tokens", None, r#"{"role": "admin"}"#).await;
    assert_eq!(created.status(), 201);
    let id = created.headers()["x-request-id"].to_str().unwrap().to_owned();
    let created: serde_json::Value = serde_json::from_str(&text(created).await).unwrap();
    let token = created["token"].as_str().unwrap();
    // The token that has closed access has a record, too.
    let newest = program.audit().list(None, 1).await.unwrap().pop().unwrap().event;
    assert_eq!((&*newest.action, &*newest.outcome), ("POST /v1/tokens", "201"));
    assert_eq!(newest.request_id, id, "that of the response");
    assert!(newest.detail.unwrap().contains("role admin"));
    std::fs::remove_dir(&obstacle).unwrap();
    let id = server.close_access().await.unwrap().unwrap().id;
    // A new secret would not be in the file.
    for body in ["{}", r#"{"overlapHours": 1}"#] {
        let rotated = post(&site, &format!("/v1/tokens/{id}/rotate"), Some(token), body).await;
        assert_eq!(rotated.status(), 409);
    }
    assert_eq!(bearing(&site, "DELETE", &format!("/v1/tokens/{id}"), token).await.status(), 200);
    let written = std::fs::read_to_string(data.path().join("admin.token")).unwrap();
    assert_ne!(program.tokens().by_secret(written.trim()).await.unwrap().id, id);
    let older = r#"{"before": "2100-01-01T00:00:00Z"}"#;
    assert_eq!(post(&site, "/v1/tokens/revoke-older", Some(token), older).await.status(), 200);
    let newest = program.audit().list(None, 1).await.unwrap().pop().unwrap().event;
    assert_eq!(newest.detail.unwrap(), "before 2100-01-01T00:00:00.000Z: 2 tokens, 0 access keys");
}

#[tokio::test]
async fn an_admin_of_an_organization_revokes_expired_tokens_and_changes_few_per_second() {
    let program = App::new("host").test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let day = Duration::from_hours(24);
    let create = async |spec| program.tokens().create(spec, None).await.unwrap();
    let admin = create(TokenSpec { role: Role::Admin, ..TokenSpec::member("acme") }).await.secret;
    let short = TokenSpec { expires_in: Some(day), ..TokenSpec::member("acme") };
    let (expired, member) = (create(short).await.token.id, create(TokenSpec::member("acme")).await);
    program.advance(2 * day).await;
    let expired = format!("/v1/tokens/{expired}");
    assert_eq!(bearing(&site, "DELETE", &expired, &admin).await.status(), 200);
    let path = format!("/v1/tokens/{}/rotate", member.token.id);
    let rotate = async || post(&site, &path, Some(&admin), r#"{"overlapHours": 1}"#).await;
    assert_eq!(rotate().await.status(), 201);
    let again = text(rotate().await).await;
    assert!(again.contains("\"conflict\"") && again.contains("was replaced by"), "{again}");
    let mut statuses = Vec::new();
    while !statuses.contains(&429) && statuses.len() < 1_000 {
        statuses.push(rotate().await.status().as_u16());
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn an_access_key_that_was_replaced_is_not_rotated_again() {
    let program = App::new("host").test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let sent = async |path: &str, body: &str| {
        let response = post(&site, path, None, body).await;
        let status = response.status().as_u16();
        (status, serde_json::from_str::<serde_json::Value>(&text(response).await).unwrap())
    };
    let (_, old) = sent("/v1/keys", "{}").await;
    let old = old["accessKeyId"].as_str().unwrap();
    let rotate = format!("/v1/keys/{old}/rotate");
    let (status, new) = sent(&rotate, r#"{"overlapHours": 1}"#).await;
    assert_eq!(status, 201, "{new}");
    let (status, again) = sent(&rotate, r#"{"overlapHours": 1}"#).await;
    assert_eq!((status, &again["code"]), (409, &serde_json::json!("conflict")), "{again}");
    let by = format!("`{old}` was replaced by `{}`", new["accessKeyId"].as_str().unwrap());
    assert!(again["detail"].as_str().unwrap().contains(&by), "{again}");
}

#[tokio::test]
async fn a_websocket_of_a_whole_router_is_a_call() {
    let raw = || needs(Role::Member, Router::<()>::new().route("/x", get(async || "")));
    let program = App::new("host").routes("/raw", raw).test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    for (verb, plain, upgraded) in [("read", 200, 403), ("call", 403, 200)] {
        let scopes = vec![format!("route:raw/x:{verb}").parse().unwrap()];
        let spec = TokenSpec { scopes, ..TokenSpec::role(Role::Member) };
        let token = program.tokens().create(spec, None).await.unwrap().secret;
        let ask = async |upgrade: bool| {
            let request = Request::get("/raw/x").header("host", "localhost");
            let request = request.header("authorization", format!("Bearer {token}"));
            let request = if upgrade { request.header("upgrade", "websocket") } else { request };
            ask(&site, request.body(Body::empty()).unwrap()).await.status().as_u16()
        };
        assert_eq!((ask(false).await, ask(true).await), (plain, upgraded), "{verb}");
    }
}

#[tokio::test]
async fn the_port_for_webhooks_serves_no_other_route() {
    fn hooks() -> Routes {
        let none = Needs::NOTHING;
        Routes::new("hooks").post("/webhooks/shop/{secret}", none, "Hears", async || "heard")
    }
    let program = App::new("host").object(Porter).routes("/porter", porter_routes);
    let program = program.routes("", hooks).test().await.unwrap();
    let table = route_table(&program).unwrap();
    let port = crate::ports::webhooks(router(&program, Policy::Loopback).unwrap());
    let mut served = 0;
    for route in table.entries() {
        let path = route.path.replace("{*", "{").replace(['{', '}'], "");
        let request = Request::builder().method(&*route.method).uri(&path);
        // Providers call it by its public name.
        let request = request.header("host", HOST).body(Body::empty()).unwrap();
        let found = ask(&port, request).await.status();
        let is_webhook = route.path.starts_with("/webhooks/");
        served += usize::from(is_webhook);
        assert_eq!(found, if is_webhook { 200 } else { 404 }, "{} {path}", route.method);
    }
    assert_eq!(served, 1);
}

#[tokio::test]
async fn a_browser_that_came_over_tls_shall_not_come_without_it() {
    let program = App::new("host").test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    for (scheme, host, expected) in [
        (Scheme::Https, HOST, true),
        (Scheme::Http, HOST, false),
        (Scheme::Https, "localhost:8787", false),
    ] {
        let (address, host) = (std::net::Ipv4Addr::LOCALHOST.into(), Some(host.to_owned()));
        let client = ClientInfo { address, scheme, host };
        let connection = ConnectionInfo::of(client.clone()).await;
        for path in ["/", "/healthz", "/v1/nowhere"] {
            let response = answer(&site.clone().layer(Extension(connection.clone())), path).await;
            let header = response.headers().get(header::STRICT_TRANSPORT_SECURITY);
            assert_eq!(header.is_some(), expected, "{path} for {client:?}");
        }
    }
}

#[tokio::test]
async fn a_page_that_is_refused_shows_the_caller_as_other_pages_do() {
    let program = App::new("host").queue(MAIL).test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let viewer = program.tokens().create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    for (method, path, expected) in [("GET", "/queues", 200), ("POST", "/queues/mail/purge", 403)] {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {}", viewer.secret));
        let request = request.header("accept", "text/html").body(Body::empty()).unwrap();
        let response = ask(&site, request).await;
        assert_eq!(response.status(), expected, "{path}");
        assert!(text(response).await.contains("action=\"/logout\""), "{path}");
    }
}

/// A path of a route, with this value for each of its parameters.
fn filled(route: &str, value: &str) -> String {
    let segments = route.split('/').map(|it| if it.starts_with('{') { value } else { it });
    segments.collect::<Vec<_>>().join("/")
}

/// The parts of a response that do not differ from request to request, and the body without its
/// numbers. The length of a body is written by the listener.
async fn shown(response: Response) -> (u16, BTreeSet<String>, String) {
    let (status, headers) = (response.status().as_u16(), response.headers());
    let names = headers.keys().map(|it| it.as_str().to_owned()).filter(|it| it != "content-length");
    let names = names.collect();
    let is_problem = headers.get(header::CONTENT_TYPE);
    let is_problem = is_problem.is_some_and(|it| it == "application/problem+json");
    let body = text(response).await;
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let problem = ["code", "detail", "field", "instance"].map(|it| problem[it].to_string());
    let is_number = |it: char| it.is_ascii_digit() || it == '.';
    let body = if is_problem { problem.join(" ") } else { body.replace(is_number, "") };
    (status, names, body)
}

#[tokio::test]
async fn an_operation_is_answered_over_a_port_as_by_the_router() {
    let program = App::new("host").object(Porter).queue(MAIL).test().await.unwrap();
    let server = Server::new((*program).clone(), Location::Host, Policy::Loopback);
    let routes = app::routes(Arc::new(server)).unwrap();
    let create = async |scopes: &[&str]| {
        let scopes = scopes.iter().map(|it| it.parse().unwrap()).collect();
        let spec = TokenSpec { scopes, ..TokenSpec::role(Role::Viewer) };
        program.tokens().create(spec, None).await.unwrap().secret
    };
    let (viewer, scoped) = (create(&[]).await, create(&["queue:mail:read"]).await);
    let tokens = [None, Some("sf_AAAAAAAAAA_x"), Some(&*viewer), Some(&*scoped)];
    let (mut found, mut bodies) = (0, 0);
    for route in route_table(&program).unwrap().entries() {
        // Things of these names do not exist, but the queue.
        let path = route.path.replace("{queue}", "mail").replace("{*", "{");
        let path = path.replace(['{', '}'], "");
        let odd = ["%ff", "a%2Fb", ""].map(|it| filled(&route.path, it));
        let odd = odd.iter().filter(|it| **it != route.path).map(|it| (it, "localhost"));
        for (path, host) in [(&path, "localhost"), (&path, HOST)].into_iter().chain(odd) {
            for token in tokens {
                let request = || {
                    let request = Request::builder().method(&*route.method).uri(path);
                    let request = request.header("host", host);
                    let request = match token {
                        Some(token) => request.header("authorization", format!("Bearer {token}")),
                        None => request,
                    };
                    request.body(Body::from("{\"unknown\": 1}")).unwrap()
                };
                if routes.operation(&request()).is_none() {
                    continue;
                }
                found += 1;
                let local = std::net::Ipv4Addr::LOCALHOST.into();
                let headers = request();
                let client =
                    ClientInfo::direct(local, Scheme::Http, headers.uri(), headers.headers());
                let by_router = shown(ask(&routes.router, request()).await).await;
                let over_port = routes.answer(ConnectionInfo::of(client).await, request()).await;
                let mut over_port = shown(over_port).await;
                let again = shown(ask(&routes.router, request()).await).await;
                if by_router == again {
                    bodies += usize::from(by_router.0 == 200);
                } else {
                    // The body differs from request to request.
                    over_port.2.clone_from(&by_router.2);
                }
                assert_eq!(over_port, by_router, "{} {path}", route.method);
            }
        }
    }
    assert!(500 < found && 5 < bodies, "{found} requests and {bodies} bodies were compared");
    // Other methods and the routes of applications are of the router.
    let is_operation = |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        routes.operation(&request).is_some()
    };
    assert!(is_operation("GET", "/v1/queues/mail") && !is_operation("HEAD", "/v1/queues/mail"));
    assert!(!is_operation("GET", "/v1/queues/mail/") && !is_operation("GET", "/queues/mail"));
}

#[tokio::test]
async fn a_route_of_an_application_precedes_an_operation_that_matches_its_path() {
    fn own() -> Routes {
        Routes::new("own").get("/v1/objects/own/list", Role::Viewer, "Lists", async || "own")
    }
    let program = App::new("host").object(Porter).routes("", own).test().await.unwrap();
    let server = Server::new((*program).clone(), Location::Host, Policy::Loopback);
    let routes = app::routes(Arc::new(server)).unwrap();
    for (path, is_own) in [("/v1/objects/own/list", true), ("/v1/objects/own/other", false)] {
        let request = Request::get(path).header("host", "localhost");
        let request = request.body(Body::empty()).unwrap();
        let local = std::net::Ipv4Addr::LOCALHOST.into();
        let client = ClientInfo::direct(local, Scheme::Http, request.uri(), request.headers());
        let response = routes.answer(ConnectionInfo::of(client).await, request).await;
        assert_eq!(text(response).await == "own", is_own, "{path}");
    }
}

#[tokio::test]
async fn every_route_is_listed_with_its_role() {
    let program = App::new("host").object(Porter).routes("/porter", porter_routes);
    let program = program.test().await.unwrap();
    let table = route_table(&program).unwrap();
    let need = |method, path| table.find(method, path).map(|it| it.needs.name());
    assert_eq!(need("GET", "/porter/outside"), Some("none"));
    assert_eq!(need("GET", "/porter/inside"), Some("viewer"));
    assert_eq!(need("DELETE", "/v1/buckets/{bucket}/objects/{*key}"), Some("operator"));
    assert_eq!(need("POST", "/v1/queues/{queue}/messages"), Some("member"));
    assert_eq!(need("GET", "/healthz"), Some("none"));
    assert_eq!(need("PATCH", "/healthz"), None);
    let ours = table.entries().iter().filter(|it| it.owner.is_some()).count();
    assert_eq!(ours, 2);
}

#[tokio::test]
async fn services_and_fallbacks_of_a_router_have_its_role() {
    fn files() -> Router {
        let service = Router::new().route("/a", get(async || "a"));
        Router::new()
            .route("/slash/", get(async || "slash"))
            .nest_service("/files", service)
            .fallback(async |caller: Caller| format!("{:?}", caller.runtime().is_some()))
    }
    fn described() -> Routes {
        Routes::new("own").get("/end/", Role::Viewer, "Ends with a slash", async || "end")
    }
    let app = App::new("host").routes("/c", || needs(Role::Admin, files())).routes("/d", described);
    let program = app.test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    for (path, shown) in
        [("/c/files/a", "a"), ("/c/slash/", "slash"), ("/c/other", "true"), ("/d/end/", "end")]
    {
        let response = answer(&site, path).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(text(response).await, shown, "{path}");
    }
    assert_eq!(status(&site, "/d/other", HOST).await, 404);
    assert_eq!(status(&site, "/nowhere", HOST).await, 404);
}

#[tokio::test]
async fn a_layer_of_an_application_may_answer_options() {
    fn open() -> Routes {
        Routes::new("own").get("/open", Role::Viewer, "Says so", async || "yes")
    }
    let program = App::new("host").routes("/shop", open).test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    let ask_options = async |path: &str| {
        let request = Request::options(path).header("host", HOST).body(Body::empty()).unwrap();
        ask(&site, request).await.status().as_u16()
    };
    // No layer answers here: the route has no such method.
    assert_eq!(ask_options("/shop/open").await, 405);
    assert_eq!(ask_options("/shop/closed").await, 404);
}
