//! The timeline of an object, and the rows that one turn changed.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use serde_json::{Map, Value};
use steadfast_api::objects::{ListTurns, ShowTurn};
use steadfast_web::{
    Page,
    console::{Section, console},
};

use super::{
    super::{
        live::{live, live_page},
        table::{more, time},
    },
    path_of, size,
    value::shown,
};
use crate::{
    api::{
        id, objects,
        page::Params,
        problem::Problem,
        wire::{RowEntry, TurnDetail, TurnEntry},
    },
    server::Server,
};

/// Lists the turns of an object.
#[utoipa::path(get, path = "/objects/{class}/{name}/turns", tag = "pages",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn turns(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
    Params(params): Params<ListTurns>,
) -> Result<Page, Problem> {
    let is_first = params.cursor.is_none();
    let asked = ListTurns { class: class.clone(), name: name.clone(), ..params };
    let list = objects::turns(server, asked).await?;
    let path = path_of(&class, &name);
    let here = format!("{path}/turns");
    let content = html! {
        p.crumbs { a href=(path) { "← " (name) } }
        h1 { "Turns" }
        p.lead { "Newest first, as far as they are kept. · " a href={ "/v1" (here) } { "JSON" } }
        // Only the newest page grows.
        (live(is_first, &html! {
            (turn_table(&list.items, &path))
            (more(&here, list.next.as_deref()))
        }))
    };
    Ok(live_page("Turns", Section::Objects, content))
}

/// Turns as the rows of a table.
pub(super) fn turn_table(turns: &[TurnEntry], path: &str) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th.number { "Turn" } th { "At (UTC)" } th { "Message" }
                    th.number { "Changed" } th.number { "Sent" } th.number { "Cause" }
                } }
                tbody {
                    @for it in turns {
                        tr {
                            td.number data-label="Turn" {
                                a href={ (path) "/turns/" (it.turn) } { (it.turn) }
                            }
                            td data-label="At" { (time(&it.at)) }
                            td data-label="Message" { code { (it.input) } }
                            td.number data-label="Changed" {
                                span { (size(usize::try_from(it.bytes).unwrap_or(0))) }
                            }
                            td.number data-label="Sent" { (it.sent) }
                            td.number.none[it.cause.is_none()] data-label="Cause" {
                                @match it.cause {
                                    Some(cause) => a href={ "/v1/messages/" (cause) } { (cause) },
                                    None => span.quiet { "call" },
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Shows the rows that a turn changed, before and after.
#[utoipa::path(get, path = "/objects/{class}/{name}/turns/{turn}", tag = "pages",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
        ("turn" = i64, Path, description = "Its number, from 1"),
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn turn(
    State(server): State<Arc<Server>>,
    Path((class, name, turn)): Path<(String, String, String)>,
) -> Result<Page, Problem> {
    let turn = id::turn(&turn)?;
    let asked = ShowTurn { class: class.clone(), name: name.clone(), turn };
    let turn = objects::turn(server, asked).await?;
    let (entry, path) = (&turn.entry, path_of(&class, &name));
    let number = entry.turn;
    let content = html! {
        p.crumbs { a href=(path) { "← " (name) } " · " a href={ (path) "/turns" } { "Turns" } }
        h1 { "Turn " (number) }
        p.lead {
            code { (entry.input) } " at " (time(&entry.at)) " UTC"
            @if 0 < entry.sent { " · sent " (entry.sent) }
            @if let Some(cause) = entry.cause {
                " · by message " a href={ "/v1/messages/" (cause) } { (cause) }
            }
            " · " a href={ "/v1" (path) "/turns/" (number) } { "JSON" }
            " · " a href={ (path) "/sql?turn=" (number) } { "Ask it as it was then" }
            " · " a href={ "/v1" (path) "/export?turn=" (number) } { "Export" }
        }
        (changes(&turn))
        p.more {
            @if 1 < number {
                a.button href={ (path) "/turns/" (number - 1) } { "Turn " (number - 1) }
            }
        }
    };
    Ok(console(&format!("Turn {number}"), Section::Objects, content))
}

fn changes(turn: &TurnDetail) -> Markup {
    let tables: Vec<&[RowEntry]> = turn.changes.chunk_by(|a, b| a.table == b.table).collect();
    html! {
        @if turn.changes.is_empty() && turn.schema.is_empty() && turn.skipped.is_empty() {
            div.empty { h2 { "No row was changed" } }
        }
        @for it in &turn.schema {
            h2.next.address { (it.kind) " " (it.name) }
            @if let Some(sql) = &it.before { pre.was { code { (sql) } } }
            @if let Some(sql) = &it.after { pre.is { code { (sql) } } }
        }
        @for rows in tables {
            @if rows[0].system {
                details.next {
                    summary { (rows[0].table) ", " (rows.len()) " of the runtime’s own rows" }
                    (diff(rows))
                }
            } @else {
                h2.next.address { (rows[0].table) }
                (diff(rows))
            }
        }
        @if turn.truncated { p.hint { "More rows were changed than are shown." } }
        @for it in &turn.skipped {
            p.hint { code { (it.table) } " is not compared: " (it.reason) }
        }
    }
}

/// The rows of one table: what was above what is.
fn diff(rows: &[RowEntry]) -> Markup {
    html! {
        div.scroll {
            table.rows.data.diff {
                thead { tr {
                    th { span.hidden { "Side" } }
                    @for it in &rows[0].columns { th { (it) } }
                } }
                tbody {
                    @for it in rows {
                        @if let Some(row) = &it.before { (side(it, row, it.after.as_ref(), "was")) }
                        @if let Some(row) = &it.after { (side(it, row, it.before.as_ref(), "is")) }
                    }
                }
            }
        }
    }
}

fn side(
    entry: &RowEntry,
    row: &Map<String, Value>,
    other: Option<&Map<String, Value>>,
    class: &str,
) -> Markup {
    let sign = if class == "was" { "−" } else { "+" };
    let is_changed = |column: &str| other.is_some_and(|it| it.get(column) != row.get(column));
    html! {
        tr.(class) {
            td.sign data-label=(if class == "was" { "before" } else { "after" }) { (sign) }
            @for column in &entry.columns {
                @let value = row.get(column).unwrap_or(&Value::Null);
                td.changed[is_changed(column)] data-label=(column) {
                    (shown(value))
                }
            }
        }
    }
}
