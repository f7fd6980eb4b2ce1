//! Artifacts: what is kept for ever.

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
};
use serde::Serialize;
use steadfast::Object;

use super::{
    api::is_id,
    list::{List, ListQuery, page},
    problem::Problem,
    site::Site,
};
use crate::{Artifact, DEFAULT_WORKSPACE, DeleteArtifact, GetArtifact, Library, ListArtifacts};

/// An artifact as the API shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    #[serde(flatten)]
    artifact: Artifact,
    file_url: String,
}

impl Shown {
    fn new(artifact: Artifact) -> Self {
        Self { file_url: file_url(&artifact), artifact }
    }
}

/// Where the bytes of an artifact are.
pub(super) fn file_url(artifact: &Artifact) -> String {
    format!("/artifacts/{}/file.{}", artifact.id, artifact.extension)
}

pub(super) async fn find(site: &Site, id: &str) -> Result<Artifact, Problem> {
    if !is_id(id) {
        return Err(Problem::no_artifact(id));
    }
    let ask = GetArtifact { id: id.into() };
    let found = site.objects.call(Library::at(DEFAULT_WORKSPACE), ask).await?;
    found.ok_or_else(|| Problem::no_artifact(id))
}

pub(super) async fn list(
    State(site): State<Site>,
    Query(query): Query<ListQuery>,
) -> Result<Json<List<Shown>>, Problem> {
    let (narrow, limit) = query.narrow()?;
    let generation = query.generation.clone().filter(|it| !it.is_empty());
    let ask = ListArtifacts { generation, narrow };
    let found = site.objects.call(Library::at(DEFAULT_WORKSPACE), ask).await?;
    let found = page(found, limit, |it| (it.created_at, &it.id));
    let items = found.items.into_iter().map(Shown::new).collect();
    Ok(Json(List { items, next: found.next }))
}

pub(super) async fn show(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<Json<Shown>, Problem> {
    find(&site, &id).await.map(Shown::new).map(Json)
}

pub(super) async fn delete(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    remove(&site, &id).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn remove(site: &Site, id: &str) -> Result<(), Problem> {
    let delete = DeleteArtifact { id: id.into() };
    let is_gone = is_id(id) && site.objects.call(Library::at(DEFAULT_WORKSPACE), delete).await?;
    if is_gone { Ok(()) } else { Err(Problem::no_artifact(id)) }
}
