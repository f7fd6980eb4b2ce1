//! `steadfast keys …`.

use steadfast_api::{
    Page,
    keys::{CreateKey, Key, ListKeys, NewKey, RevokeKey, RevokedKey, RotateKey},
};

use super::{
    noun::Noun,
    table::{Table, or_dash},
};

pub(super) fn noun() -> Noun {
    Noun::new("keys", "Create, list, rotate and revoke access keys of the S3 API")
        .verb::<CreateKey>(
            "create",
            &[
                "keys create --name backup",
                "keys create --bucket photos --prefix 2026/ --read-only --json",
            ],
            |_, new| create(new),
        )
        .verb::<ListKeys>("list", &["keys list"], |_, page| list(page))
        .verb::<RotateKey>(
            "rotate",
            &["keys rotate SFABCDEFGHIJKLMNOPQR --overlap-hours 24"],
            |_, new| create(new),
        )
        .destroys::<RevokeKey>(
            "revoke",
            &["keys revoke SFABCDEFGHIJKLMNOPQR --yes"],
            (
                |it| format!("Revoke access key {}?", it.id),
                |_, RevokedKey { access_key_id }| format!("revoked access key {access_key_id}\n"),
            ),
        )
}

fn create(NewKey { key, secret_access_key }: &NewKey) -> String {
    let bucket = key.bucket.as_deref().map_or("all buckets".into(), |it| format!("bucket {it}"));
    let prefix = key.prefix.as_deref().map_or(String::new(), |it| format!(" below {it}"));
    format!(
        "access key id      {}\nsecret access key  {secret_access_key}\nallows             {} \
         {bucket}{prefix}\n\nKeep the secret: it is not shown again.\n",
        key.access_key_id,
        access(key)
    )
}

fn access(key: &Key) -> &'static str {
    if key.read_only { "read" } else { "read and write" }
}

fn list(page: &Page<Key>) -> String {
    if page.items.is_empty() {
        return "no access keys; create one with `steadfast keys create`\n".into();
    }
    let headers = [
        "KEY",
        "NAME",
        "ALLOWS",
        "BUCKET",
        "PREFIX",
        "ORGANIZATION",
        "CREATED",
        "LAST USED",
        "EXPIRES",
    ];
    let mut table = Table::new(&headers);
    for it in &page.items {
        let (bucket, prefix) = (or_dash(it.bucket.as_deref()), or_dash(it.prefix.as_deref()));
        let (id, created) = (it.access_key_id.clone(), it.created_at.clone());
        let organization = or_dash(it.organization.as_deref());
        let (name, expires) = (or_dash(it.name.as_deref()), or_dash(it.expires_at.as_deref()));
        let (access, used) = (access(it).into(), or_dash(it.last_used_at.as_deref()));
        table.row([id, name, access, bucket, prefix, organization, created, used, expires]);
    }
    table.write()
}
