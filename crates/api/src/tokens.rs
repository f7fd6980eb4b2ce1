//! Tokens of organizations: create, list, revoke.

use clap::Args;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Page,
    operation::{operation, requests},
    rfc3339,
};

/// Create a token for an organization. It is shown once. From the first token on, the routes of
/// uploads need one; `/v1` and the S3 port do not.
#[derive(Clone, Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Name of the organization
    #[arg(long, env = "STEADFAST_ORGANIZATION", value_name = "ORG")]
    pub organization: String,
    /// Idempotency key: a repetition within 24 hours creates nothing and is refused, with the id
    #[arg(long, env = "STEADFAST_IDEMPOTENCY_KEY", value_name = "KEY")]
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}
operation!(CreateToken => NewToken, Post "/v1/tokens" (), Admin, status 201, key idempotency_key,
    errors [InvalidName]);

requests! {
    /// List the tokens, without their secrets.
    paged ListTokens {} => Page<Token>, Get "/v1/tokens", Admin, errors [];

    /// Revoke a token at once.
    plain RevokeToken {
        /// Id of the token
        id: String,
    } => RevokedToken, Delete "/v1/tokens/{id}", Admin, errors [TokenNotFound];
}

/// A token, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its id.
    pub id: String,
    /// Its organization.
    pub organization: String,
    /// When it was created.
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// A new token. Its secret cannot be read again.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
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

impl From<steadfast_core::Token> for Token {
    fn from(it: steadfast_core::Token) -> Self {
        let steadfast_core::Token { id, organization, created_at } = it;
        Self { id, organization, created_at: rfc3339(created_at) }
    }
}
