//! Files from a form, for browsers without script. They are written piece by piece as they come.

use std::sync::Arc;

use axum::{
    extract::{Multipart, Path, State, multipart::MultipartRejection},
    response::Redirect,
};
use serde::Deserialize;
use steadfast_bucket::{Attributes, PutOptions};
use utoipa::{IntoParams, ToSchema};

use super::path_in;
use crate::{
    api::{
        buckets::blobs::{names, write},
        page::Params,
        problem::{Code, Problem},
    },
    server::Server,
};

/// Where the files go.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in super::super) struct UploadParams {
    /// What comes before their names.
    #[serde(default)]
    prefix: String,
}

/// What the form says.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the form; the parts are read as they come")]
pub(in super::super) struct UploadForm {
    /// Files.
    #[schema(value_type = Vec<u8>)]
    file: (),
}

/// Writes the files of a form, each under its name, and shows the bucket.
#[utoipa::path(post, path = "/buckets/{b}/upload", tag = "pages",
    params(("b" = String, Path, description = "The bucket"), UploadParams),
    request_body(content = UploadForm, content_type = "multipart/form-data"),
    responses((status = 303, description = "They are there; the page of the bucket is, too")),
)]
pub(in super::super) async fn upload(
    State(server): State<Arc<Server>>,
    Path(bucket): Path<String>,
    Params(UploadParams { prefix }): Params<UploadParams>,
    form: Result<Multipart, MultipartRejection>,
) -> Result<Redirect, Problem> {
    let bad = |text: String| Problem::of(Code::BadRequest, text);
    let mut form = form.map_err(|error| bad(error.body_text()))?;
    let mut is_empty = true;
    while let Some(file) = form.next_field().await.map_err(|error| bad(error.body_text()))? {
        let Some(name) = file.file_name().map(name_of).filter(|it| !it.is_empty()) else {
            continue;
        };
        let (bucket, key) = names(&bucket, &format!("{prefix}{name}"))?;
        let content_type = file.content_type().map(str::to_owned);
        let attributes = Attributes { content_type, ..Attributes::default() };
        let put = PutOptions { attributes, ..PutOptions::default() };
        write(&server, (&bucket, &key), file, put).await?;
        is_empty = false;
    }
    if is_empty {
        return Err(bad("no file was chosen; go back and choose one".into()));
    }
    Ok(Redirect::to(&path_in(&bucket, &prefix)))
}

/// Old browsers say where the file was.
fn name_of(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
