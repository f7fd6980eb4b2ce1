//! Access keys of the S3 port: made, listed, revoked. A secret is shown once, when it is made.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use steadfast_bucket::{AccessKey, Scope, create_key, delete_key, list_keys};
use utoipa::ToSchema;

use super::{
    page::{PageParams, Params},
    problem::{Code, Problem, ProblemBody},
    time::rfc3339,
    wire::List,
};
use crate::node::Node;

/// What a key may do; everything if nothing is said.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyBody {
    /// Only in this bucket.
    #[serde(default)]
    pub(crate) bucket: Option<String>,
    /// Only with keys that begin with this.
    #[serde(default)]
    pub(crate) prefix: Option<String>,
    /// Only reading.
    #[serde(default)]
    pub(crate) read_only: bool,
}

/// An access key, without its secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyEntry {
    /// Its id.
    pub(crate) access_key_id: String,
    /// The only bucket that it is for; null: all.
    pub(crate) bucket: Option<String>,
    /// What all keys begin with that it is for; null: all.
    pub(crate) prefix: Option<String>,
    /// Whether it may only read.
    pub(crate) read_only: bool,
    /// When it was made.
    pub(crate) created_at: String,
}

/// A new access key. Nobody can read the secret again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewKeyEntry {
    /// The key.
    #[serde(flatten)]
    pub(crate) key: KeyEntry,
    /// Its secret.
    pub(crate) secret_access_key: String,
}

/// A key that is revoked.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevokedEntry {
    /// Which one.
    pub(crate) access_key_id: String,
}

impl KeyEntry {
    fn of(key: &AccessKey) -> Self {
        let Scope { bucket, prefix, read_only } = key.scope.clone();
        let (access_key_id, created_at) = (key.id.clone(), rfc3339(key.created_at));
        Self { access_key_id, bucket, prefix, read_only, created_at }
    }
}

/// Makes an access key for the S3 port.
#[utoipa::path(post, path = "/v1/keys", tag = "keys",
    request_body = KeyBody,
    responses(
        (status = 201, body = NewKeyEntry, description = "It is in force; keep the secret"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(node): State<Arc<Node>>,
    body: Bytes,
) -> Result<(StatusCode, Json<NewKeyEntry>), Problem> {
    let KeyBody { bucket, prefix, read_only } = match body.as_ref() {
        [] => KeyBody::default(),
        body => serde_json::from_slice(body).map_err(|error| {
            let form = "{\"bucket\": …, \"prefix\": …, \"readOnly\": …}";
            Problem::new(Code::BadRequest, format!("the body must be {form}: {error}"))
        })?,
    };
    let scope = Scope { bucket, prefix, read_only };
    let key = create_key(&**node.runtime.store(), scope).await?;
    let entry = NewKeyEntry { key: KeyEntry::of(&key), secret_access_key: key.secret };
    Ok((StatusCode::CREATED, Json(entry)))
}

/// Lists the access keys, without their secrets.
#[utoipa::path(get, path = "/v1/keys", tag = "keys",
    params(PageParams),
    responses(
        (status = 200, body = List<KeyEntry>),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(node): State<Arc<Node>>,
    Params(params): Params<PageParams>,
) -> Result<Json<List<KeyEntry>>, Problem> {
    let (limit, after) = params.by_name()?;
    let mut found = list_keys(&**node.runtime.store(), after, limit + 1).await?;
    let is_more = limit < found.len();
    found.truncate(limit);
    let next = found.last().filter(|_| is_more).map(|it| it.id.clone());
    Ok(Json(List { items: found.iter().map(KeyEntry::of).collect(), next }))
}

/// Revokes an access key. What it has signed is refused from now on, presigned URLs included.
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "keys",
    params(("id" = String, Path, description = "The id of the key")),
    responses(
        (status = 200, body = RevokedEntry, description = "It is revoked"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn revoke(
    State(node): State<Arc<Node>>,
    Path(id): Path<String>,
) -> Result<Json<RevokedEntry>, Problem> {
    if delete_key(&**node.runtime.store(), &id).await? {
        return Ok(Json(RevokedEntry { access_key_id: id }));
    }
    let detail = format!("there is no access key `{id}`; see `steadfast keys list`");
    Err(Problem::new(Code::NotFound, detail))
}
