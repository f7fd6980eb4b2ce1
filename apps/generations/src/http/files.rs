//! The bytes of artifacts, whole, in part, or in another size. An artifact never changes.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::Deserialize;
use steadfast_core::bucket::GetOptions;
use steadfast_images::{ImageLimits, thumbnail};
use steadfast_web::{BlobFile, Problem};

use super::{
    artifacts::{find, no_artifact},
    site::Site,
    workspace::Workspace,
};
use crate::{Artifact, blob_key};

/// The longest edge that can be asked for.
const EDGE_MAX: u32 = 2_048;
/// Bytes of an image that other sizes are made of.
const SOURCE_BYTES_MAX: u64 = 32 << 20;

#[derive(Deserialize)]
pub(super) struct Size {
    w: Option<u32>,
    h: Option<u32>,
}

pub(super) async fn file(
    State(site): State<Site>,
    workspace: Workspace,
    Path((id, file)): Path<(String, String)>,
    Query(size): Query<Size>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let artifact = find(&site, &workspace, &id).await?;
    let is_its = file == "file" || file == format!("file.{}", artifact.extension);
    if !is_its {
        return Err(no_artifact(&format!("{id}/{file}")));
    }
    let edge = edge(&size, &artifact)?;
    let etag = edge.map_or_else(|| artifact.id.clone(), |it| format!("{}-{it}", artifact.id));
    let blob = BlobFile { etag: &etag, is_immutable: true };
    if let Some(response) = blob.not_modified(&headers) {
        return Ok(response);
    }
    match edge {
        Some(edge) => {
            let copy = resized(&site, &workspace, &artifact, edge, &etag).await?;
            Ok(blob.response(kind_of(&copy), copy.to_vec()))
        }
        None => {
            let (key, kind) = (blob_key(workspace.name(), &artifact.id), &artifact.content_type);
            Ok(blob.stream(&site.artifacts, &key, kind, &headers).await?)
        }
    }
}

/// The longest edge of the copy that fits into what is asked for; `None` for the artifact itself.
fn edge(size: &Size, artifact: &Artifact) -> Result<Option<u32>, Problem> {
    let asked = [size.w, size.h].into_iter().flatten();
    if asked.clone().any(|it| !(1..=EDGE_MAX).contains(&it)) {
        let detail = format!("`w` and `h` must be 1 to {EDGE_MAX}");
        return Err(Problem::invalid("bad_request", detail));
    }
    if !artifact.content_type.starts_with("image/") || asked.clone().count() == 0 {
        return Ok(None);
    }
    let (Some(width), Some(height)) = (artifact.width, artifact.height) else {
        return Ok(asked.min());
    };
    let long = u64::from(width.max(height));
    let fits = |limit: Option<u32>, side: u32| {
        limit.map(|it| u64::from(it) * long / u64::from(side.max(1)))
    };
    let edge = [fits(size.w, width), fits(size.h, height)].into_iter().flatten().min();
    Ok(edge.map(|it| u32::try_from(it).unwrap_or(EDGE_MAX).clamp(1, EDGE_MAX)))
}

async fn resized(
    site: &Site,
    workspace: &Workspace,
    artifact: &Artifact,
    edge: u32,
    etag: &str,
) -> Result<Arc<[u8]>, Problem> {
    if let Some(made) = site.copies.find(etag) {
        return Ok(made);
    }
    // A request that waits has no bytes in memory yet.
    let place = site.places.take(Some(workspace.name())).await;
    let key = blob_key(workspace.name(), &artifact.id);
    let reading = site.artifacts.read(&key, GetOptions::default()).await?;
    if SOURCE_BYTES_MAX < reading.blob.size {
        let detail = format!("artifact `{}` is too large to be scaled", artifact.id);
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "artifact_too_large", detail));
    }
    // Outputs of providers may be larger than uploads of people.
    let bytes_max = usize::try_from(SOURCE_BYTES_MAX).unwrap_or(usize::MAX);
    let (bytes, limits) =
        (reading.bytes().await?, ImageLimits { bytes_max, ..site.limits.clone() });
    let work = move || {
        let _place = place;
        thumbnail(&bytes, &limits, edge)
    };
    let made = site.pool.run(|| work).await;
    let broken = |error: String| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "artifact_undecodable", error)
    };
    let made = made.map_err(|it| broken(it.to_string()))?.map_err(|it| broken(it.to_string()))?;
    let made: Arc<[u8]> = made.into();
    site.copies.keep(etag, made.clone());
    Ok(made)
}

fn kind_of(copy: &[u8]) -> &'static str {
    if copy.starts_with(b"\x89PNG") { "image/png" } else { "image/jpeg" }
}
