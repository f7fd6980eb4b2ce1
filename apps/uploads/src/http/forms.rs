//! The page without script: forms that do something and come back to the page.

use axum::{
    extract::{Multipart, Path, multipart::MultipartRejection},
    response::{IntoResponse, Redirect, Response},
};
use steadfast_core::Object;
use steadfast_web::{IdempotencyKey, Problem};

use super::{
    api::remove,
    page::refused,
    receive::{self, File},
    site::Site,
};
use crate::{OrganizationAgent, RetryUpload};

/// Files of one form.
pub(super) const FILES_MAX: usize = 20;

fn back(organization: &str, done: Result<(), Problem>) -> Response {
    match done {
        Ok(()) => Redirect::to(&format!("/uploads/{organization}")).into_response(),
        Err(problem) => refused(organization, problem),
    }
}

pub(super) async fn upload(
    site: Site,
    Path(organization): Path<String>,
    form: Result<Multipart, MultipartRejection>,
) -> Response {
    let done = async {
        site.admit(&organization)?;
        let form = form.map_err(|error| Problem::invalid("malformed_form", error.body_text()))?;
        store_all(&site, &organization, form).await
    };
    back(&organization, done.await)
}

/// Stores the files of a form one after the other, so that only one is in memory. What is wrong
/// with some of them does not keep the others out.
async fn store_all(site: &Site, organization: &str, mut form: Multipart) -> Result<(), Problem> {
    let (mut name, mut files, mut refused) = (None, 0, Vec::new());
    while let Some(File { name: file, bytes }) =
        receive::next_file(site, &mut form, &mut name).await?
    {
        files += 1;
        if FILES_MAX < files {
            let detail =
                format!("send at most {FILES_MAX} files at once; the first {FILES_MAX} are stored");
            return Err(Problem::invalid("too_many_files", detail));
        }
        let stored = async {
            let received = receive::named(name.take(), file.as_deref(), bytes?)?;
            receive::store(site, organization, received, &IdempotencyKey::default()).await
        };
        if let Err(problem) = stored.await {
            refused.push((file.unwrap_or_default(), problem));
        }
    }
    let Some((_, first)) = refused.first() else {
        return match files {
            0 => Err(Problem::invalid("no_file", "the form has no field `file`")),
            _ => Ok(()),
        };
    };
    let (status, stored) = (first.status(), files - refused.len());
    let reasons: Vec<_> =
        refused.iter().map(|(it, why)| format!("{it}: {}", why.detail())).collect();
    let detail = format!("{stored} of {files} images are stored. {}", reasons.join(". "));
    Err(Problem::new(status, "image_refused", detail))
}

pub(super) async fn delete(
    site: Site,
    Path((organization, name)): Path<(String, String)>,
) -> Response {
    let done = async {
        site.admit(&organization)?;
        remove(&site, &organization, &name).await
    };
    back(&organization, done.await)
}

pub(super) async fn retry(
    site: Site,
    Path((organization, name)): Path<(String, String)>,
) -> Response {
    let done = async {
        site.admit(&organization)?;
        let retry = RetryUpload { name };
        site.objects.call(OrganizationAgent::at(&organization), retry).await?;
        Ok(())
    };
    back(&organization, done.await)
}
