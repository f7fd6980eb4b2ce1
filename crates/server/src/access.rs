//! Access control: finds the principal of a request and compares it with what the route needs.

pub(crate) mod admin;
pub(crate) mod ended;
pub(crate) mod head;
pub(crate) mod key_uses;
pub(crate) mod rate;
pub(crate) mod record;
pub(crate) mod resource;
pub(crate) mod url_keys;

use std::sync::Arc;

use axum::{
    http::{HeaderMap, HeaderValue, Method, header, request::Parts},
    response::{IntoResponse, Redirect, Response},
};
use steadfast_api::{Code, Role, RouteScope};
use steadfast_core::{Denied, Principal, Resource, SessionId, TokenError, object};
use steadfast_web::{Problem, RouteEntry, escaped};

use crate::{
    facts::accepts,
    network::Scheme,
    server::{Policy, Server},
    transport::ClientInfo,
};

/// Routes that answer while the store cannot be read, also to a caller with a credential.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];

/// The admission of a request: its caller, and the session that it came with.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) caller: object::Caller,
    session: Option<SessionId>,
}

impl Admission {
    /// The admission of a request without a session.
    fn of(caller: object::Caller) -> Self {
        Self { caller, session: None }
    }

    /// Waits until the access has ended, for connections that stay open.
    pub(crate) async fn ended(self, server: Arc<Server>) {
        let tokens = server.runtime.tokens();
        if let Some(principal) = self.caller.principal() {
            let Some(session) = self.session else { return tokens.ended(principal).await };
            tokio::select! {
                () = tokens.ended(principal) => {}
                () = server.runtime.sessions().ended(&session) => {}
            }
            return;
        }
        if self.caller != object::Caller::Anonymous || server.policy != Policy::Loopback {
            return std::future::pending().await;
        }
        // Access may be closed later: then the connection needs a credential.
        let mut changes = tokens.changes();
        while !matches!(tokens.is_closed().await, Ok(true)) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// A credential of a request. Tokens in the query of a URL are not read: URLs are logged.
enum Credential<'a> {
    Token(&'a str),
    Session(&'a str),
}

/// Whether a route answers while the store cannot be read, and while the server is full.
pub(crate) fn is_health(route: &RouteEntry) -> bool {
    HEALTH.contains(&&*route.path)
}

/// Whether principals of organizations may use a route, if they have its role. Handlers of routes
/// with the scope of an organization show them its data only.
fn is_for_organizations(route: &RouteEntry) -> bool {
    route.needs.is_for_organizations() || route.scope == RouteScope::Organization
}

/// The name of the session cookie. Cookies ignore ports, so the port is part of the name; under TLS
/// the browser guarantees that this host has set it.
pub(crate) fn cookie_name(server: &Server, client: Option<&ClientInfo>) -> String {
    match server.address {
        _ if is_https(client) => "__Host-steadfast".into(),
        Some(address) => format!("steadfast-{}", address.port()),
        None => "steadfast".into(),
    }
}

/// Whether the browser uses TLS, with this server or with a trusted proxy.
pub(crate) fn is_https(client: Option<&ClientInfo>) -> bool {
    client.is_some_and(|it| it.scheme == Scheme::Https)
}

/// The session of a request.
pub(crate) fn session<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).into_iter();
    let texts = cookies.filter_map(|it| it.to_str().ok());
    let mut pairs = texts.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn credential(headers: &HeaderMap, cookie: impl Fn() -> String) -> Option<Credential<'_>> {
    match headers.get(header::AUTHORIZATION) {
        Some(value) => {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| Credential::Token(token.trim()))
        }
        None if !headers.contains_key(header::COOKIE) => None,
        None => session(headers, &cookie()).map(Credential::Session),
    }
}

/// The resource that a request uses, asked only for principals with scopes.
type FindResource<'a> = dyn Fn() -> Option<Resource<'static>> + Sync + 'a;

/// Admits a request to a route, or refuses it.
pub(crate) async fn authorize(
    server: &Server,
    route: Option<&RouteEntry>,
    resource: &FindResource<'_>,
    (request, client): (&Parts, Option<&ClientInfo>),
) -> Result<Admission, Response> {
    if server.policy == Policy::HostDecides {
        // Only a host program can have set a caller: requests arrive without extensions.
        let known = request.extensions.get::<object::Caller>().cloned();
        let known = known.unwrap_or(object::Caller::Anonymous);
        // A principal has no more rights than its role, also if the host has authenticated it.
        if let (object::Caller::Principal(principal), Some(route)) = (&known, route)
            && let Some(needed) = route.needs.role()
            && route.scope != RouteScope::Caller
        {
            check(principal, needed, is_for_organizations(route), resource)
                .map_err(Problem::into_response)?;
        }
        return Ok(Admission::of(known));
    }
    let cookie = || cookie_name(server, client);
    let credential = credential(&request.headers, cookie);
    let is_health = route.is_some_and(is_health);
    let needs_nothing = route.is_some_and(|it| it.needs.role().is_none());
    if is_health || (needs_nothing && credential.is_none()) {
        return Ok(Admission::of(object::Caller::Anonymous));
    }
    let tokens = server.runtime.tokens();
    let snapshot = match tokens.snapshot_in_memory() {
        Some(snapshot) => snapshot,
        None => tokens.snapshot().await.map_err(|it| Problem::from(it).into_response())?,
    };
    if !snapshot.is_closed() {
        return Ok(Admission::of(object::Caller::Anonymous));
    }
    server.transport.close();
    let session = match &credential {
        Some(Credential::Session(secret)) => SessionId::of(secret),
        Some(Credential::Token(_)) | None => None,
    };
    let found = match credential {
        None => Err(Denied::Missing.into()),
        Some(Credential::Token(secret)) => snapshot.authenticate(secret),
        Some(Credential::Session(secret)) => server.runtime.sessions().find(secret).await,
    };
    note_refused(server, route, (request, client), found.as_ref().err());
    let Some(needed) = route.and_then(|it| it.needs.role()) else {
        let principal = found.ok().map(|it| object::Caller::Principal(Arc::new(it)));
        let caller = principal.unwrap_or(object::Caller::Anonymous);
        return Ok(Admission { caller, session });
    };
    let principal = match found {
        Ok(principal) => principal,
        Err(TokenError::Denied(_)) if wants_login(request) => return Err(to_login(request)),
        Err(error) => return Err(refuse(error.into())),
    };
    let principal = Arc::new(principal);
    // The audit log names the principal of a refused request.
    let refuse = |problem: Problem| {
        let mut response = problem.into_response();
        response.extensions_mut().insert(object::Caller::Principal(principal.clone()));
        response
    };
    server.rates.check(&principal.token).map_err(refuse)?;
    if !route.is_some_and(|it| it.scope == RouteScope::Caller) {
        let is_for_organizations = route.is_some_and(is_for_organizations);
        check(&principal, needed, is_for_organizations, resource).map_err(refuse)?;
    }
    Ok(Admission { caller: object::Caller::Principal(principal), session })
}

/// Notes a wrong token. The cookie of a session that has ended is nothing unusual.
fn note_refused(
    server: &Server,
    route: Option<&RouteEntry>,
    (request, client): (&Parts, Option<&ClientInfo>),
    error: Option<&TokenError>,
) {
    let Some(TokenError::Denied(denied)) = error else { return };
    if *denied == Denied::Missing || !request.headers.contains_key(header::AUTHORIZATION) {
        return;
    }
    let client = client.map_or("-".into(), |it| it.address.to_string());
    // The path itself may have secrets, as that of a webhook.
    server.refused.note(&client, denied.kind().tag(), route.map_or("-", |it| &it.path));
}

/// Compares a principal with the needs of a route.
fn check(
    principal: &Principal,
    needed: Role,
    is_for_organizations: bool,
    resource: &FindResource<'_>,
) -> Result<(), Problem> {
    if let Some(organization) = principal.organization.as_deref().filter(|_| !is_for_organizations)
    {
        let detail = format!(
            "needs role {} of the whole platform; this token is for organization `{organization}`",
            needed.name()
        );
        return Err(Problem::of(Code::RoleNeeded, detail));
    }
    if !principal.has(needed) {
        let (needed, role) = (needed.name(), principal.role.name());
        let detail = format!("needs role {needed}; this token has role {role}");
        return Err(Problem::of(Code::RoleNeeded, detail));
    }
    let resource = if principal.scopes.is_empty() { None } else { resource() };
    if !principal.allows(resource.as_ref()) {
        let detail = match resource {
            Some(resource) => format!("needs scope {resource}; this token has other scopes"),
            None => "needs a token without scopes".to_owned(),
        };
        return Err(Problem::of(Code::ScopeNeeded, detail));
    }
    Ok(())
}

/// Whether a request is a navigation of a browser, which can be sent to the login page.
fn wants_login(request: &Parts) -> bool {
    request.method == Method::GET
        && accepts(&request.headers, "text/html")
        && !request.headers.contains_key(header::AUTHORIZATION)
}

fn to_login(request: &Parts) -> Response {
    let next = request.uri.path_and_query().map_or("/", |it| it.as_str());
    Redirect::to(&format!("/login?next={}", escaped(next))).into_response()
}

fn refuse(problem: Problem) -> Response {
    let mut response = problem.into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
