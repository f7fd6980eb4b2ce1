//! Tokens: create, list, rotate, revoke; the principal of a request.

use std::fmt;

use clap::Args;
use serde::{Deserialize, Serialize};
pub use steadfast_core::Token;
use steadfast_core::{Role, Scope};
use utoipa::ToSchema;

use crate::{
    Page,
    operation::{operation, requests},
};

/// Create a token. It is shown once. From the first token on, every request needs one. An admin of
/// an organization creates tokens of that organization.
#[derive(Clone, Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    /// Role: viewer, member, operator or admin
    #[arg(long, env = "STEADFAST_ROLE", default_value = "member")]
    #[serde(default = "member")]
    #[schema(value_type = String, example = "member")]
    pub role: Role,
    /// Name of the token, for lists and the audit log
    #[arg(long, env = "STEADFAST_NAME", value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Organization that the token is limited to; leave it out for the whole platform
    #[arg(long, env = "STEADFAST_ORGANIZATION", value_name = "ORG")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Limit of the token, like `queue:mail:send`; may be repeated
    #[arg(long = "scope", env = "STEADFAST_SCOPE", value_name = "SCOPE")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub scopes: Vec<Scope>,
    /// Days until the token expires
    #[arg(long, env = "STEADFAST_EXPIRES_DAYS", value_name = "DAYS")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_days: Option<u32>,
    /// Idempotency key: a repetition within 24 hours creates nothing and is refused, with the id
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(CreateToken => NewToken, Post "/v1/tokens" (), Admin, scope Organization, status 201,
    key idempotency_key,
    errors [InvalidName, InvalidInput, Conflict]);

fn member() -> Role {
    Role::Member
}

requests! {
    /// List the tokens, without their secrets. An admin of an organization sees those of it.
    paged ListTokens {} => Page<Token>, Get "/v1/tokens", Admin, scope Organization, errors [];

    /// Revoke a token at once.
    plain RevokeToken {
        /// Id of the token
        id: String,
    } => RevokedToken, Delete "/v1/tokens/{id}", Admin, scope Organization, errors [TokenNotFound];

    /// Give a token a new secret. The old one is refused from now on. With an overlap, a new token
    /// with the same limits and expiry is created, and the old token ends after the overlap.
    plain RotateToken {
        /// Id of the token
        id: String,
    } with {
        /// Hours in which the old token stays valid, at most 720
        #[arg(long, env = "STEADFAST_OVERLAP_HOURS", value_name = "HOURS")]
        #[serde(skip_serializing_if = "Option::is_none")]
        pub overlap_hours: Option<u32>,
    } => NewToken, Post "/v1/tokens/{id}/rotate", Admin, scope Organization, status 201,
        errors [TokenNotFound, InvalidInput, Conflict];

    /// Create a link that logs a browser in once, within ten minutes, with this token.
    plain CreateLoginLink {} => LoginLink, Post "/v1/login-links", Viewer, scope Caller, status 201,
        errors [Conflict];

    /// Show the principal of this request.
    plain WhoAmI {} => WhoAmIAnswer, Get "/v1/whoami", Viewer, scope Caller, errors [];
}

/// Revoke every token and access key that was created or rotated before a time, with their sessions
/// and URLs, also the token of this request. A restored backup revives those that were revoked
/// since.
#[derive(Clone, Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeOlder {
    /// Time, as in 2026-10-05T12:00:00Z
    #[arg(value_name = "TIME")]
    pub before: String,
}
operation!(RevokeOlder => RevokedOlder, Post "/v1/tokens/revoke-older" (), Admin, scope None,
    errors [InvalidInput]);

/// The numbers of credentials that were revoked.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevokedOlder {
    /// Tokens.
    pub tokens: usize,
    /// Access keys of S3.
    pub access_keys: usize,
}

/// A link that logs a browser in once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct LoginLink {
    /// The path with the code, to be opened at the address of the server.
    pub path: String,
}

/// The principal of a request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoAmIAnswer {
    /// Whether requests need a credential: `open` or `closed`.
    pub access: String,
    /// The id of the token; none while access is open.
    pub token: Option<String>,
    /// The organization that the token is limited to.
    pub organization: Option<String>,
    /// The role.
    pub role: String,
    /// The limits of the token.
    pub scopes: Vec<String>,
}

/// A new token. Its secret cannot be read again.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub entry: Token,
    /// The secret, sent as `Authorization: Bearer TOKEN`.
    pub token: String,
}

/// A token that was revoked.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RevokedToken {
    /// Its id.
    pub id: String,
}

/// Without the code, which is a credential.
impl fmt::Debug for LoginLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginLink").finish_non_exhaustive()
    }
}

/// Without the secret.
impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("entry", &self.entry).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_written_and_debug_shows_no_credential() {
        let text = r#"{"id":"ABC","role":"admin","createdAt":"2026-11-15T02:34:56.789Z",
            "token":"sf_ABC_hush"}"#;
        let new: NewToken = serde_json::from_str(text).unwrap();
        let written: String = text.split_whitespace().collect();
        assert_eq!(serde_json::to_string(&new).unwrap(), written);
        let link = LoginLink { path: "/login#hush".into() };
        let shown = format!("{new:?} {link:?}");
        assert!(shown.contains("ABC") && !shown.contains("hush"), "{shown}");
    }
}
