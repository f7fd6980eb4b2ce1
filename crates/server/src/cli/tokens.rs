//! `steadfast tokens …`.

use steadfast_api::{
    Page,
    tokens::{CreateToken, ListTokens, NewToken, RevokeToken, RevokedToken, Token},
};

use super::{noun::Noun, table::Table};

pub(super) fn noun() -> Noun {
    Noun::new("tokens", "Create, list and revoke tokens of organizations")
        .verb::<CreateToken>(
            "create",
            &["tokens create --organization acme --json"],
            |_, NewToken { entry, token }| {
                format!(
                    "{token}\n\nThe token is for organization {}. Keep it: it is not shown \
                     again. Send it as\n  Authorization: Bearer TOKEN\n",
                    entry.organization
                )
            },
        )
        .verb::<ListTokens>("list", &["tokens list"], |_, page| list(page))
        .destroys::<RevokeToken>(
            "revoke",
            &["tokens revoke ABCDEFGHIJ --yes"],
            (
                |it| format!("Revoke token {}?", it.id),
                |_, RevokedToken { id }| format!("revoked token {id}\n"),
            ),
        )
}

fn list(page: &Page<Token>) -> String {
    if page.items.is_empty() {
        return "no tokens; create one with `steadfast tokens create`\n".into();
    }
    let mut table = Table::new(&["TOKEN", "ORGANIZATION", "CREATED"]);
    for it in &page.items {
        table.row([it.id.clone(), it.organization.clone(), it.created_at.clone()]);
    }
    table.write()
}
