//! The console, rendered on the server. Pages of nouns are in [`crate::nouns`] and call their
//! operations. They need no script: a script only refreshes a part of a page.

pub(crate) mod chart;
pub(crate) mod components;
mod docs;
pub(crate) mod forms;
pub(crate) mod links;
mod login;
mod search;
mod start;
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
use steadfast_api::{Operation, ProblemBody, Role, RouteScope};
use steadfast_web::{
    AnyHandler, Asset, Needs, Page, Problem,
    console::{ICON, STYLE, Section, console},
};

use crate::server::Server;

/// Refreshes a part of a page.
pub(crate) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/live.js", include_str!("../assets/live.js")));

/// Shows the progress of an upload.
pub(crate) static BUCKETS: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/buckets.js", include_str!("../assets/buckets.js")));

/// Lists the last statements in the SQL form.
pub(crate) static SQL: LazyLock<Asset> =
    LazyLock::new(|| Asset::js("/assets/sql.js", include_str!("../assets/sql.js")));

/// Submits the code of a login link.
pub(crate) static LOGIN: LazyLock<Asset> =
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
    /// Its handler.
    pub(crate) methods: MethodRouter<Arc<Server>>,
}

/// The pages of no noun, and the assets of all.
pub(crate) fn routes() -> Vec<PageRoute> {
    let mut all = vec![get("/", start::start), get("/search", search::search)];
    all.extend(docs::pages());
    all.extend(login());
    all.extend([&STYLE, &SCRIPT, &BUCKETS, &SQL, &LOGIN, &ICON].map(asset));
    all
}

/// Routes as a router: those with large bodies, or the others.
pub(crate) fn router(routes: Vec<PageRoute>, is_large: bool) -> Router<Arc<Server>> {
    let routes = routes.into_iter().filter(|it| it.is_large == is_large);
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

/// A page for viewers.
pub(crate) fn get<T: 'static>(
    path: &'static str,
    handler: impl Handler<T, Arc<Server>>,
) -> PageRoute {
    route(path, "GET", Role::Viewer, routing::get(AnyHandler::of(handler)))
}

/// A form.
pub(crate) fn post<T: 'static>(
    path: &'static str,
    needs: Role,
    handler: impl Handler<T, Arc<Server>>,
) -> PageRoute {
    route(path, "POST", needs, routing::post(AnyHandler::of(handler)))
}

fn route(
    path: &'static str,
    method: &'static str,
    needs: Role,
    methods: MethodRouter<Arc<Server>>,
) -> PageRoute {
    let (needs, scope) = (needs.into(), RouteScope::Url);
    PageRoute { path, method, needs, scope, is_large: false, methods }
}

/// A form with the fields of an operation. Afterwards the browser is redirected to `to`.
pub(crate) fn form<O, F, Fut>(path: &'static str, handler: F, to: fn(&O) -> String) -> PageRoute
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
