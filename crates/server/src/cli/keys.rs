//! `steadfast keys …`.

use steadfast_web::escaped;

use super::{
    client::Client,
    output::{print, print_json},
    query,
    table::{Table, or_dash},
    tell_next,
};
use crate::{
    api::{
        keys::{KeyBody, KeyEntry, NewKeyEntry, RevokedEntry},
        wire::List,
    },
    args::{AskArgs, KeyCreateArgs, ListArgs},
    failure::Failure,
};

/// Makes a key, and shows its secret for the only time.
pub(super) fn create(client: &Client, args: &KeyCreateArgs) -> Result<(), Failure> {
    let KeyCreateArgs { bucket, prefix, read_only, ask } = args;
    let (bucket, prefix) = (bucket.clone(), prefix.clone());
    let body = KeyBody { bucket, prefix, read_only: *read_only };
    let body = serde_json::to_string(&body).map_err(|error| Failure::new(error.to_string()))?;
    let answer = client.post("/v1/keys", Some(&body), None, ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let NewKeyEntry { key, secret_access_key } = client.read(&answer)?;
    print(&format!(
        "access key id      {}\nsecret access key  {secret_access_key}\nmay                {}\n\n\
         Keep the secret: it is not shown again.\n",
        key.access_key_id,
        rights(&key)
    ))
}

/// Lists the keys.
pub(super) fn list(client: &Client, list: &ListArgs) -> Result<(), Failure> {
    let body = client.get(&format!("/v1/keys{}", query(list)), list.ask.json)?;
    if list.ask.json {
        return print_json(&body);
    }
    let page: List<KeyEntry> = client.read(&body)?;
    if page.items.is_empty() {
        return print("no access keys here: make one with `steadfast keys create`\n");
    }
    let mut table = Table::new(&["KEY", "MAY", "BUCKET", "PREFIX", "MADE"]);
    for it in &page.items {
        table.row([
            it.access_key_id.clone(),
            if it.read_only { "read" } else { "read and write" }.into(),
            or_dash(it.bucket.as_deref()),
            or_dash(it.prefix.as_deref()),
            it.created_at.clone(),
        ]);
    }
    print(&table.write())?;
    tell_next(page.next.as_deref(), &list.ask);
    Ok(())
}

/// Revokes a key.
pub(super) fn revoke(client: &Client, id: &str, ask: &AskArgs) -> Result<(), Failure> {
    let answer = client.delete(&format!("/v1/keys/{}", escaped(id)), ask.json)?;
    if ask.json {
        return print_json(&answer);
    }
    let RevokedEntry { access_key_id } = client.read(&answer)?;
    print(&format!("{access_key_id} is revoked\n"))
}

fn rights(key: &KeyEntry) -> String {
    let what = if key.read_only { "read" } else { "read and write" };
    let bucket = key.bucket.as_deref().map_or(" all buckets".into(), |it| format!(" bucket {it}"));
    let prefix = key.prefix.as_deref().map_or(String::new(), |it| format!(" below {it}"));
    format!("{what}{bucket}{prefix}")
}
