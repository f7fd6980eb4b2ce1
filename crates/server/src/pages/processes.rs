//! Processes: all of them, the instances of one, and one of those.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use steadfast_web::{
    Page,
    console::{Section, console},
    escaped,
};

use super::{
    live::{is_busy, live, live_page},
    table::{Columns, message_table, more, time},
};
use crate::{
    api::{
        page::{InstanceParams, PageParams, Params},
        problem::Problem,
        processes::{read_instances, read_one},
        wire::{Instance, InstanceDetail, Status},
    },
    server::Server,
};

/// Shows every process with the first of its instances.
#[utoipa::path(get, path = "/processes", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(super) async fn list(State(server): State<Arc<Server>>) -> Result<Page, Problem> {
    let mut sections = Vec::new();
    for name in server.runtime.processes().names() {
        let page = PageParams::default().page()?;
        sections.push((name, read_instances(&server, name, None, &page).await?));
    }
    let content = html! {
        h1 { "Processes" }
        p.lead { "Each input is decided on what is known, and recorded with what was decided." }
        @for (name, list) in &sections {
            section.process {
                h2 { a href={ "/processes/" (name) } { (name) } }
                @if list.items.is_empty() { (none(name)) } @else {
                    (instance_table(name, &list.items))
                }
                @if list.next.is_some() {
                    p.more { a.button href={ "/processes/" (name) } { "All of them" } }
                }
            }
        }
    };
    Ok(console("Processes", Section::Processes, content))
}

/// Lists the instances of a process.
#[utoipa::path(get, path = "/processes/{name}", tag = "pages",
    params(("name" = String, Path, description = "The process"), InstanceParams),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(super) async fn instances(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    Params(params): Params<InstanceParams>,
) -> Result<Page, Problem> {
    let list = read_instances(&server, &name, params.status, &params.page()?).await?;
    let path = format!("/processes/{name}");
    let filters = [
        ("all", None, path.clone()),
        ("open", Some(Status::Open), format!("{path}?status=open")),
        ("completed", Some(Status::Completed), format!("{path}?status=completed")),
    ];
    let content = html! {
        p.crumbs { a href="/processes" { "← Processes" } }
        h1.address { (name) }
        p.lead {
            @for (label, status, href) in &filters {
                @if *status == params.status { strong { (label) } }
                @else { a href=(href) { (label) } }
                " · "
            }
            a href={ "/v1" (path) } { "JSON" }
        }
        @if list.items.is_empty() { (none(&name)) } @else { (instance_table(&name, &list.items)) }
        (next(&path, params.status, list.next.as_deref()))
    };
    Ok(console(&name, Section::Processes, content))
}

fn next(path: &str, status: Option<Status>, next: Option<&str>) -> Markup {
    let filter = status.map_or(String::new(), |it| format!("&status={}", it.word()));
    let next = next.map(|it| format!("{it}{filter}"));
    more(path, next.as_deref())
}

fn none(name: &str) -> Markup {
    html! {
        div.empty {
            h2 { "No instance here" }
            p { "One begins with its first input. Send one:" }
            pre { code { "steadfast processes send " (name) " ID --type TYPE --body JSON" } }
        }
    }
}

fn instance_table(name: &str, instances: &[Instance]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th { "Instance" } th { "Status" } th.number { "Messages" }
                    th { "Updated (UTC)" } th { "Created (UTC)" }
                } }
                tbody {
                    @for it in instances {
                        tr {
                            td data-label="Instance" {
                                a.address href={ "/processes/" (name) "/" (escaped(&it.id)) } {
                                    (it.id)
                                }
                            }
                            td data-label="Status" { (badge(it.status)) }
                            td.number data-label="Messages" { (it.version) }
                            td data-label="Updated" { (time(&it.updated_at)) }
                            td data-label="Created" { (time(&it.created_at)) }
                        }
                    }
                }
            }
        }
    }
}

fn badge(status: Status) -> Markup {
    match status {
        Status::Open => html! { span.badge.waiting { "open" } },
        Status::Completed => html! { span.badge.done { "completed" } },
    }
}

/// Shows one instance: its state, and its stream.
#[utoipa::path(get, path = "/processes/{name}/{id}", tag = "pages",
    params(
        ("name" = String, Path, description = "The process"),
        ("id" = String, Path, description = "The instance"),
        PageParams,
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<PageParams>,
) -> Result<Page, Problem> {
    let instance = read_one(&server, &name, &id, &params.page()?).await?;
    let path = format!("/processes/{name}/{}", escaped(&id));
    let busy = instance.status == Status::Open || is_busy(&instance.items);
    let content = html! {
        p.crumbs { a href={ "/processes/" (name) } { "← " (name) } }
        h1.address { (id) }
        (live(busy, &what_is_known(&instance, &path)))
    };
    Ok(live_page(&id, Section::Processes, content))
}

fn what_is_known(instance: &InstanceDetail, path: &str) -> Markup {
    html! {
        p.lead {
            (badge(instance.status)) " · " (instance.version) " messages · "
            a href={ "/v1" (path) } { "JSON" }
        }
        h2 { "State" }
        pre.state { code { (format!("{:#}", instance.state)) } }
        h2 { "Stream" }
        (message_table(&instance.items, Columns::OneStream))
        (more(path, instance.next.as_deref()))
    }
}
