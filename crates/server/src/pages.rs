//! Pages of the console, rendered on the server. They read the same data as the API, and need no
//! script: a script only refreshes a part of a page.

pub(crate) mod audit;
pub(crate) mod buckets;
mod chart;
pub(crate) mod components;
pub(crate) mod docs;
mod forms;
mod login;
mod message_form;
pub(crate) mod objects;
pub(crate) mod processes;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod runs;
mod search;
pub(crate) mod sessions;
mod start;
pub(crate) mod streams;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    handler::Handler,
    http::HeaderMap,
    response::Redirect,
    routing::{self, MethodRouter},
};
use maud::html;
use serde::de::DeserializeOwned;
use steadfast_api::{
    Operation, ProblemBody, Role, RouteScope,
    audit::ListAudit,
    buckets::{DeleteBlob, PresignBlob, PutBucket, PutBucketRule, PutLifecycleRule},
    objects::{CallObject, QueryObject},
    queues::{EditMessage, RedriveQueue},
    runs::SendEvent,
    sessions::EndSession,
    streams::ReviveMessage,
};
use steadfast_store::{Address, EntityKind};
use steadfast_web::{
    AnyHandler, Asset, Needs, Page, Problem,
    console::{ICON, STYLE, Section, console},
    escaped,
};

use crate::{api, server::Server};

/// Refreshes a part of a page.
static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/live.js", include_str!("../assets/live.js")));

/// Shows the progress of an upload.
static BUCKETS: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/buckets.js", include_str!("../assets/buckets.js")));

/// Lists the last statements in the SQL form.
static SQL: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/sql.js", include_str!("../assets/sql.js")));

/// Submits the code of a login link.
static LOGIN: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/login.js", include_str!("../assets/login.js")));

/// Maximum bytes of a login: everybody may send one.
const LOGIN_BYTES_MAX: usize = 4 << 10;

/// A route of a page. Pages are not in the OpenAPI document.
pub(crate) struct PageRoute {
    /// The path, with `{name}` for each parameter.
    pub(crate) path: &'static str,
    /// The method.
    pub(crate) method: &'static str,
    /// The required role.
    pub(crate) needs: Needs,
    /// The part of it that limited tokens may use.
    pub(crate) scope: RouteScope,
    /// Whether its body has no fixed limit: the bucket has one.
    pub(crate) is_large: bool,
    methods: MethodRouter<Arc<Server>>,
}

/// All routes of pages.
pub(crate) fn routes() -> Vec<PageRoute> {
    let mut all =
        vec![get("/", start::start), get("/search", search::search), get("/quotas", quotas::list)];
    all.push(PageRoute { needs: ListAudit::NEEDS.into(), ..get("/audit", audit::list) });
    let sessions = [
        get("/sessions", sessions::list),
        post("/sessions/{id}/end", EndSession::NEEDS, sessions::end),
    ];
    all.extend(sessions.map(|it| PageRoute { scope: EndSession::INFO.scope, ..it }));
    all.extend(streams());
    all.extend(processes());
    all.extend(objects());
    all.extend(runs());
    all.extend(queues());
    all.extend(buckets());
    all.extend(login());
    all.extend([&STYLE, &SCRIPT, &BUCKETS, &SQL, &LOGIN, &ICON].map(asset));
    all
}

/// The routes as a router: those with large bodies, or the others.
pub(crate) fn router(is_large: bool) -> Router<Arc<Server>> {
    let routes = routes().into_iter().filter(|it| it.is_large == is_large);
    let router = routes.fold(Router::new(), |all, it| all.route(it.path, it.methods));
    if is_large { router.layer(DefaultBodyLimit::disable()) } else { router }
}

fn login() -> Vec<PageRoute> {
    let all = [
        get("/login", login::show),
        post("/login", Role::Viewer, login::begin),
        post("/logout", Role::Viewer, login::end),
    ];
    let limited = |it: PageRoute| PageRoute {
        needs: Needs::NOTHING,
        methods: it.methods.layer(DefaultBodyLimit::max(LOGIN_BYTES_MAX)),
        ..it
    };
    all.map(limited).into()
}

fn streams() -> Vec<PageRoute> {
    vec![
        get("/streams", streams::list),
        get("/streams/pending", streams::pending),
        get("/streams/dead", streams::dead),
        get("/streams/{*id}", streams::show),
        post("/messages/{position}/revive", ReviveMessage::NEEDS, streams::revive),
    ]
}

fn processes() -> Vec<PageRoute> {
    vec![
        get("/processes", processes::list),
        get("/processes/{name}", processes::instances),
        get("/processes/{name}/{id}", processes::show),
    ]
}

fn objects() -> Vec<PageRoute> {
    vec![
        get("/objects", objects::classes),
        get("/objects/{class}", objects::objects),
        get("/objects/{class}/{name}", objects::show),
        post("/objects/{class}/{name}/call", CallObject::NEEDS, objects::call),
        get("/objects/{class}/{name}/tables/{table}", objects::rows),
        get("/objects/{class}/{name}/sql", objects::sql_form),
        post("/objects/{class}/{name}/sql", QueryObject::NEEDS, objects::sql),
        get("/objects/{class}/{name}/turns", objects::turns),
        get("/objects/{class}/{name}/turns/{turn}", objects::turn),
    ]
}

fn runs() -> Vec<PageRoute> {
    use runs::path_of;
    vec![
        get("/workflows", runs::workflows),
        get("/workflows/{name}", runs::runs),
        get("/workflows/{name}/{id}", runs::show),
        get("/workflows/{name}/{id}/history", runs::history),
        post("/workflows/{name}/{id}/events", SendEvent::NEEDS, runs::event),
        form("/workflows/{name}/{id}/pause", api::runs::pause, |it| path_of(&it.workflow, &it.id)),
        form("/workflows/{name}/{id}/resume", api::runs::resume, |it| {
            path_of(&it.workflow, &it.id)
        }),
        form("/workflows/{name}/{id}/terminate", api::runs::terminate, |it| {
            path_of(&it.workflow, &it.id)
        }),
        form("/workflows/{name}/{id}/restart", api::runs::restart, |it| {
            path_of(&it.workflow, &it.id)
        }),
        form("/workflows/{name}/{id}/retry", api::runs::retry, |it| path_of(&it.workflow, &it.id)),
        form("/workflows/{name}/{id}/delete", api::runs::delete, |it| {
            format!("/workflows/{}?deleted={}", escaped(&it.workflow), escaped(&it.id))
        }),
    ]
}

fn queues() -> Vec<PageRoute> {
    vec![
        get("/queues", queues::list),
        get("/queues/{q}", queues::show),
        form("/queues/{q}/pause", api::queues::pause, |it| queues::path_of(&it.queue)),
        form("/queues/{q}/resume", api::queues::resume, |it| queues::path_of(&it.queue)),
        form("/queues/{q}/purge", api::queues::purge, |it| queues::path_of(&it.queue)),
        post("/queues/{q}/redrive", RedriveQueue::NEEDS, queues::redrive),
        post("/queues/{q}/messages/{id}/edit", EditMessage::NEEDS, queues::edit),
    ]
}

fn buckets() -> Vec<PageRoute> {
    use buckets::path_of;
    let upload = post("/buckets/{b}/upload", PresignBlob::NEEDS, buckets::upload);
    vec![
        get("/buckets", buckets::list),
        post("/buckets", PutBucket::NEEDS, buckets::create),
        get("/buckets/{b}", buckets::show),
        form("/buckets/{b}/delete", api::buckets::delete, |_| "/buckets".to_owned()),
        get("/buckets/{b}/events", buckets::events),
        get("/buckets/{b}/blob", buckets::blob),
        post("/buckets/{b}/blob/delete", DeleteBlob::NEEDS, buckets::delete_blob),
        post("/buckets/{b}/blob/link", PresignBlob::NEEDS, buckets::presign),
        post("/buckets/{b}/rules", PutBucketRule::NEEDS, buckets::put_rule),
        form("/buckets/{b}/rules/{id}/delete", api::buckets::delete_rule, |it| path_of(&it.bucket)),
        post("/buckets/{b}/lifecycle", PutLifecycleRule::NEEDS, buckets::put_lifecycle),
        form("/buckets/{b}/lifecycle/{id}/delete", api::buckets::delete_lifecycle, |it| {
            path_of(&it.bucket)
        }),
        PageRoute { is_large: true, ..upload },
    ]
}

fn get<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<Server>>) -> PageRoute {
    let (method, methods) = ("GET", routing::get(AnyHandler::of(handler)));
    let (needs, scope) = (Role::Viewer.into(), RouteScope::Url);
    PageRoute { path, method, needs, scope, is_large: false, methods }
}

fn post<T: 'static>(
    path: &'static str,
    needs: Role,
    handler: impl Handler<T, Arc<Server>>,
) -> PageRoute {
    let (method, methods) = ("POST", routing::post(AnyHandler::of(handler)));
    let (needs, scope) = (needs.into(), RouteScope::Url);
    PageRoute { path, method, needs, scope, is_large: false, methods }
}

/// A form with the fields of an operation. Afterwards the browser is redirected to `to`.
fn form<O, F, Fut>(path: &'static str, handler: F, to: fn(&O) -> String) -> PageRoute
where
    O: Operation + DeserializeOwned,
    F: Fn(Arc<Server>, O) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<O::Response, Problem>> + Send + 'static,
{
    let act = async move |State(server): State<Arc<Server>>, request: Request| {
        let operation: O = forms::operation_of(request).await?;
        let to = to(&operation);
        handler(server, operation).await?;
        Ok::<_, Problem>(Redirect::to(&to))
    };
    post(path, O::NEEDS, act)
}

fn asset(asset: &'static LazyLock<Asset>) -> PageRoute {
    let route = get(asset.path(), async move |headers: HeaderMap| asset.response(&headers));
    PageRoute { needs: Needs::NOTHING, ..route }
}

/// The best page of an entity. Instances of a process have pages only if the program declares it.
fn href_of(server: &Server, address: &Address) -> String {
    let (class, name) = (address.class(), address.name());
    match address.kind() == EntityKind::Process && server.runtime.processes().contains(class) {
        true => processes::path_of(class, name),
        false => page_of(address),
    }
}

/// The page of an entity, regardless of the declarations of the program.
fn page_of(address: &Address) -> String {
    let (class, name) = (address.class(), address.name());
    match address.kind() {
        EntityKind::Object => objects::path_of(class, name),
        EntityKind::Run => runs::path_of(class, name),
        EntityKind::Queue => queues::path_of(class),
        EntityKind::Bucket => buckets::path_of(class),
        EntityKind::Process | EntityKind::Stream | EntityKind::System => {
            format!("/streams/{}", address.id())
        }
    }
}

/// Shows an error and a link to the overview.
pub(crate) fn failure(problem: &ProblemBody) -> Page {
    let content = html! {
        div.empty {
            h1 { (problem.title) }
            p { (problem.detail) }
            p.quiet {
                "Status " (problem.status) " · " code { (problem.code) } " · request "
                code { (problem.request_id) }
            }
            p { a.button href="/" { "Back to the overview" } }
        }
    };
    console(&problem.title, Section::None, content)
}

#[cfg(test)]
mod roles {
    use super::*;

    #[test]
    fn a_changing_page_needs_more_than_a_viewer() {
        for route in routes() {
            let verb = route.path.rsplit('/').next().unwrap_or_default();
            let changes = ["pause", "resume", "purge", "redrive", "edit", "revive", "retry"];
            let changes = changes.contains(&verb) || ["delete", "upload", "call"].contains(&verb);
            assert!(!changes || Some(Role::Viewer) < route.needs.role(), "{}", route.path);
        }
        let role =
            |path: &str| routes().iter().find(|it| it.path == path).map(|it| it.needs.role());
        assert_eq!(role("/queues/{q}/purge"), Some(Some(Role::Operator)));
        assert_eq!(role("/queues/{q}"), Some(Some(Role::Viewer)));
        assert_eq!(role("/workflows/{name}/{id}/events"), Some(Some(SendEvent::NEEDS)));
    }
}
