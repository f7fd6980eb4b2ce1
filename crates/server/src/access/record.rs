//! Decides which requests the audit log records, and records them before their responses.

use axum::{
    http::{Method, StatusCode, request::Parts},
    response::Response,
};
use steadfast_api::{Code, Role};
use steadfast_core::{AuditEvent, object::Caller};
use steadfast_web::{Problem, RouteEntry};

use crate::{
    server::{Policy, Server},
    transport::ClientInfo,
};

/// The part of a request that the audit log shows.
pub(crate) struct Trace {
    event: AuditEvent,
    is_always: bool,
}

impl Trace {
    /// The trace of a request to a route. While access is open nobody has an identity; only a
    /// request that may close it is followed.
    pub(crate) fn of(server: &Server, route: Option<&RouteEntry>, parts: &Parts) -> Option<Self> {
        let needed = route.and_then(|it| it.needs.role());
        let is_followed = !server.is_open() || Some(Role::Admin) <= needed;
        let is_ours = server.policy == Policy::Loopback && server.is_read_only.get().is_none();
        if !is_followed || !is_ours {
            return None;
        }
        let path = parts.uri.path();
        let is_change = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let begins_session = matches!(path, "/login" | "/logout" | "/v1/login-links")
            || path.starts_with("/v1/sessions/");
        // Calls, sends, starts and blobs of members are data: streams and events are their record.
        let is_recorded = |it: &RouteEntry| it.owner.is_some() && !it.needs.is_unrecorded();
        let is_of_application = needed.is_some() && route.is_some_and(is_recorded);
        let is_administration = is_of_application || Some(Role::Operator) <= needed;
        let is_always = is_change && (begins_session || is_administration);
        let client = parts.extensions.get::<ClientInfo>();
        let event = AuditEvent {
            token: None,
            client: client.map_or("-".into(), |it| it.address.to_string()),
            action: format!("{} {}", parts.method, route.map_or(path, |it| &it.path)),
            target: path.to_owned(),
            outcome: String::new(),
            request_id: server.request_ids.of(&parts.headers),
        };
        Some(Self { event, is_always })
    }

    /// Whether the outcome is recorded in any case, even if the client has gone.
    pub(crate) fn is_always(&self) -> bool {
        self.is_always
    }

    /// The record of a request, if its outcome matters: changes by operators or through routes of
    /// applications, logins, and requests that are refused to a known principal. Requests without
    /// an effect have a budget, so that they do not fill the disk.
    pub(crate) fn end(
        mut self,
        server: &Server,
        caller: Option<&Caller>,
        response: &Response,
    ) -> Option<AuditEvent> {
        if server.is_open() {
            return None;
        }
        let problem = response.extensions().get::<Problem>();
        let kind = problem.and_then(Problem::kind);
        let caller = response.extensions().get::<Caller>().or(caller);
        if let Some(Caller::Principal(it)) = caller {
            self.event.token = Some(it.token.clone());
        }
        let is_refused = matches!(kind, Some(Code::RoleNeeded | Code::ScopeNeeded));
        let is_failed_login = self.event.action == LOGIN && self.event.token.is_none();
        let is_known = self.event.token.is_some() || is_failed_login;
        if kind == Some(Code::RateLimited) || !is_known || !(self.is_always || is_refused) {
            return None;
        }
        let by = self.event.token.as_ref().unwrap_or(&self.event.client);
        // Other errors may have had an effect: a form with a bad image stores the good ones.
        let found_nothing =
            matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        let had_no_effect = is_refused || is_failed_login || found_nothing;
        if had_no_effect && !server.rates().may_record(by) {
            return None;
        }
        let status = response.status().as_u16().to_string();
        self.event.outcome = problem.map_or(status, |it| it.code().to_owned());
        Some(self.event)
    }
}

const LOGIN: &str = "POST /login";
