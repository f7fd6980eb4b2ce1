//! One object: what is in it, and what happened to it last.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use steadfast_api::objects::{ListTurns, ShowObject};
use steadfast_web::{Page, console::Section, escaped};

use super::{
    super::{
        assets,
        live::{live, live_page},
        table::time,
    },
    call::call_form,
    examples, path_of, question, size,
    turns::turn_table,
};
use crate::{
    api::{
        objects,
        problem::Problem,
        wire::{AlarmEntry, ConnectionEntry, FailureEntry, ObjectDetail, TableEntry, TurnEntry},
    },
    server::Server,
};

/// Turns shown beside the rest.
const TURNS: usize = 10;

/// A larger object is not read again every second only because somebody looks.
const LIVE_BYTES_MAX: usize = 4 << 20;

/// Shows one object.
#[utoipa::path(get, path = "/objects/{class}/{name}", tag = "pages",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn show(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
) -> Result<Page, Problem> {
    let (of, object) = (class.clone(), name.clone());
    let object = objects::show(server.clone(), ShowObject { class: of, name: object }).await?;
    let (of, named) = (class.clone(), name.clone());
    let asked = ListTurns { class: of, name: named, ..ListTurns::default() };
    let mut turns = objects::turns(server.clone(), asked).await?.items;
    turns.truncate(TURNS);
    let path = path_of(&class, &name);
    let busy = object.damage.is_none() && object.bytes <= LIVE_BYTES_MAX;
    let content = html! {
        p.crumbs { a href={ "/objects/" (escaped(&class)) } { "← " (class) } }
        h1.address { (name) }
        (live(busy, &what_is_known(&object, &turns, &path)))
        @if object.damage.is_none() {
            @if object.served {
                h2.next { "Call" }
                (call_form(&server, &class, &path, "", ""))
            }
            h2.next { "Query" }
            (question(&class, &path, "", None))
            (examples(&path, &object.tables))
        }
    };
    Ok(live_page(&name, Section::Objects, content).script(&assets::SQL))
}

fn what_is_known(object: &ObjectDetail, turns: &[TurnEntry], path: &str) -> Markup {
    let entry = &object.entry;
    html! {
        p.lead {
            @if entry.awake { span.badge.done { "awake" } } @else { span.badge { "asleep" } }
            " " (entry.turns) @if entry.turns == 1 { " turn" } @else { " turns" }
            @if object.damage.is_none() { " · " (size(object.bytes)) }
            @if !object.served { " · its class is served by another program" }
            " · " a href={ "/v1" (path) } { "JSON" }
            @if object.damage.is_none() {
                " · " a href={ (path) "/sql" } { "Query in SQL" }
                " · " a href={ "/v1" (path) "/export" } { "Export as SQLite file" }
            }
        }
        @if let Some(damage) = &object.damage {
            div.notice.bad {
                strong { "What is stored of it is damaged" }
                p { (damage) }
            }
        }
        @if let Some(error) = &object.last_error { (last_error(error)) }
        @if !object.tables.is_empty() { (tables(&object.tables, path)) }
        @if !object.alarms.is_empty() { (alarms(&object.alarms)) }
        @if !object.connections.is_empty() { (connections(&object.connections)) }
        h2.next { "Latest turns" }
        @if turns.is_empty() { p.quiet { "Its turns are no longer kept." } }
        @else { (turn_table(turns, path)) }
        @if (turns.len() as i64) < entry.turns && !turns.is_empty() {
            p.more { a.button href={ (path) "/turns" } { "All turns" } }
        }
    }
}

fn last_error(error: &FailureEntry) -> Markup {
    html! {
        div.notice.bad {
            strong { "Last failed turn" }
            p { (error.message) }
            p.quiet {
                (time(&error.at)) " · " code { (error.input) } " · " code { (error.code) }
                " · nothing was changed by it"
            }
        }
    }
}

fn tables(tables: &[TableEntry], path: &str) -> Markup {
    html! {
        h2.next { "Tables" }
        div.scroll {
            table.rows {
                thead { tr { th { "Table" } th.number { "Rows" } th { "Columns" } } }
                tbody {
                    @for it in tables {
                        tr.own[it.system] {
                            td data-label="Table" {
                                a.address href={ (path) "/tables/" (escaped(&it.name)) } {
                                    (it.name)
                                }
                            }
                            td.number data-label="Rows" {
                                @match it.rows {
                                    Some(rows) => span { (rows) @if it.more { "+" } },
                                    None => span.quiet { "many" },
                                }
                            }
                            td.address data-label="Columns" {
                                span.quiet { (it.columns.join(", ")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn alarms(alarms: &[AlarmEntry]) -> Markup {
    html! {
        h2.next { "Alarms" }
        div.scroll {
            table.rows {
                thead { tr {
                    th { "Alarm" } th { "State" } th { "Rings (UTC)" } th { "Message" }
                    th { "Repeats" } th.number { "Failed attempts" } th { "Error" }
                } }
                tbody {
                    @for it in alarms {
                        tr {
                            td.address data-label="Alarm" { (it.name) }
                            td data-label="State" {
                                @if it.failed { span.badge.dead { "given up" } }
                                @else { span.badge.waiting { "set" } }
                            }
                            td data-label="Rings" { (time(&it.ring_at)) }
                            td data-label="Message" { code { (it.message) } }
                            td.none[it.every_ms.is_none()] data-label="Repeats" {
                                @match it.every_ms {
                                    Some(every) => span { "every " (period(every)) },
                                    None => span.quiet { "–" },
                                }
                            }
                            td.number data-label="Failed attempts" { (it.attempts) }
                            td.error.none[it.error.is_none()] data-label="Error" {
                                span { (it.error.as_deref().unwrap_or("–")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A period as people say it, if it is one of those.
fn period(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let fits = units.into_iter().find(|(unit, _)| millis.is_multiple_of(*unit));
    let (unit, word) = fits.unwrap_or((1, "ms"));
    format!("{} {word}", millis / unit)
}

fn connections(connections: &[ConnectionEntry]) -> Markup {
    html! {
        h2.next { "Connections" }
        div.scroll {
            table.rows {
                thead { tr {
                    th.number { "#" } th { "Since (UTC)" } th { "Tags" } th { "Attachment" }
                } }
                tbody {
                    @for it in connections {
                        tr {
                            td.number data-label="#" { (it.id) }
                            td data-label="Since" { (time(&it.connected_at)) }
                            td.address.none[it.tags.is_empty()] data-label="Tags" {
                                @if it.tags.is_empty() { span.quiet { "–" } }
                                @else { span { (it.tags.join(", ")) } }
                            }
                            td.address.none[it.attachment.is_null()] data-label="Attachment" {
                                @if it.attachment.is_null() { span.quiet { "–" } }
                                @else { code { (it.attachment) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
