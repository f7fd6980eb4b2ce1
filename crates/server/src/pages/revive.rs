//! The button beside a dead message.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Redirect,
};
use steadfast_api::streams::ReviveMessage;
use steadfast_store::EntityKind;

use super::link::href_of;
use crate::{
    api::{id, problem::Problem, streams as api},
    server::Server,
};

/// Makes a dead or cancelled message pending again, and shows the stream that it is in.
#[utoipa::path(post, path = "/messages/{position}/revive", tag = "pages",
    params(("position" = i64, Path, description = "The message's `globalPosition`")),
    responses((status = 303, description = "It is pending; the page of its stream is there")),
)]
pub(super) async fn revive(
    State(server): State<Arc<Server>>,
    Path(position): Path<String>,
) -> Result<Redirect, Problem> {
    let message = id::position(&position)?;
    api::revive(server.clone(), ReviveMessage { message, idempotency_key: None }).await?;
    let message = server.runtime.store().message(message).await?;
    let Some(stream) = message.map(|it| it.stream) else { return Ok(Redirect::to("/streams")) };
    let address = server.runtime.store().addresses(&[stream]).await?.remove(&stream);
    // Of objects and runs the stream shows more of a message than their page.
    let process = address.filter(|it| it.kind() == EntityKind::Process);
    let stream = || format!("/streams/{stream}");
    Ok(Redirect::to(&process.map_or_else(stream, |it| href_of(&server, &it))))
}
