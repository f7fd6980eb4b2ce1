//! Which changes of a bucket are sent to which queue.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
};
use steadfast_bucket::{BucketError, BucketName, Rule};

use crate::{
    api::{
        body::body_of,
        problem::{Problem, ProblemBody},
        wire::{Deleted, List, RuleBody, RuleEntry},
    },
    node::Node,
};

/// Lists the rules of a bucket by id; there are 100 at most.
#[utoipa::path(get, path = "/v1/buckets/{b}/rules", tag = "buckets",
    params(("b" = String, Path, description = "The bucket")),
    responses(
        (status = 200, body = List<RuleEntry>),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
) -> Result<Json<List<RuleEntry>>, Problem> {
    let rules = node.buckets()?.bucket(&BucketName::new(&bucket)?).await?.settings.rules;
    Ok(Json(List { items: rules.into_iter().map(RuleEntry::of).collect(), next: None }))
}

/// Shows a rule.
#[utoipa::path(get, path = "/v1/buckets/{b}/rules/{id}", tag = "buckets",
    params(
        ("b" = String, Path, description = "The bucket"),
        ("id" = String, Path, description = "The rule"),
    ),
    responses(
        (status = 200, body = RuleEntry),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path((bucket, id)): Path<(String, String)>,
) -> Result<Json<RuleEntry>, Problem> {
    Ok(Json(RuleEntry::of(read_rule(&node, &bucket, id).await?)))
}

async fn read_rule(node: &Node, bucket: &str, rule: String) -> Result<Rule, Problem> {
    let rules = node.buckets()?.bucket(&BucketName::new(bucket)?).await?.settings.rules;
    let found = rules.into_iter().find(|it| it.id == rule);
    Ok(found.ok_or(BucketError::UnknownRule { bucket: bucket.into(), rule })?)
}

/// Sends changes to a queue from now on; a rule of the same id is replaced. Two rules that would
/// send the same change are refused.
#[utoipa::path(put, path = "/v1/buckets/{b}/rules/{id}", tag = "buckets",
    params(
        ("b" = String, Path, description = "The bucket"),
        ("id" = String, Path, description = "1 to 64 letters, digits, `-`, `_` or `.`"),
    ),
    request_body = RuleBody,
    responses(
        (status = 200, body = RuleEntry, description = "It is in force, durably"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json",
            description = "`bad_request`, `invalid_argument`"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "`rule_overlap`"),
    ),
)]
pub(crate) async fn put(
    State(node): State<Arc<Node>>,
    Path((bucket, id)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<RuleEntry>, Problem> {
    let name = BucketName::new(&bucket)?;
    let form = "{\"events\": […], \"prefix\"?, \"suffix\"?, \"queue\"}";
    let RuleBody { events, prefix, suffix, queue } = body_of(&body, form)?;
    let rule = Rule { id: id.clone(), events, prefix, suffix, queue };
    node.buckets()?.put_rule(&name, rule).await?;
    Ok(Json(RuleEntry::of(read_rule(&node, &bucket, id).await?)))
}

/// Removes a rule. What was sent stays sent.
#[utoipa::path(delete, path = "/v1/buckets/{b}/rules/{id}", tag = "buckets",
    params(
        ("b" = String, Path, description = "The bucket"),
        ("id" = String, Path, description = "The rule"),
    ),
    responses(
        (status = 200, body = Deleted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn delete(
    State(node): State<Arc<Node>>,
    Path((bucket, id)): Path<(String, String)>,
) -> Result<Json<Deleted>, Problem> {
    node.buckets()?.delete_rule(&BucketName::new(&bucket)?, &id).await?;
    Ok(Json(Deleted { deleted: true }))
}
