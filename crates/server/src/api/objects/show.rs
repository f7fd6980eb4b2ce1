//! One object: what is known of it, and its end.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};

use crate::{
    api::{
        problem::{Code, Problem, ProblemBody},
        wire::{Deleted, ObjectDetail},
    },
    node::Node,
};

/// Shows an object: its size, tables, alarms, connections and last error.
///
/// It is read as it is stored; it is not woken.
#[utoipa::path(get, path = "/v1/objects/{class}/{name}", tag = "objects",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
    ),
    responses(
        (status = 200, body = ObjectDetail),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path((class, name)): Path<(String, String)>,
) -> Result<Json<ObjectDetail>, Problem> {
    Ok(Json(read_one(&node, &class, &name).await?))
}

/// Deletes an object: its database, alarms and images. Messages that it sent stay.
#[utoipa::path(delete, path = "/v1/objects/{class}/{name}", tag = "objects",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
    ),
    responses(
        (status = 200, body = Deleted),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "Another program serves its class"),
        (status = 500, body = ProblemBody, content_type = "application/problem+json",
            description = "What is stored of it is damaged"),
        (status = 503, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn delete(
    State(node): State<Arc<Node>>,
    Path((class, name)): Path<(String, String)>,
) -> Result<Json<Deleted>, Problem> {
    // One that does not exist is told apart, and is not made to be deleted.
    node.runtime.objects().look_at_turns(&class, &name, None, 0).await?;
    if !node.runtime.objects().serves(&class) {
        let detail =
            format!("class `{class}` is not registered here; delete `{name}` where it is served");
        return Err(Problem::new(Code::ClassNotServed, detail));
    }
    let deleted = node.runtime.objects().delete(&class, &name).await?;
    Ok(Json(Deleted { deleted }))
}

/// Reads an object.
pub(crate) async fn read_one(
    node: &Node,
    class: &str,
    name: &str,
) -> Result<ObjectDetail, Problem> {
    Ok(ObjectDetail::of(node.runtime.objects().look_at(class, name).await?))
}
