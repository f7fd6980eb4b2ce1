//! Tokens of organizations over HTTP.

use std::sync::Arc;

use steadfast_api::{
    Code, Page,
    tokens::{CreateToken, ListTokens, NewToken, RevokeToken, RevokedToken, Token},
};
use steadfast_core::TokenError;
use steadfast_web::Problem;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    operation::{operation, request_key},
    server::Server,
};

pub(super) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::default()
        .routes(operation(create))
        .routes(operation(list))
        .routes(operation(revoke))
}

async fn create(server: Arc<Server>, it: CreateToken) -> Result<NewToken, Problem> {
    let (tokens, key) = (server.runtime.tokens(), request_key(&it)?);
    let new = tokens.create_keyed(&it.organization, key.as_ref()).await.map_err(problem)?;
    Ok(NewToken { entry: new.token.into(), token: new.secret })
}

async fn list(server: Arc<Server>, it: ListTokens) -> Result<Page<Token>, Problem> {
    let (after, limit) = (it.cursor.as_deref(), it.limit.rows());
    let mut found = server.runtime.tokens().list(after, limit + 1).await.map_err(problem)?;
    let is_more = limit < found.len();
    found.truncate(limit);
    let next = found.last().filter(|_| is_more).map(|it| it.id.clone());
    Ok(Page { items: found.into_iter().map(Token::from).collect(), next })
}

async fn revoke(
    server: Arc<Server>,
    RevokeToken { id }: RevokeToken,
) -> Result<RevokedToken, Problem> {
    if server.runtime.tokens().revoke(&id).await.map_err(problem)? {
        return Ok(RevokedToken { id });
    }
    let detail = format!("token `{id}` does not exist; see `steadfast tokens list`");
    Err(Problem::of(Code::TokenNotFound, detail))
}

fn problem(error: TokenError) -> Problem {
    match error {
        TokenError::Store(error) => error.into(),
        TokenError::Repeated { .. } | TokenError::KeyReused { .. } => {
            Problem::of(Code::KeyReused, error.to_string())
        }
        TokenError::Organization { .. } => Problem::of(Code::InvalidName, error.to_string()),
        // Only checks of requests deny, and no route here makes one.
        TokenError::Denied(_) => Problem::of(Code::BadRequest, error.to_string()),
    }
}
