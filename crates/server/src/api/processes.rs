//! Processes: the list, the instances of one, and one of those with its messages.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use steadfast_core::process::InputError;
use steadfast_store::{Address, EntityKind, StreamSummary};

use super::{
    page::{Cursor, InstanceParams, Page, PageParams, Params},
    problem::{Code, Problem, ProblemBody},
    streams,
    wire::{Instance, InstanceDetail, List, Process, Status},
};
use crate::node::Node;

/// Rows of one read while those of one status are looked for.
const READ_ROWS: usize = 1_000;

/// Reads for one page at most. A page may end early, with the cursor to go on.
const READS_MAX: usize = 20;

/// Lists the processes by name.
#[utoipa::path(get, path = "/v1/processes", tag = "processes", responses(
    (status = 200, body = List<Process>),
))]
pub(crate) async fn list(State(node): State<Arc<Node>>) -> Json<List<Process>> {
    let items =
        node.runtime.processes().names().map(|name| Process { name: name.into() }).collect();
    Json(List { items, next: None })
}

/// Lists the instances of a process by id.
#[utoipa::path(get, path = "/v1/processes/{name}", tag = "processes",
    params(("name" = String, Path, description = "The process"), InstanceParams),
    responses(
        (status = 200, body = List<Instance>,
            description = "With `status`, a part may be shorter than its limit and go on"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn instances(
    State(node): State<Arc<Node>>,
    Path(name): Path<String>,
    Params(params): Params<InstanceParams>,
) -> Result<Json<List<Instance>>, Problem> {
    Ok(Json(read_instances(&node, &name, params.status, &params.page()?).await?))
}

/// Shows an instance: what it knows, and its messages.
#[utoipa::path(get, path = "/v1/processes/{name}/{id}", tag = "processes",
    params(
        ("name" = String, Path, description = "The process"),
        ("id" = String, Path, description = "The instance"),
        PageParams,
    ),
    responses(
        (status = 200, body = InstanceDetail),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(node): State<Arc<Node>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<PageParams>,
) -> Result<Json<InstanceDetail>, Problem> {
    Ok(Json(read_one(&node, &name, &id, &params.page()?).await?))
}

/// Reads a part of the instances of a process.
pub(crate) async fn read_instances(
    node: &Node,
    name: &str,
    status: Option<Status>,
    page: &Page,
) -> Result<List<Instance>, Problem> {
    if !node.runtime.processes().contains(name) {
        return Err(InputError::Process { name: name.into() }.into());
    }
    let fits = |it: &StreamSummary| {
        status.is_none_or(|wanted| Status::of(it.closed_at.is_some()) == wanted)
    };
    let within = Some((EntityKind::Process, name));
    let mut after = page.after_address()?.cloned();
    let mut items: Vec<StreamSummary> = Vec::new();
    let cursor = |it: Address| Some(Cursor::Address(it).encode());
    let list = |items: &[StreamSummary], next| List {
        items: items.iter().map(Instance::of).collect(),
        next,
    };
    for _ in 0..READS_MAX {
        let wanted = if status.is_none() { page.limit + 1 } else { READ_ROWS };
        let found = node.runtime.store().streams(within, after.as_ref(), wanted).await?;
        let last = found.len() < wanted;
        after = found.last().map(|it| it.address.clone()).or(after);
        items.extend(found.into_iter().filter(fits));
        if page.limit < items.len() {
            items.truncate(page.limit);
            let next = items.last().and_then(|it| cursor(it.address.clone()));
            return Ok(list(&items, next));
        }
        if last {
            return Ok(list(&items, None));
        }
    }
    Ok(list(&items, after.and_then(cursor)))
}

/// Reads an instance and a part of its messages.
pub(crate) async fn read_one(
    node: &Node,
    name: &str,
    id: &str,
    page: &Page,
) -> Result<InstanceDetail, Problem> {
    let view = match node.runtime.processes().look(name, id).await {
        // Nobody asked with a message: it is a stored one that cannot be read.
        Err(InputError::Codec(error)) => {
            return Err(Problem::new(Code::Corrupt, error.to_string()));
        }
        view => view?,
    };
    let view = view.ok_or_else(|| {
        let detail = format!("process `{name}` has no instance `{id}`; it begins with an input");
        Problem::new(Code::NotFound, detail)
    })?;
    let address = Address::new(EntityKind::Process, name, id).map_err(InputError::from)?;
    let stream = streams::read_one(node, &address.to_string(), page).await?;
    Ok(InstanceDetail {
        id: id.into(),
        process: name.into(),
        address: stream.address,
        status: Status::of(view.completed),
        state: view.state,
        version: view.version,
        items: stream.items,
        next: stream.next,
    })
}
