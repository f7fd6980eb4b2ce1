//! The table of a program's routes: their roles, their owners and their conflicts.

use std::collections::HashMap;

use serde_json::{Map, Value};
use steadfast_api::RouteScope;
use steadfast_core::Owner;
use utoipa::openapi::OpenApi;

use crate::{
    Needs, Routes,
    routes::{is_page, paths_and_schemas},
};

/// The kind of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// An operation, described in the OpenAPI document.
    Operation,
    /// A page, or an asset of one.
    Page,
    /// All methods and paths below the path: an `axum::Router`, whose routes cannot be enumerated.
    Router,
}

/// One route of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    /// The method, in upper case; `*` for all.
    pub method: String,
    /// The path, with `{name}` for a parameter and `{*name}` for the rest.
    pub path: String,
    /// The required role.
    pub needs: Needs,
    /// The part of it that limited tokens may use.
    pub scope: RouteScope,
    /// The application that declared it; `None` for the server itself.
    pub owner: Option<Owner>,
    /// Its kind.
    pub kind: RouteKind,
    /// Whether it answers with a WebSocket or with server-sent events.
    pub is_stream: bool,
}

impl RouteEntry {
    /// Whether the router serves this method and matched path with this route.
    fn serves(&self, method: &str, path: &str) -> bool {
        match self.kind {
            RouteKind::Router => covers(&self.path, path),
            RouteKind::Operation | RouteKind::Page => {
                self.path == path
                    && (self.method == method || (method == "HEAD" && self.method == "GET"))
            }
        }
    }
}

/// All routes of a server: its own, and those of the applications.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    entries: Vec<RouteEntry>,
    /// Indexes of the entries of a path.
    by_path: HashMap<String, Vec<usize>>,
    /// Indexes of the entries that cover everything below their path.
    routers: Vec<usize>,
}

impl FromIterator<RouteEntry> for RouteTable {
    fn from_iter<I: IntoIterator<Item = RouteEntry>>(entries: I) -> Self {
        let mut table = Self::default();
        for (at, entry) in entries.into_iter().enumerate() {
            match entry.kind {
                RouteKind::Router => table.routers.push(at),
                RouteKind::Operation | RouteKind::Page => {
                    table.by_path.entry(entry.path.clone()).or_default().push(at);
                }
            }
            table.entries.push(entry);
        }
        table
    }
}

impl RouteTable {
    /// The routes.
    pub fn entries(&self) -> &[RouteEntry] {
        &self.entries
    }

    fn at(&self, path: &str) -> impl Iterator<Item = &RouteEntry> {
        let exact = self.by_path.get(path).into_iter().flatten();
        exact.chain(&self.routers).map(|at| &self.entries[*at])
    }

    /// Finds a route by the method of a request and its matched path; `None` if it is not declared.
    pub fn find(&self, method: &str, path: &str) -> Option<&RouteEntry> {
        self.at(path).find(|it| it.serves(method, path))
    }

    /// The router, which cannot be enumerated, that serves everything below a path of a request.
    pub fn covering(&self, path: &str) -> Option<&RouteEntry> {
        self.routers.iter().map(|at| &self.entries[*at]).find(|it| covers(&it.path, path))
    }

    /// The declared methods of a path.
    pub fn methods(&self, path: &str) -> Vec<&str> {
        let methods = self.by_path.get(path).into_iter().flatten();
        let mut methods: Vec<_> = methods.map(|at| &*self.entries[*at].method).collect();
        if methods.contains(&"GET") && !methods.contains(&"HEAD") {
            methods.push("HEAD");
        }
        methods
    }
}

/// One declaration of routes, before it is served.
#[derive(Clone, Debug)]
pub struct DeclaredRoutes {
    pub(crate) prefix: &'static str,
    owner: Option<Owner>,
    /// The routes that declare a role.
    pub entries: Vec<RouteEntry>,
    /// Method and path of the routes that do not.
    undeclared: Vec<String>,
    /// The `paths` of their OpenAPI document, with the prefix.
    pub(crate) paths: Map<String, Value>,
    /// The schemas of their OpenAPI document.
    pub(crate) schemas: Map<String, Value>,
}

impl DeclaredRoutes {
    /// The routes of the server itself, by their OpenAPI document, with their scopes by method and
    /// path.
    pub fn of_server(
        description: &OpenApi,
        scopes: &HashMap<(String, String), RouteScope>,
    ) -> Self {
        let (paths, schemas) = paths_and_schemas(description);
        let mut declared = Self::read("", None, paths, schemas);
        for entry in &mut declared.entries {
            let scope = scopes.get(&(entry.method.clone(), entry.path.clone()));
            entry.scope = scope.copied().unwrap_or(RouteScope::None);
        }
        declared
    }

    /// Adds pages and their assets, each with its method, path, role and scope.
    pub fn with_pages(
        mut self,
        pages: impl Iterator<Item = (&'static str, &'static str, Needs, RouteScope)>,
    ) -> Self {
        for (method, path, needs, scope) in pages {
            self.paths.entry(path).or_insert(Value::Null);
            let (method, path, owner) = (method.into(), path.into(), self.owner.clone());
            let (kind, is_stream) = (RouteKind::Page, false);
            self.entries.push(RouteEntry { method, path, needs, scope, owner, kind, is_stream });
        }
        self
    }

    pub(crate) fn of<S>(prefix: &'static str, owner: Owner, routes: &Routes<S>) -> Self {
        let below = |path: &str| match path {
            "/" => prefix.to_owned(),
            path => format!("{prefix}{path}"),
        };
        let paths = routes.paths.iter().map(|(path, it)| match prefix {
            "" => (path.clone(), it.clone()),
            _ => (below(path), it.clone()),
        });
        let schemas = routes.schemas.clone();
        let mut declared = Self::read(prefix, Some(owner.clone()), paths.collect(), schemas);
        declared.entries.extend(routes.whole.map(|needs| RouteEntry {
            method: "*".into(),
            path: prefix.into(),
            needs,
            scope: scope_of(prefix),
            owner: Some(owner),
            kind: RouteKind::Router,
            is_stream: false,
        }));
        declared
    }

    fn read(
        prefix: &'static str,
        owner: Option<Owner>,
        paths: Map<String, Value>,
        schemas: Map<String, Value>,
    ) -> Self {
        let (mut entries, mut undeclared) = (Vec::new(), Vec::new());
        for (path, item) in &paths {
            for (method, operation) in item.as_object().into_iter().flatten() {
                // Other members of a path are not operations.
                if !operation["responses"].is_object() {
                    continue;
                }
                let method = method.to_uppercase();
                let Some(needs) = Needs::of(operation) else {
                    undeclared.push(format!("{method} {path}"));
                    continue;
                };
                let is_page = is_page(operation);
                let kind = if is_page { RouteKind::Page } else { RouteKind::Operation };
                let (scope, owner) = (scope_of(path), owner.clone());
                let (path, is_stream) = (path.clone(), streams(operation));
                entries.push(RouteEntry { method, path, needs, scope, owner, kind, is_stream });
            }
        }
        Self { prefix, owner, entries, undeclared, paths, schemas }
    }

    fn declared_by(&self) -> String {
        self.owner.as_ref().map_or_else(|| "the server".into(), Owner::to_string)
    }

    fn is_whole(&self) -> bool {
        self.entries.iter().any(|it| it.kind == RouteKind::Router)
    }

    /// Errors of this declaration alone.
    fn problems(&self) -> Vec<String> {
        let (mut found, by) = (Vec::new(), self.declared_by());
        let Self { prefix, undeclared, .. } = self;
        let is_prefix = prefix.starts_with('/') && 1 < prefix.len() && !prefix.ends_with('/');
        let is_missing = prefix.is_empty() && !self.is_whole();
        if !is_prefix && !is_missing {
            found.push(format!("prefix `{prefix}` of {by} must be like `/auctions`"));
        }
        found.extend(undeclared.iter().map(|route| {
            format!(
                "route `{route}` of {by} does not declare what it needs: write \
                 `needs(Role::Member, routes!(…))`, or `Needs::NOTHING` if it is open to all"
            )
        }));
        found
    }

    /// Conflicts between declarations.
    fn collisions(&self, other: &Self) -> Vec<String> {
        let (mut found, by, with) = (Vec::new(), self.declared_by(), other.declared_by());
        for (outer, inner) in [(self, other), (other, self)] {
            let below = inner.prefix;
            if outer.prefix.is_empty() || outer.prefix == below {
                continue;
            }
            let (prefix, by, with) = (outer.prefix, outer.declared_by(), inner.declared_by());
            let paths = if below.is_empty() { inner.paths_once() } else { vec![below] };
            for path in paths.into_iter().filter(|it| covers(prefix, it)) {
                found.push(format!("routes `{prefix}` of {by} cover `{path}` of {with}"));
            }
        }
        // Two equal prefixes are reported separately.
        let is_reported = self.prefix == other.prefix && !self.prefix.is_empty();
        let ours = if is_reported { Vec::new() } else { self.paths_once() };
        let all_theirs = other.paths_once();
        for path in ours {
            for theirs in all_theirs.iter().filter(|it| overlap(path, it)) {
                let path = pattern(path);
                found.push(match pattern(theirs) {
                    same if same == path => {
                        format!("route `{path}` is declared by {by} and by {with}")
                    }
                    theirs => format!("route `{path}` of {by} overlaps `{theirs}` of {with}"),
                });
            }
        }
        for (name, schema) in &self.schemas {
            if other.schemas.get(name).is_some_and(|it| it != schema) {
                found.push(format!(
                    "schema `{name}` of {by} differs from that of {with}: rename one of them, or \
                     give it a name with `#[schema(as = …)]`"
                ));
            }
        }
        found
    }

    fn paths_once(&self) -> Vec<&str> {
        self.paths.keys().map(String::as_str).collect()
    }
}

/// The scope of a route of an application. Below `/v1`, a scope for a route would not say which
/// resource of the server it uses.
fn scope_of(path: &str) -> RouteScope {
    if path.starts_with("/v1/") { RouteScope::None } else { RouteScope::Url }
}

/// Whether the responses of an operation are a WebSocket or server-sent events.
fn streams(operation: &Value) -> bool {
    let responses = operation["responses"].as_object();
    responses
        .into_iter()
        .flatten()
        .any(|(status, it)| status == "101" || it["content"].get("text/event-stream").is_some())
}

/// Every reason why these routes cannot be served together.
pub(crate) fn problems(all: &[&DeclaredRoutes]) -> Vec<String> {
    let mut found: Vec<String> = all.iter().flat_map(|it| it.problems()).collect();
    for (at, one) in all.iter().enumerate() {
        found.extend(all[..at].iter().flat_map(|earlier| earlier.collisions(one)));
    }
    found
}

/// The path without parameter names: paths that differ only in these names match the same requests.
pub(crate) fn pattern(path: &str) -> String {
    let segment = |it: &str| match Segment::of(it) {
        Segment::Text => it.to_owned(),
        Segment::Parameter => "{}".into(),
        Segment::Rest => "{*}".into(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Whether a path is the prefix or below it, regardless of parameter names.
fn covers(prefix: &str, path: &str) -> bool {
    let mut path = path.split('/');
    prefix.split('/').all(|ours| {
        path.next().is_some_and(|theirs| match (Segment::of(ours), Segment::of(theirs)) {
            (Segment::Text, Segment::Text) => ours == theirs,
            (ours, theirs) => ours == theirs,
        })
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    Text,
    Parameter,
    Rest,
}

impl Segment {
    fn of(text: &str) -> Self {
        match text.strip_prefix('{').filter(|it| it.ends_with('}')) {
            Some(name) if name.starts_with('*') => Self::Rest,
            Some(_) => Self::Parameter,
            None => Self::Text,
        }
    }
}

/// Whether the router refuses both paths together. A fixed segment takes precedence over a
/// parameter; a wildcard and a parameter at the same position are ambiguous.
fn overlap(one: &str, other: &str) -> bool {
    let (mut ours, mut theirs) = (one.split('/'), other.split('/'));
    loop {
        let (our, their) = match (ours.next(), theirs.next()) {
            (Some(our), Some(their)) => (our, their),
            (None, None) => return true,
            (Some(_), None) | (None, Some(_)) => return false,
        };
        match (Segment::of(our), Segment::of(their)) {
            (Segment::Text, Segment::Text) if our == their => {}
            (Segment::Parameter, Segment::Parameter) => {}
            (Segment::Text, _) | (_, Segment::Text) => return false,
            (Segment::Rest, _) | (_, Segment::Rest) => return true,
        }
    }
}
