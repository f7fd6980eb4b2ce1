//! Processes over HTTP.

use std::sync::Arc;

use steadfast_api::{
    Code, Page,
    processes::{
        Decision, Instance, InstanceDetail, ListInstances, ListProcesses, Process, SendInput,
        ShowInstance, Status,
    },
    streams::ShowStream,
};
use steadfast_core::process::InputError;
use steadfast_store::{Address, EntityKind, StreamSummary};
use steadfast_web::{Cursor, PageRequest, Problem};

use super::streams;
use crate::{operation::ApiRoutes, server::Server};

/// Rows per read while filtering by status.
const READ_ROWS: usize = 1_000;

/// Maximum reads per page. A page may end early, with a cursor to continue.
const READS_MAX: usize = 20;

pub(super) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation(list).operation(instances).operation(show).operation(send)
}

async fn list(server: Arc<Server>, _: ListProcesses) -> Result<Page<Process>, Problem> {
    let names = server.runtime.processes().names();
    Ok(Page::whole(names.map(|name| Process { name: name.into() }).collect()))
}

async fn send(server: Arc<Server>, it: SendInput) -> Result<Decision, Problem> {
    let SendInput { name, id, type_, data, idempotency_key: key } = it;
    let (data, key) = (data.unwrap_or_default(), key.as_deref());
    let decided = server.runtime.processes().input_json(&name, &id, &type_, data, key).await?;
    Ok(Decision::from(&decided))
}

pub(crate) async fn instances(
    server: Arc<Server>,
    it: ListInstances,
) -> Result<Page<Instance>, Problem> {
    let page = PageRequest::new(it.limit, it.cursor.as_deref())?;
    let (name, status) = (&*it.name, it.status);
    if !server.runtime.processes().contains(name) {
        return Err(InputError::Process { name: name.into() }.into());
    }
    let fits = |it: &StreamSummary| {
        status.is_none_or(|wanted| Status::of(it.closed_at.is_some()) == wanted)
    };
    let within = Some((EntityKind::Process, name));
    let mut after = page.after_address()?.cloned();
    let mut items: Vec<StreamSummary> = Vec::new();
    let cursor = |it: Address| Some(Cursor::Address(it).encode());
    let list = |items: &[StreamSummary], next| Page {
        items: items.iter().map(Instance::from).collect(),
        next,
    };
    for _ in 0..READS_MAX {
        let wanted = if status.is_none() { page.limit + 1 } else { READ_ROWS };
        let found = server.runtime.store().streams(within, after.as_ref(), wanted).await?;
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

pub(crate) async fn show(server: Arc<Server>, it: ShowInstance) -> Result<InstanceDetail, Problem> {
    let ShowInstance { name, id, limit, cursor } = it;
    let view = match server.runtime.processes().look(&name, &id).await {
        // The request has no message: a stored message cannot be decoded.
        Err(InputError::Codec(error)) => {
            return Err(Problem::of(Code::Corrupt, error.to_string()));
        }
        view => view?,
    };
    let view = view.ok_or_else(|| {
        let detail = format!("process `{name}` has no instance `{id}`; its first input creates it");
        Problem::of(Code::InstanceNotFound, detail)
    })?;
    let address = Address::new(EntityKind::Process, &name, &id).map_err(InputError::from)?;
    let stream = ShowStream { id: address.to_string(), limit, cursor };
    let stream = streams::show(server, stream).await?;
    Ok(InstanceDetail {
        id,
        process: name,
        address: stream.address,
        status: Status::of(view.completed),
        state: view.state,
        version: view.version,
        items: stream.items,
        next: stream.next,
    })
}
