//! Generations: live while they are active, from the library afterwards, in one shape.

use axum::{
    extract::{Path, Request, State},
    http::StatusCode,
    response::Response,
};
use steadfast_core::{CallError, Object};
use steadfast_web::{Cursor, IdempotencyKey, Json, ListPage, Params, Problem};

use super::{list::ListQuery, site::Site, workspace::Workspace};
pub(super) use crate::ids::is_id;
use crate::{
    Cancel, Delete, DeleteGeneration, Generation, GenerationManager, GenerationStatus,
    GetGeneration, GetState, GetWord, LibraryHeard, ListGenerations, Retry, RetryUnpaid,
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

/// Asks the manager to retry, once for a key.
async fn ask_retry(
    site: &Site,
    id: &str,
    key: &IdempotencyKey,
    may_pay: bool,
) -> Result<Generation, CallError> {
    let manager = GenerationManager::at(id);
    let retry = match may_pay {
        true => site.objects.call(manager, Retry),
        false => site.objects.call(manager, RetryUnpaid),
    };
    retry.maybe_key(key.text()).await
}

/// Tries what failed again, as long as there is somebody who can. The manager decides whether that
/// pays: then it is refused if the workspace has spent what it may spend.
pub(super) async fn again(
    site: &Site,
    workspace: &Workspace,
    id: &str,
    key: &IdempotencyKey,
) -> Result<Generation, Problem> {
    present(site, workspace, id).await?;
    let spend = site.artifacts.check_spend(workspace.name()).await;
    let mut retried = ask_retry(site, id, key, spend.is_ok()).await;
    // The first request of this key may have come before the quota was used up, or was raised: the
    // manager has the reply to the other message, and does nothing again.
    if retried.as_ref().is_err_and(|it| it.code() == "key_reused") {
        retried = ask_retry(site, id, key, spend.is_err()).await;
    }
    retried.map_err(|error| match spend {
        Err(refused) if error.code() == "quota_spend" => refused.into(),
        Ok(()) | Err(_) if error.code() == "unknown_generation" => {
            let detail = format!(
                "generation `{id}` ended more than a day ago and is kept in the library alone; ask \
                 for it anew"
            );
            Problem::new(StatusCode::GONE, "generation_closed", detail)
        }
        Ok(()) | Err(_) => error.into(),
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
