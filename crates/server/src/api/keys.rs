//! Access keys of the S3 API over HTTP.

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
use steadfast_web::Problem;

use super::tokens::overlap;
use crate::{
    access::record,
    operation::{ApiRoutes, request_key},
    server::Server,
};

pub(super) fn routes() -> ApiRoutes {
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
    let limit = it.limit.rows();
    let mut found = list_keys(&**server.runtime.store(), it.cursor.as_deref(), limit + 1).await?;
    let is_more = limit < found.len();
    found.truncate(limit);
    let next = found.last().filter(|_| is_more).map(|it| it.id.clone());
    Ok(Page { items: found.into_iter().map(Key::from).collect(), next })
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
