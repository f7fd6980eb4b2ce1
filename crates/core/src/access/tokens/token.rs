//! One token: its limits, its stored form, and how long its row stays.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_bucket::is_label;
use steadfast_store::{
    Code, Commit, EntryKey, InvalidInput, Put, StoreError, Timestamp, Write, secret_text,
};

use crate::access::{Principal, Role, Scope, scope::hash};

/// The entries of tokens.
pub(super) const SPACE: &str = "token";
/// Characters of the name of an organization.
pub(super) const ORGANIZATION_MAX: usize = 100;
/// Names that the shipped applications use for things of the whole platform.
const RESERVED: [&str; 3] = ["default", "artifacts", "organization"];
/// Scopes of one token.
pub(super) const SCOPES_MAX: usize = 100;
/// Revoked and expired tokens are listed for this time, and then deleted.
const ENDED_KEPT: Duration = Duration::from_hours(30 * 24);

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Its id.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The organization that it is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Its role.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub role: Role,
    /// Its limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub scopes: Vec<Scope>,
    /// When it was created or rotated.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub revoked_at: Option<Timestamp>,
    /// The id of the token that created it, or `this machine` for that of `admin.token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The id of the token that a rotation with an overlap created.
    #[serde(skip)]
    pub replaced_by: Option<String>,
    /// When it was last used, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_used_at: Option<Timestamp>,
}

impl Token {
    /// Whether it is valid, or ended lately: only such tokens are listed and counted.
    pub(super) fn is_kept(&self, now: Timestamp) -> bool {
        self.kept_until().is_none_or(|it| now < it)
    }

    /// When it is deleted, if it ends.
    fn kept_until(&self) -> Option<Timestamp> {
        let ended_at = self.revoked_at.into_iter().chain(self.expires_at).min();
        ended_at.map(|it| it.after(ENDED_KEPT))
    }

    /// The principal that a token stands for at a time, unless it has ended.
    pub(super) fn principal(&self, now: Timestamp) -> Result<Principal, Denied> {
        if self.revoked_at.is_some() {
            return Err(Denied::Revoked);
        }
        if self.expires_at.is_some_and(|it| it <= now) {
            return Err(Denied::Expired);
        }
        Ok(Principal {
            token: self.id.clone(),
            name: self.name.clone(),
            organization: self.organization.clone(),
            role: self.role,
            scopes: self.scopes.clone(),
            issued_at: self.created_at,
        })
    }
}

/// A token to be created.
#[derive(Clone, Debug)]
pub struct TokenSpec {
    /// The name, for people.
    pub name: Option<String>,
    /// The organization; tokens without one are for the whole platform.
    pub organization: Option<String>,
    /// The role.
    pub role: Role,
    /// The limits of the token.
    pub scopes: Vec<Scope>,
    /// How long it is valid; without an end otherwise.
    pub expires_in: Option<Duration>,
    /// The id of the token that creates it.
    pub created_by: Option<String>,
}

impl TokenSpec {
    /// A token of a role for the whole platform.
    pub fn role(role: Role) -> Self {
        let (name, organization, expires_in, created_by) = (None, None, None, None);
        Self { name, organization, role, scopes: Vec::new(), expires_in, created_by }
    }

    /// A token for a member of an organization.
    pub fn member(organization: &str) -> Self {
        Self { organization: Some(organization.into()), ..Self::role(Role::Member) }
    }
}

/// A new token. Its secret is shown once.
#[derive(Clone)]
pub struct NewToken {
    /// The stored part.
    pub token: Token,
    /// The secret text that callers send.
    pub secret: String,
}

/// The value of an entry.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) organization: Option<String>,
    pub(super) role: Role,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) scopes: Vec<Scope>,
    pub(super) created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revoked_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replaced_by: Option<String>,
}

impl Stored {
    pub(super) fn token(&self) -> Token {
        let Self { id, name, organization, role, scopes, .. } = self.clone();
        Token {
            id,
            name,
            organization,
            role,
            scopes,
            created_at: Timestamp(self.created_at),
            expires_at: self.expires_at.map(Timestamp),
            revoked_at: self.revoked_at.map(Timestamp),
            created_by: self.created_by.clone(),
            replaced_by: self.replaced_by.clone(),
            last_used_at: None,
        }
    }

    /// Whether it can be rotated: `false` if it has ended. A secret of a token that was replaced
    /// would end with the overlap.
    pub(super) fn can_rotate(&self, now: Timestamp) -> Result<bool, TokenError> {
        let is_valid = self.token().principal(now).is_ok();
        match &self.replaced_by {
            Some(by) if is_valid => {
                Err(TokenError::Replaced { id: self.id.clone(), by: by.clone() })
            }
            Some(_) | None => Ok(is_valid),
        }
    }

    /// Writes the row, which goes some time after the token has ended.
    pub(super) fn put(&self, entry: EntryKey, now: Timestamp) -> Result<Put, InvalidInput> {
        let expires = self.token().kept_until().map(|it| it.since(now));
        Ok(Put { expires, ..Put::of(entry, self)? })
    }
}

/// The letters of tokens.
pub(super) const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A new secret for a token, and the commit that stores its hash.
pub(super) fn new_secret(
    stored: &Stored,
    now: Timestamp,
) -> Result<(NewToken, Commit), TokenError> {
    let secret = format!("sf_{}_{}", stored.id, secret_text(52, LETTERS)?);
    let entry = EntryKey::new(SPACE, hash(&secret).as_bytes())?;
    let put = stored.put(entry, now)?;
    Ok((NewToken { token: stored.token(), secret }, Commit::of(Write::Put(put))))
}

pub(super) fn check(spec: &TokenSpec) -> Result<(), TokenError> {
    if let Some(name) = spec.name.as_ref().filter(|it| !is_label(it)) {
        return Err(TokenError::Name { name: name.clone() });
    }
    if let Some(organization) = &spec.organization {
        if !is_organization(organization) {
            return Err(TokenError::Organization { organization: organization.clone() });
        }
        if spec.role == Role::Operator {
            return Err(TokenError::RoleOfOrganization { role: spec.role });
        }
    }
    if SCOPES_MAX < spec.scopes.len() {
        return Err(TokenError::Scopes { count: spec.scopes.len() });
    }
    Ok(())
}

/// Whether a text can be the name of an organization.
pub fn is_organization(text: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    (1..=ORGANIZATION_MAX).contains(&text.len())
        && !text.starts_with('.')
        && text.chars().all(fits)
        && !RESERVED.contains(&text)
}

/// Why a credential is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// There is no credential.
    #[error("a token is needed; send it as `Authorization: Bearer TOKEN`")]
    Missing,
    /// No token has this text.
    #[error("this token does not exist")]
    Unknown,
    /// The token has expired.
    #[error("this token has expired; ask for a new one")]
    Expired,
    /// The token was revoked.
    #[error("this token was revoked; ask for a new one")]
    Revoked,
}

/// Why a token was not created, or a credential was refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    /// Not the name of an organization.
    #[error(
        "`{organization}` cannot be an organization: 1 to {max} letters, digits, `.`, `_` and `-`, \
         not a `.` first, and not `default`, `artifacts` or `organization`",
        max = ORGANIZATION_MAX
    )]
    Organization {
        /// The text that was given.
        organization: String,
    },
    /// Not the name of a token.
    #[error(
        "`{name}` cannot be the name of a token: 1 to 100 letters, digits, spaces and ASCII \
         punctuation"
    )]
    Name {
        /// The text that was given.
        name: String,
    },
    /// An operator would be limited to an organization.
    #[error(
        "role {} is for the whole platform; leave the organization out, or use role admin",
        role.name()
    )]
    RoleOfOrganization {
        /// The role.
        role: Role,
    },
    /// Too many scopes.
    #[error("{count} scopes are too many for a token; at most {max}", max = SCOPES_MAX)]
    Scopes {
        /// Their number.
        count: usize,
    },
    /// The key was used before, and its token cannot be shown again: only its hash is stored.
    #[error(
        "token `{id}` was created with this idempotency key, and its secret is not kept; revoke \
         it, and create another one with a new key"
    )]
    Repeated {
        /// The id of the token.
        id: String,
    },
    /// The key stands for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// Which key.
        key: String,
    },
    /// The token ends with the overlap of its rotation, and so would another secret of it.
    #[error("token `{id}` was replaced by token `{by}`; rotate that one, or create a new token")]
    Replaced {
        /// The id of the token.
        id: String,
        /// The id of the token that replaced it.
        by: String,
    },
    /// The credential is refused.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Denied {
    /// The code of the platform.
    pub fn kind(self) -> Code {
        match self {
            Denied::Missing => Code::TokenNeeded,
            Denied::Unknown => Code::TokenUnknown,
            Denied::Expired => Code::TokenExpired,
            Denied::Revoked => Code::TokenRevoked,
        }
    }
}

impl TokenError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            TokenError::Organization { .. } | TokenError::Name { .. } => Code::InvalidName,
            TokenError::RoleOfOrganization { .. } | TokenError::Scopes { .. } => Code::InvalidInput,
            TokenError::Repeated { .. } | TokenError::KeyReused { .. } => Code::KeyReused,
            TokenError::Replaced { .. } => Code::Conflict,
            TokenError::Denied(denied) => denied.kind(),
            TokenError::Store(error) => error.kind(),
        }
    }
}

impl From<InvalidInput> for TokenError {
    fn from(error: InvalidInput) -> Self {
        TokenError::Store(error.into())
    }
}
