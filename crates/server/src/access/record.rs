//! Decides which requests the audit log records, and records them before their responses.

use std::cell::RefCell;

use axum::{
    http::{Method, StatusCode},
    response::Response,
};
use steadfast_api::{Code, Role};
use steadfast_core::{AuditEvent, object::Caller};
use steadfast_web::{Problem, RouteEntry};

use crate::{
    facts::RequestFacts,
    listener::network_of,
    server::{Policy, Server},
};

/// Routes that begin or end a session, or make a URL that needs no credential.
const OF_CREDENTIALS: [&str; 7] = [
    "/login",
    "/logout",
    "/v1/login-links",
    "/v1/sessions/{id}",
    "/sessions/{id}/end",
    "/v1/buckets/{bucket}/presign",
    "/buckets/{b}/blob/link",
];

/// Characters of a detail.
const DETAIL_MAX: usize = 4_000;

tokio::task_local! {
    /// The detail of a request that is recorded in any case.
    static DETAIL: RefCell<Option<String>>;
}

/// Describes the effect of this request in its record: facts that the path does not have, and never
/// a secret.
pub(crate) fn describe(detail: &str) {
    let detail: String = detail.chars().take(DETAIL_MAX).collect();
    // Without a place there is no record.
    let _ = DETAIL.try_with(|it| it.replace(Some(detail)));
}

/// Handles a request, with a place for the detail of its record. Returns that, too.
pub(crate) async fn described(
    handled: impl Future<Output = Response>,
) -> (Response, Option<String>) {
    let handled = async {
        let response = handled.await;
        (response, DETAIL.with(RefCell::take))
    };
    DETAIL.scope(RefCell::default(), handled).await
}

/// The part of a request that the audit log shows.
pub(crate) struct RequestRecord {
    event: AuditEvent,
    /// The network of the client, which has a budget for refusals.
    network: String,
}

impl RequestRecord {
    /// The record of a request to a route, without its outcome.
    pub(crate) fn of(facts: &RequestFacts, route: Option<&RouteEntry>) -> Self {
        let event = AuditEvent {
            client: facts.address().map_or("-".into(), |it| it.to_string()),
            action: format!("{} {}", facts.method, route.map_or(facts.path(), |it| &it.path)),
            target: facts.path().to_owned(),
            request_id: facts.id.as_str().to_owned(),
            ..AuditEvent::default()
        };
        let network = facts.address().map(|it| network_of(it).to_string()).unwrap_or_default();
        Self { event, network }
    }

    /// Adds the detail of the request.
    pub(crate) fn detailed(mut self, detail: Option<String>) -> Self {
        self.event.detail = detail;
        self
    }
}

/// The properties of a request that decide whether the audit log records it.
#[derive(Clone, Copy)]
pub(crate) struct Trace {
    is_of_application: bool,
    /// Whether only admins may send it: the first of these closes access.
    is_of_admins: bool,
    is_always: bool,
    is_login: bool,
    is_logout: bool,
}

impl Trace {
    /// The trace of a request to a route. While access is open nobody has an identity; only a
    /// request that may close it is followed.
    pub(crate) fn of(server: &Server, route: Option<&RouteEntry>, method: &Method) -> Option<Self> {
        let needed = route.and_then(|it| it.needs.role());
        let is_of_admins = Some(Role::Admin) <= needed;
        let is_followed = !server.is_open() || is_of_admins;
        let is_ours = server.policy == Policy::Loopback && !server.is_read_only;
        if !is_followed || !is_ours {
            return None;
        }
        let is_change = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let is_of_credentials = route.is_some_and(|it| OF_CREDENTIALS.contains(&&*it.path));
        // Calls, sends, starts and blobs of members are data: streams and events are their record.
        let is_recorded = |it: &RouteEntry| it.owner.is_some() && !it.needs.is_unrecorded();
        let is_of_application = needed.is_some() && route.is_some_and(is_recorded);
        let is_administration = is_of_application || Some(Role::Operator) <= needed;
        let is_always = is_change && (is_of_credentials || is_administration);
        let posts = |path: &str| *method == Method::POST && route.is_some_and(|it| it.path == path);
        let (is_login, is_logout) = (posts("/login"), posts("/logout"));
        Some(Self { is_of_application, is_of_admins, is_always, is_login, is_logout })
    }

    /// Whether the outcome is recorded in any case, even if the client has gone.
    pub(crate) fn is_always(self) -> bool {
        self.is_always
    }

    /// The record of a request, if its outcome matters: changes by operators or through routes of
    /// applications, credentials, and requests that are refused to a known principal. Requests
    /// without an effect have a budget, so that they do not fill the disk.
    pub(crate) fn end(
        self,
        server: &Server,
        caller: Option<&Caller>,
        response: &Response,
        record: impl FnOnce() -> RequestRecord,
    ) -> Option<AuditEvent> {
        if server.is_open() {
            return None;
        }
        let problem = response.extensions().get::<Problem>();
        let kind = problem.and_then(Problem::kind);
        let caller = response.extensions().get::<Caller>().or(caller);
        let principal = caller.and_then(Caller::principal);
        let is_refused = matches!(kind, Some(Code::RoleNeeded | Code::ScopeNeeded));
        let is_failed_login = self.is_login && !response.status().is_redirection();
        // The request that has closed access had no credential.
        let has_closed = self.is_of_admins && response.status().is_success();
        let is_known = principal.is_some() || is_failed_login || has_closed;
        if kind == Some(Code::RateLimited) || !is_known || !(self.is_always || is_refused) {
            return None;
        }
        let had_no_effect = match response.status() {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => true,
            // A form with a bad image stores the good ones.
            status => !self.is_of_application && status.is_client_error(),
        };
        let RequestRecord { mut event, network } = record();
        if let Some(principal) = principal {
            (event.token, event.name) = (Some(principal.token.clone()), principal.name.clone());
        }
        // A logout needs no session, and has no rate.
        if is_refused || is_failed_login || self.is_logout || had_no_effect {
            let before = server.rates.record_refusal(event.token.as_deref(), &network)?;
            event.repeated = Some(before).filter(|it| 0 < *it);
        }
        let status = response.status().as_u16().to_string();
        event.outcome = problem.map_or(status, |it| it.code().to_owned());
        Some(event)
    }
}
