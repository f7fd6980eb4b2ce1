//! The turns of an object, and the rows that a turn changed.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
};
use maud::{Markup, html};
use serde_json::{Map, Value};
use steadfast_api::{
    Limit,
    objects::{ListTurns, RowEntry, ShowTurn, TurnDetail, TurnEntry},
    rfc3339,
};
use steadfast_core::object::Caller;
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use crate::{
    list::Columns,
    nouns::objects::{
        self as api,
        page::{query::value, size},
    },
    pages::{
        components::{heading_of, live, live_page, pager, text, time},
        links::object_path,
    },
    path,
    server::Server,
};

/// Lists the turns of an object.
pub(crate) async fn turns(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
    Params(params): Params<ListTurns>,
) -> Result<Page, Problem> {
    // Only the newest page grows.
    let busy = params.cursor.is_none();
    let asked = ListTurns { class: class.clone(), name: name.clone(), ..params };
    let list = api::turns(server, asked).await?;
    let path = object_path(&class, &name);
    let here = format!("{path}/turns");
    let content = html! {
        (heading_of(&path, &name, "Turns"))
        p.lead { "Stored turns, newest first. · " a href={ "/v1" (here) } { "JSON" } }
        (live(busy, &html! {
            (turn_columns(&path).table(&list.items))
            (pager(&here, "", list.next.as_deref()))
        }))
    };
    Ok(live_page("Turns", Section::Objects, content))
}

/// The columns of the turns of the object whose page has this path.
pub(crate) fn turn_columns(path: &str) -> Columns<'_, TurnEntry> {
    Columns::<TurnEntry>::new()
        .number("Turn", |it| it.turn.to_string())
        .markup(move |it| html! { a href={ (path) "/turns/" (it.turn) } { (it.turn) } })
        .time("At", |it| rfc3339(it.at))
        .text("Input", |it| it.input.clone())
        .markup(|it| html! { code { (it.input) } })
        .number("Bytes", |it| it.bytes.to_string())
        .markup(|it| text(size(usize::try_from(it.bytes).unwrap_or(0))))
        .number("Sent", |it| it.sent.to_string())
        .number("Cause", |it| it.cause.map_or(String::new(), |it| it.to_string()))
        .markup(|it| {
            html! {
                @match it.cause {
                    Some(cause) => a href={ "/v1/messages/" (cause) } { (cause) },
                    None => span.quiet { "call" },
                }
            }
        })
}

/// Shows the rows that a turn changed, before and after.
pub(crate) async fn turn(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Path((class, name, turn)): Path<(String, String, String)>,
) -> Result<Page, Problem> {
    let turn = path::turn(&turn)?;
    let asked = ShowTurn { class: class.clone(), name: name.clone(), turn };
    let newest = ListTurns { class: class.clone(), name: name.clone(), ..ListTurns::default() };
    let newest = ListTurns { limit: Limit::of(1), ..newest };
    let last = api::turns(server.clone(), newest).await?.items.first().map_or(0, |it| it.turn);
    let turn = api::turn(server, caller, asked).await?;
    let (entry, path) = (&turn.entry, object_path(&class, &name));
    let number = entry.turn;
    let content = html! {
        p.crumbs { a href=(path) { "← " (name) } " · " a href={ (path) "/turns" } { "Turns" } }
        h1 { "Turn " (number) }
        p.lead {
            code { (entry.input) } " at " (time(rfc3339(entry.at))) " UTC"
            @if 0 < entry.sent { " · sent " (entry.sent) }
            @if let Some(cause) = entry.cause {
                " · by message " a href={ "/v1/messages/" (cause) } { (cause) }
            }
            " · " a href={ "/v1" (path) "/turns/" (number) } { "JSON" }
            " · " a href={ (path) "/sql?turn=" (number) } { "Query the object after this turn" }
            " · " a href={ "/v1" (path) "/export?turn=" (number) } { "Export" }
        }
        (changes(&turn))
        p.more {
            @if 1 < number {
                a.button href={ (path) "/turns/" (number - 1) } { "← Turn " (number - 1) } " "
            }
            @if number < last {
                a.button href={ (path) "/turns/" (number + 1) } { "Turn " (number + 1) " →" }
            }
        }
    };
    Ok(console(&format!("Turn {number}"), Section::Objects, content))
}

pub(crate) fn changes(turn: &TurnDetail) -> Markup {
    let tables: Vec<&[RowEntry]> = turn.changes.chunk_by(|a, b| a.table == b.table).collect();
    html! {
        @if turn.changes.is_empty() && turn.schema.is_empty() && turn.skipped.is_empty() {
            p.quiet { "This turn changed no row." }
        }
        @for it in &turn.schema {
            h3.next.address { (it.kind) " " (it.name) }
            @if let Some(sql) = &it.before { pre.was { code { (sql) } } }
            @if let Some(sql) = &it.after { pre.is { code { (sql) } } }
        }
        @for rows in tables {
            @if rows[0].system {
                details.next data-key=(rows[0].table) {
                    summary { (rows[0].table) ", " (rows.len()) " rows of the runtime" }
                    (diff(rows))
                }
            } @else {
                h3.next.address { (rows[0].table) }
                (diff(rows))
            }
        }
        @if turn.truncated { p.hint { "More rows were changed than are shown." } }
        @for it in &turn.skipped {
            p.hint { code { (it.table) } " is not compared: " (it.reason) }
        }
    }
}

/// The rows of one table: the row before, then the row after.
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
    let (label, sign) = if class == "was" { ("before", "−") } else { ("after", "+") };
    let is_changed = |column: &str| other.is_some_and(|it| it.get(column) != row.get(column));
    html! {
        tr.(class) {
            td.sign data-label=(label) { (sign) }
            @for column in &entry.columns {
                td.changed[is_changed(column)] data-label=(column) {
                    (value(row.get(column).unwrap_or(&Value::Null)))
                }
            }
        }
    }
}
