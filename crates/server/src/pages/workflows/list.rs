//! The workflows, and the runs of one.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, Query, State},
    http::Uri,
};
use maud::{Markup, html};
use serde_json::json;
use steadfast_api::{
    Limit,
    runs::{ListRuns, ListWorkflows, WorkflowEntry},
};
use steadfast_core::{
    RunError,
    workflow::{Phase, RunItem},
};
use steadfast_web::{Page, console::Section, escaped};

use super::{
    super::{
        live::{live, live_page},
        table::time,
    },
    badge, path_of,
};
use crate::{
    api::{
        problem::{Code, Problem},
        runs as api,
    },
    server::Server,
};

/// Shows the workflows.
#[utoipa::path(get, path = "/workflows", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(in super::super) async fn workflows(
    State(server): State<Arc<Server>>,
) -> Result<Page, Problem> {
    let workflows = api::workflows(server, ListWorkflows {}).await?.items;
    let content = html! {
        h1 { "Workflows" }
        p.lead {
            "Each run is an async function whose steps survive crashes. · "
            a href="/v1/workflows" { "JSON" }
        }
        (live(true, &workflow_table(&workflows)))
    };
    Ok(live_page("Workflows", Section::Workflows, content))
}

fn workflow_table(workflows: &[WorkflowEntry]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th { "Workflow" }
                    @for phase in Phase::ALL { th.number { (phase.word()) } }
                    th.number { "at once" }
                } }
                tbody {
                    @for WorkflowEntry { counts: it, limits } in workflows {
                        @let path = format!("/workflows/{}", escaped(&it.name));
                        tr {
                            td data-label="Workflow" { a.address href=(path) { (it.name) } }
                            @for phase in Phase::ALL {
                                @let count = it.runs.get(&phase).copied().unwrap_or(0);
                                td.number.none[count == 0] data-label=(phase.word()) {
                                    @if count == 0 { span.quiet { "–" } } @else {
                                        a href={ (path) "?status=" (phase.word()) } { (count) }
                                    }
                                }
                            }
                            td.number data-label="at once" { "≤ " (limits.concurrency) }
                        }
                    }
                }
            }
        }
    }
}

/// Lists the runs of a workflow, newest first.
#[utoipa::path(get, path = "/workflows/{name}", tag = "pages",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("deleted" = Option<String>, Query, description = "A run that was just deleted"),
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn runs(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Page, Problem> {
    let (params, deleted) = asked(&name, &uri)?;
    let page = api::list(server.clone(), params.clone()).await?;
    let path = format!("/workflows/{}", escaped(&name));
    let filters = filters(&params);
    // Where there are many, they are not read again every second.
    let busy = params.cursor.is_none() && page.next.is_none();
    let content = html! {
        p.crumbs { a href="/workflows" { "← Workflows" } }
        h1.address { (name) }
        @if let Some(id) = &deleted { (gone(&server, &name, id).await?) }
        (search(&path, &params))
        p.lead { "Newest first. · " a href={ "/v1" (path) "/runs?" (filters) } { "JSON" } }
        (live(busy, &html! {
            @if page.items.is_empty() { (none(&name, !filters.is_empty())) }
            @else { (run_table(&page.items)) }
            @if let Some(next) = &page.next {
                p.more {
                    a.button href={ (path) "?" (filters) "&cursor=" (escaped(next)) } {
                        "Next page"
                    }
                }
            }
        }))
    };
    Ok(live_page(&name, Section::Workflows, content))
}

/// The query, and a run that was just deleted: of that the API knows nothing.
fn asked(workflow: &str, uri: &Uri) -> Result<(ListRuns, Option<String>), Problem> {
    let bad = |text: String| Problem::of(Code::BadRequest, text);
    let pairs = Query::<BTreeMap<String, String>>::try_from_uri(uri);
    let Query(mut pairs) = pairs.map_err(|error| bad(error.body_text()))?;
    let deleted = pairs.remove("deleted").filter(|it| !it.is_empty());
    // A field that is empty was left empty in the form.
    pairs.retain(|_, value| !value.is_empty());
    let params = serde_json::from_value(json!(pairs)).map_err(|error| bad(error.to_string()))?;
    Ok((ListRuns { workflow: workflow.into(), ..params }, deleted))
}

/// Says that a run is gone, if it is: an address can be kept, and the id used again.
async fn gone(server: &Server, name: &str, id: &str) -> Result<Markup, Problem> {
    match server.runtime.runs().run(name, id).await {
        Err(RunError::UnknownRun { .. }) => Ok(html! {
            div.notice.good role="status" { "Run " code { (id) } " is deleted." }
        }),
        Ok(_) | Err(RunError::InvalidId { .. }) => Ok(html! {}),
        Err(error) => Err(error.into()),
    }
}

/// The filters as a query.
fn filters(params: &ListRuns) -> String {
    let without = ListRuns { cursor: None, ..params.clone() };
    let query = serde_urlencoded::to_string(&without).unwrap_or_default();
    let limit = format!("limit={}", Limit::default());
    query.split('&').filter(|it| **it != *limit).collect::<Vec<_>>().join("&")
}

fn search(path: &str, params: &ListRuns) -> Markup {
    let given = |value: &Option<String>| value.clone().unwrap_or_default();
    let chosen = params.status.map_or("", Phase::word);
    html! {
        form.search method="get" action=(path) role="search" {
            span.pair {
                label for="status" { "Status" }
                select #status name="status" {
                    option value="" { "any" }
                    @for phase in Phase::ALL {
                        option selected[phase.word() == chosen] { (phase.word()) }
                    }
                }
            }
            span.pair {
                label for="prefix" { "Id begins with" }
                input.short #prefix name="prefix" type="search" value=(given(&params.prefix));
            }
            span.pair {
                label for="since" { "Started from" }
                input.short #since name="since" placeholder="2026-11-15T12:30" autocomplete="off"
                    value=(given(&params.since));
            }
            span.pair {
                label for="until" { "before (UTC)" }
                input.short #until name="until" placeholder="2026-11-16" autocomplete="off"
                    value=(given(&params.until));
            }
            button.button { "Find" }
        }
    }
}

fn none(name: &str, filtered: bool) -> Markup {
    html! {
        div.empty {
            h2 { "No run here" }
            @if filtered { p { "None is as you ask for." } } @else {
                p { "Start one:" }
                pre { code { "steadfast runs start " (name) " --id ID --input JSON" } }
            }
        }
    }
}

fn run_table(runs: &[RunItem]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th { "Run" } th { "Status" } th { "Changed (UTC)" } th { "Started (UTC)" }
                } }
                tbody {
                    @for it in runs {
                        tr {
                            td data-label="Run" {
                                a.address href=(path_of(&it.workflow, &it.id)) { (it.id) }
                            }
                            td data-label="Status" { (badge(it.status)) }
                            td data-label="Changed" { (time(&it.changed_at.to_string())) }
                            td data-label="Started" { (time(&it.created_at.to_string())) }
                        }
                    }
                }
            }
        }
    }
}
