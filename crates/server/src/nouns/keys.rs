//! Access keys of the S3 API.

use std::{sync::Arc, time::Duration};

use steadfast_api::{
    Code, Page,
    keys::{CreateKey, Key, ListKeys, NewKey, RevokeKey, RevokedKey, RotateKey},
    rfc3339,
};
use steadfast_bucket::{
    AccessKey, BucketError, KeyScope, create_key, delete_key, list_keys, rotate_key,
};
use steadfast_core::RequestKey;
use steadfast_store::Timestamp;
use steadfast_web::{Problem, page_of};

use crate::{
    access::record,
    cli::noun::Noun,
    list::Columns,
    nouns::tokens::overlap,
    operation::{ApiRoutes, request_key},
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation(create).operation(list).operation(rotate).operation(revoke)
}

async fn create(server: Arc<Server>, it: CreateKey) -> Result<NewKey, Problem> {
    let once = request_key(&it)?.map(RequestKey::into_remember);
    let (store, seal) = (server.runtime.store(), server.runtime.seal());
    let lifetime = it.expires_days.map(|days| Duration::from_hours(24 * u64::from(days)));
    let mut scope = KeyScope::from(it);
    scope.expires_at = lifetime.map(|it| store.clock().now().after(it).0);
    match create_key(&**store, seal, scope, once).await {
        Err(BucketError::Repeated { answer: id }) => {
            let detail = format!(
                "access key {id} was created with this idempotency key, and its secret is shown \
                 once; revoke it, and create another one with a new key"
            );
            Err(Problem::of(Code::KeyReused, detail))
        }
        created => {
            let created = created?;
            record::describe(&facts(&created));
            Ok(created.into())
        }
    }
}

/// The facts about a key for the audit log.
fn facts(it: &AccessKey) -> String {
    let KeyScope { name, bucket, prefix, read_only, organization, expires_at } = &it.scope;
    let mut facts = vec![format!("key {}", it.id)];
    facts.push(if *read_only { "reads" } else { "reads and writes" }.to_owned());
    for (fact, text) in [
        ("bucket", bucket),
        ("prefix", prefix),
        ("organization", organization),
        ("name", name),
        ("until", &expires_at.map(|it| rfc3339(Timestamp(it)))),
    ] {
        facts.extend(text.as_ref().map(|it| format!("{fact} {it}")));
    }
    facts.join(", ")
}

async fn list(server: Arc<Server>, it: ListKeys) -> Result<Page<Key>, Problem> {
    let (after, limit) = (it.cursor.as_deref(), it.limit.rows());
    let found = list_keys(&**server.runtime.store(), after, limit + 1).await?;
    Ok(page_of(found, limit, |it| it.id.clone(), |it| it))
}

async fn rotate(
    server: Arc<Server>,
    RotateKey { id, overlap_hours }: RotateKey,
) -> Result<NewKey, Problem> {
    let (store, seal) = (server.runtime.store(), server.runtime.seal());
    let rotated = rotate_key(&**store, seal, &id, overlap(overlap_hours)?).await?;
    let new = rotated.ok_or_else(|| not_found(&id))?;
    record::describe(&facts(&new));
    Ok(new.into())
}

async fn revoke(server: Arc<Server>, RevokeKey { id }: RevokeKey) -> Result<RevokedKey, Problem> {
    if delete_key(&**server.runtime.store(), &id).await? {
        return Ok(RevokedKey { access_key_id: id });
    }
    Err(not_found(&id))
}

fn not_found(id: &str) -> Problem {
    let detail =
        format!("access key `{id}` does not exist or has expired; see `steadfast keys list`");
    Problem::of(Code::KeyNotFound, detail)
}

pub(crate) fn verbs() -> Noun {
    Noun::new("keys", "Create, list, rotate and revoke access keys of the S3 API")
        .verb::<CreateKey>(
            "create",
            &[
                "keys create --name backup",
                "keys create --bucket photos --prefix 2026/ --read-only --json",
            ],
            |_, new| created_text(new),
        )
        .verb::<ListKeys>("list", &["keys list"], |_, page| {
            columns().list(&page.items, "no access keys; create one with `steadfast keys create`\n")
        })
        .verb::<RotateKey>(
            "rotate",
            &["keys rotate SFABCDEFGHIJKLMNOPQR --overlap-hours 24"],
            |_, new| created_text(new),
        )
        .destroys::<RevokeKey>(
            "revoke",
            &["keys revoke SFABCDEFGHIJKLMNOPQR --yes"],
            (
                |it: &RevokeKey| format!("Revoke access key {}?", it.id),
                |_: &RevokeKey, RevokedKey { access_key_id }: &RevokedKey| {
                    format!("revoked access key {access_key_id}\n")
                },
            ),
        )
}

fn created_text(NewKey { key, secret_access_key }: &NewKey) -> String {
    let bucket = key.bucket.as_deref().map_or("all buckets".into(), |it| format!("bucket {it}"));
    let prefix = key.prefix.as_deref().map_or(String::new(), |it| format!(" below {it}"));
    format!(
        "access key id      {}\nsecret access key  {secret_access_key}\nallows             {} \
         {bucket}{prefix}\n\nKeep the secret: it is not shown again.\n",
        key.id,
        access(key)
    )
}

fn access(key: &Key) -> &'static str {
    if key.read_only { "read" } else { "read and write" }
}

fn columns() -> Columns<'static, Key> {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let time = |time: Option<Timestamp>| time.map(rfc3339).unwrap_or_default();
    Columns::<Key>::new()
        .text("Key", |it| it.id.clone())
        .text("Name", move |it| given(&it.name))
        .text("Allows", |it| access(it).into())
        .text("Bucket", move |it| given(&it.bucket))
        .text("Prefix", move |it| given(&it.prefix))
        .text("Organization", move |it| given(&it.organization))
        .text("Created", |it| rfc3339(it.created_at))
        .text("Last used", move |it| time(it.last_used_at))
        .text("Expires", move |it| time(it.expires_at))
}
