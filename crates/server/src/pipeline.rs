//! The way of a request to its handler, and of its response back. Pages, operations, and routes of
//! applications pass the same stages, in this order:
//!
//! | Stage | Where | If it fails |
//! |---|---|---|
//! | the connection: places, the framing of heads, slow clients | `listener.rs` | closed, or 400 |
//! | credentials are not sent in the clear | `listener.rs` | `tls_needed` |
//! | the client, behind trusted proxies | `transport.rs` | |
//! | an id; the facts for the response, metrics and the log | `facts.rs` | |
//! | names of this server, pages of other origins, proxies | `guard.rs` | `foreign_host`, … |
//! | the route is declared, with a role | `pipeline/routes.rs` | `route_not_found` |
//! | the caller: credential, rate, role, scope | `access.rs` | `token_needed`, … |
//! | a place, if all are taken; a place to wait | [`place`] | `server_full`, `busy` |
//! | the size of the body, and memory for it | `budget.rs` | `too_large`, `busy` |
//! | the handler: an operation, or a route of the router | [`HandlerCall`] | |
//! | the audit record | `access/record.rs` | `outcome_unknown` |
//! | the response: problems, pages, headers; counted and logged | `envelope.rs` | |
//!
//! Operations that come through a port are found here and not by the router: their handlers need
//! nothing of it.

mod routes;

use std::{
    borrow::Cow,
    convert::Infallible,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{MatchedPath, Request},
    http::{Uri, request::Parts},
    response::{IntoResponse, Response},
    routing::Route,
};
use futures_util::FutureExt;
use steadfast_api::Code;
use steadfast_core::{AuditEvent, object};
use steadfast_web::{Caller, Problem, Role, RouteEntry};
use tower::{Layer, Service};

pub(crate) use self::routes::DeclaredPaths;
use self::routes::OperationRoute;
use crate::{
    access::{
        self, Admission, ended,
        record::{self, RequestRecord, Trace},
        resource,
    },
    budget::{Budget, Charge},
    envelope,
    facts::RequestFacts,
    guard,
    listener::{Answer, ConnectionInfo},
    path::below,
    server::{Policy, Server},
    waiting::{WaitPlace, asks_to_wait},
};

/// Maximum size of a request body in bytes, except for blobs.
const BODY_BYTES_MAX: u64 = 2 << 20;

/// The stages that all requests to a server pass.
pub(crate) struct Pipeline {
    server: Arc<Server>,
    /// The routes behind them.
    paths: DeclaredPaths,
}

/// The handler of a request.
enum Target {
    /// An operation, of a request that came through a port.
    Operation(Arc<OperationRoute>),
    /// A route of the router, which may be its fallback.
    Route(Route),
}

/// A response, and the caller of the request if it was admitted.
type ResponseWithCaller = (Response, Option<object::Caller>);

impl Pipeline {
    /// Passes a request through all stages. It has a connection if it came through a port.
    async fn serve(
        &self,
        target: Target,
        connection: Option<ConnectionInfo>,
        request: Request,
    ) -> Response {
        let server = &self.server;
        let (parts, body) = request.into_parts();
        let route = match &target {
            Target::Operation(it) => Some(Cow::Borrowed(it.handler.info.path)),
            Target::Route(_) => {
                let matched = parts.extensions.get::<MatchedPath>();
                matched.map(|it| Cow::Owned(it.as_str().to_owned()))
            }
        };
        let begun = server.runtime.store().clock().elapsed();
        let facts = RequestFacts::of((&server.request_ids, begun), route, &parts, connection);
        let checking = AssertUnwindSafe(self.check(target, (parts, body), &facts));
        let checked = checking.catch_unwind().await;
        let (response, caller) = checked.unwrap_or_else(|_| (panicked(), None));
        envelope::complete(server, facts, response, caller).await
    }

    /// Checks a request, and hands it to its handler.
    async fn check(
        &self,
        target: Target,
        (parts, body): (Parts, Body),
        facts: &RequestFacts,
    ) -> ResponseWithCaller {
        let server = &self.server;
        let connection = facts.connection.as_ref();
        let client = connection.map(|it| &it.client);
        if let Err(problem) = guard::check(server, facts.route.as_deref(), &parts, client) {
            return (problem.into_response(), None);
        }
        let segments = facts.base.matches('/').count();
        let path = facts.route.as_deref().map(|it| below(it, segments));
        let operation = target.operation();
        let found = match &operation {
            Some(operation) => Some((Some(&operation.entry), false)),
            None => self.paths.find(path, &parts),
        };
        let Some((route, is_large)) = found else { return (self.paths.refuse(path), None) };
        let trace = Trace::of(server, route, &parts.method);
        // A service of a router has no declared path.
        let resource = || path.and(route).and_then(|it| resource::of_request(it, &parts));
        let admitted = access::authorize(server, route, &resource, (&parts, client)).await;
        let admission = match admitted {
            Ok(admission) => admission,
            Err(refusal) => {
                let record = || RequestRecord::of(facts, route);
                let event = trace.and_then(|it| it.end(server, None, &refusal, record));
                return (recorded(server, event, refusal).await, None);
            }
        };
        let place = match place(server, route, &admission.caller, (connection, &parts.uri)).await {
            Ok(place) => place,
            Err(problem) => return (problem.into_response(), None),
        };
        // An application limits its bodies itself.
        let is_limited = !is_large && route.is_some_and(|it| it.owner.is_none());
        let is_too_large = is_limited && BODY_BYTES_MAX < body.size_hint().lower();
        let sender = (&parts.headers, connection.map(|it| &it.slot));
        let body = ended::end_body(server, &admission, sender, body);
        let (body, charge) = match is_large || is_too_large {
            true => (body, None),
            false => budget_of(server, &admission.caller).limit(body),
        };
        let mut request = Request::from_parts(parts, body);
        if operation.is_none() {
            // A route may write problems after its response.
            request.extensions_mut().insert(facts.id.clone());
        }
        let (server, sender) = (server.clone(), admission.clone());
        let call = HandlerCall { server, sender, target, request, is_too_large, charge };
        self.record(admission, (trace, route, facts), place, call).await
    }

    /// Runs a handler, and records the outcome of the request in the audit log.
    async fn record(
        &self,
        admission: Admission,
        (trace, route, facts): (Option<Trace>, Option<&RouteEntry>, &RequestFacts),
        place: Option<WaitPlace>,
        call: HandlerCall,
    ) -> ResponseWithCaller {
        let (server, caller) = (&self.server, admission.caller.clone());
        if !trace.is_some_and(Trace::is_always) {
            let response = match place {
                Some(_) => {
                    let call = Box::pin(call.run());
                    ended::answer_or_end(server.clone(), admission, call).await
                }
                None => call.run().await,
            };
            drop(place);
            let record = || RequestRecord::of(facts, route);
            let event = trace.and_then(|it| it.end(server, Some(&caller), &response, record));
            return (recorded(server, event, response).await, Some(caller));
        }
        // A client that goes away must not prevent the record of what it did.
        let (server, record) = (server.clone(), RequestRecord::of(facts, route));
        let ended = tokio::spawn(async move {
            let (response, detail) = record::described(call.run()).await;
            drop(place);
            let record = || record.detailed(detail);
            let event = trace.and_then(|it| it.end(&server, Some(&caller), &response, record));
            (recorded(&server, event, response).await, Some(caller))
        });
        ended.await.unwrap_or_else(|_| (panicked(), None))
    }
}

impl Target {
    fn operation(&self) -> Option<Arc<OperationRoute>> {
        match self {
            Self::Operation(operation) => Some(operation.clone()),
            Self::Route(_) => None,
        }
    }
}

/// A call of a handler, which has passed all checks.
struct HandlerCall {
    server: Arc<Server>,
    sender: Admission,
    target: Target,
    request: Request,
    is_too_large: bool,
    /// The memory of the body, if it has some.
    charge: Option<Charge>,
}

impl HandlerCall {
    async fn run(self) -> Response {
        let Self { server, sender, target, mut request, is_too_large, charge } = self;
        if is_too_large {
            let detail = "the body is larger than 2 MiB";
            return Problem::of(Code::TooLarge, detail).into_response();
        }
        let response = match target {
            Target::Operation(operation) => {
                operation.handler.answer(server, sender.caller, request).await
            }
            Target::Route(mut route) => {
                let extensions = request.extensions_mut();
                extensions.insert(Caller::new(&server.runtime, sender.caller.clone()));
                extensions.insert(sender.caller.clone());
                extensions.insert(sender);
                match route.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            }
        };
        if charge.is_some_and(|it| it.was_refused()) {
            let detail = "request bodies use all of their memory limit; retry later";
            return Problem::of(Code::Busy, detail).into_response();
        }
        response
    }
}

/// The routes of a port: pages, the API and applications behind their pipeline, or others.
#[derive(Clone)]
pub(crate) struct ServerRoutes {
    /// The stages in front of operations; `None` if the port has no operations.
    pub(crate) pipeline: Option<Arc<Pipeline>>,
    /// The router. Its routes have these stages in front of them, too.
    pub(crate) router: Router,
}

impl ServerRoutes {
    /// Puts the pipeline in front of all routes.
    pub(crate) fn new(server: Arc<Server>, paths: DeclaredPaths, routes: Router) -> Self {
        let pipeline = Arc::new(Pipeline { server, paths });
        let router = routes.layer(PipelineLayer(pipeline.clone()));
        Self { pipeline: Some(pipeline), router }
    }

    /// The operation that serves a request, and the stages in front of it.
    pub(crate) fn operation(
        &self,
        request: &Request,
    ) -> Option<(&Arc<Pipeline>, &Arc<OperationRoute>)> {
        let pipeline = self.pipeline.as_ref()?;
        Some((pipeline, pipeline.paths.operation(request)?))
    }
}

impl Answer for ServerRoutes {
    async fn answer(&self, connection: ConnectionInfo, request: Request) -> Response {
        match self.operation(&request) {
            Some((pipeline, operation)) => {
                let target = Target::Operation(operation.clone());
                // hyper reserves the space of this future for each connection, also an idle one.
                Box::pin(pipeline.serve(target, Some(connection), request)).await
            }
            None => self.router.answer(connection, request).await,
        }
    }
}

/// Puts the pipeline in front of a route.
#[derive(Clone)]
struct PipelineLayer(Arc<Pipeline>);

impl Layer<Route> for PipelineLayer {
    type Service = PipelineService;

    fn layer(&self, route: Route) -> PipelineService {
        PipelineService { pipeline: self.0.clone(), route }
    }
}

/// A route behind the pipeline.
#[derive(Clone)]
struct PipelineService {
    pipeline: Arc<Pipeline>,
    route: Route,
}

impl Service<Request> for PipelineService {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (pipeline, target) = (self.pipeline.clone(), Target::Route(self.route.clone()));
        // Handlers need it, too.
        let connection = request.extensions().get::<ConnectionInfo>().cloned();
        Box::pin(async move { Ok(pipeline.serve(target, connection, request).await) })
    }
}

/// The memory for the body of a request. Requests without a credential have little, so that they
/// never block others.
fn budget_of<'a>(server: &'a Server, caller: &object::Caller) -> &'a Budget {
    let needs_credential = server.policy == Policy::Loopback && !server.is_open();
    match needs_credential && caller.principal().is_none() {
        true => &server.anonymous_budget,
        false => &server.budget,
    }
}

/// Refuses a request without a place, unless it is a health check or one of an operator. Takes
/// another place for a request that waits by design.
async fn place(
    server: &Server,
    route: Option<&RouteEntry>,
    caller: &object::Caller,
    (connection, uri): (Option<&ConnectionInfo>, &Uri),
) -> Result<Option<WaitPlace>, Problem> {
    let may_always = route.is_some_and(access::is_health)
        || caller.principal().is_some_and(|it| it.organization.is_none() && it.has(Role::Operator));
    if let Some(it) = connection.filter(|it| it.is_crowded)
        && !may_always
        && !it.slot.gets_place().await
    {
        let detail = "all places for requests are taken; send the request again";
        return Err(Problem::of(Code::ServerFull, detail));
    }
    match uri.query() {
        Some(query) if asks_to_wait(query) => {
            server.wait_place(caller, connection.map(|it| &it.client)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Returns the response when the audit log has the outcome of the request.
async fn recorded(server: &Server, event: Option<AuditEvent>, response: Response) -> Response {
    let Some(event) = event else { return response };
    match server.runtime.audit().record(event).await {
        Ok(()) => response,
        Err(error) => Problem::from(error).after_change().into_response(),
    }
}

/// The response if a handler panicked.
fn panicked() -> Response {
    let detail = "the handler of the request panicked; see the log";
    Problem::of(Code::Internal, detail).into_response()
}
