//! Tokens, login links, and the principal of a request.

use std::{sync::Arc, time::Duration};

use steadfast_api::{
    Code, Page, read_time, rfc3339,
    tokens::{
        CreateLoginLink, CreateToken, ListTokens, LoginLink, NewToken, RevokeOlder, RevokeToken,
        RevokedOlder, RevokedToken, RotateToken, Token, WhoAmI, WhoAmIAnswer,
    },
};
use steadfast_bucket::delete_older_keys;
use steadfast_core::{Role, TokenSpec, object::Caller};
use steadfast_store::Timestamp;
use steadfast_web::{Problem, page_of};

use crate::{
    access::{
        admin::{FILE, MACHINE},
        record,
    },
    args::AskArgs,
    cli::{
        client::Client,
        noun::{Noun, answer},
        output::print,
    },
    failure::Failure,
    list::Columns,
    operation::{ApiRoutes, request_key},
    server::Server,
};

/// Tokens of an organization whose admin creates another one.
const TOKENS_MAX: usize = 1_000;

/// Maximum overlap of a rotation.
const OVERLAP_HOURS_MAX: u32 = 30 * 24;

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default()
        .operation_by(create)
        .operation_by(list)
        .operation_by(revoke)
        .operation_by(rotate)
        .operation(revoke_older)
        .operation_by(link)
        .operation_by(whoami)
}

async fn create(server: Arc<Server>, caller: Caller, it: CreateToken) -> Result<NewToken, Problem> {
    let key = request_key(&it)?;
    check_rate(&server, &caller)?;
    let own = own(&caller);
    if own.is_some() && it.organization.is_some() && it.organization.as_deref() != own {
        let detail = "an admin of an organization creates tokens of that organization only";
        return Err(Problem::of(Code::RoleNeeded, detail));
    }
    check_room(&server, &caller).await?;
    let spec = TokenSpec {
        name: it.name,
        organization: it.organization.or_else(|| own.map(str::to_owned)),
        role: it.role,
        scopes: it.scopes,
        expires_in: it.expires_days.map(|days| Duration::from_hours(24 * u64::from(days))),
        created_by: caller.principal().map(|it| it.token.clone()),
    };
    let new = server.runtime.tokens().create(spec, key.as_ref()).await?;
    record::describe(&facts(&new.token));
    // The first token closes access: the owner of the machine keeps it. A failure is tried again
    // within an hour; the caller must get its token, which is shown once.
    if let Err(error) = server.close_access().await {
        tracing::error!(%error, "admin token not written; see `steadfast doctor`");
    }
    Ok(NewToken { entry: new.token, token: new.secret })
}

/// The organization whose tokens a caller manages; `None` for all tokens.
fn own(caller: &Caller) -> Option<&str> {
    caller.principal()?.organization.as_deref()
}

/// Refuses an unknown token. For an admin of an organization the tokens of others are unknown.
/// Returns whether it is a token of the machine.
async fn check_own(server: &Server, caller: &Caller, id: &str) -> Result<bool, Problem> {
    check_rate(server, caller)?;
    let found = server.runtime.tokens().get(id).await?;
    let own = own(caller);
    let found = found.filter(|it| own.is_none() || it.organization.as_deref() == own);
    let found = found.ok_or_else(|| not_found(id))?;
    Ok(found.created_by.as_deref() == Some(MACHINE))
}

/// Limits the changes of an admin of an organization: after each, all tokens are read again.
fn check_rate(server: &Server, caller: &Caller) -> Result<(), Problem> {
    own(caller).map_or(Ok(()), |own| server.rates.check_change(own))
}

/// Refuses an admin of an organization more tokens than the memory of the server should hold.
async fn check_room(server: &Server, caller: &Caller) -> Result<(), Problem> {
    let Some(own) = own(caller) else { return Ok(()) };
    let count = server.runtime.tokens().count_of(own).await?;
    if count < TOKENS_MAX {
        return Ok(());
    }
    let detail =
        format!("organization `{own}` has {count} tokens; those that have ended count for 30 days");
    Err(Problem::of(Code::Conflict, detail))
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
    let code = server.runtime.sessions().link(&principal.token).await?;
    record::describe("a link that logs in once, within ten minutes");
    Ok(LoginLink { path: format!("/login#{code}") })
}

async fn whoami(server: Arc<Server>, caller: Caller, _: WhoAmI) -> Result<WhoAmIAnswer, Problem> {
    let is_closed = server.runtime.tokens().is_closed().await?;
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
pub(crate) fn overlap(hours: Option<u32>) -> Result<Duration, Problem> {
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
    if check_own(&server, &caller, &id).await? {
        let detail = format!(
            "token `{id}` is that of {FILE}; delete that file, and the server replaces the token \
             at its next start or within an hour"
        );
        return Err(Problem::of(Code::Conflict, detail));
    }
    let rotated = if overlap.is_zero() {
        tokens.rotate(&id).await
    } else {
        check_room(&server, &caller).await?;
        tokens.replace(&id, overlap, caller.principal().map(|it| it.token.clone())).await
    };
    match rotated? {
        Some(new) => {
            record::describe(&facts(&new.token));
            Ok(NewToken { entry: new.token, token: new.secret })
        }
        None => Err(not_found(&id)),
    }
}

async fn list(server: Arc<Server>, caller: Caller, it: ListTokens) -> Result<Page<Token>, Problem> {
    let (after, limit) = (it.cursor.as_deref(), it.limit.rows());
    let found = server.runtime.tokens().list_of(own(&caller), after, limit + 1).await?;
    Ok(page_of(found, limit, |it| it.id.clone(), |it| it))
}

async fn revoke(
    server: Arc<Server>,
    caller: Caller,
    RevokeToken { id }: RevokeToken,
) -> Result<RevokedToken, Problem> {
    let is_of_machine = check_own(&server, &caller, &id).await?;
    if !server.runtime.tokens().revoke(&id).await? {
        return Err(not_found(&id));
    }
    // The owner of the machine keeps access, with another token.
    if is_of_machine && let Err(error) = server.close_access().await {
        tracing::error!(%error, "admin token not written; see `steadfast doctor`");
    }
    Ok(RevokedToken { id })
}

async fn revoke_older(
    server: Arc<Server>,
    RevokeOlder { before }: RevokeOlder,
) -> Result<RevokedOlder, Problem> {
    let time = read_time(&before).ok_or_else(|| {
        let detail = format!("`{before}` is not a time; write it as in 2026-10-05T12:00:00Z");
        Problem::of(Code::InvalidInput, detail)
    })?;
    let mut revoked = RevokedOlder::default();
    let tokens = server.runtime.tokens();
    for token in tokens.valid().await? {
        if token.created_at < time {
            let is_revoked = tokens.revoke(&token.id).await?;
            revoked.tokens += usize::from(is_revoked);
        }
    }
    revoked.access_keys = delete_older_keys(&**server.runtime.store(), time).await?;
    let RevokedOlder { tokens: count, access_keys } = &revoked;
    record::describe(&format!(
        "before {}: {count} tokens, {access_keys} access keys",
        rfc3339(time)
    ));
    if tokens.is_closed().await? {
        // The owner of the machine keeps access, with another token.
        let ensured = server.close_access().await;
        ensured.map_err(|error| Problem::of(Code::Internal, error.to_string()))?;
    }
    Ok(revoked)
}

/// The facts about a token for the audit log.
fn facts(it: &Token) -> String {
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

pub(crate) fn verbs() -> Noun {
    Noun::new("tokens", "Create, list, rotate and revoke tokens")
        .verb::<CreateToken>(
            "create",
            &[
                "tokens create --role admin --name ann",
                "tokens create --organization acme --expires-days 90",
                "tokens create --scope queue:mail:send --json",
            ],
            |_, it| created_text(it),
        )
        .verb::<ListTokens>("list", &["tokens list"], |_, page| {
            columns().list(&page.items, "no tokens; create one with `steadfast tokens create`\n")
        })
        .verb::<RotateToken>(
            "rotate",
            &["tokens rotate ABCDEFGHIJ", "tokens rotate ABCDEFGHIJ --overlap-hours 24"],
            |_, it| created_text(it),
        )
        .destroys::<RevokeToken>(
            "revoke",
            &["tokens revoke ABCDEFGHIJ --yes"],
            (
                |it: &RevokeToken| format!("Revoke token {}?", it.id),
                |it: &RevokeToken, _: &RevokedToken| format!("revoked token {}\n", it.id),
            ),
        )
        .destroys::<RevokeOlder>(
            "revoke-older",
            &["tokens revoke-older 2026-10-05T12:00:00Z --yes"],
            (
                |it: &RevokeOlder| {
                    format!("Revoke all tokens and access keys from before {}?", it.before)
                },
                |_: &RevokeOlder, RevokedOlder { tokens, access_keys }: &RevokedOlder| {
                    format!("revoked {tokens} tokens and {access_keys} access keys\n")
                },
            ),
        )
}

fn created_text(NewToken { entry, token }: &NewToken) -> String {
    let whom = match &entry.organization {
        Some(organization) => format!("organization {organization}"),
        None => "the whole platform".into(),
    };
    format!(
        "{token}\n\nThe token has role {} and is for {whom}. Keep it: it is not shown again. Send \
         it as\n  Authorization: Bearer TOKEN\n",
        entry.role.name()
    )
}

fn columns() -> Columns<'static, Token> {
    let time = |it: Option<Timestamp>| it.map(Timestamp::rfc3339).unwrap_or_default();
    let scopes = |it: &Token| it.scopes.iter().map(ToString::to_string).collect::<Vec<_>>();
    Columns::<Token>::new()
        .text("Token", |it| it.id.clone())
        .text("Name", |it| it.name.clone().unwrap_or_default())
        .text("Role", |it| it.role.name().into())
        .text("Organization", |it| it.organization.clone().unwrap_or_default())
        .text("Scopes", move |it| scopes(it).join(" "))
        .text("Created", |it| it.created_at.rfc3339())
        .text("Last used", move |it| time(it.last_used_at))
        .text("Ends", move |it| match it.revoked_at {
            Some(at) => format!("revoked {}", at.rfc3339()),
            None => time(it.expires_at),
        })
}

/// Prints a link that logs a browser in once.
pub(crate) fn print_login_link(client: &Client, args: &AskArgs) -> Result<(), Failure> {
    if args.json {
        return answer(client, &CreateLoginLink {}, true, &|_, _| String::new());
    }
    let LoginLink { path } = client.send(&CreateLoginLink {}, false)?;
    print(&format!(
        "Open this link in a browser. It works once, within ten minutes.\n\n  {}{path}\n",
        client.url().trim_end_matches('/')
    ))
}

/// Prints the principal of the token.
pub(crate) fn print_whoami(client: &Client, args: &AskArgs) -> Result<(), Failure> {
    answer(client, &WhoAmI {}, args.json, &|_, it| described(it))
}

fn described(it: &WhoAmIAnswer) -> String {
    let Some(token) = &it.token else {
        return "access is open: everybody on this machine may do everything\n".into();
    };
    let organization = it.organization.as_deref().unwrap_or("all");
    let scopes = if it.scopes.is_empty() { "none".to_owned() } else { it.scopes.join(" ") };
    format!(
        "token         {token}\nrole          {}\norganization  {organization}\nscopes        \
         {scopes}\n",
        it.role
    )
}
