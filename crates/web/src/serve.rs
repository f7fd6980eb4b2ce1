//! Routes, pages, counters and verbs that an application adds to its server.

use std::{net::SocketAddr, process::ExitCode};

use axum::Router;
use clap::Args;
use serde_json::{Map, Value};
use steadfast_core::{App, Extension, Owner, Result, Runtime};
use utoipa_axum::router::OpenApiRouter;

use crate::{Cli, Connect, Verb};

/// The server, for the routes of an application.
pub struct ServerContext<'a> {
    /// The program.
    pub runtime: &'a Runtime,
    /// How a live connection is made.
    pub connect: Connect,
    /// The address that the server listens on, if it does.
    pub address: Option<SocketAddr>,
}

type MakeRoutes = Box<dyn Fn(&ServerContext<'_>) -> Router + Send + Sync>;

/// Routes, and their description. An `OpenApiRouter` has both; a `Router` is not described.
pub struct Routes {
    router: Router,
    description: Value,
}

impl From<Router> for Routes {
    fn from(router: Router) -> Self {
        Self { router, description: Value::Null }
    }
}

impl From<OpenApiRouter> for Routes {
    fn from(routes: OpenApiRouter) -> Self {
        let (router, description) = routes.split_for_parts();
        Self { router, description: serde_json::to_value(description).unwrap_or_default() }
    }
}

/// Routes below one prefix.
struct Mounted {
    prefix: &'static str,
    owner: Owner,
    routes: Box<dyn Fn(&ServerContext<'_>) -> Routes + Send + Sync>,
}

impl Mounted {
    /// Whether a path is the prefix or below it, whatever the parameters of both are called.
    fn covers(&self, path: &str) -> bool {
        let (prefix, path) = (pattern(self.prefix), pattern(path));
        path.strip_prefix(&prefix).is_some_and(|it| it.is_empty() || it.starts_with('/'))
    }
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

/// A page to begin with, in the navigation of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NavLink {
    /// Its title.
    pub title: &'static str,
    /// Where it is.
    pub path: &'static str,
    /// One line about it.
    pub about: &'static str,
}

/// A figure that grows.
pub struct Counter {
    /// Its name, without the prefix of the server.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// How far it has counted.
    pub value: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// Everything that the applications of a program add to its server.
#[derive(Default)]
pub struct Web {
    routes: Vec<MakeRoutes>,
    mounted: Vec<Mounted>,
    /// Paths of the server itself.
    pub reserved: Vec<String>,
    /// The `paths` of the OpenAPI document of routes that are not below a prefix.
    pub paths: Map<String, Value>,
    /// Their pages, in the order in which they were declared.
    pub pages: Vec<NavLink>,
    /// Their figures.
    pub counters: Vec<Counter>,
    /// Their verbs.
    pub verbs: Vec<Verb>,
}

impl Extension for Web {
    fn merge(&mut self, other: Self) {
        self.routes.extend(other.routes);
        self.mounted.extend(other.mounted);
        self.reserved.extend(other.reserved);
        self.paths.extend(other.paths);
        self.pages.extend(other.pages);
        self.counters.extend(other.counters);
        self.verbs.extend(other.verbs);
    }

    /// A prefix with something of another below it would be a panic of the router.
    fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (at, mounted) in self.mounted.iter().enumerate() {
            let Mounted { prefix, owner, .. } = mounted;
            if !prefix.starts_with('/') || prefix.len() < 2 || prefix.ends_with('/') {
                found.push(format!("prefix `{prefix}` of {owner} must be like `/auctions`"));
            }
            for other in self.mounted.iter().enumerate().filter(|it| it.0 != at).map(|it| it.1) {
                if mounted.covers(other.prefix) && mounted.prefix != other.prefix {
                    let (below, by) = (other.prefix, &other.owner);
                    found.push(format!("routes `{prefix}` of {owner} cover `{below}` of {by}"));
                }
            }
            let own = self.reserved.iter().map(|it| (it, "the server"));
            let described = self.paths.keys().map(|it| (it, "another application"));
            for (path, by) in own.chain(described).filter(|it| mounted.covers(it.0)) {
                found.push(format!("routes `{prefix}` of {owner} cover `{path}` of {by}"));
            }
        }
        found
    }
}

impl Web {
    /// The routes of all applications.
    pub fn routes(&self, served: &ServerContext<'_>) -> MountedRoutes {
        let router = self.routes.iter().fold(Router::new(), |all, it| all.merge(it(served)));
        let (paths, schemas) = (self.paths.clone(), Map::new());
        let mut all = MountedRoutes { router, paths, schemas };
        for Mounted { prefix, routes, .. } in &self.mounted {
            let Routes { router, mut description } = routes(served);
            all.router = all.router.nest(prefix, router);
            if let Some(Value::Object(paths)) = description.get_mut("paths").map(Value::take) {
                let below = |path: String| format!("{prefix}{}", path.trim_end_matches('/'));
                all.paths.extend(paths.into_iter().map(|(path, it)| (below(path), it)));
            }
            let schemas = description.pointer_mut("/components/schemas").map(Value::take);
            if let Some(Value::Object(schemas)) = schemas {
                all.schemas.extend(schemas);
            }
        }
        all
    }
}

/// Adds to an [`App`] what a server serves of it.
pub trait Serve: Sized {
    /// Adds routes below a prefix: an `OpenApiRouter`, whose description goes into `/openapi.json`,
    /// or an `axum::Router`. Two applications with one prefix, or one below the other's, cannot
    /// start together.
    #[track_caller]
    fn routes<R: Into<Routes>>(
        self,
        prefix: &'static str,
        routes: impl Fn(&ServerContext<'_>) -> R + Send + Sync + 'static,
    ) -> Self;

    /// Adds routes anywhere, with the `paths` of their OpenAPI document; see
    /// [`describe`](crate::describe). Two applications with one path cannot start together.
    #[track_caller]
    fn described_routes(
        self,
        paths: Map<String, Value>,
        routes: impl Fn(&ServerContext<'_>) -> Router + Send + Sync + 'static,
    ) -> Self;

    /// Adds a page to the navigation.
    #[track_caller]
    fn page(self, title: &'static str, path: &'static str, about: &'static str) -> Self;

    /// Adds a figure to the metrics, under the prefix of the server.
    #[track_caller]
    fn counter(
        self,
        name: &'static str,
        help: &'static str,
        value: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self;

    /// Adds a verb to the command line. Its flags and its help are those of `A`.
    #[track_caller]
    fn verb<A: Args>(
        self,
        name: &'static str,
        run: impl Fn(Cli<'_>, A) -> Result<ExitCode> + Send + Sync + 'static,
    ) -> Self;
}

/// The same for paths that differ in the names of their parameters alone: they match the same.
pub fn pattern(path: &str) -> String {
    let mut pattern = String::new();
    for (at, part) in path.split('{').enumerate() {
        let rest = if at == 0 { part } else { part.split_once('}').map_or(part, |it| it.1) };
        let parameter = if at == 0 { "" } else { "{}" };
        pattern.push_str(parameter);
        pattern.push_str(rest);
    }
    pattern
}

impl Serve for App {
    fn routes<R: Into<Routes>>(
        mut self,
        prefix: &'static str,
        routes: impl Fn(&ServerContext<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        let owner = self.claim("prefix of routes", &pattern(prefix));
        let routes = Box::new(move |served: &ServerContext<'_>| routes(served).into());
        self.extension_mut::<Web>().mounted.push(Mounted { prefix, owner, routes });
        self
    }

    fn described_routes(
        mut self,
        paths: Map<String, Value>,
        routes: impl Fn(&ServerContext<'_>) -> Router + Send + Sync + 'static,
    ) -> Self {
        for path in paths.keys() {
            self.claim("route", &pattern(path));
        }
        let web = self.extension_mut::<Web>();
        web.paths.extend(paths);
        web.routes.push(Box::new(routes));
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
        self.claim("verb", name);
        self.extension_mut::<Web>().verbs.push(Verb::new(name, run));
        self
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::StartError;

    use super::*;
    use crate::describe;

    fn app(name: &str, path: &'static str) -> App {
        let paths = describe(name, &[(path, "get", "Shows", "200")]);
        let app = App::new(name).described_routes(paths, |_| Router::new());
        app.page("Page", path, "to look at")
    }

    #[tokio::test]
    async fn two_applications_with_one_route_are_told_before_anything_starts() {
        let sum = App::new("sum").merge(app("one", "/a/{id}/b")).merge(app("other", "/a/{name}/b"));
        let refused = sum.test().await.err();
        let Some(StartError::Program { problems }) = &refused else { panic!("{refused:?}") };
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("route `/a/{}/b` is declared by one ("), "{problems:?}");
        assert!(problems[0].contains("and by other ("), "{problems:?}");
    }

    #[tokio::test]
    async fn routes_that_cover_those_of_others_are_told_before_anything_starts() {
        let mount = |name: &str, prefix| App::new(name).routes(prefix, |_| Router::new());
        let sum = App::new("sum")
            .merge(mount("one", "/a"))
            .merge(mount("two", "/a/b"))
            .merge(mount("three", "/a"))
            .merge(mount("four", "c/"))
            .merge(app("five", "/a/b/{id}"));
        let refused = sum.test().await.err();
        let Some(StartError::Program { problems }) = &refused else { panic!("{refused:?}") };
        let has =
            |words: &[&str]| problems.iter().any(|it| words.iter().all(|word| it.contains(word)));
        assert!(has(&["prefix of routes `/a` is declared by one", "and by three"]), "{problems:?}");
        assert!(has(&["routes `/a` of one", "cover `/a/b` of two"]), "{problems:?}");
        assert!(has(&["routes `/a/b` of two", "cover `/a/b/{id}`"]), "{problems:?}");
        assert!(has(&["prefix `c/` of four"]), "{problems:?}");
        let beside = App::new("sum").merge(mount("one", "/a")).merge(mount("two", "/ab"));
        assert!(beside.test().await.is_ok());
    }

    #[tokio::test]
    async fn what_applications_add_is_found_in_the_program() {
        let sum = App::new("sum").merge(app("one", "/a")).merge(app("other", "/b"));
        let program = sum.counter("seen", "Seen", || 7).test().await.expect("it starts");
        let web = program.extension::<Web>().expect("it has routes");
        assert_eq!(web.paths.keys().collect::<Vec<_>>(), ["/a", "/b"]);
        assert_eq!((web.pages.len(), (web.counters[0].value)()), (2, 7));
    }
}
