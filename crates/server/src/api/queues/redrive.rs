//! What operators do with the messages of a queue: empty it, give another chance, mend one.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use steadfast_core::queue::{PeekState, Redrive};
use steadfast_store::{Json as Text, Position, StoreError};
use utoipa::ToSchema;

use super::{body_of, body_or};
use crate::{
    api::{
        id,
        problem::{Code, Problem, ProblemBody},
        wire::RedrivenEntry,
    },
    node::Node,
};

/// Which messages are taken out; all that nobody handles if it is empty.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PurgeBody {
    /// Only those that are `pending`, or only those that are `dead`.
    #[serde(default)]
    state: Option<String>,
    /// Only these.
    #[serde(default)]
    ids: Option<Vec<String>>,
}

/// What was taken out.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct PurgedEntry {
    /// So many.
    pub(crate) purged: u64,
}

/// Which messages, where to and how fast.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RedriveBody {
    /// To which queue; each to the one that it was sent to if it is left out.
    #[serde(default)]
    to: Option<String>,
    /// Which; all if it is left out.
    #[serde(default)]
    filter: FilterBody,
    /// So many become due each second; all at once if it is left out.
    #[serde(default)]
    rate_per_second: Option<f64>,
    /// Moves nothing, and says what would be.
    #[serde(default)]
    dry_run: bool,
}

/// Which messages.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FilterBody {
    /// Only these.
    #[serde(default)]
    ids: Option<Vec<String>>,
    /// Only those whose last error contains this.
    #[serde(default)]
    error_contains: Option<String>,
}

/// What a message is replaced with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditBody<'a> {
    /// What to send instead.
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value)]
    body: &'a RawValue,
    /// To which queue; to the one that the first was sent to if it is left out.
    #[serde(default)]
    to: Option<String>,
}

/// What it was replaced with.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct EditedEntry {
    /// The id of the new message.
    pub(crate) id: String,
}

/// Takes messages out of a queue that nobody handles. Their record stays for as long as records do.
#[utoipa::path(post, path = "/v1/queues/{q}/purge", tag = "queues",
    params(("q" = String, Path, description = "The queue")),
    request_body = Option<PurgeBody>,
    responses(
        (status = 200, body = PurgedEntry),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn purge(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
    body: Bytes,
) -> Result<Json<PurgedEntry>, Problem> {
    let PurgeBody { state, ids } = body_or(&body, "{\"state\"?, \"ids\"?}")?;
    let only = state.as_deref().map(|word| match word {
        "pending" => Ok(PeekState::Pending),
        "dead" => Ok(PeekState::Dead),
        _ => {
            let detail = format!("`state` must be pending or dead, not `{word}`");
            Err(Problem::new(Code::BadRequest, detail))
        }
    });
    let (only, ids) = (only.transpose()?, positions(ids)?);
    let purged = node.runtime.queues().purge(&queue, only, ids.as_deref()).await?;
    Ok(Json(PurgedEntry { purged }))
}

/// Gives messages that wait or are dead in a queue another chance, with new attempts.
#[utoipa::path(post, path = "/v1/queues/{q}/redrive", tag = "queues",
    params(("q" = String, Path, description = "The queue, most often one of dead letters")),
    request_body = Option<RedriveBody>,
    responses(
        (status = 200, body = RedrivenEntry),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn redrive(
    State(node): State<Arc<Node>>,
    Path(queue): Path<String>,
    body: Bytes,
) -> Result<Json<RedrivenEntry>, Problem> {
    let form = "{\"to\"?, \"filter\"?: {\"ids\"?, \"errorContains\"?}, \"ratePerSecond\"?, \
                \"dryRun\"?}";
    let RedriveBody { to, filter, rate_per_second, dry_run } = body_or(&body, form)?;
    let FilterBody { ids, error_contains } = filter;
    let what = Redrive { to, ids: positions(ids)?, error_contains, rate_per_second, dry_run };
    Ok(Json(RedrivenEntry::of(&node.runtime.queues().redrive(&queue, &what).await?)))
}

/// Replaces a message that waits or is dead by one with another body, which is delivered anew.
#[utoipa::path(post, path = "/v1/queues/{q}/messages/{id}/edit", tag = "queues",
    params(
        ("q" = String, Path, description = "The queue"),
        ("id" = String, Path, description = "The message"),
    ),
    request_body = EditBody,
    responses(
        (status = 200, body = EditedEntry, description = "The old one is cancelled, durably"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description =
            "`unknown_message`: it is not in this queue any more, or somebody handles it"),
    ),
)]
pub(crate) async fn edit(
    State(node): State<Arc<Node>>,
    Path((queue, id)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<EditedEntry>, Problem> {
    let EditBody { body, to } = body_of(&body, "{\"body\", \"to\"?}")?;
    let body = Text::raw(body).map_err(StoreError::from)?;
    let edited =
        node.runtime.queues().edit(&queue, id::position(&id)?, body, to.as_deref()).await?;
    Ok(Json(EditedEntry { id: edited.to_string() }))
}

fn positions(ids: Option<Vec<String>>) -> Result<Option<Vec<Position>>, Problem> {
    ids.map(|it| it.iter().map(|it| id::position(it)).collect()).transpose()
}
