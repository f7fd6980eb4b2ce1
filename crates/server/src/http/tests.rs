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

mod callers;
mod prefix;
mod routes;

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

async fn bearing(site: &Router, method: &str, path: &str, token: &str) -> Response {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {token}"));
    let request = request.header("content-type", "application/json");
    ask(site, request.body(Body::from("null")).unwrap()).await
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

async fn post(site: &Router, path: &str, token: Option<&str>, body: &str) -> Response {
    let mut request = Request::post(path).header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.header("content-type", "application/json");
    ask(site, request.body(Body::from(body.to_owned())).unwrap()).await
}
