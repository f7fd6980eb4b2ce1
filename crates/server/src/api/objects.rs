//! Objects: calling one, and looking at them.

pub(crate) mod export;
pub(crate) mod list;
pub(crate) mod show;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
pub(crate) mod turns;

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde::de::IgnoredAny;
use steadfast_core::CallError;

use super::{
    problem::{Code, Problem, ProblemBody},
    revive::key_of,
};
use crate::node::Node;

/// Calls an object.
///
/// It is made by the first call that changes it. The reply comes when what the call changed is
/// durable.
#[utoipa::path(post, path = "/v1/objects/{class}/{name}/calls/{message}", tag = "objects",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description =
            "The object: any text of 1 to 512 bytes, a slash in it written as %2F"),
        ("message" = String, Path, description = "A message that the class has made public"),
        ("Idempotency-Key" = Option<String>, Header, description =
            "A repetition within 24 hours gets the first reply and changes nothing"),
    ),
    request_body(content = Option<serde_json::Value>, content_type = "application/json",
        description = "The message; left out where it has no fields"),
    responses(
        (status = 200, body = serde_json::Value, content_type = "application/json",
            description = "The reply, as the object gave it"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json",
            description = "The message is malformed at `field`, or name or key cannot be one"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json",
            description = "There is no such class, or it has no such public message"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description =
            "The object refuses with a code of its own, the turn met a limit \
             (`turn_rolled_back`), or the key is of another request; nothing was changed"),
        (status = 429, body = ProblemBody, content_type = "application/problem+json",
            description = "Too many calls wait; send it again"),
        (status = 500, body = ProblemBody, content_type = "application/problem+json", description =
            "The handler panicked, or the object cannot be migrated or is damaged; nothing was \
             changed"),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description =
            "The store is away. `store_unavailable`: nothing was changed; `outcome_unknown`: send \
             it again only with a key"),
    ),
)]
pub(crate) async fn call(
    State(node): State<Arc<Node>>,
    Path((class, name, message)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    check_public(&node, &class, &message)?;
    let key = key_of(&headers)?;
    let body = str::from_utf8(&body).map_err(|error| {
        Problem::new(Code::BadRequest, format!("the body is not JSON: {error}"))
    })?;
    let reply = node.runtime.objects().call_json(&class, &name, &message, body, key).await;
    let reply = reply.map_err(|error| complaint(error, body))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], reply).into_response())
}

/// What cannot be read at all has no fields to complain about.
fn complaint(error: CallError, body: &str) -> Problem {
    if matches!(error, CallError::Malformed { .. })
        && !body.is_empty()
        && let Err(error) = serde_json::from_str::<IgnoredAny>(body)
    {
        return Problem::new(Code::BadRequest, format!("the body is not JSON: {error}"));
    }
    error.into()
}

/// A message that is not public is told from none by nobody.
fn check_public(node: &Node, class: &str, message: &str) -> Result<(), CallError> {
    if node.runtime.objects().is_public(class, message) {
        return Ok(());
    }
    let class = class.to_owned();
    if node.runtime.objects().classes().any(|it| it == class) {
        return Err(CallError::UnknownMessage { class, message: message.into() });
    }
    Err(CallError::UnknownClass { class })
}
