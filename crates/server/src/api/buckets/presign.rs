//! URLs by which somebody without a key reads or writes one blob for a while.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
};
use steadfast_bucket::{AccessKey, BucketError, Scope, create_key, delete_key, find_key};
use steadfast_s3::{PresignMethod, presign as sign};
use steadfast_store::{
    Clock, Commit, EntryKey, Expect, Json as Text, Outcome, Put, Store, SystemClock, Write,
};

use super::blobs::names;
use crate::{
    api::{
        body::body_of,
        problem::{BucketCode, Code, Problem, ProblemBody},
        time::rfc3339,
        wire::{PresignBody, PresignVerb, PresignedEntry},
    },
    node::Node,
};

/// Makes a URL of the S3 port by which one blob can be read, or written, until it expires.
///
/// It is signed with an access key that is made for this when it is first needed. To revoke all
/// URLs at once, delete that key.
#[utoipa::path(post, path = "/v1/buckets/{b}/presign", tag = "buckets",
    params(("b" = String, Path, description = "The bucket")),
    request_body = PresignBody,
    responses(
        (status = 200, body = PresignedEntry),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "`no_s3_port`: nothing would answer"),
    ),
)]
pub(crate) async fn presign(
    State(node): State<Arc<Node>>,
    Path(bucket): Path<String>,
    body: Bytes,
) -> Result<Json<PresignedEntry>, Problem> {
    let form = "{\"key\", \"method\"?: \"GET\" or \"PUT\", \"expiresSeconds\"?}";
    Ok(Json(presigned(&node, &bucket, &body_of(&body, form)?).await?))
}

/// Makes the URL.
pub(crate) async fn presigned(
    node: &Node,
    bucket: &str,
    body: &PresignBody,
) -> Result<PresignedEntry, Problem> {
    let (bucket, key) = names(bucket, &body.key)?;
    node.buckets()?.bucket(&bucket).await?;
    let method = match body.method {
        PresignVerb::Get => {
            // A link to nothing is a mistake that is better seen now.
            node.buckets()?.head(&bucket, &key).await?;
            PresignMethod::Get
        }
        PresignVerb::Put => PresignMethod::Put,
    };
    let address = node.s3_address.get().ok_or_else(|| {
        let detail = "a presigned URL leads to the S3 port, and none is open here; ask a server \
                      that has one";
        Problem::new(Code::Bucket(BucketCode::NoS3Port), detail)
    })?;
    let (endpoint, now) = (format!("http://{address}"), SystemClock.now());
    let expires = Duration::from_secs(body.expires_seconds);
    let signer = signer(&**node.runtime.store()).await?;
    let url = sign(&endpoint, &signer, method, (&bucket, &key), expires, now).map_err(|error| {
        Problem::new(Code::Bucket(BucketCode::InvalidArgument), error.to_string())
    })?;
    Ok(PresignedEntry { url, expires_at: rfc3339(now.after(expires)) })
}

/// The key that signs: its id is kept in an entry of the store. It is made when it is first needed,
/// and anew when somebody has deleted it.
async fn signer(store: &dyn Store) -> Result<AccessKey, BucketError> {
    let entry = EntryKey::new("system", b"presign-key")?;
    loop {
        let found = store.entry(&entry).await?;
        let id = found.as_ref().and_then(|it| it.value.as_ref());
        let id = id.and_then(|it| serde_json::from_str::<String>(it.as_str()).ok());
        if let Some(id) = id
            && let Some(key) = find_key(store, &id).await?
        {
            return Ok(key);
        }
        let key = create_key(store, Scope::default()).await?;
        let put = Put {
            entry: entry.clone(),
            value: Some(Text::of(&key.id)?),
            reference: None,
            expires: None,
        };
        let revision = found.map_or(0, |it| it.revision);
        let expect = Expect::Revision { entry: entry.clone(), revision };
        match store.commit(Commit::of(Write::Put(put)).expect(expect)).await? {
            Outcome::Committed(_) => return Ok(key),
            // Somebody else was first; theirs is used.
            Outcome::Rejected(_) | Outcome::Duplicate(_) => {
                delete_key(store, &key.id).await?;
            }
        }
    }
}
