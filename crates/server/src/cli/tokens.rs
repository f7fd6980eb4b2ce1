//! `steadfast tokens …`.

use steadfast_api::{
    Page,
    tokens::{
        CreateToken, ListTokens, NewToken, RevokeOlder, RevokeToken, RevokedOlder, RevokedToken,
        RotateToken, Token,
    },
};
use steadfast_store::Timestamp;

use super::{
    noun::Noun,
    table::{Table, or_dash},
};

pub(super) fn noun() -> Noun {
    Noun::new("tokens", "Create, list, rotate and revoke tokens")
        .verb::<CreateToken>(
            "create",
            &[
                "tokens create --role admin --name ann",
                "tokens create --organization acme --expires-days 90",
                "tokens create --scope queue:mail:send --json",
            ],
            |_, it| created(it),
        )
        .verb::<ListTokens>("list", &["tokens list"], |_, page| list(page))
        .verb::<RotateToken>(
            "rotate",
            &["tokens rotate ABCDEFGHIJ", "tokens rotate ABCDEFGHIJ --overlap-hours 24"],
            |_, it| created(it),
        )
        .destroys::<RevokeToken>(
            "revoke",
            &["tokens revoke ABCDEFGHIJ --yes"],
            (
                |it| format!("Revoke token {}?", it.id),
                |_, RevokedToken { id }| format!("revoked token {id}\n"),
            ),
        )
        .destroys::<RevokeOlder>(
            "revoke-older",
            &["tokens revoke-older 2026-10-05T12:00:00Z --yes"],
            (
                |it| format!("Revoke all tokens and access keys from before {}?", it.before),
                |_, RevokedOlder { tokens, access_keys }| {
                    format!("revoked {tokens} tokens and {access_keys} access keys\n")
                },
            ),
        )
}

fn created(NewToken { entry, token }: &NewToken) -> String {
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

fn list(page: &Page<Token>) -> String {
    if page.items.is_empty() {
        return "no tokens; create one with `steadfast tokens create`\n".into();
    }
    let headers =
        ["TOKEN", "NAME", "ROLE", "ORGANIZATION", "SCOPES", "CREATED", "LAST USED", "ENDS"];
    let mut table = Table::new(&headers);
    let time = |it: Option<Timestamp>| it.map_or_else(|| "-".into(), Timestamp::rfc3339);
    for it in &page.items {
        let ends = match it.revoked_at {
            Some(at) => format!("revoked {}", at.rfc3339()),
            None => time(it.expires_at),
        };
        let scopes: Vec<String> = it.scopes.iter().map(ToString::to_string).collect();
        table.row([
            it.id.clone(),
            or_dash(it.name.as_deref()),
            it.role.name().into(),
            or_dash(it.organization.as_deref()),
            if scopes.is_empty() { "-".into() } else { scopes.join(" ") },
            it.created_at.rfc3339(),
            time(it.last_used_at),
            ends,
        ]);
    }
    table.write()
}
