//! The forms and buttons of rules.

use std::sync::Arc;

use axum::{
    extract::{Form, Path, State, rejection::FormRejection},
    response::Redirect,
};
use serde::Deserialize;
use steadfast_api::buckets::{
    DeleteBucketRule, DeleteLifecycleRule, PutBucketRule, PutLifecycleRule,
};
use steadfast_bucket::EventType;
use utoipa::ToSchema;

use super::{control::unreadable, path_of};
use crate::{
    api::{
        buckets as api,
        problem::{Code, Problem},
    },
    server::Server,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// What the form of a rule says.
#[derive(Debug, Deserialize, ToSchema)]
pub(in super::super) struct RuleForm {
    /// Its name.
    id: String,
    /// The queue.
    queue: String,
    /// Whether it tells of what is written.
    #[serde(default)]
    created: Option<String>,
    /// Whether it tells of what is deleted.
    #[serde(default)]
    deleted: Option<String>,
    /// Only keys that begin with this.
    #[serde(default)]
    prefix: String,
    /// Only keys that end with this.
    #[serde(default)]
    suffix: String,
}

/// What the form of a lifecycle rule says. What is empty was left empty.
#[derive(Debug, Deserialize, ToSchema)]
pub(in super::super) struct LifecycleForm {
    /// Its name.
    id: String,
    /// Only keys that begin with this.
    #[serde(default)]
    prefix: String,
    /// Deletes after so many days.
    #[serde(default)]
    delete: String,
    /// Aborts uploads after so many days.
    #[serde(default)]
    abort: String,
}

/// Puts a rule, and shows the bucket.
#[utoipa::path(post, path = "/buckets/{b}/rules", tag = "pages",
    params(("b" = String, Path, description = "The bucket")),
    request_body(content = RuleForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "It is in force; the page of the bucket is there")),
)]
pub(in super::super) async fn put_rule(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    form: Result<Form<RuleForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    let Form(form) = form.map_err(unreadable)?;
    let mut events = Vec::new();
    events.extend(form.created.map(|_| EventType::ObjectCreate));
    events.extend(form.deleted.map(|_| EventType::ObjectDelete));
    let to = path_of(&bucket);
    let (id, queue) = (form.id.trim().to_owned(), form.queue.trim().to_owned());
    let RuleForm { prefix, suffix, .. } = form;
    api::put_rule(server, PutBucketRule { bucket, id, queue, events, prefix, suffix }).await?;
    Ok(Redirect::to(&to))
}

/// Removes a rule, and shows the bucket.
#[utoipa::path(post, path = "/buckets/{b}/rules/{id}/delete", tag = "pages",
    params(
        ("b" = String, Path, description = "The bucket"),
        ("id" = String, Path, description = "The rule"),
    ),
    responses((status = 303, description = "It is gone; the page of the bucket is there")),
)]
pub(in super::super) async fn delete_rule(
    State(server): State<Arc<Server>>,
    Path((bucket, id)): Path<(String, String)>,
) -> Result<Redirect, Problem> {
    let to = path_of(&bucket);
    api::delete_rule(server, DeleteBucketRule { bucket, id }).await?;
    Ok(Redirect::to(&to))
}

/// Puts a lifecycle rule, and shows the bucket.
#[utoipa::path(post, path = "/buckets/{b}/lifecycle", tag = "pages",
    params(("b" = String, Path, description = "The bucket")),
    request_body(content = LifecycleForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "It is in force; the page of the bucket is there")),
)]
pub(in super::super) async fn put_lifecycle(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    form: Result<Form<LifecycleForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    let Form(LifecycleForm { id, prefix, delete, abort }) = form.map_err(unreadable)?;
    let to = path_of(&bucket);
    let request = PutLifecycleRule {
        bucket,
        id: id.trim().to_owned(),
        prefix,
        delete_after_ms: days(&delete)?,
        abort_uploads_after_ms: days(&abort)?,
    };
    api::put_lifecycle(server, request).await?;
    Ok(Redirect::to(&to))
}

/// Removes a lifecycle rule, and shows the bucket.
#[utoipa::path(post, path = "/buckets/{b}/lifecycle/{id}/delete", tag = "pages",
    params(
        ("b" = String, Path, description = "The bucket"),
        ("id" = String, Path, description = "The rule"),
    ),
    responses((status = 303, description = "It is gone; the page of the bucket is there")),
)]
pub(in super::super) async fn delete_lifecycle(
    State(server): State<Arc<Server>>,
    Path((bucket, id)): Path<(String, String)>,
) -> Result<Redirect, Problem> {
    let to = path_of(&bucket);
    api::delete_lifecycle(server, DeleteLifecycleRule { bucket, id }).await?;
    Ok(Redirect::to(&to))
}

fn days(text: &str) -> Result<Option<u64>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let days: Option<u64> = text.parse().ok().and_then(|it: u64| it.checked_mul(DAY_MS));
    let wrong = || Problem::of(Code::BadRequest, format!("`{text}` is not a number of days"));
    days.map(Some).ok_or_else(wrong)
}
