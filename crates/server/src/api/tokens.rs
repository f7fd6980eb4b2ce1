//! Tokens over HTTP.

use std::{sync::Arc, time::Duration};

use steadfast_api::{
    Code, Page, rfc3339,
    tokens::{
        CreateLoginLink, CreateToken, ListTokens, LoginLink, NewToken, RevokeToken, RevokedToken,
        RotateToken, Token, WhoAmI, WhoAmIAnswer,
    },
};
use steadfast_core::{Role, TokenSpec, object::Caller};
use steadfast_web::Problem;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    access::{problem, record},
    operation::{operation, operation_by, request_key},
    server::Server,
};

pub(super) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::default()
        .routes(operation_by(create))
        .routes(operation(list))
        .routes(operation(revoke))
        .routes(operation(rotate))
        .routes(operation_by(link))
        .routes(operation_by(whoami))
}

async fn create(server: Arc<Server>, caller: Caller, it: CreateToken) -> Result<NewToken, Problem> {
    let key = request_key(&it)?;
    let spec = TokenSpec {
        name: it.name,
        organization: it.organization,
        role: it.role,
        scopes: it.scopes,
        expires_in: it.expires_days.map(|days| Duration::from_hours(24 * u64::from(days))),
        created_by: caller.principal().map(|it| it.token.clone()),
    };
    let new = server.runtime.tokens().create(spec, key.as_ref()).await.map_err(problem)?;
    record::describe(&facts(&new.token));
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
    record::describe("a link that logs in once, within ten minutes");
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

async fn rotate(server: Arc<Server>, RotateToken { id }: RotateToken) -> Result<NewToken, Problem> {
    match server.runtime.tokens().rotate(&id).await.map_err(problem)? {
        Some(new) => {
            record::describe(&facts(&new.token));
            Ok(NewToken { entry: new.token.into(), token: new.secret })
        }
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

/// The facts about a token for the audit log.
fn facts(it: &steadfast_core::Token) -> String {
    let mut facts = vec![format!("token {}", it.id), format!("role {}", it.role.name())];
    facts.extend(it.organization.as_ref().map(|it| format!("organization {it}")));
    facts.extend(it.name.as_ref().map(|it| format!("name {it}")));
    facts.extend(it.expires_at.map(|it| format!("until {}", rfc3339(it))));
    facts.extend(it.scopes.iter().map(|it| format!("scope {it}")));
    facts.join(", ")
}

fn not_found(id: &str) -> Problem {
    let detail = format!("token `{id}` does not exist or has ended; see `steadfast tokens list`");
    Problem::of(Code::TokenNotFound, detail)
}
