//! Tokens of organizations: made, listed, revoked. A token is shown once, when it is made.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use steadfast_core::{Token, TokenError};
use utoipa::ToSchema;

use super::{
    problem::{Code, Problem, ProblemBody},
    time::rfc3339,
    wire::List,
};
use crate::node::Node;

/// Whom a token is for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TokenBody {
    /// The organization.
    pub(crate) organization: String,
}

/// A token, without what opens the door.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenEntry {
    /// Its id.
    pub(crate) id: String,
    /// The organization that it is for.
    pub(crate) organization: String,
    /// When it was made.
    pub(crate) created_at: String,
}

/// A new token. Nobody can read it again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewTokenEntry {
    /// What is kept of it.
    #[serde(flatten)]
    pub(crate) entry: TokenEntry,
    /// What is sent as `Authorization: Bearer TOKEN`.
    pub(crate) token: String,
}

impl TokenEntry {
    fn of(token: Token) -> Self {
        let Token { id, organization, created_at } = token;
        Self { id, organization, created_at: rfc3339(created_at) }
    }
}

/// Makes a token for an organization.
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens",
    request_body = TokenBody,
    responses(
        (status = 201, body = NewTokenEntry, description = "It is in force; keep it"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(node): State<Arc<Node>>,
    body: Bytes,
) -> Result<(StatusCode, Json<NewTokenEntry>), Problem> {
    let TokenBody { organization } = serde_json::from_slice(&body).map_err(|error| {
        Problem::new(Code::BadRequest, format!("the body must be {{\"organization\"}}: {error}"))
    })?;
    let made = node.runtime.tokens().create(&organization).await.map_err(problem)?;
    let entry = NewTokenEntry { entry: TokenEntry::of(made.token), token: made.secret };
    Ok((StatusCode::CREATED, Json(entry)))
}

/// Lists the tokens.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", responses(
    (status = 200, body = List<TokenEntry>),
))]
pub(crate) async fn list(State(node): State<Arc<Node>>) -> Result<Json<List<TokenEntry>>, Problem> {
    let all = node.runtime.tokens().list().await.map_err(problem)?;
    Ok(Json(List { items: all.into_iter().map(TokenEntry::of).collect(), next: None }))
}

/// Revokes a token, at once.
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "The id of the token")),
    responses(
        (status = 204, description = "It is revoked"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn revoke(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    match node.runtime.tokens().revoke(&id).await.map_err(problem)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::new(Code::NotFound, format!("there is no token `{id}`"))),
    }
}

fn problem(error: TokenError) -> Problem {
    match error {
        TokenError::Store(error) => error.into(),
        TokenError::Organization { .. } | TokenError::Denied(_) => {
            Problem::new(Code::BadRequest, error.to_string())
        }
    }
}
