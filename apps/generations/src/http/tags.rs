//! Tags of generations and artifacts.

use axum::{extract::State, http::StatusCode};
use serde_json::{Value, json};
use steadfast_web::{Json, Problem};

use super::{
    api::{bring, is_id, no_generation},
    artifacts::no_artifact,
    site::Site,
    workspace::Workspace,
};
use crate::{ListTags, SetTag, TAG_MAX, TagTarget, is_tag};

pub(super) async fn list(
    State(site): State<Site>,
    workspace: Workspace,
) -> Result<Json<Value>, Problem> {
    let tags = site.objects.call(workspace.library(), ListTags).await?;
    Ok(Json(json!({ "items": tags })))
}

/// Sets or removes a tag.
pub(super) async fn set(
    site: &Site,
    workspace: &Workspace,
    target: TagTarget,
    (id, tag): (String, String),
    is_on: bool,
) -> Result<StatusCode, Problem> {
    if is_on && !is_tag(&tag) {
        let detail =
            format!("tag `{tag}` must have 1 to {TAG_MAX} characters without spaces around");
        return Err(Problem::invalid("invalid_tag", detail));
    }
    let set = SetTag { target, id: id.clone(), tag, is_on };
    let mut changed = site.objects.call(workspace.library(), set.clone()).await?;
    if changed.is_none() && target == TagTarget::Generation && is_id(&id) {
        // It may be on its way to the library.
        bring(site, workspace, &id).await?;
        changed = site.objects.call(workspace.library(), set).await?;
    }
    if let Some(changed) = changed {
        site.show(changed).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(match target {
        TagTarget::Generation => no_generation(&id),
        TagTarget::Artifact => no_artifact(&id),
    })
}
