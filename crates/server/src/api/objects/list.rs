//! The classes, and the objects of one.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use steadfast_store::EntityKind;

use crate::{
    api::{
        page::{CURSOR, Cursor, ObjectParams, Page, Params, bad_cursor},
        problem::{Problem, ProblemBody},
        wire::{List, ObjectClass, ObjectEntry},
    },
    node::Node,
};

/// Lists the classes: those served here, and those of objects that exist.
#[utoipa::path(get, path = "/v1/objects", tag = "objects", responses(
    (status = 200, body = List<ObjectClass>),
))]
pub(crate) async fn classes(
    State(node): State<Arc<Node>>,
) -> Result<Json<List<ObjectClass>>, Problem> {
    Ok(Json(List { items: read_classes(&node).await?, next: None }))
}

/// Lists the objects of a class that exist, in the order of the bytes of their names.
#[utoipa::path(get, path = "/v1/objects/{class}", tag = "objects",
    params(("class" = String, Path, description = "The class"), ObjectParams),
    responses(
        (status = 200, body = List<ObjectEntry>),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json",
            description = "The class is neither served nor stored here"),
    ),
)]
pub(crate) async fn objects(
    State(node): State<Arc<Node>>,
    Path(class): Path<String>,
    Params(params): Params<ObjectParams>,
) -> Result<Json<List<ObjectEntry>>, Problem> {
    let prefix = params.prefix.as_deref().unwrap_or_default();
    Ok(Json(read_objects(&node, &class, prefix, &params.page()?).await?))
}

/// Reads the classes.
pub(crate) async fn read_classes(node: &Node) -> Result<Vec<ObjectClass>, Problem> {
    let classes = node.runtime.objects().look_at_classes().await?;
    Ok(classes.into_iter().map(ObjectClass::of).collect())
}

/// Reads a part of the objects of a class.
pub(crate) async fn read_objects(
    node: &Node,
    class: &str,
    prefix: &str,
    page: &Page,
) -> Result<List<ObjectEntry>, Problem> {
    let after = page.after_address()?;
    if after.is_some_and(|it| (it.kind(), it.class()) != (EntityKind::Object, class)) {
        return Err(bad_cursor(CURSOR));
    }
    let after = after.map(|it| it.name());
    let mut found =
        node.runtime.objects().look_at_class(class, prefix, after, page.limit + 1).await?;
    let more = page.limit < found.len();
    found.truncate(page.limit);
    let last = found.last().filter(|_| more);
    let next = last.map(|it| Cursor::Address(it.address.clone()).encode());
    let entry = |it| ObjectEntry::of(it, node.runtime.objects().is_awake(&it.address));
    Ok(List { items: found.iter().map(entry).collect(), next })
}
