//! An image that comes in: one file, a name for it, and a look before anything is stored.

use std::sync::Arc;

use axum::{
    extract::{Multipart, multipart::MultipartError},
    http::StatusCode,
};
use steadfast_core::{
    BucketError, Object, RequestKey,
    bucket::{Attributes, PutOptions, PutRecord},
};
use steadfast_images::{ImageError, PoolError, inspect};
use steadfast_web::{Code, IdempotencyKey, Problem};

use super::site::Site;
use crate::{IngestUploadEvent, OrganizationAgent, Upload, event_id, is_name};

/// An image from a form.
pub(super) struct Received {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// One file of a form, as far as it fits.
pub(super) struct File {
    /// The file name in the form.
    pub(super) name: Option<String>,
    pub(super) bytes: Result<Vec<u8>, Problem>,
}

/// The next file of a form. A name in front of it is left in `name`.
pub(super) async fn next_file(
    site: &Site,
    form: &mut Multipart,
    name: &mut Option<String>,
) -> Result<Option<File>, Problem> {
    while let Some(mut field) = form.next_field().await.map_err(broken)? {
        match field.name() {
            Some("name") => *name = Some(field.text().await.map_err(broken)?),
            Some("file") => {
                let name = field.file_name().map(str::to_owned);
                let mut bytes = Vec::new();
                while let Some(piece) = field.chunk().await.map_err(broken)? {
                    if site.limits.bytes_max < bytes.len() + piece.len() {
                        // The rest of it is skipped with the next field.
                        return Ok(Some(File { name, bytes: Err(too_large(site)) }));
                    }
                    bytes.extend_from_slice(&piece);
                }
                return Ok(Some(File { name, bytes: Ok(bytes) }));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Reads a form with one `file` and, if it is wanted, `name`.
pub(super) async fn read(site: &Site, mut form: Multipart) -> Result<Received, Problem> {
    let mut name = None;
    let file = next_file(site, &mut form, &mut name).await?;
    let file = file.ok_or_else(|| Problem::invalid("no_file", "the form has no field `file`"))?;
    let bytes = file.bytes?;
    if next_file(site, &mut form, &mut name).await?.is_some() {
        return Err(Problem::invalid("one_file", "send one file at a time"));
    }
    named(name, file.name.as_deref(), bytes)
}

/// An image under the name that is wanted, or under that of its file.
pub(super) fn named(
    name: Option<String>,
    file: Option<&str>,
    bytes: Vec<u8>,
) -> Result<Received, Problem> {
    let name = name.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
    let name = name.or_else(|| file.map(name_of_file)).unwrap_or_default();
    if !is_name(&name) {
        let detail = format!(
            "`{name}` cannot be the name of an image: 1 to 100 letters, digits, `.`, `_` and `-`, \
             not a `.` first"
        );
        return Err(Problem::invalid("invalid_name", detail));
    }
    Ok(Received { name, bytes })
}

/// Stores an image if it is one. Its event is in the same commit; the direct call of the
/// agent only saves the time of that delivery.
pub(super) async fn store(
    site: &Site,
    organization: &str,
    received: Received,
    key: &IdempotencyKey,
) -> Result<Option<Upload>, Problem> {
    let Received { name, bytes } = received;
    let (limits, bytes) = (site.limits.clone(), Arc::<[u8]>::from(bytes));
    let looked_at = bytes.clone();
    let place = site.places.take(Some(organization)).await;
    let work = move || {
        let _place = place;
        inspect(&looked_at, &limits)
    };
    let inspected = site.pool.run(|| work).await;
    let inspected = inspected.map_err(pool_failed)?.map_err(image_refused)?;
    let attributes = Attributes::of_type(inspected.content_type);
    let request = [name.as_bytes(), b"\0", &bytes].concat();
    let once = key.request("upload", Some(organization), &request)?;
    let once = once.map(RequestKey::into_remember);
    let put = PutOptions { attributes, once, ..PutOptions::default() };
    let put = match site.uploads.put_with(&format!("{organization}/{name}"), &bytes, put).await {
        Ok(it) => PutRecord { sequence: it.sequence, version: it.version(), size: it.size },
        // The image was stored before with this key; its agent may not have been told.
        Err(BucketError::Repeated { answer }) => serde_json::from_str(&answer)
            .map_err(|error| Problem::of(Code::Corrupt, error.to_string()))?,
        Err(error) => return Err(error.into()),
    };
    let ingest = IngestUploadEvent {
        name,
        sequence: put.sequence,
        version: put.version,
        size: put.size,
        content_type: Some(inspected.content_type.into()),
        failed: None,
    };
    let ingest = site.objects.call(OrganizationAgent::at(organization), ingest);
    // Apart from the keys that clients give to the agent: the image is stored, and it must not be
    // refused for a key of a retry.
    let own = key.text().map(|it| event_id("upload", it));
    Ok(ingest.maybe_key(own.as_deref()).await?)
}

/// A name from that of a file: what cannot be in one becomes `-`.
fn name_of_file(file: &str) -> String {
    let last = file.rsplit(['/', '\\']).next().unwrap_or_default();
    let fits = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    let name: String = last.chars().map(|it| if fits(it) { it } else { '-' }).collect();
    let name = name.trim_start_matches('.');
    let keep = name.len().saturating_sub(100);
    // The end says of which type it is.
    name[keep..].trim_start_matches('.').to_owned()
}

fn too_large(site: &Site) -> Problem {
    let detail = format!("an image must have at most {} bytes", site.limits.bytes_max);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "image_too_large", detail)
}

/// The problem of an image that is not accepted.
pub(super) fn image_refused(error: ImageError) -> Problem {
    let status = match &error {
        ImageError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        ImageError::Format => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ImageError::Empty
        | ImageError::Truncated { .. }
        | ImageError::Dimensions { .. }
        | ImageError::Pixels { .. }
        | ImageError::Frames { .. }
        | ImageError::Scans { .. }
        | ImageError::Memory { .. }
        | ImageError::Broken { .. } => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Problem::new(status, error.code(), error.to_string())
}

pub(super) fn pool_failed(error: PoolError) -> Problem {
    Problem::of(Code::Internal, error.to_string())
}

fn broken(error: MultipartError) -> Problem {
    let (status, detail) = (error.status(), error.body_text());
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(status, "image_too_large", detail),
        _ => Problem::invalid("malformed_form", detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_its_name_as_far_as_it_can_be_one() {
        for (file, name) in [
            ("cat.png", "cat.png"),
            ("C:\\photos\\my cat.png", "my-cat.png"),
            ("../../etc/passwd", "passwd"),
            (".hidden.png", "hidden.png"),
            ("größe.jpg", "gr--e.jpg"),
        ] {
            assert_eq!(name_of_file(file), name);
        }
        let long = name_of_file(&format!("{}.png", "x".repeat(300)));
        assert!(is_name(&long) && long.ends_with(".png"));
    }
}
