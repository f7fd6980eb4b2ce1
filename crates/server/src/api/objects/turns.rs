//! The timeline of an object, and what one turn changed.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};

use crate::{
    api::{
        id,
        page::{Cursor, Page, PageParams, Params},
        problem::{Problem, ProblemBody},
        wire::{List, TurnDetail, TurnEntry},
    },
    node::Node,
};

/// Lists the turns of an object, newest first, as far as they are kept.
#[utoipa::path(get, path = "/v1/objects/{class}/{name}/turns", tag = "objects",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
        PageParams,
    ),
    responses(
        (status = 200, body = List<TurnEntry>),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn turns(
    State(node): State<Arc<Node>>,
    Path((class, name)): Path<(String, String)>,
    Params(params): Params<PageParams>,
) -> Result<Json<List<TurnEntry>>, Problem> {
    Ok(Json(read_turns(&node, &class, &name, &params.page()?).await?))
}

/// Shows what one turn changed: rows before and after it.
#[utoipa::path(get, path = "/v1/objects/{class}/{name}/turns/{turn}", tag = "objects",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
        ("turn" = i64, Path, description = "Its number, from 1"),
    ),
    responses(
        (status = 200, body = TurnDetail),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json",
            description = "It is no longer kept"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json",
            description = "Comparing took too long"),
    ),
)]
pub(crate) async fn turn(
    State(node): State<Arc<Node>>,
    Path((class, name, turn)): Path<(String, String, String)>,
) -> Result<Json<TurnDetail>, Problem> {
    Ok(Json(read_turn(&node, &class, &name, id::turn(&turn)?).await?))
}

/// Reads a part of the turns of an object.
pub(crate) async fn read_turns(
    node: &Node,
    class: &str,
    name: &str,
    page: &Page,
) -> Result<List<TurnEntry>, Problem> {
    // The cursor is the turn that the page begins with.
    let from = Some(page.after_position()?).filter(|it| *it != 0);
    let found = node.runtime.objects().look_at_turns(class, name, from, page.limit + 1).await?;
    let next = found.get(page.limit).map(|it| Cursor::Position(it.position).encode());
    Ok(List { items: found.iter().take(page.limit).map(TurnEntry::of).collect(), next })
}

/// Reads what one turn changed.
pub(crate) async fn read_turn(
    node: &Node,
    class: &str,
    name: &str,
    turn: i64,
) -> Result<TurnDetail, Problem> {
    Ok(TurnDetail::of(node.runtime.objects().look_at_turn(class, name, turn).await?))
}
