//! Declares the routes of an application and describes them.

use std::sync::LazyLock;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    handler::Handler,
    http::{HeaderMap, StatusCode},
    middleware::map_response,
    response::Response,
    routing::{MethodFilter, MethodRouter, on},
};
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::{AnyHandler, Asset, Declare, Needs, Problem};

/// Tag of pages and their assets. The OpenAPI document omits them.
const PAGES: &str = "pages";

/// Routes with their required roles, without described types. An `OpenApiRouter` with
/// [`needs`](crate::needs) describes them.
///
/// ```
/// use steadfast_core::App;
/// use steadfast_web::{Role, Routes, Serve};
///
/// fn routes() -> Routes {
///     Routes::new("shop").get("/open", Role::Viewer, "Show whether it is open", async || "yes")
/// }
///
/// fn app() -> App {
///     App::new("shop").routes("/shop", routes)
/// }
/// ```
pub struct Routes<S = ()> {
    pub(crate) router: Router<S>,
    pub(crate) paths: Map<String, Value>,
    pub(crate) schemas: Map<String, Value>,
    /// The required role of a whole router whose paths are unknown.
    pub(crate) whole: Option<Needs>,
    tag: &'static str,
    /// Method and path of the last route.
    last: (&'static str, String),
}

/// Routes that can be mounted: an `OpenApiRouter`, [`Routes`], or an `axum::Router` for which
/// [`needs`](crate::needs) was called.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not declare what its routes need",
    note = "wrap an `axum::Router`: `needs(Role::Member, router)`"
)]
pub trait IntoRoutes {
    /// The state of the handlers.
    type State: Clone + Send + Sync + 'static;

    #[doc(hidden)]
    fn into_routes(self) -> Routes<Self::State>;
}

impl<S: Clone + Send + Sync + 'static> IntoRoutes for Routes<S> {
    type State = S;

    fn into_routes(self) -> Self {
        self
    }
}

/// The routes alone, to serve them without a program.
impl<S> From<Routes<S>> for Router<S> {
    fn from(routes: Routes<S>) -> Self {
        routes.router
    }
}

impl<S: Clone + Send + Sync + 'static> IntoRoutes for OpenApiRouter<S> {
    type State = S;

    fn into_routes(self) -> Routes<S> {
        let (router, description) = self.split_for_parts();
        let (paths, schemas) = paths_and_schemas(&description);
        Routes { router, paths, schemas, ..Routes::new("") }
    }
}

/// The paths and the schemas of an OpenAPI document.
pub(crate) fn paths_and_schemas(description: &OpenApi) -> (Map<String, Value>, Map<String, Value>) {
    // If the document cannot be serialized, the table has no routes, and none is served.
    let mut description = serde_json::to_value(description).unwrap_or_default();
    let mut take = |part: &str| {
        let part = description.pointer_mut(part).and_then(Value::as_object_mut);
        part.map(std::mem::take).unwrap_or_default()
    };
    (take("/paths"), take("/components/schemas"))
}

macro_rules! methods {
    ($($name:ident $filter:ident $text:literal),*) => { $(
        #[doc = concat!("Adds a `", $text, "` route that answers with status 200.")]
        #[must_use]
        pub fn $name<H, T>(
            self,
            path: &str,
            needs: impl Into<Needs>,
            summary: &str,
            handler: H,
        ) -> Self
        where
            H: Handler<T, S>,
            T: 'static,
        {
            let route = on(MethodFilter::$filter, AnyHandler::of(handler));
            self.route(stringify!($name), path, (needs.into(), summary), route)
        }
    )* };
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// No routes yet. The OpenAPI document groups them under `tag`.
    pub fn new(tag: &'static str) -> Self {
        Self {
            router: Router::new(),
            paths: Map::new(),
            schemas: Map::new(),
            whole: None,
            tag,
            last: ("", String::new()),
        }
    }

    /// A whole router with unknown paths.
    pub(crate) fn whole(router: Router<S>, needs: Needs) -> Self {
        Self { router, whole: Some(needs), ..Self::new("") }
    }

    methods!(get GET "GET", post POST "POST", put PUT "PUT", delete DELETE "DELETE");

    fn route(
        mut self,
        method: &'static str,
        path: &str,
        (needs, summary): (Needs, &str),
        route: MethodRouter<S>,
    ) -> Self {
        self.router = self.router.route(path, route);
        let item = self.paths.entry(path).or_insert_with(|| json!({}));
        item[method] = describe(self.tag, method, path, (needs, summary));
        self.last = (method, path.into());
        self
    }

    /// Adds a file of the binary, open to all, under its own path.
    #[must_use]
    pub fn asset(self, summary: &str, asset: &'static LazyLock<Asset>) -> Self {
        let send = move |headers: HeaderMap| async move { asset.response(&headers) };
        self.get(asset.path(), Needs::NOTHING, summary, send)
    }

    /// Sets the success status of the last route, instead of 200.
    #[must_use]
    pub fn answers(mut self, status: u16) -> Self {
        let (method, path) = &self.last;
        if let Some(operation) = self.paths.get_mut(path).and_then(|it| it.get_mut(method)) {
            let description = json!({ "description": "Success" });
            operation["responses"] =
                Value::Object(Map::from_iter([(status.to_string(), description)]));
        }
        self
    }

    /// The last route answers with a WebSocket or with server-sent events. Each ends with the
    /// access of its caller.
    #[must_use]
    pub fn streams(mut self) -> Self {
        let (method, path) = &self.last;
        if let Some(operation) = self.paths.get_mut(path).and_then(|it| it.get_mut(method)) {
            operation["responses"] = json!({
                "101": { "description": "A WebSocket" },
                "200": {
                    "description": "Server-sent events",
                    "content": { "text/event-stream": { "schema": { "type": "string" } } },
                },
            });
        }
        self
    }

    /// The routes from here on are pages and their assets: the OpenAPI document omits them.
    #[must_use]
    pub fn pages(mut self) -> Self {
        self.tag = PAGES;
        self
    }

    /// Limits the size of request bodies, for the routes so far.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.router = self.router.layer(DefaultBodyLimit::max(bytes));
        self
    }

    /// Sets the status of refusals by their code, for the routes so far. Objects do not know HTTP:
    /// their other refusals are 422.
    #[must_use]
    pub fn refusals(mut self, statuses: &'static [(&'static str, StatusCode)]) -> Self {
        let declared =
            move |response: Response| async move { Problem::declared(response, statuses) };
        self.router = self.router.layer(map_response(declared));
        self
    }
}

/// Describes a route for the OpenAPI document.
fn describe(tag: &str, method: &str, path: &str, (needs, summary): (Needs, &str)) -> Value {
    let names = path.split('{').skip(1).filter_map(|it| it.split_once('}')).map(|it| it.0);
    let parameter = |name: &str| {
        let name = name.trim_start_matches('*');
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    };
    let mut parameters: Vec<Value> = names.map(parameter).collect();
    // Forms of pages and webhooks of providers have no idempotency keys.
    if method == "post" && tag != PAGES && !path.starts_with("/webhooks/") {
        let text = json!({ "type": "string" });
        parameters.push(json!({ "name": "Idempotency-Key", "in": "header", "schema": text }));
    }
    let mut operation = json!({
        "tags": [tag],
        "summary": summary,
        "parameters": parameters,
        "responses": { "200": { "description": "Success" } },
    });
    for (name, value) in needs.extensions() {
        operation[name] = value;
    }
    operation
}

/// Its paths cannot be enumerated: one role for the whole prefix.
impl<S: Clone + Send + Sync + 'static> Declare for Router<S> {
    type Declared = Routes<S>;

    fn declare(self, needs: Needs) -> Routes<S> {
        Routes::whole(self, needs)
    }
}

/// Whether an operation is a page or an asset of one.
pub(crate) fn is_page(operation: &Value) -> bool {
    operation["tags"][0] == PAGES
}

#[cfg(test)]
mod tests {
    use steadfast_api::Role;

    use super::*;

    static STYLE: LazyLock<Asset> = LazyLock::new(|| Asset::css("/a.css", ""));

    #[test]
    fn methods_of_one_path_are_grouped_and_its_segments_are_parameters() {
        let routes: Routes = Routes::new("tag")
            .get("/a/{b}/{*c}", Role::Viewer, "Shows", async || "")
            .put("/a/{b}/{*c}", Role::Member, "Sets", async || "")
            .answers(204)
            .pages()
            .asset("The style", &STYLE);
        assert_eq!(routes.paths.len(), 2);
        let both = &routes.paths["/a/{b}/{*c}"];
        assert_eq!(both["get"]["parameters"][1]["name"], "c");
        assert_eq!(both["get"]["x-needs-role"], "viewer");
        assert_eq!(both["put"]["responses"], json!({ "204": { "description": "Success" } }));
        let posts: Routes = Routes::new("tag")
            .post("/b", Role::Member, "Adds", async || "")
            .pages()
            .post("/c", Role::Member, "Adds", async || "");
        assert_eq!(posts.paths["/b"]["post"]["parameters"][0]["name"], "Idempotency-Key");
        assert_eq!(posts.paths["/c"]["post"]["parameters"], json!([]));
        let asset = &routes.paths["/a.css"]["get"];
        assert!(is_page(asset) && !is_page(&both["get"]));
        assert_eq!(Needs::of(asset), Some(Needs::NOTHING));
    }
}
