//! Tokens over HTTP.

use std::{sync::Arc, time::Duration};

use steadfast_api::{
    Code, Page, read_time,
    tokens::{
        CreateLoginLink, CreateToken, ListTokens, LoginLink, NewToken, RevokeOlder, RevokeToken,
        RevokedOlder, RevokedToken, RotateToken, Token, WhoAmI, WhoAmIAnswer,
    },
};
use steadfast_bucket::delete_older_keys;
use steadfast_core::{Role, TokenSpec, object::Caller};
use steadfast_web::Problem;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    access::problem,
    operation::{operation, operation_by, request_key},
    server::Server,
};

/// Maximum overlap of a rotation.
const OVERLAP_HOURS_MAX: u32 = 30 * 24;

pub(super) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::default()
        .routes(operation_by(create))
        .routes(operation(list))
        .routes(operation(revoke))
        .routes(operation_by(rotate))
        .routes(operation(revoke_older))
        .routes(operation_by(link))
        .routes(operation_by(whoami))
}

async fn create(server: Arc<Server>, caller: Caller, it: CreateToken) -> Result<NewToken, Problem> {
    let key = request_key(&it)?;
    let spec = TokenSpec {
        organization: it.organization,
        role: it.role,
        scopes: it.scopes,
        expires_in: it.expires_days.map(|days| Duration::from_hours(24 * u64::from(days))),
        created_by: caller.principal().map(|it| it.token.clone()),
    };
    let new = server.runtime.tokens().create(spec, key.as_ref()).await.map_err(problem)?;
    // The first token closes access: the owner of the machine keeps it.
    let ensured = server.close_access().await;
    ensured.map_err(|error| Problem::of(Code::Internal, error.to_string()))?;
    Ok(NewToken { entry: new.token.into(), token: new.secret })
}

async fn link(
    server: Arc<Server>,
    caller: Caller,
    _: CreateLoginLink,
) -> Result<LoginLink, Problem> {
    let Some(principal) = caller.principal() else {
        let detail = "access is open: no login is needed; `tokens create` or `--access closed` \
                      closes it";
        return Err(Problem::of(Code::Conflict, detail));
    };
    let code = server.runtime.sessions().link(&principal.token).await.map_err(problem)?;
    Ok(LoginLink { path: format!("/login#{code}") })
}

async fn whoami(server: Arc<Server>, caller: Caller, _: WhoAmI) -> Result<WhoAmIAnswer, Problem> {
    let is_closed = server.runtime.tokens().is_closed().await.map_err(problem)?;
    let access = if is_closed { "closed" } else { "open" }.to_owned();
    Ok(match caller.principal() {
        Some(it) => WhoAmIAnswer {
            access,
            token: Some(it.token.clone()),
            organization: it.organization.clone(),
            role: it.role.name().into(),
            scopes: it.scopes.iter().map(ToString::to_string).collect(),
        },
        // Every caller of an open server may do everything.
        None => WhoAmIAnswer {
            access,
            token: None,
            organization: None,
            role: Role::Admin.name().into(),
            scopes: Vec::new(),
        },
    })
}

/// The time in which an old credential stays valid beside the new one.
pub(super) fn overlap(hours: Option<u32>) -> Result<Duration, Problem> {
    let hours = hours.unwrap_or_default();
    if OVERLAP_HOURS_MAX < hours {
        let detail = format!("an overlap lasts at most {OVERLAP_HOURS_MAX} hours, not {hours}");
        return Err(Problem::of(Code::InvalidInput, detail));
    }
    Ok(Duration::from_hours(hours.into()))
}

async fn rotate(
    server: Arc<Server>,
    caller: Caller,
    RotateToken { id, overlap_hours }: RotateToken,
) -> Result<NewToken, Problem> {
    let (tokens, overlap) = (server.runtime.tokens(), overlap(overlap_hours)?);
    let rotated = if overlap.is_zero() {
        tokens.rotate(&id).await
    } else {
        tokens.replace(&id, overlap, caller.principal().map(|it| it.token.clone())).await
    };
    match rotated.map_err(problem)? {
        Some(new) => Ok(NewToken { entry: new.token.into(), token: new.secret }),
        None => Err(not_found(&id)),
    }
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
    Err(not_found(&id))
}

async fn revoke_older(
    server: Arc<Server>,
    RevokeOlder { before }: RevokeOlder,
) -> Result<RevokedOlder, Problem> {
    let time = read_time(&before).ok_or_else(|| {
        let detail = format!("`{before}` is not a time; write it as in 2026-10-05T12:00:00Z");
        Problem::of(Code::InvalidInput, detail)
    })?;
    let access_keys = delete_older_keys(&**server.runtime.store(), time).await?;
    let mut revoked = RevokedOlder { tokens: 0, access_keys };
    let tokens = server.runtime.tokens();
    for token in tokens.valid().await.map_err(problem)? {
        if token.created_at < time {
            let is_revoked = tokens.revoke(&token.id).await.map_err(problem)?;
            revoked.tokens += usize::from(is_revoked);
        }
    }
    if tokens.is_closed().await.map_err(problem)? {
        // The owner of the machine keeps access, with another token.
        let ensured = server.close_access().await;
        ensured.map_err(|error| Problem::of(Code::Internal, error.to_string()))?;
    }
    Ok(revoked)
}

fn not_found(id: &str) -> Problem {
    let detail = format!("token `{id}` does not exist or has ended; see `steadfast tokens list`");
    Problem::of(Code::TokenNotFound, detail)
}
