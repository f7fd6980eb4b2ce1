//! Generations: live while they are active, from the library afterwards, in one shape.

use axum::{
    Json,
    extract::{Path, Request, State},
    http::StatusCode,
    response::Response,
};
use steadfast_core::Object;
use steadfast_web::{Cursor, IdempotencyKey, ListPage, Params, Problem};

use super::{list::ListQuery, site::Site, workspace::Workspace};
use crate::{
    Cancel, Delete, DeleteGeneration, Generation, GenerationManager, GenerationStatus,
    GetGeneration, GetState, GetWord, LibraryHeard, ListGenerations, Retry,
};

pub(super) async fn list(
    State(site): State<Site>,
    workspace: Workspace,
    Params(query): Params<ListQuery>,
) -> Result<Json<ListPage<Generation>>, Problem> {
    let (status, page) = (query.status()?, query.page()?);
    let ask = ListGenerations { status, narrow: query.narrow(&page)? };
    let found = site.objects.call(workspace.library(), ask).await?;
    Ok(Json(page.page(found, |it| Cursor::Time(it.created_at, it.id.clone()), |it| it)))
}

pub(super) async fn show(
    State(site): State<Site>,
    workspace: Workspace,
    Path(id): Path<String>,
) -> Result<Json<Generation>, Problem> {
    find(&site, &workspace, &id).await?.map(Json).ok_or_else(|| no_generation(&id))
}

pub(super) fn no_generation(id: &str) -> Problem {
    Problem::not_found("unknown_generation", format!("generation `{id}` does not exist"))
}

/// Whether a text can be the id of something: nothing else is looked for.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-')
}

/// A generation of a workspace. Its manager knows best as long as it is there, a day longer than
/// the generation is active; then the library has it, which is busy with all of them. To ask a
/// manager that is not there makes none.
pub(super) async fn find(
    site: &Site,
    workspace: &Workspace,
    id: &str,
) -> Result<Option<Generation>, Problem> {
    if !is_id(id) {
        return Ok(None);
    }
    let live = site.objects.call(GenerationManager::at(id), GetState).await?;
    let live = live.filter(|it| it.workspace == workspace.name());
    if live.is_some() {
        return Ok(live);
    }
    let ask = GetGeneration { id: id.into() };
    Ok(site.objects.call(workspace.library(), ask).await?)
}

pub(super) async fn present(
    site: &Site,
    workspace: &Workspace,
    id: &str,
) -> Result<Generation, Problem> {
    find(site, workspace, id).await?.ok_or_else(|| no_generation(id))
}

pub(super) async fn cancel(
    State(site): State<Site>,
    workspace: Workspace,
    Path(id): Path<String>,
    key: IdempotencyKey,
) -> Result<Json<Generation>, Problem> {
    let found = present(&site, &workspace, &id).await?;
    // With a key it is recorded that nothing was to be cancelled: a repetition must not cancel
    // what somebody retries in between.
    if found.status != GenerationStatus::Active && key.text().is_none() {
        return Ok(Json(found));
    }
    let cancel = site.objects.call(GenerationManager::at(&id), Cancel).maybe_key(key.text());
    let cancelled = match cancel.await {
        // The manager is gone: the generation ended more than a day ago.
        Err(error) if error.code() == "unknown_generation" => return Ok(Json(found)),
        cancelled => cancelled?,
    };
    bring(&site, &workspace, &id).await?;
    if key.text().is_some() {
        return Ok(Json(cancelled));
    }
    present(&site, &workspace, &id).await.map(Json)
}

/// Delivers the last change of a manager to the library, so that the next request finds it there.
/// The same change in the message that is in flight is ignored then.
pub(super) async fn bring(site: &Site, workspace: &Workspace, id: &str) -> Result<(), Problem> {
    let word = site.objects.call(GenerationManager::at(id), GetWord).await?;
    let Some(word) = word.filter(|it| it.generation.workspace == workspace.name()) else {
        return Ok(());
    };
    let heard = LibraryHeard { version: word.version };
    site.objects.call(workspace.library(), word).await?;
    Ok(site.objects.call(GenerationManager::at(id), heard).await?)
}

pub(super) async fn retry(
    State(site): State<Site>,
    workspace: Workspace,
    Path(id): Path<String>,
    key: IdempotencyKey,
) -> Result<Json<Generation>, Problem> {
    again(&site, &workspace, &id, &key).await.map(Json)
}

/// Tries what failed again, as long as there is somebody who can.
pub(super) async fn again(
    site: &Site,
    workspace: &Workspace,
    id: &str,
    key: &IdempotencyKey,
) -> Result<Generation, Problem> {
    // A retry may pay again. One that was accepted is not refused: its tasks have not failed.
    if present(site, workspace, id).await?.status == GenerationStatus::Failed {
        site.artifacts.check_spend(workspace.name()).await?;
    }
    let retry = site.objects.call(GenerationManager::at(id), Retry).maybe_key(key.text());
    retry.await.map_err(|error| match error.code() {
        "unknown_generation" => {
            let detail = format!(
                "generation `{id}` ended more than a day ago and is kept in the library alone; ask \
                 for it anew"
            );
            Problem::new(StatusCode::GONE, "generation_closed", detail)
        }
        _ => error.into(),
    })
}

pub(super) async fn delete(
    State(site): State<Site>,
    workspace: Workspace,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    remove(&site, &workspace, &id).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Deletes a generation: its manager stops, if it is still there, and the library forgets.
pub(super) async fn remove(site: &Site, workspace: &Workspace, id: &str) -> Result<(), Problem> {
    present(site, workspace, id).await?;
    match site.objects.call(GenerationManager::at(id), Delete).await {
        Ok(()) => {}
        Err(error) if error.code() == "unknown_generation" => {}
        Err(error) => return Err(error.into()),
    }
    let delete = DeleteGeneration { id: id.into() };
    Ok(site.objects.call(workspace.library(), delete).await?)
}

pub(super) async fn events(
    State(site): State<Site>,
    workspace: Workspace,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    present(&site, &workspace, &id).await?;
    Ok((site.connect)(GenerationManager::CLASS, id, request).await)
}
