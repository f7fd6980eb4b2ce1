//! Processes and their instances.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use steadfast_api::{
    Code, Page as List,
    processes::{
        Decision, Instance, InstanceDetail, ListInstances, ListProcesses, Process, SendInput,
        ShowInstance, Status,
    },
    streams::ShowStream,
};
use steadfast_core::process::InputError;
use steadfast_store::{Address, EntityKind, StreamSummary};
use steadfast_web::{
    Cursor, Page, PageRequest, Params, Problem,
    console::{Section, console},
    escaped,
};

use crate::{
    args::AskArgs,
    cli::{
        client::Client,
        noun::{Noun, answer},
        output::Table,
    },
    failure::Failure,
    list::Columns,
    nouns::streams::{
        self,
        page::{is_busy, message_columns, message_table},
    },
    operation::ApiRoutes,
    pages::{
        PageRoute,
        components::{Tone, badge, command, empty, heading_of, json, link, live, live_page, pager},
        get,
        links::instance_path,
    },
    server::Server,
};

/// Rows per read while filtering by status.
const READ_ROWS: usize = 1_000;

/// Maximum reads per page. A page may end early, with a cursor to continue.
const READS_MAX: usize = 20;

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default().operation(list).operation(instances).operation(show).operation(send)
}

/// The pages of the console.
pub(crate) fn pages() -> [PageRoute; 3] {
    [
        get("/processes", list_page),
        get("/processes/{name}", instances_page),
        get("/processes/{name}/{id}", show_page),
    ]
}

async fn list(server: Arc<Server>, _: ListProcesses) -> Result<List<Process>, Problem> {
    let names = server.runtime.processes().names();
    Ok(List::whole(names.map(|name| Process { name: name.into() }).collect()))
}

async fn send(server: Arc<Server>, it: SendInput) -> Result<Decision, Problem> {
    let SendInput { name, id, type_, data, idempotency_key: key } = it;
    let (data, key) = (data.unwrap_or_default(), key.as_deref());
    Ok(server.runtime.processes().input_json(&name, &id, &type_, data, key).await?)
}

pub(crate) async fn instances(
    server: Arc<Server>,
    it: ListInstances,
) -> Result<List<Instance>, Problem> {
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
    let list = |items: &[StreamSummary], next| List {
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

/// Shows every process with the first of its instances.
async fn list_page(State(server): State<Arc<Server>>) -> Result<Page, Problem> {
    let mut sections = Vec::new();
    for name in server.runtime.processes().names() {
        let asked = ListInstances { name: name.into(), ..ListInstances::default() };
        sections.push((name, instances(server.clone(), asked).await?));
    }
    let content = html! {
        h1 { "Processes" }
        p.lead {
            "An instance decides on each input by its state and records the decision. · "
            a href="/v1/processes" { "JSON" }
        }
        @if sections.is_empty() {
            (empty("No processes", &html! { p { "This program declares none." } }))
        }
        @for (name, list) in &sections {
            section.process {
                h2 { a href={ "/processes/" (name) } { (name) } }
                @if list.items.is_empty() { (no_instances(name)) }
                @else { (columns(name).table(&list.items)) }
                @if list.next.is_some() {
                    p.more { a.button href={ "/processes/" (name) } { "All instances" } }
                }
            }
        }
    };
    Ok(console("Processes", Section::Processes, content))
}

/// Lists the instances of a process.
async fn instances_page(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    Params(params): Params<ListInstances>,
) -> Result<Page, Problem> {
    let status = params.status;
    let list = instances(server, ListInstances { name: name.clone(), ..params }).await?;
    let path = format!("/processes/{}", escaped(&name));
    let query = |it: Option<Status>| it.map_or(String::new(), |it| format!("status={}", it.name()));
    let content = html! {
        (heading_of("/processes", "Processes", &name))
        p.lead {
            @for choice in [None, Some(Status::Open), Some(Status::Completed)] {
                @let label = choice.map_or("all", Status::name);
                @if choice == status { strong { (label) } }
                @else { a href={ (path) "?" (query(choice)) } { (label) } }
                " · "
            }
            a href={ "/v1" (path) } { "JSON" }
        }
        (columns(&name).page(&list, &no_instances(&name), &path, &query(status)))
    };
    Ok(console(&name, Section::Processes, content))
}

fn no_instances(process: &str) -> Markup {
    let send = format!("steadfast processes send {process} ID --type TYPE --body JSON");
    empty("No instances", &command("The first input creates an instance:", &send))
}

/// The columns of the instances of a process.
pub(crate) fn columns(process: &str) -> Columns<'_, Instance> {
    Columns::<Instance>::new()
        .text("Id", |it| it.id.clone())
        .markup(move |it| link(instance_path(process, &it.id), &it.id))
        .text("Status", |it| it.status.name().into())
        .markup(|it| status(it.status))
        .number("Messages", |it| it.version.to_string())
        .time("Updated", |it| it.updated_at.clone())
        .time("Created", |it| it.created_at.clone())
        .time("Completed", |it| it.completed_at.clone().unwrap_or_default())
        .on_command_line()
}

fn status(status: Status) -> Markup {
    match status {
        Status::Open => badge(Tone::Waiting, "open"),
        Status::Completed => badge(Tone::Good, "completed"),
    }
}

/// Shows an instance: its state and its stream.
async fn show_page(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<ShowInstance>,
) -> Result<Page, Problem> {
    let path = instance_path(&name, &id);
    let back = format!("/processes/{}", escaped(&name));
    let asked = ShowInstance { name: name.clone(), id: id.clone(), ..params };
    let instance = show(server, asked).await?;
    let busy = instance.status == Status::Open || is_busy(&instance.items);
    let content = html! {
        (heading_of(&back, &name, &id))
        (live(busy, &state(&instance, &path)))
    };
    Ok(live_page(&id, Section::Processes, content))
}

fn state(instance: &InstanceDetail, path: &str) -> Markup {
    html! {
        p.lead {
            (status(instance.status)) " " (instance.version)
            @if instance.version == 1 { " message" } @else { " messages" } " · "
            a href={ "/v1" (path) } { "JSON" }
        }
        h2 { "State" }
        (json(&instance.state, &format!("/v1{path}")))
        h2.next { "Messages" }
        (message_table(&instance.items, true))
        (pager(path, "", instance.next.as_deref()))
    }
}

pub(crate) fn verbs() -> Noun {
    Noun::new("processes", "List processes, show instances, send inputs")
        .custom(
            "list",
            (
                "List the processes, or the instances of one",
                &["processes list", "processes list group-checkout --status open"],
            ),
            list_verb,
        )
        .verb::<ShowInstance>("show", &["processes show group-checkout g-1"], |_, it| show_text(it))
        .verb::<SendInput>(
            "send",
            &["processes send traffic-fine r-1 --type PoliceReportPublished --body \
               '{\"policeReportId\": \"r-1\", \"offense\": \"parkingViolation\"}'"],
            send_text,
        )
}

fn list_verb(client: &Client, it: ListInstances, ask: &AskArgs) -> Result<(), Failure> {
    if it.name.is_empty() && (it.status.is_some() || it.cursor.is_some()) {
        return Err(Failure::new("name the process whose instances are filtered"));
    }
    match it.name.is_empty() {
        true => answer(client, &ListProcesses {}, ask.json, &|_, page| {
            Columns::<Process>::new().text("Name", |it| it.name.clone()).write(&page.items)
        }),
        false => answer(client, &it, ask.json, &|_, page| {
            columns("").list(&page.items, "no instances; the first input creates one\n")
        }),
    }
}

fn show_text(it: &InstanceDetail) -> String {
    let (address, status, messages) = (&it.address, it.status.name(), it.version);
    let table = message_columns(true).write(&it.items);
    format!("{address}  {status}  {messages} messages\n\n{:#}\n\n{table}", it.state)
}

fn send_text(input: &SendInput, decision: &Decision) -> String {
    let SendInput { name, id, type_, .. } = input;
    let end = if decision.ignored { "; ignored, because the instance has ended" } else { "" };
    let mut text =
        format!("recorded {type_} as message {} of {name}/{id}{end}\n", decision.version);
    if !decision.outputs.is_empty() {
        let mut table = Table::new(&["ACTION", "TYPE", "DATA"]);
        for it in &decision.outputs {
            table.row([it.action.clone(), it.message_type.clone(), it.data.to_string()]);
        }
        text.push_str(&format!("\n{}", table.write()));
    }
    text
}
