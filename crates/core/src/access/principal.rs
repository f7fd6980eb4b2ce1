use steadfast_store::{Timestamp, limits::KEY_BYTES_MAX};

use super::{Resource, Role, Scope, hash::hash};

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
