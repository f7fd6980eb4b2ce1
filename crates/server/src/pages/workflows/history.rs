//! The history of a run.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use serde_json::Value;
use steadfast_api::runs::RunHistory;
use steadfast_core::workflow::HistoryEntry;
use steadfast_web::{
    Page,
    console::{Section, console},
};

use super::{super::table::time, api_of, path_of, value};
use crate::{
    api::{page::Params, problem::Problem, runs},
    server::Server,
};

/// Shows what is recorded of a run, page by page.
#[utoipa::path(get, path = "/workflows/{name}/{id}/history", tag = "pages",
    params(
        ("name" = String, Path, description = "The workflow"),
        ("id" = String, Path, description = "The run"),
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn history(
    State(server): State<Arc<Server>>,
    Path((name, id)): Path<(String, String)>,
    Params(params): Params<RunHistory>,
) -> Result<Page, Problem> {
    let asked = RunHistory { workflow: name.clone(), id: id.clone(), ..params };
    let list = runs::history(server, asked).await?;
    let path = path_of(&name, &id);
    let content = html! {
        p.crumbs { a href=(path) { "← " (id) } }
        h1 { "History" }
        p.lead {
            "Everything that is recorded of it, in order. · "
            a href={ (api_of(&name, &id)) "/history" } { "JSON" }
        }
        (entry_table(&list.items))
        @if let Some(next) = &list.next {
            p.more { a.button href={ (path) "/history?cursor=" (next) } { "Next page" } }
        }
    };
    Ok(console(&id, Section::Workflows, content))
}

/// Entries as rows.
pub(super) fn entry_table(entries: &[HistoryEntry]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th.number { "#" } th { "At (UTC)" } th { "Entry" } th { "About" } th { "Says" }
                } }
                tbody {
                    @for it in entries {
                        @let (about, rest) = parts(it);
                        tr {
                            td.number data-label="#" { (it.number) }
                            td data-label="At" { (time(&it.at.to_string())) }
                            td data-label="Entry" { code { (it.entry) } }
                            td.address.none[about.is_empty()] data-label="About" {
                                span { (about) }
                            }
                            td.message.none[rest.is_none()] data-label="Says" {
                                @if let Some(rest) = &rest {
                                    details data-key={ "entry " (it.number) } {
                                        summary { "show" }
                                        (value(rest))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What an entry is about, and the rest of it.
fn parts(entry: &HistoryEntry) -> (String, Option<Value>) {
    let mut fields = entry.fields.clone();
    let key = fields.remove("key");
    let word = |name: &str| key.as_ref().and_then(|it| it[name].as_str()).unwrap_or_default();
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
    let about = format!("{}{} {} {name}", word("scope"), word("kind"), word("name"));
    let rest = (!fields.is_empty()).then_some(Value::Object(fields.clone()));
    (about.trim().to_owned(), rest)
}
