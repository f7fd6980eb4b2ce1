//! The images themselves, and small copies of them. They come from strangers: a browser may show
//! them, and do nothing else with them.

use std::sync::Arc;

use axum::{
    extract::{Path, Query},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::Deserialize;
use steadfast_core::bucket::{Condition, GetOptions};
use steadfast_images::{ImageFormat, thumbnail as small_copy};
use steadfast_web::{BlobFile, Problem};

use super::{
    receive::{image_refused, pool_failed},
    site::{Site, unknown},
};
use crate::{IMAGE_NOT_FOUND, is_name};

/// The longest edge of a small copy.
const EDGE: u32 = 320;

#[derive(Deserialize)]
pub(super) struct Version {
    version: Option<String>,
}

type Named = Path<(String, String)>;

pub(super) async fn image(
    site: Site,
    named: Named,
    query: Query<Version>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    serve(site, named, query, headers, false).await
}

pub(super) async fn thumbnail(
    site: Site,
    named: Named,
    query: Query<Version>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    serve(site, named, query, headers, true).await
}

async fn serve(
    site: Site,
    Path((organization, name)): Named,
    Query(query): Query<Version>,
    headers: HeaderMap,
    is_small: bool,
) -> Result<Response, Problem> {
    site.admit(&organization)?;
    let (key, version) = current(&site, &organization, &name, &query).await?;
    let blob = BlobFile { etag: &version, is_immutable: query.version.is_some() };
    if let Some(response) = blob.not_modified(&headers) {
        return Ok(response);
    }
    let bytes = match is_small {
        true => small(&site, &key, &version).await?.to_vec(),
        false => load(&site, &key, &version).await?,
    };
    // The type by its bytes, whatever the client said; other bytes are not shown as an image.
    let kind = ImageFormat::sniff(&bytes).map(ImageFormat::content_type);
    Ok(blob.response(kind.unwrap_or("application/octet-stream"), bytes))
}

/// The small copy of an image, made if there is none yet.
async fn small(site: &Site, key: &str, version: &str) -> Result<Arc<[u8]>, Problem> {
    if let Some(made) = site.thumbnails.find(version) {
        return Ok(made);
    }
    // A request that waits has no bytes in memory yet. The key begins with the organization.
    let place = site.places.take(key.split('/').next()).await;
    let (limits, bytes) = (site.limits.clone(), load(site, key, version).await?);
    let work = move || {
        let _place = place;
        small_copy(&bytes, &limits, EDGE)
    };
    let made = site.pool.run(|| work).await;
    let made: Arc<[u8]> = made.map_err(pool_failed)?.map_err(image_refused)?.into();
    site.thumbnails.keep(version, made.clone());
    Ok(made)
}

/// The key of an image and its version, which is the one that is asked for, if one is.
async fn current(
    site: &Site,
    organization: &str,
    name: &str,
    query: &Version,
) -> Result<(String, String), Problem> {
    if !is_name(name) {
        return Err(unknown(name));
    }
    let key = format!("{organization}/{name}");
    let version = site.uploads.head(&key).await?.ok_or_else(|| unknown(name))?.version();
    if query.version.as_ref().is_some_and(|it| *it != version) {
        let detail = format!("image `{name}` was replaced; request it again");
        return Err(Problem::not_found(IMAGE_NOT_FOUND, detail));
    }
    Ok((key, version))
}

async fn load(site: &Site, key: &str, version: &str) -> Result<Vec<u8>, Problem> {
    let get = GetOptions { condition: Condition::version(version), ..GetOptions::default() };
    let reading = site.uploads.read(key, get).await?;
    if (site.limits.bytes_max as u64) < reading.blob.size {
        let detail = format!("upload `{key}` has {} bytes", reading.blob.size);
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "image_too_large", detail));
    }
    Ok(reading.bytes().await?)
}
