//! An object as a file.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::{Path, State},
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::stream;
use serde::Deserialize;
use steadfast_web::escaped;
use utoipa::IntoParams;

use crate::{
    api::{
        id,
        page::Params,
        problem::{Problem, ProblemBody},
    },
    node::Node,
};

/// The query of an export.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    /// After which turn; left out, as it is.
    #[param(value_type = Option<i64>)]
    turn: Option<String>,
}

/// Exports an object as it is stored, or was after a turn, as an ordinary SQLite file.
#[utoipa::path(get, path = "/v1/objects/{class}/{name}/export", tag = "objects",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
        ExportParams,
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/vnd.sqlite3"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json",
            description = "The turn is no longer kept"),
        (status = 500, body = ProblemBody, content_type = "application/problem+json",
            description = "What is stored of it is damaged"),
    ),
)]
pub(crate) async fn export(
    State(node): State<Arc<Node>>,
    Path((class, name)): Path<(String, String)>,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    let turn = params.turn.as_deref().map(id::turn).transpose()?;
    let past = node.runtime.objects().look_back(&class, &name, turn).await?;
    let length = past.bytes_len();
    // Page by page, so that a large object is not copied as a whole.
    let pages = past.into_pages().map(|it| Ok::<_, Infallible>(Bytes::copy_from_slice(&it[..])));
    let headers = [
        (header::CONTENT_TYPE, "application/vnd.sqlite3".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
        (header::CONTENT_DISPOSITION, disposition(&class, &name, turn)),
    ];
    Ok((headers, Body::from_stream(stream::iter(pages))).into_response())
}

/// Under which name a browser keeps it: plain for all of them, in full for those that can.
fn disposition(class: &str, name: &str, turn: Option<i64>) -> String {
    let plain = file_name(class, name, turn);
    let turn = turn.map_or(String::new(), |it| format!("-{it}"));
    let full = escaped(&format!("{class}-{name}{turn}.sqlite"));
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{full}")
}

/// A name of a file for an object, of letters that every system takes.
pub(crate) fn file_name(class: &str, name: &str, turn: Option<i64>) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let name: String = name.chars().take(64).map(|it| if fits(it) { it } else { '_' }).collect();
    let turn = turn.map_or(String::new(), |it| format!("-{it}"));
    format!("{class}-{name}{turn}.sqlite")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_harmless_name_and_the_full_one() {
        assert_eq!(file_name("counter", "a/../ü\"\r\n", None), "counter-a_.._____.sqlite");
        assert_eq!(
            disposition("counter", "ü\"", Some(7)),
            "attachment; filename=\"counter-__-7.sqlite\"; \
             filename*=UTF-8''counter-%C3%BC%22-7.sqlite"
        );
    }
}
