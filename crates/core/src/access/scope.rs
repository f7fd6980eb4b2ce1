//! Principals, their roles, and scopes: the resources and verbs to which a token is limited.

use std::{borrow::Cow, fmt, str::FromStr};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use steadfast_store::{Timestamp, limits::KEY_BYTES_MAX};

/// The holder of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The id of the token.
    pub token: String,
    /// The name of the token, for people.
    pub name: Option<String>,
    /// The organization, if the token is for one.
    pub organization: Option<String>,
    /// The role.
    pub role: Role,
    /// The limits of the token. Without any, the role alone decides.
    pub scopes: Vec<Scope>,
    /// When the secret of the token was created: sessions and connections end with it.
    pub issued_at: Timestamp,
}

impl Principal {
    /// Whether the principal has at least this role.
    pub fn has(&self, role: Role) -> bool {
        role <= self.role
    }

    /// Whether the principal is an admin of the whole platform, without limits.
    pub fn is_admin_of_platform(&self) -> bool {
        self.has(Role::Admin) && self.organization.is_none() && self.scopes.is_empty()
    }

    /// Whether the scopes of the token allow a request. A token with scopes allows nothing that
    /// names no resource.
    pub fn allows(&self, resource: Option<&Resource<'_>>) -> bool {
        self.scopes.is_empty()
            || resource.is_some_and(|resource| self.scopes.iter().any(|it| it.allows(resource)))
    }

    /// An idempotency key that only this principal can repeat.
    pub fn scoped_key(&self, key: &str) -> String {
        let scoped = format!("{}/{key}", self.token);
        if scoped.len() <= KEY_BYTES_MAX {
            return scoped;
        }
        format!("{}/{}", self.token, hash(key))
    }

    /// Whether the principal may use things of an organization. A token without an organization
    /// is for all of them.
    pub fn is_of(&self, organization: &str) -> bool {
        self.organization.as_deref().is_none_or(|it| it == organization)
    }
}

/// The role of a principal. Each role may do what the roles before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Uses the routes of applications within its organization.
    Member,
    /// Uses the whole API and the console, except tokens and keys.
    Operator,
    /// Creates tokens and keys.
    Admin,
}

steadfast_store::texts! {
    Role { Viewer = "viewer", Member = "member", Operator = "operator", Admin = "admin" }
}

impl Role {
    /// The name of the role: `viewer`, `member`, `operator` or `admin`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The kind of resource that a scope names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// An object: `class/name`.
    Object,
    /// A workflow: `name`, or one of its runs: `name/id`.
    Workflow,
    /// A process: `name`, or one of its instances: `name/id`.
    Process,
    /// A stream: `kind/class/name`.
    Stream,
    /// A queue, by its name.
    Queue,
    /// A bucket: `name`, or its blobs: `name/key`.
    Bucket,
    /// A route outside of `/v1`, of an application or of the console: its path without the first
    /// slash, as it is in the URL.
    Route,
}

steadfast_store::texts! {
    ResourceKind {
        Object = "object",
        Workflow = "workflow",
        Process = "process",
        Stream = "stream",
        Queue = "queue",
        Bucket = "bucket",
        Route = "route",
    }
}

/// The use of its resources that a scope allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read it.
    Read,
    /// Write it.
    Write,
    /// Delete it.
    Delete,
    /// Call an object, or connect with it.
    Call,
    /// Send messages or events.
    Send,
    /// Pull messages and acknowledge them.
    Pull,
    /// Start runs.
    Start,
    /// Change settings; pause, redrive, purge.
    Manage,
}

steadfast_store::texts! {
    Verb {
        Read = "read",
        Write = "write",
        Delete = "delete",
        Call = "call",
        Send = "send",
        Pull = "pull",
        Start = "start",
        Manage = "manage",
    }
}

/// A resource, and what a request does with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource<'a> {
    /// The kind.
    pub kind: ResourceKind,
    /// The name, as the kind writes it.
    pub name: Cow<'a, str>,
    /// The use that the request makes of it.
    pub verb: Verb,
}

impl Resource<'_> {
    /// The same resource, which borrows nothing.
    pub fn into_owned(self) -> Resource<'static> {
        let Self { kind, name, verb } = self;
        Resource { kind, name: name.into_owned().into(), verb }
    }
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, verb): (&str, &str) = (self.kind.into(), self.verb.into());
        write!(f, "{kind}:{}:{verb}", self.name)
    }
}

/// A limit of a token: `object:chat/*:call`, `queue:mail:send`, `bucket:photos/2026/:read`.
///
/// A pattern that ends with `*` or `/` stands for all names that begin with the rest. A pattern
/// without `/` stands for a whole class, workflow or bucket. The verb `*` stands for all verbs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scope {
    kind: ResourceKind,
    pattern: Box<str>,
    verb: Option<Verb>,
}

/// A text is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a scope: {reason}; write kind:pattern:verb, as in `queue:mail:send`")]
pub struct ScopeError {
    /// The text.
    pub text: String,
    /// The part that does not fit.
    pub reason: String,
}

/// The longest scope, in bytes.
const SCOPE_BYTES_MAX: usize = 1_024;

impl Scope {
    /// Whether a request may do this under the scope.
    pub fn allows(&self, resource: &Resource<'_>) -> bool {
        let is_verb = self.verb.is_none_or(|it| it == resource.verb);
        self.kind == resource.kind && is_verb && self.has(&resource.name)
    }

    fn has(&self, name: &str) -> bool {
        let pattern = &*self.pattern;
        if let Some(prefix) = pattern.strip_suffix('*') {
            return name.starts_with(prefix);
        }
        match name.strip_prefix(pattern) {
            Some(rest) => {
                let is_whole = !pattern.contains('/') && rest.starts_with('/');
                rest.is_empty() || pattern.ends_with('/') || is_whole
            }
            None => false,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind: &str = self.kind.into();
        write!(f, "{kind}:{}:{}", self.pattern, self.verb.map_or("*", Into::into))
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let error = |reason: String| ScopeError { text: text.into(), reason };
        if SCOPE_BYTES_MAX < text.len() {
            return Err(error(format!("it has more than {SCOPE_BYTES_MAX} bytes")));
        }
        // Names may have colons; kinds and verbs have none.
        let parts =
            text.split_once(':').and_then(|(kind, rest)| Some((kind, rest.rsplit_once(':')?)));
        let (kind, (pattern, verb)) = parts.ok_or_else(|| error("a part is missing".into()))?;
        let is_kind = ResourceKind::from_str(kind);
        let kind = is_kind.map_err(|_| error(format!("`{kind}` is not a kind of resource")))?;
        let verb = match verb {
            "*" => None,
            verb => {
                Some(Verb::from_str(verb).map_err(|_| error(format!("`{verb}` is not a verb")))?)
            }
        };
        if pattern.is_empty() {
            return Err(error("the pattern is empty".into()));
        }
        Ok(Self { kind, pattern: pattern.into(), verb })
    }
}

impl TryFrom<String> for Scope {
    type Error = ScopeError;

    fn try_from(text: String) -> Result<Self, ScopeError> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

/// The hash under which a secret is stored.
pub(super) fn hash(secret: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(kind: ResourceKind, name: &str, verb: Verb) -> Resource<'_> {
        Resource { kind, name: name.into(), verb }
    }

    #[track_caller]
    fn check(scope: &str, allowed: &[&str], refused: &[&str]) {
        let scope: Scope = scope.parse().unwrap();
        let read = |text: &str| -> bool {
            let Scope { kind, pattern, verb } = text.parse().unwrap();
            scope.allows(&resource(kind, &pattern, verb.expect("a request has one verb")))
        };
        for text in allowed {
            assert!(read(text), "{scope} allows {text}");
        }
        for text in refused {
            assert!(!read(text), "{scope} refuses {text}");
        }
    }

    #[test]
    fn a_scope_allows_its_verb_on_the_names_of_its_pattern() {
        check(
            "object:chat/*:call",
            &["object:chat/lobby:call", "object:chat/a:b:call"],
            &["object:chat/lobby:read", "object:chatter/x:call", "queue:chat/lobby:call"],
        );
        check("queue:mail:send", &["queue:mail:send"], &["queue:mailbox:send", "queue:mail:pull"]);
        check(
            "bucket:photos/2026/:read",
            &["bucket:photos/2026/a.png:read", "bucket:photos/2026/b/c:read"],
            &["bucket:photos/2025/a.png:read", "bucket:photos:read", "bucket:photos/2026:read"],
        );
        check(
            "bucket:photos:*",
            &["bucket:photos:manage", "bucket:photos/x:write"],
            &["bucket:photos2/x:write"],
        );
        check("object:chat/lobby:*", &["object:chat/lobby:read"], &["object:chat/lobby2:read"]);
        check(
            "route:api/organizations/acme/uploads/:read",
            &["route:api/organizations/acme/uploads/a.png:read"],
            &[
                "route:api/organizations/acme/uploads/a.png:write",
                "route:api/organizations/acme/uploads:read",
                "route:api/organizations/acme2/uploads/a.png:read",
                "object:api/organizations/acme/uploads/a.png:read",
            ],
        );
    }

    #[test]
    fn a_scope_is_written_as_it_was_read() {
        for text in ["object:chat/*:call", "bucket:photos/2026/:*", "stream:object/a/b:c:read"] {
            assert_eq!(text.parse::<Scope>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_text_that_is_not_a_scope_is_refused_with_its_part() {
        for (text, part) in [
            ("", "a part is missing"),
            ("queue:mail", "a part is missing"),
            ("letter:mail:send", "`letter` is not a kind"),
            ("queue:mail:eat", "`eat` is not a verb"),
            ("queue::send", "the pattern is empty"),
        ] {
            let error = text.parse::<Scope>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(format!("queue:{}:send", "x".repeat(1_100)).parse::<Scope>().is_err());
    }
}
