//! Providers tell of tasks. What they say is durable before they are answered.

use axum::{
    body::Bytes,
    extract::{FromRequest, Path, Request, State},
    http::StatusCode,
};
use steadfast_core::{Object, store::crash};
use steadfast_web::{Code, Problem};

use super::{
    api::{is_id, no_generation},
    site::Site,
};
use crate::{GenerationManager, Webhook};

pub(super) async fn receive(
    State(site): State<Site>,
    Path((_, generation, task, token)): Path<(String, String, String, String)>,
    request: Request,
) -> Result<StatusCode, Problem> {
    // Before the body is read or the manager is loaded: everybody may send to this route.
    if !is_id(&generation) || !site.providers.verify_webhook(&generation, &task, &token) {
        return Err(no_generation(&generation));
    }
    let malformed = || Problem::invalid("malformed_webhook", "the body of a webhook must be JSON");
    let body = Bytes::from_request(request, &()).await.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::of(Code::TooLarge, error.body_text()),
        _ => malformed(),
    })?;
    let body = String::from_utf8(body.to_vec()).map_err(|_| malformed())?;
    let told = Webhook { task, token, body };
    crash::point("generation.webhook.before");
    site.objects.call(GenerationManager::at(generation), told).await?;
    crash::point("generation.webhook.after");
    Ok(StatusCode::OK)
}
