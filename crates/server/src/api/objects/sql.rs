//! SQL over one object, to read.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
};

use crate::{
    api::{
        problem::{Code, Problem, ProblemBody},
        wire::{SqlBody, SqlRows},
    },
    node::Node,
};

/// Runs one statement that only reads, on an object as it is stored or was after a turn.
///
/// It has 2 s, 1,000 rows and about 4 MiB of answer.
#[utoipa::path(post, path = "/v1/objects/{class}/{name}/sql", tag = "objects",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
    ),
    request_body = SqlBody,
    responses(
        (status = 200, body = SqlRows),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json",
            description = "The turn is no longer kept"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description =
            "`sql_refused`: it does more than read; `sql_failed`: SQLite says why; \
             `sql_too_long`: it was stopped"),
    ),
)]
pub(crate) async fn sql(
    State(node): State<Arc<Node>>,
    Path((class, name)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<SqlRows>, Problem> {
    let body: SqlBody = serde_json::from_slice(&body).map_err(|error| {
        let detail = format!("the body must be {{\"sql\": …, \"params\": …}}: {error}");
        Problem::new(Code::BadRequest, detail)
    })?;
    Ok(Json(read_rows(&node, &class, &name, body).await?))
}

/// Runs a statement.
pub(crate) async fn read_rows(
    node: &Node,
    class: &str,
    name: &str,
    body: SqlBody,
) -> Result<SqlRows, Problem> {
    Ok(SqlRows::of(node.runtime.objects().query(class, name, body.query()).await?))
}
