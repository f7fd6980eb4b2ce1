//! `steadfast tokens …`.

use steadfast_web::escaped;

use super::{
    client::Client,
    output::{print, print_json},
    table::Table,
};
use crate::{
    api::{
        tokens::{NewTokenEntry, TokenBody, TokenEntry},
        wire::List,
    },
    args::{AskArgs, TokensVerb},
    failure::Failure,
};

/// Does what the verb says.
pub(super) fn ask(client: &Client, verb: TokensVerb) -> Result<(), Failure> {
    match verb {
        TokensVerb::Create { organization, ask } => create(client, organization, &ask),
        TokensVerb::List(ask) => list(client, &ask),
        TokensVerb::Revoke { id, ask } => revoke(client, &id, &ask),
    }
}

fn create(client: &Client, organization: String, ask: &AskArgs) -> Result<(), Failure> {
    let body = serde_json::to_string(&TokenBody { organization });
    let body = body.map_err(|error| Failure::new(error.to_string()))?;
    let answer = client.post("/v1/tokens", Some(&body), None, ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let NewTokenEntry { entry, token } = client.read(&answer)?;
    print(&format!(
        "{token}\n\nIt is for {}. Keep it: it is not shown again. Send it as\n  \
         Authorization: Bearer TOKEN\n",
        entry.organization
    ))
}

fn list(client: &Client, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.get("/v1/tokens", ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let all: List<TokenEntry> = client.read(&body)?;
    if all.items.is_empty() {
        return print("no tokens here: everybody on this machine may do everything\n");
    }
    let mut table = Table::new(&["TOKEN", "ORGANIZATION", "MADE"]);
    for it in all.items {
        table.row([it.id, it.organization, it.created_at]);
    }
    print(&table.write())
}

fn revoke(client: &Client, id: &str, ask: &AskArgs) -> Result<(), Failure> {
    client.delete(&format!("/v1/tokens/{}", escaped(id)), ask.json)?;
    if ask.json {
        return Ok(());
    }
    print(&format!("{id} is revoked\n"))
}
