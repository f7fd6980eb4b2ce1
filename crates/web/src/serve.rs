//! What an application adds to the server that serves it: routes, pages, figures, verbs.

use std::{net::SocketAddr, process::ExitCode};

use axum::Router;
use clap::Args;
use serde_json::{Map, Value};
use steadfast_core::{App, Extension, Result, Runtime};

use crate::{Cli, Connect, Verb};

/// What a server gives to the routes of an application.
pub struct ServerContext<'a> {
    /// The program.
    pub runtime: &'a Runtime,
    /// How a live connection is made.
    pub connect: Connect,
    /// The address that the server listens on, if it does.
    pub address: Option<SocketAddr>,
}

type MakeRoutes = Box<dyn Fn(&ServerContext<'_>) -> Router + Send + Sync>;

/// A page to begin with, in the navigation of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NavLink {
    /// What it is called.
    pub title: &'static str,
    /// Where it is.
    pub path: &'static str,
    /// What is done there.
    pub about: &'static str,
}

/// A figure that grows.
pub struct Counter {
    /// Its name, without the prefix of the server.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How far it has counted.
    pub value: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// What the applications of a program add to its server.
#[derive(Default)]
pub struct Web {
    routes: Vec<MakeRoutes>,
    /// The `paths` of their OpenAPI document.
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
        self.paths.extend(other.paths);
        self.pages.extend(other.pages);
        self.counters.extend(other.counters);
        self.verbs.extend(other.verbs);
    }
}

impl Web {
    /// The routes of all applications.
    pub fn router(&self, served: &ServerContext<'_>) -> Router {
        self.routes.iter().fold(Router::new(), |all, routes| all.merge(routes(served)))
    }
}

/// Adds to an [`App`] what a server serves of it.
pub trait Serve: Sized {
    /// Adds routes, with the `paths` of their OpenAPI document; see [`describe`](crate::describe).
    /// Two applications with one path cannot start together.
    #[track_caller]
    fn routes(
        self,
        paths: Map<String, Value>,
        routes: impl Fn(&ServerContext<'_>) -> Router + Send + Sync + 'static,
    ) -> Self;

    /// Adds a page to the navigation.
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
    fn routes(
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
        App::new(name).routes(paths, |_| Router::new()).page("Page", "/page", "to look at")
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
    async fn what_applications_add_is_found_in_the_program() {
        let sum = App::new("sum").merge(app("one", "/a")).merge(app("other", "/b"));
        let program = sum.counter("seen", "Seen", || 7).test().await.expect("it starts");
        let web = program.extension::<Web>().expect("it has routes");
        assert_eq!(web.paths.keys().collect::<Vec<_>>(), ["/a", "/b"]);
        assert_eq!((web.pages.len(), (web.counters[0].value)()), (2, 7));
    }
}
