//! A request comes in: looked at as a whole before anything is kept.

use axum::{
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use steadfast_core::{Object, store::crash};
use steadfast_web::{IdempotencyKey, Json, Problem, read_body};

use super::{site::Site, workspace::Workspace};
use crate::{
    Create, Generation, GenerationManager, GetState, Request, ReserveId, TAG_MAX, TAGS_MAX, is_tag,
    new_id, task::COUNT_MAX,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    model: String,
    input: Value,
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    workspace: Option<String>,
}

fn one() -> u32 {
    1
}

pub(super) async fn create(
    State(site): State<Site>,
    workspace: Workspace,
    key: IdempotencyKey,
    body: Bytes,
) -> Result<Response, Problem> {
    let (request, workspace) = parse(&site, workspace, &body)?;
    let key = key.into_text().map(|key| ReserveId { key, digest: digest(&body) });
    let generation = begin(&site, &workspace, request, key).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({ "id": generation.id }))).into_response())
}

/// The fields of a request, however it is written. They are those of the client: a seed that is
/// chosen here is another one each time.
fn digest(body: &[u8]) -> String {
    let mut said: Value = serde_json::from_slice(body).unwrap_or_default();
    // Each workspace has its own keys.
    said.as_object_mut().and_then(|it| it.remove("workspace"));
    let hash = Sha256::digest(said.to_string());
    HEXLOWER.encode(&hash[..16])
}

/// The workspace is that of the body, or else that of the address.
fn parse(site: &Site, workspace: Workspace, body: &[u8]) -> Result<(Request, Workspace), Problem> {
    let form = "{\"model\", \"input\", \"count\", \"tags\", \"provider\", \"workspace\"}";
    let body: Body = read_body(body, "bad_request", form)?;
    let Body { model, input, count, tags, provider, workspace: named } = body;
    Ok((check(site, model, input, count, tags, provider)?, workspace.or_named(named)?))
}

/// A request that can be served, or why it cannot.
pub(super) fn check(
    site: &Site,
    model: String,
    input: Value,
    count: u32,
    mut tags: Vec<String>,
    provider: Option<String>,
) -> Result<Request, Problem> {
    if !(1..=COUNT_MAX).contains(&count) {
        let detail = format!("`count` must be 1 to {COUNT_MAX}, not {count}");
        return Err(Problem::invalid("invalid_count", detail));
    }
    tags.sort();
    tags.dedup();
    if TAGS_MAX < tags.len() {
        return Err(Problem::invalid(
            "too_many_tags",
            format!("at most {TAGS_MAX} tags are allowed"),
        ));
    }
    if let Some(bad) = tags.iter().find(|it| !is_tag(it)) {
        let detail =
            format!("tag `{bad}` must have 1 to {TAG_MAX} characters without spaces around");
        return Err(Problem::invalid("invalid_tag", detail));
    }
    let Value::Object(mut input) = input else {
        return Err(Problem::invalid("bad_request", "`input` must be an object"));
    };
    // Chosen here, so that what is tried again is the same.
    input.entry("seed").or_insert_with(|| (1 + (site.entropy.next() >> 33)).into());
    // Each place adds its number to the seed: what the last one asks for must be possible, too.
    if let Some(seed) = input.get("seed").and_then(Value::as_u64) {
        let mut last = input.clone();
        last.insert("seed".into(), seed.saturating_add(u64::from(count) - 1).into());
        site.providers.check(&model, last, provider.as_deref())?;
    }
    let (provider, checked) = site.providers.check(&model, input, provider.as_deref())?;
    let (kind, input) = (checked.kind, checked.input);
    Ok(Request { provider, model, kind, input, count, tags })
}

/// Begins with a request. With a key that was used before it is the same one: the library keeps the
/// keys of its workspace, and the manager takes one request.
pub(super) async fn begin(
    site: &Site,
    workspace: &Workspace,
    request: Request,
    key: Option<ReserveId>,
) -> Result<Generation, Problem> {
    let id = match key {
        Some(reserve) => {
            let key = reserve.key.clone();
            site.objects.call(workspace.library(), reserve).key(key).await?
        }
        None => new_id(site.clock.now(), &*site.entropy),
    };
    // A request that was accepted before is answered again.
    if let Err(refused) = site.artifacts.check_spend(workspace.name()).await
        && site.objects.call(GenerationManager::at(&id), GetState).await?.is_none()
    {
        return Err(refused.into());
    }
    let create = Create {
        timeout_ms: u64::try_from(site.providers.timeout(request.kind).as_millis())
            .unwrap_or(u64::MAX),
        webhooks: site.webhooks.clone(),
        request,
        workspace: workspace.name().into(),
    };
    let generation = site.objects.call(GenerationManager::at(id), create).await?;
    crash::point("generation.created");
    Ok(generation)
}
