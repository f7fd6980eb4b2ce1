//! Routes, pages, counters and verbs that an application adds to its server.

use std::{net::SocketAddr, process::ExitCode};

use axum::Router;
use clap::Args;
use serde_json::{Map, Value};
use steadfast_core::{App, Extension, Result, Runtime};

use crate::{Cli, CliVerb, Connect, DeclaredRoutes, IntoRoutes, RouteEntry, table};

/// The server, for the routes of an application.
pub struct ServerContext<'a> {
    /// The program.
    pub runtime: &'a Runtime,
    /// Connects live clients.
    pub connect: Connect,
    /// The address that the server listens on, if any.
    pub address: Option<SocketAddr>,
    /// The URL by which clients on other machines reach the server, without a slash at the end.
    pub public_url: Option<String>,
}

type MakeRouter = Box<dyn Fn(&ServerContext<'_>) -> Router + Send + Sync>;

/// State of handlers that a server can build.
pub trait FromServer: Clone + Send + Sync + 'static {
    /// The state for the routes of this server.
    fn from_server(served: &ServerContext<'_>) -> Self;
}

impl FromServer for () {
    fn from_server(_: &ServerContext<'_>) -> Self {}
}

/// Handlers with `State<Runtime>` act as the program itself; [`Caller`](crate::Caller) acts for the
/// caller of the route.
impl FromServer for Runtime {
    fn from_server(served: &ServerContext<'_>) -> Self {
        served.runtime.clone()
    }
}

/// Declared routes and the function that builds them.
struct RouteMount {
    declared: DeclaredRoutes,
    make: MakeRouter,
}

/// All routes of a program's applications, and their part of the OpenAPI document.
pub struct MountedRoutes {
    /// The routes.
    pub router: Router,
    /// The `paths` of the document.
    pub paths: Map<String, Value>,
    /// The schemas of its components.
    pub schemas: Map<String, Value>,
}

/// A start page, in the navigation of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NavLink {
    /// Its title.
    pub title: &'static str,
    /// Its path.
    pub path: &'static str,
    /// One line about it.
    pub about: &'static str,
}

/// A counter for the metrics.
pub struct Counter {
    /// Its name, without the prefix of the server.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Returns the current value.
    pub value: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// Everything that the applications of a program add to its server.
#[derive(Default)]
pub struct Web {
    mounted: Vec<RouteMount>,
    /// The routes of the server itself, if it has declared them.
    pub server: Option<DeclaredRoutes>,
    /// Their pages, in the order in which they were declared.
    pub pages: Vec<NavLink>,
    /// Their counters.
    pub counters: Vec<Counter>,
    /// Their verbs.
    pub verbs: Vec<CliVerb>,
}

impl Extension for Web {
    fn merge(&mut self, other: Self) {
        self.mounted.extend(other.mounted);
        self.server = self.server.take().or(other.server);
        self.pages.extend(other.pages);
        self.counters.extend(other.counters);
        self.verbs.extend(other.verbs);
    }

    /// Conflicting routes would make the router panic.
    fn problems(&self) -> Vec<String> {
        let declared = self.declared().chain(&self.server);
        table::problems(&declared.collect::<Vec<_>>())
    }
}

impl Web {
    fn declared(&self) -> impl Iterator<Item = &DeclaredRoutes> {
        self.mounted.iter().map(|it| &it.declared)
    }

    /// Every conflict between the routes of the applications and those of a server.
    pub fn conflicts_with(&self, server: &DeclaredRoutes) -> Vec<String> {
        table::problems(&self.declared().chain([server]).collect::<Vec<_>>())
    }

    /// The routes of all applications, without those of the server.
    pub fn entries(&self) -> impl Iterator<Item = &RouteEntry> {
        self.declared().flat_map(|it| &it.entries)
    }

    /// Builds the routes of all applications.
    pub fn routes(&self, served: &ServerContext<'_>) -> MountedRoutes {
        let (mut router, mut paths, mut schemas) = (Router::new(), Map::new(), Map::new());
        for RouteMount { declared, make } in &self.mounted {
            let made = make(served);
            router = match declared.prefix {
                "" => router.merge(made),
                prefix => router.nest(prefix, made),
            };
            paths.extend(declared.paths.clone());
            schemas.extend(declared.schemas.clone());
        }
        MountedRoutes { router, paths, schemas }
    }
}

/// Adds routes, pages, counters and verbs to an [`App`].
pub trait Serve: Sized {
    /// Adds routes below a prefix: an `OpenApiRouter` or [`Routes`](crate::Routes), which
    /// `/openapi.json` describes, or an `axum::Router`, which it does not. All declare the role
    /// that they [need](crate::needs); otherwise the program does not start. Nor does it start if
    /// two applications have the same prefix, or one is below the other. The prefix of described
    /// routes may be empty: their paths are compared one by one.
    #[track_caller]
    fn routes<R>(self, prefix: &'static str, routes: impl FnOnce() -> R) -> Self
    where
        R: IntoRoutes<State: FromServer>;

    /// Adds routes whose handlers have their own state, which is built for each server.
    #[track_caller]
    fn routes_with<R: IntoRoutes>(
        self,
        prefix: &'static str,
        routes: impl FnOnce() -> R,
        state: impl Fn(&ServerContext<'_>) -> R::State + Send + Sync + 'static,
    ) -> Self;

    /// Adds a page to the navigation.
    #[track_caller]
    fn page(self, title: &'static str, path: &'static str, about: &'static str) -> Self;

    /// Adds a counter to the metrics, with the prefix of the server.
    #[track_caller]
    fn counter(
        self,
        name: &'static str,
        help: &'static str,
        value: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self;

    /// Adds a verb to the command line, with the flags and the help of `A`.
    #[track_caller]
    fn verb<A: Args>(
        self,
        name: &'static str,
        run: impl Fn(Cli<'_>, A) -> Result<ExitCode> + Send + Sync + 'static,
    ) -> Self;
}

impl Serve for App {
    #[track_caller]
    fn routes<R>(self, prefix: &'static str, routes: impl FnOnce() -> R) -> Self
    where
        R: IntoRoutes<State: FromServer>,
    {
        self.routes_with(prefix, routes, R::State::from_server)
    }

    fn routes_with<R: IntoRoutes>(
        mut self,
        prefix: &'static str,
        routes: impl FnOnce() -> R,
        state: impl Fn(&ServerContext<'_>) -> R::State + Send + Sync + 'static,
    ) -> Self {
        let owner = self.owner();
        if !prefix.is_empty() {
            self.claim("prefix of routes", &table::pattern(prefix));
        }
        let routes = routes().into_routes();
        let declared = DeclaredRoutes::of(prefix, owner, &routes);
        let router = routes.router;
        let make =
            Box::new(move |served: &ServerContext<'_>| router.clone().with_state(state(served)));
        self.extension_mut::<Web>().mounted.push(RouteMount { declared, make });
        self
    }

    fn page(mut self, title: &'static str, path: &'static str, about: &'static str) -> Self {
        self.claim("page", path);
        self.extension_mut::<Web>().pages.push(NavLink { title, path, about });
        self
    }

    fn counter(
        mut self,
        name: &'static str,
        help: &'static str,
        value: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.claim("figure", name);
        let counter = Counter { name, help, value: Box::new(value) };
        self.extension_mut::<Web>().counters.push(counter);
        self
    }

    fn verb<A: Args>(
        mut self,
        name: &'static str,
        run: impl Fn(Cli<'_>, A) -> Result<ExitCode> + Send + Sync + 'static,
    ) -> Self {
        let owner = self.claim("verb", name);
        self.extension_mut::<Web>().verbs.push(CliVerb::new(name, owner, run));
        self
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use steadfast_core::StartError;
    use utoipa_axum::{router::OpenApiRouter, routes};

    use super::*;
    use crate::{Needs, Role, RouteKind, RouteTable, Routes, needs};

    fn app(name: &str, path: &'static str) -> App {
        let shown = async || "";
        let routes = move || Routes::<()>::new("test").get(path, Role::Viewer, "Shows", shown);
        App::new(name).routes("", routes).page("Page", path, "to look at")
    }

    async fn refused(app: App) -> Vec<String> {
        match app.test().await.err() {
            Some(StartError::Program { problems }) => problems,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn two_applications_with_one_route_are_refused_before_the_start() {
        let sum = App::new("sum").merge(app("one", "/a/{id}/b")).merge(app("other", "/a/{name}/b"));
        let problems = refused(sum).await;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("route `/a/{}/b` is declared by one ("), "{problems:?}");
        assert!(problems[0].contains("and by other ("), "{problems:?}");
    }

    #[tokio::test]
    async fn conflicting_paths_are_refused_before_the_start() {
        let sum = App::new("sum").merge(app("one", "/a/{id}")).merge(app("other", "/a/{*rest}"));
        let problems = refused(sum).await;
        assert!(problems[0].starts_with("route `/a/{}` of one ("), "{problems:?}");
        assert!(problems[0].contains("overlaps `/a/{*}` of other ("), "{problems:?}");
        let fixed = App::new("sum").merge(app("one", "/a/b")).merge(app("other", "/a/{*rest}"));
        let fixed = fixed.merge(app("third", "/{id}")).merge(app("fourth", "/{id}/b"));
        let program = fixed.test().await.expect("it starts");
        // The router agrees.
        program.extension::<Web>().expect("it has routes").routes(&context(&program));
    }

    fn context(runtime: &Runtime) -> ServerContext<'_> {
        let connect: Connect =
            std::sync::Arc::new(|_, _, _| Box::pin(async { axum::response::Response::default() }));
        ServerContext { runtime, connect, address: None, public_url: None }
    }

    #[tokio::test]
    async fn routes_that_cover_other_routes_are_refused_before_the_start() {
        let mount = |name: &str, prefix| {
            App::new(name).routes(prefix, || needs(Role::Member, Router::<()>::new()))
        };
        let sum = App::new("sum")
            .merge(mount("one", "/a"))
            .merge(mount("two", "/a/b"))
            .merge(mount("three", "/a"))
            .merge(mount("four", "c/"))
            .merge(mount("six", ""))
            .merge(app("five", "/a/b/{id}"));
        let problems = refused(sum).await;
        let has =
            |words: &[&str]| problems.iter().any(|it| words.iter().all(|word| it.contains(word)));
        assert!(has(&["prefix of routes `/a` is declared by one", "and by three"]), "{problems:?}");
        assert!(has(&["routes `/a` of one", "cover `/a/b` of two"]), "{problems:?}");
        assert!(has(&["routes `/a/b` of two", "cover `/a/b/{id}`"]), "{problems:?}");
        assert!(has(&["prefix `c/` of four"]), "{problems:?}");
        assert!(has(&["prefix `` of six"]), "{problems:?}");
        let beside = App::new("sum").merge(mount("one", "/a")).merge(mount("two", "/ab"));
        assert!(beside.test().await.is_ok());
    }

    #[utoipa::path(get, path = "/open", responses((status = 200)))]
    async fn open() -> &'static str {
        "yes"
    }

    #[tokio::test]
    async fn a_route_without_a_declared_role_prevents_the_start() {
        let routes = || OpenApiRouter::<()>::new().routes(routes!(open));
        let problems = refused(App::new("shop").routes("/shop", routes)).await;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].starts_with("route `GET /shop/open` of shop (crates/web/src/serve.rs:")
        );
        assert!(problems[0].contains("does not declare what it needs"), "{problems:?}");
        let declared = move || needs(Role::Viewer, routes());
        let program = App::new("shop").routes("/shop", declared).test().await.expect("it starts");
        let mut entries = program.extension::<Web>().expect("it has routes").entries();
        assert_eq!(entries.next().map(|it| it.needs), Some(Role::Viewer.into()));
    }

    #[tokio::test]
    async fn different_schemas_with_one_name_prevent_the_start() {
        mod one {
            #[derive(utoipa::ToSchema)]
            #[expect(dead_code, reason = "only described")]
            pub(super) struct Bid {
                cents: u64,
            }
        }
        mod other {
            #[derive(utoipa::ToSchema)]
            #[expect(dead_code, reason = "only described")]
            pub(super) struct Bid {
                euros: u64,
            }
        }
        #[utoipa::path(get, path = "/", responses((status = 200, body = one::Bid)))]
        async fn ours() {}
        #[utoipa::path(get, path = "/", responses((status = 200, body = other::Bid)))]
        async fn theirs() {}
        let ours = App::new("ours").routes("/ours", || {
            needs(Role::Viewer, OpenApiRouter::<()>::new().routes(routes!(ours)))
        });
        let theirs = App::new("theirs").routes("/theirs", || {
            needs(Role::Viewer, OpenApiRouter::<()>::new().routes(routes!(theirs)))
        });
        let problems = refused(App::new("sum").merge(ours).merge(theirs)).await;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("schema `Bid` of ours ("), "{problems:?}");
        assert!(problems[0].contains("differs from that of theirs ("), "{problems:?}");
    }

    #[tokio::test]
    async fn routes_pages_and_counters_of_applications_are_in_the_program() {
        let sum = App::new("sum").merge(app("one", "/a")).merge(app("other", "/b"));
        let whole = || needs(Needs::NOTHING, Router::<()>::new().route("/x", get(async || "")));
        let sum = sum.routes("/c", whole);
        let program = sum.counter("seen", "Seen", || 7).test().await.expect("it starts");
        let web = program.extension::<Web>().expect("it has routes");
        let table: RouteTable = web.entries().cloned().collect();
        let paths: Vec<_> =
            table.entries().iter().map(|it| (&*it.method, &*it.path, it.kind)).collect();
        let (described, whole) = (RouteKind::Operation, RouteKind::Router);
        assert_eq!(paths, [("GET", "/a", described), ("GET", "/b", described), ("*", "/c", whole)]);
        let need = |method, path| table.find(method, path).map(|it| it.needs);
        assert_eq!(need("HEAD", "/a"), Some(Role::Viewer.into()));
        assert_eq!((need("POST", "/a"), need("GET", "/d")), (None, None));
        assert_eq!(need("POST", "/c/x"), Some(Needs::NOTHING));
        assert_eq!((web.pages.len(), (web.counters[0].value)()), (2, 7));
    }
}
