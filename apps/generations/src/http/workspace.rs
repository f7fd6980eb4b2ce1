//! Which library a request is about.

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use serde::Deserialize;
use steadfast_core::{Address, Object};
use steadfast_web::{Caller, Problem, link};

use crate::{DEFAULT_WORKSPACE, Library, WORKSPACE_MAX, is_workspace};

/// A workspace by its name, which is one that it can have. To name one makes nothing.
#[derive(Clone, Debug)]
pub(super) struct Workspace {
    name: String,
    /// The organization of the caller, whose only workspace has its name.
    organization: Option<String>,
}

impl Workspace {
    /// The workspace of this name; without a name the one of the organization, or the default. For
    /// a caller of an organization other workspaces do not exist.
    fn named(name: Option<String>, organization: Option<String>) -> Result<Self, Problem> {
        let own = organization.as_deref().unwrap_or(DEFAULT_WORKSPACE);
        let name = name.unwrap_or_else(|| own.to_owned());
        if organization.as_ref().is_some_and(|it| *it != name) {
            let detail = format!("workspace `{name}` does not exist");
            return Err(Problem::not_found("workspace_not_found", detail));
        }
        if is_workspace(&name) {
            return Ok(Self { name, organization });
        }
        let detail = format!(
            "a workspace has a name of 1 to {WORKSPACE_MAX} of the characters A-Z, a-z, 0-9, \
             `.`, `_` and `-`; leave it out for `{DEFAULT_WORKSPACE}`"
        );
        Err(Problem::invalid("invalid_workspace", detail))
    }

    /// Another workspace of the same caller, by a name in the body; without a name this one.
    pub(super) fn or_named(self, name: Option<String>) -> Result<Self, Problem> {
        match name {
            Some(_) => Self::named(name, self.organization),
            None => Ok(self),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its name, if it has to be named.
    pub(super) fn spoken(&self) -> Option<&str> {
        Some(self.name()).filter(|it| *it != DEFAULT_WORKSPACE)
    }

    pub(super) fn library(&self) -> Address<Library> {
        Library::at(self.name())
    }

    /// An address in it.
    pub(super) fn link(&self, path: &str, query: &[(&str, &str)]) -> String {
        let own = self.spoken().map(|it| ("workspace", it));
        link(path, own.into_iter().chain(query.iter().copied()))
    }
}

#[derive(Deserialize)]
struct Named {
    workspace: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Workspace {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let named = Query::<Named>::from_request_parts(parts, state).await;
        let Query(named) = named.map_err(|it| Problem::invalid("bad_request", it.body_text()))?;
        let caller = Caller::from_request_parts(parts, state).await?;
        Self::named(named.workspace, caller.organization().map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Option<Workspace> {
        Workspace::named(Some(name.into()), None).ok()
    }

    #[test]
    fn a_name_is_short_and_plain_or_there_is_none() {
        let long = "x".repeat(65);
        for bad in ["", "a b", "a/b", "ä", "a\n", &long] {
            assert!(named(bad).is_none(), "{bad:?}");
        }
        for good in ["default", "A.b_c-9", &long[1..]] {
            assert_eq!(named(good).unwrap().name(), good);
        }
        assert_eq!(Workspace::named(None, None).unwrap().name(), "default");
    }

    #[test]
    fn an_organization_has_its_own_workspace_only() {
        let acme = || Some("acme".to_owned());
        assert_eq!(Workspace::named(None, acme()).unwrap().name(), "acme");
        assert_eq!(Workspace::named(acme(), acme()).unwrap().name(), "acme");
        for other in ["default", "other", "acme2"] {
            let refused = Workspace::named(Some(other.into()), acme()).unwrap_err();
            assert_eq!(refused.code(), "workspace_not_found");
            let own = Workspace::named(None, acme()).unwrap();
            assert!(own.or_named(Some(other.into())).is_err(), "{other}");
        }
    }

    #[test]
    fn links_name_the_workspace_unless_it_is_always_meant() {
        let (own, all) = (named("team-2").unwrap(), named("default").unwrap());
        assert_eq!(own.link("/x", &[]), "/x?workspace=team-2");
        assert_eq!(own.link("/x", &[("tag", "a b&c")]), "/x?workspace=team-2&tag=a%20b%26c");
        assert_eq!(all.link("/x", &[]), "/x");
        assert_eq!(all.link("/x", &[("w", "1")]), "/x?w=1");
    }
}
