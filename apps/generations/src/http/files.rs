//! The bytes of artifacts, whole, in part, or in another size. An artifact never changes.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream::{Stream, try_unfold};
use serde::Deserialize;
use steadfast_core::{
    BucketError,
    bucket::{ByteRange, GetOptions, Reading},
};
use steadfast_images::{ImageLimits, thumbnail};
use tokio::sync::Semaphore;

use super::{artifacts::find, problem::Problem, site::Site, workspace::Workspace};
use crate::{Artifact, blob_key};

/// The longest edge that can be asked for.
const EDGE_MAX: u32 = 2_048;
/// Bytes of an image that other sizes are made of.
const SOURCE_BYTES_MAX: u64 = 32 << 20;

/// Images that are scaled at a time.
static PLACES: Semaphore = Semaphore::const_new(4);

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
        return Err(Problem::no_artifact(&format!("{id}/{file}")));
    }
    let edge = edge(&size, &artifact)?;
    let etag = edge.map_or_else(|| artifact.id.clone(), |it| format!("{}-{it}", artifact.id));
    let has = headers.get(header::IF_NONE_MATCH).and_then(|it| it.to_str().ok());
    if has.is_some_and(|it| knows(it, &etag)) {
        let mut response = answer(StatusCode::NOT_MODIFIED, "", &etag, Body::empty());
        response.headers_mut().remove(header::CONTENT_TYPE);
        return Ok(response);
    }
    match edge {
        Some(edge) => resized(&site, &artifact, edge, &etag).await,
        None => whole(&site, &artifact, &etag, &headers).await,
    }
}

/// Whether somebody has this one already.
fn knows(tags: &str, etag: &str) -> bool {
    let is_it = |it: &str| it.trim_start_matches("W/").trim_matches('"') == etag;
    tags.split(',').map(str::trim).any(|it| it == "*" || is_it(it))
}

/// The longest edge of the copy that fits into what is asked for; `None` for the artifact itself.
fn edge(size: &Size, artifact: &Artifact) -> Result<Option<u32>, Problem> {
    let asked = [size.w, size.h].into_iter().flatten();
    if asked.clone().any(|it| !(1..=EDGE_MAX).contains(&it)) {
        let detail = format!("`w` and `h` must be 1 to {EDGE_MAX}");
        return Err(Problem::bad("bad_request", detail));
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
    artifact: &Artifact,
    edge: u32,
    etag: &str,
) -> Result<Response, Problem> {
    if let Some(made) = site.copies.find(etag) {
        return Ok(answer(StatusCode::OK, kind_of(&made), etag, Body::from(made.to_vec())));
    }
    // A request that waits has no bytes in memory yet.
    let _place = PLACES.acquire().await;
    let reading = site.artifacts.read(&blob_key(&artifact.id), GetOptions::default()).await?;
    if SOURCE_BYTES_MAX < reading.blob.size {
        let detail = format!("artifact `{}` is too large to be scaled", artifact.id);
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "artifact_too_large", detail));
    }
    // Outputs of providers may be larger than uploads of people.
    let bytes_max = usize::try_from(SOURCE_BYTES_MAX).unwrap_or(usize::MAX);
    let (bytes, limits) =
        (reading.bytes().await?, ImageLimits { bytes_max, ..site.limits.clone() });
    let made = site.pool.run(|| move || thumbnail(&bytes, &limits, edge)).await;
    let broken = |error: String| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "artifact_undecodable", error)
    };
    let made = made.map_err(|it| broken(it.to_string()))?.map_err(|it| broken(it.to_string()))?;
    let made: Arc<[u8]> = made.into();
    site.copies.keep(etag, made.clone());
    Ok(answer(StatusCode::OK, kind_of(&made), etag, Body::from(made.to_vec())))
}

fn kind_of(copy: &[u8]) -> &'static str {
    if copy.starts_with(b"\x89PNG") { "image/png" } else { "image/jpeg" }
}

async fn whole(
    site: &Site,
    artifact: &Artifact,
    etag: &str,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let range = headers.get(header::RANGE).and_then(|it| it.to_str().ok()).and_then(range);
    let get = GetOptions { range, ..GetOptions::default() };
    let reading = match site.artifacts.read(&blob_key(&artifact.id), get).await {
        Ok(reading) => reading,
        Err(BucketError::Range { size }) => {
            let all = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, all).into_response());
        }
        Err(error) => return Err(error.into()),
    };
    let (at, size) = (reading.range.clone(), reading.blob.size);
    let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let body = Body::from_stream(pieces(reading));
    let mut response = answer(status, &artifact.content_type, etag, body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, (at.end - at.start).into());
    headers.insert(header::ACCEPT_RANGES, header::HeaderValue::from_static("bytes"));
    if range.is_some() {
        let part = format!("bytes {}-{}/{size}", at.start, at.end.saturating_sub(1));
        headers.extend(part.parse().ok().map(|it| (header::CONTENT_RANGE, it)));
    }
    Ok(response)
}

/// One range; of several, or what is none, the whole is given.
fn range(text: &str) -> Option<ByteRange> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    match (first.parse().ok(), last.parse().ok()) {
        (Some(first), Some(last)) if first <= last => Some(ByteRange::Between(first, last)),
        (Some(first), None) if last.is_empty() => Some(ByteRange::From(first)),
        (None, Some(last)) if first.is_empty() => Some(ByteRange::Last(last)),
        _ => None,
    }
}

fn pieces(reading: Reading) -> impl Stream<Item = Result<Bytes, BucketError>> {
    try_unfold(reading, async |mut reading| {
        let next = reading.next().await?;
        Ok(next.map(|it| (it, reading)))
    })
}

fn answer(status: StatusCode, kind: &str, etag: &str, body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::ETAG, format!("\"{etag}\"")),
        (header::CACHE_CONTROL, "private, max-age=31536000, immutable".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".to_owned()),
    ];
    (status, headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_in_every_spelling() {
        for tags in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(knows(tags, "a"), "{tags}");
        }
        assert!(!knows("\"ab\", W/\"b\"", "a"));
    }

    #[test]
    fn ranges_are_read_as_http_writes_them() {
        assert_eq!(range("bytes=0-9"), Some(ByteRange::Between(0, 9)));
        assert_eq!(range("bytes=5-"), Some(ByteRange::From(5)));
        assert_eq!(range("bytes=-5"), Some(ByteRange::Last(5)));
        for bad in ["bytes=9-0", "bytes=a-b", "lines=0-1", "bytes=0-1,3-4", "bytes=-"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
