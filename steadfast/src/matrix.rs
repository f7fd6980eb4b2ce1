//! Every route of the table, with every kind of credential, on both stores. Routes that stream are
//! asked for a WebSocket and for server-sent events, too.

mod streams;

use std::time::Duration;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use serde_json::Value;
use steadfast::{
    Runtime, TokenSpec,
    http::{Policy, route_table, router},
    test::TestApp,
    web::{Role, RouteEntry},
};
use steadfast_world::World;
use tower::ServiceExt;

use super::{app, tests::settings};

/// Routes of the server for every principal.
const FOR_ALL: [&str; 6] = [
    "/v1/whoami",
    "/v1/login-links",
    "/v1/sessions",
    "/v1/sessions/{id}",
    "/sessions",
    "/sessions/{id}/end",
];

/// The codes of refused credentials.
const REFUSALS: [&str; 6] = [
    "token_needed",
    "token_unknown",
    "token_expired",
    "token_revoked",
    "role_needed",
    "scope_needed",
];

fn shipped() -> steadfast::App {
    app(settings(), settings(), settings()).expect("it can be declared")
}

async fn token(runtime: &Runtime, spec: TokenSpec) -> String {
    runtime.tokens().create(spec, None).await.expect("a token").secret
}

/// The secrets of one kind of credential each.
struct Credentials {
    expired: String,
    revoked: String,
    /// By role, in the order of the roles.
    roles: Vec<String>,
    scoped: String,
    of_organization: String,
}

impl Credentials {
    async fn create(app: &TestApp) -> Self {
        let short =
            TokenSpec { expires_in: Some(Duration::from_secs(1)), ..TokenSpec::role(Role::Admin) };
        let expired = token(app, short).await;
        app.advance(Duration::from_secs(2)).await;
        let gone = app.tokens().create(TokenSpec::role(Role::Admin), None).await;
        let gone = gone.expect("a token");
        assert!(app.tokens().revoke(&gone.token.id).await.expect("it is revoked"));
        let mut roles = Vec::new();
        for role in Role::ALL {
            roles.push(token(app, TokenSpec::role(role)).await);
        }
        let scopes = vec!["queue:nothing:send".parse().expect("a scope")];
        let scoped = token(app, TokenSpec { scopes, ..TokenSpec::role(Role::Admin) }).await;
        let of_organization = token(app, TokenSpec::member("acme")).await;
        Self { expired, revoked: gone.secret, roles, scoped, of_organization }
    }

    fn role(&self, role: Role) -> &str {
        let at = Role::ALL.iter().position(|it| *it == role).expect("a role");
        &self.roles[at]
    }
}

/// The routes, and headers of every request to them.
struct Site {
    router: Router,
    headers: &'static [(&'static str, &'static str)],
}

/// The code of the problem, or nothing. A response to HEAD has no body: its status must be that of
/// GET, which gives the code.
async fn ask(site: &Site, route: &RouteEntry, query: &str, token: Option<&str>) -> String {
    if route.method != "HEAD" {
        return ask_by(&route.method, site, route, query, token).await.1;
    }
    let head = ask_by("HEAD", site, route, query, token).await.0;
    let (status, code) = ask_by("GET", site, route, query, token).await;
    assert_eq!(head, status, "HEAD {}", route.path);
    code
}

async fn ask_by(
    method: &str,
    site: &Site,
    route: &RouteEntry,
    query: &str,
    token: Option<&str>,
) -> (StatusCode, String) {
    let path = path_of(&route.path);
    let method = if method == "*" { "GET" } else { method };
    let mut request = Request::builder().method(method).uri(format!("{path}{query}"));
    request = request.header("host", "localhost").header("content-type", "application/json");
    for (name, value) in site.headers {
        request = request.header(*name, *value);
    }
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Body::from("{}")).expect("a request");
    let response = site.router.clone().oneshot(request).await.expect("an answer");
    let status = response.status();
    let kind = response.headers().get("content-type").cloned();
    if kind.is_none_or(|it| it != "application/problem+json") {
        assert!(method == "HEAD" || status != StatusCode::UNAUTHORIZED, "{method} {path}");
        return (status, String::new());
    }
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    (status, problem["code"].as_str().unwrap_or_default().to_owned())
}

/// The expected refusals of a route by kind of credential.
async fn check(site: &Site, route: &RouteEntry, credentials: &Credentials) {
    let at = format!("{} {}", route.method, route.path);
    let Some(needed) = route.needs.role() else {
        for token in [None, Some(&*credentials.expired), Some(&*credentials.revoked)] {
            let code = ask(site, route, "", token).await;
            assert!(!REFUSALS.contains(&&*code), "{at} is for everybody: {code}");
        }
        return;
    };
    let is_for_all = FOR_ALL.contains(&&*route.path);
    let refused = async |token: Option<&str>| ask(site, route, "", token).await;
    assert_eq!(refused(None).await, "token_needed", "{at}");
    assert_eq!(refused(Some("sf_AAAAAAAAAA_x")).await, "token_unknown", "{at}");
    assert_eq!(refused(Some(&credentials.expired)).await, "token_expired", "{at}");
    assert_eq!(refused(Some(&credentials.revoked)).await, "token_revoked", "{at}");
    let in_query = format!("?token={0}&access_token={0}", credentials.role(Role::Admin));
    assert_eq!(ask(site, route, &in_query, None).await, "token_needed", "{at}");
    for role in Role::ALL.into_iter().filter(|it| *it < needed) {
        assert_eq!(refused(Some(credentials.role(role))).await, "role_needed", "{at} {role:?}");
    }
    let scope = refused(Some(&credentials.scoped)).await;
    assert_eq!(scope == "scope_needed", !is_for_all, "{at}: {scope}");
    let organization = refused(Some(&credentials.of_organization)).await;
    if route.needs.is_for_organizations() {
        assert!(needed <= Role::Member, "{at} is for organizations");
        assert!(!REFUSALS.contains(&&*organization), "{at}: {organization}");
        let is_named = route.path.contains("{organization}");
        if is_named || route.owner.as_ref().is_some_and(|it| it.app == "generations") {
            let query = if is_named { "" } else { "?workspace=other" };
            let token = Some(&*credentials.of_organization);
            let foreign = ask_by(&route.method, site, route, query, token).await.0;
            assert_eq!(foreign, StatusCode::NOT_FOUND, "{at}");
        }
    } else {
        assert_eq!(organization == "role_needed", !is_for_all, "{at}: {organization}");
    }
    let right = refused(Some(credentials.role(needed))).await;
    assert!(!REFUSALS.contains(&&*right), "{at} with role {needed:?}: {right}");
}

/// A path of a route, for things that do not exist.
fn path_of(route: &str) -> String {
    let path = route.replace("{noun}", "queues").replace("{organization}", "other");
    path.replace("{*", "{").replace(['{', '}'], "")
}

/// Providers sign nothing, so the URL of a webhook has a secret: every other URL is refused,
/// whatever else the request has.
async fn check_webhook(site: &Site, route: &RouteEntry, credentials: &Credentials) {
    assert_eq!(route.needs.role(), None, "{}", route.path);
    for token in [None, Some(credentials.role(Role::Admin))] {
        let (status, code) = ask_by("POST", site, route, "", token).await;
        assert!(status.is_client_error(), "{}: {status}", route.path);
        assert!(!code.is_empty() && !REFUSALS.contains(&&*code), "{}: {code}", route.path);
    }
}

fn matrix(world: &World) {
    world.on(async |app: &TestApp| {
        let table = route_table(app).expect("the routes can be together");
        let router = router(app, Policy::Loopback).expect("the routes can be together");
        let mut site = Site { router, headers: &[] };
        let credentials = Credentials::create(app).await;
        assert!(100 < table.entries().len());
        for route in table.entries() {
            check(&site, route, &credentials).await;
        }
        let webhooks = table.entries().iter().filter(|it| it.path.starts_with("/webhooks/"));
        let webhooks: Vec<_> = webhooks.collect();
        assert_eq!(webhooks.len(), 1);
        for route in webhooks {
            check_webhook(&site, route, &credentials).await;
        }
        let streams: Vec<_> = table.entries().iter().filter(|it| it.is_stream).collect();
        assert_eq!(streams.len(), 5, "{streams:?}");
        for headers in [streams::EVENTS, streams::WEBSOCKET] {
            site.headers = headers;
            for route in &streams {
                check(&site, route, &credentials).await;
                streams::check_origin(&site, route, credentials.role(Role::Admin)).await;
            }
        }
        streams::check_declared(&site.router, &table, credentials.role(Role::Admin)).await;
        streams::check_ends(app, &site.router).await;
    });
}

#[test]
fn every_route_has_an_expected_refusal_for_every_credential_on_sqlite() {
    matrix(&World::on_sqlite(shipped));
}

#[test]
fn every_route_has_an_expected_refusal_for_every_credential_on_postgresql() {
    matrix(&World::on_postgres(shipped));
}
