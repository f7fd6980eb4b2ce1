//! Pages of processes: the list, the instances of a process, and an instance.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use steadfast_api::processes::{Instance, InstanceDetail, ListInstances, ShowInstance, Status};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
    escaped,
};

use super::{
    components::{Tone, badge, command, empty, heading_of, json, link, live, live_page, pager},
    streams::{is_busy, message_table},
};
use crate::{api::processes as api, list::Columns, server::Server};

/// The path of the page of an instance.
pub(super) fn path_of(process: &str, id: &str) -> String {
    format!("/processes/{}/{}", escaped(process), escaped(id))
}

/// Shows every process with the first of its instances.
pub(super) async fn list(State(server): State<Arc<Server>>) -> Result<Page, Problem> {
    let mut sections = Vec::new();
    for name in server.runtime.processes().names() {
        let asked = ListInstances { name: name.into(), ..ListInstances::default() };
        sections.push((name, api::instances(server.clone(), asked).await?));
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
                (instance_table(name, &list.items))
                @if list.next.is_some() {
                    p.more { a.button href={ "/processes/" (name) } { "All instances" } }
                }
            }
        }
    };
    Ok(console("Processes", Section::Processes, content))
}

/// Lists the instances of a process.
pub(super) async fn instances(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    Params(params): Params<ListInstances>,
) -> Result<Page, Problem> {
    let status = params.status;
    let list = api::instances(server, ListInstances { name: name.clone(), ..params }).await?;
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
        (instance_table(&name, &list.items))
        (pager(&path, &query(status), list.next.as_deref()))
    };
    Ok(console(&name, Section::Processes, content))
}

fn instance_table(process: &str, instances: &[Instance]) -> Markup {
    if instances.is_empty() {
        let send = format!("steadfast processes send {process} ID --type TYPE --body JSON");
        return empty("No instances", &command("The first input creates an instance:", &send));
    }
    columns(process).table(instances)
}

/// The columns of the instances of a process.
pub(crate) fn columns(process: &str) -> Columns<'_, Instance> {
    Columns::<Instance>::new()
        .text("Id", |it| it.id.clone())
        .markup(move |it| link(path_of(process, &it.id), &it.id))
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
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<ShowInstance>,
) -> Result<Page, Problem> {
    let path = path_of(&name, &id);
    let back = format!("/processes/{}", escaped(&name));
    let asked = ShowInstance { name: name.clone(), id: id.clone(), ..params };
    let instance = api::show(server, asked).await?;
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
