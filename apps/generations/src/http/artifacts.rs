//! Artifacts: what is kept for ever.

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;
use steadfast_web::{Cursor, Json, ListPage, Params, Problem};

use super::{api::is_id, list::ListQuery, site::Site, workspace::Workspace};
use crate::{Artifact, DeleteArtifact, GetArtifact, ListArtifacts};

/// An artifact as the API shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    #[serde(flatten)]
    artifact: Artifact,
    file_url: String,
}

impl Shown {
    fn new(artifact: Artifact, workspace: &Workspace) -> Self {
        Self { file_url: file_url(&artifact, workspace, &[]), artifact }
    }
}

/// Where the bytes of an artifact are.
pub(super) fn file_url(
    artifact: &Artifact,
    workspace: &Workspace,
    query: &[(&str, &str)],
) -> String {
    let path = format!("/artifacts/{}/file.{}", artifact.id, artifact.extension);
    workspace.link(&path, query)
}

pub(super) fn no_artifact(id: &str) -> Problem {
    Problem::not_found("unknown_artifact", format!("artifact `{id}` does not exist"))
}

pub(super) async fn find(
    site: &Site,
    workspace: &Workspace,
    id: &str,
) -> Result<Artifact, Problem> {
    if !is_id(id) {
        return Err(no_artifact(id));
    }
    let ask = GetArtifact { id: id.into() };
    let found = site.objects.call(workspace.library(), ask).await?;
    found.ok_or_else(|| no_artifact(id))
}

pub(super) async fn list(
    State(site): State<Site>,
    workspace: Workspace,
    Params(query): Params<ListQuery>,
) -> Result<Json<ListPage<Shown>>, Problem> {
    let page = query.page()?;
    let generation = query.generation.clone().filter(|it| !it.is_empty());
    let ask = ListArtifacts { generation, narrow: query.narrow(&page)? };
    let found = site.objects.call(workspace.library(), ask).await?;
    let cursor = |it: &Artifact| Cursor::Time(it.created_at, it.id.clone());
    Ok(Json(page.page(found, cursor, |it| Shown::new(it, &workspace))))
}

pub(super) async fn show(
    State(site): State<Site>,
    workspace: Workspace,
    Path(id): Path<String>,
) -> Result<Json<Shown>, Problem> {
    let found = find(&site, &workspace, &id).await?;
    Ok(Json(Shown::new(found, &workspace)))
}

pub(super) async fn delete(
    State(site): State<Site>,
    workspace: Workspace,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    remove(&site, &workspace, &id).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn remove(site: &Site, workspace: &Workspace, id: &str) -> Result<(), Problem> {
    let delete = DeleteArtifact { id: id.into() };
    if !is_id(id) {
        return Err(no_artifact(id));
    }
    match site.objects.call(workspace.library(), delete).await? {
        Some(changed) => site.show(changed).await,
        None => Err(no_artifact(id)),
    }
}
