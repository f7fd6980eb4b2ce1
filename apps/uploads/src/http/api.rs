//! The API of uploads.

use axum::{
    extract::{Multipart, Path, Request, multipart::MultipartRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use steadfast_core::Object;
use steadfast_web::{
    Code, Cursor, IdempotencyKey, Json, Limit, ListPage, PageRequest, Params, Problem,
};

use super::{
    receive,
    site::{Site, unknown},
};
use crate::{
    GetUpload, GetUploads, HideUpload, OrganizationAgent, RetryUpload, Status, Upload, is_name,
};

/// An image as the API shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    #[serde(flatten)]
    upload: Upload,
    image_url: String,
    thumbnail_url: String,
}

impl Shown {
    fn new(organization: &str, upload: Upload) -> Self {
        let url = |what: &str| image_url(organization, &upload, what);
        let (image_url, thumbnail_url) = (url("image"), url("thumbnail"));
        Self { upload, image_url, thumbnail_url }
    }
}

/// Where an image, or its small copy, is. The version makes it another address for another image.
pub(super) fn image_url(organization: &str, upload: &Upload, what: &str) -> String {
    let Upload { name, version, .. } = upload;
    format!("/api/organizations/{organization}/uploads/{name}/{what}?version={version}")
}

pub(super) async fn create(
    site: Site,
    Path(organization): Path<String>,
    key: IdempotencyKey,
    form: Result<Multipart, MultipartRejection>,
) -> Result<Response, Problem> {
    site.admit(&organization)?;
    let form = form.map_err(|error| Problem::invalid("malformed_form", error.body_text()))?;
    let received = receive::read(&site, form).await?;
    let upload = receive::store(&site, &organization, received, &key).await?;
    let shown = upload.map(|it| Shown::new(&organization, it));
    Ok((StatusCode::ACCEPTED, Json(shown)).into_response())
}

#[derive(Deserialize)]
pub(super) struct ListQuery {
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) label: Option<String>,
    #[serde(default)]
    pub(super) cursor: Option<String>,
    #[serde(default)]
    pub(super) limit: Option<Limit>,
}

pub(super) async fn list(
    site: Site,
    Path(organization): Path<String>,
    Params(query): Params<ListQuery>,
) -> Result<Json<ListPage<Shown>>, Problem> {
    site.admit(&organization)?;
    let limit = query.limit.unwrap_or_default();
    let ListPage { items, next } = find(&site, &organization, &query, limit).await?;
    let items = items.into_iter().map(|it| Shown::new(&organization, it)).collect();
    Ok(Json(ListPage { items, next }))
}

/// A page of the images that pass the filters of a query.
pub(super) async fn find(
    site: &Site,
    organization: &str,
    query: &ListQuery,
    limit: Limit,
) -> Result<ListPage<Upload>, Problem> {
    let page = PageRequest::new(limit, query.cursor.as_deref())?;
    let status = query.status.as_deref().filter(|it| !it.is_empty());
    let status = match status.map(Status::from_name) {
        Some(None) => {
            let detail = "`status` must be queued, running, classified or failed";
            return Err(Problem::of(Code::BadRequest, detail));
        }
        Some(status) => status,
        None => None,
    };
    let label = query.label.clone().filter(|it| !it.is_empty());
    let (after, limit) = (page.after_time()?, page.rows_to_read());
    let ask = GetUploads { status, label, after, limit };
    let found = site.objects.call(OrganizationAgent::at(organization), ask).await?;
    Ok(page.page(found, |it| Cursor::Time(it.created_at, it.name.clone()), |it| it))
}

async fn one(site: &Site, organization: &str, name: &str) -> Result<Upload, Problem> {
    if !is_name(name) {
        return Err(unknown(name));
    }
    let ask = GetUpload { name: name.into() };
    let found = site.objects.call(OrganizationAgent::at(organization), ask).await?;
    found.ok_or_else(|| unknown(name))
}

pub(super) async fn show(
    site: Site,
    Path((organization, name)): Path<(String, String)>,
) -> Result<Json<Shown>, Problem> {
    site.admit(&organization)?;
    let found = one(&site, &organization, &name).await?;
    Ok(Json(Shown::new(&organization, found)))
}

pub(super) async fn delete(
    site: Site,
    Path((organization, name)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    site.admit(&organization)?;
    remove(&site, &organization, &name).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Deletes the blob, and with it commits the event that removes the row. Until that has come the
/// row is hidden.
pub(super) async fn remove(site: &Site, organization: &str, name: &str) -> Result<(), Problem> {
    if !is_name(name) {
        return Err(unknown(name));
    }
    let sequence = site.uploads.delete(&format!("{organization}/{name}")).await?;
    let sequence = sequence.ok_or_else(|| unknown(name))?;
    let hide = HideUpload { name: name.into(), sequence };
    Ok(site.objects.call(OrganizationAgent::at(organization), hide).await?)
}

pub(super) async fn retry(
    site: Site,
    Path((organization, name)): Path<(String, String)>,
    key: IdempotencyKey,
) -> Result<Json<Shown>, Problem> {
    site.admit(&organization)?;
    // The keys of an organization are those of its agent.
    let retry = site.objects.call(OrganizationAgent::at(&organization), RetryUpload { name });
    let upload = retry.maybe_key(key.text()).await?;
    Ok(Json(Shown::new(&organization, upload)))
}

pub(super) async fn events(
    site: Site,
    Path(organization): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    site.admit(&organization)?;
    Ok((site.connect)(OrganizationAgent::CLASS, organization, request).await)
}
