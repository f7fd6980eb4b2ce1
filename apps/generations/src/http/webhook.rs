//! Providers tell of tasks. What they say is durable before they are answered.

use axum::{
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
};
use steadfast_core::{Object, store::crash};
use steadfast_web::Problem;

use super::{
    api::{is_id, no_generation},
    site::Site,
};
use crate::{GenerationManager, Webhook};

pub(super) async fn receive(
    State(site): State<Site>,
    Path((_, generation, task, token)): Path<(String, String, String, String)>,
    body: Bytes,
) -> Result<StatusCode, Problem> {
    let malformed = || Problem::invalid("malformed_webhook", "the body of a webhook must be JSON");
    let body = String::from_utf8(body.to_vec()).map_err(|_| malformed())?;
    if !is_id(&generation) {
        return Err(no_generation(&generation));
    }
    let told = Webhook { task, token, body };
    crash::point("generation.webhook.before");
    site.objects.call(GenerationManager::at(generation), told).await?;
    crash::point("generation.webhook.after");
    Ok(StatusCode::OK)
}
