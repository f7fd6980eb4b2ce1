//! Pages of objects: the classes, the objects of a class, and an object.

pub(crate) mod calls;
pub(crate) mod query;
pub(crate) mod turns;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
};
use maud::{Markup, html};
use steadfast_api::{
    Limit,
    objects::{
        AlarmEntry, ConnectionEntry, ListClasses, ListObjects, ListTurns, ObjectClass,
        ObjectDetail, ObjectEntry, ShowObject, ShowTurn, SqlRows, TableEntry, TurnDetail,
        TurnEntry,
    },
    rfc3339,
};
use steadfast_core::object::Caller;
use steadfast_web::{Page, Params, Problem, console::Section, escaped};

use crate::{
    list::Columns,
    nouns::objects::{
        self as api,
        page::{
            calls::calls,
            query::{examples, query_form, row_table},
            turns::{changes, turn_columns},
        },
    },
    pages::{
        SQL,
        components::{
            Tone, badge, command, empty, heading_of, link, live, live_page, optional, text, time,
        },
        links::object_path,
    },
    server::Server,
};

/// Turns on the page of an object.
const TURNS: u32 = 10;

/// Tables whose first rows are on the page of an object, and how many rows.
const PREVIEWS: usize = 3;
const PREVIEW_ROWS: usize = 5;

/// Alarms and connections on the page of an object.
const LISTED: usize = 50;

/// Larger objects are not refreshed and show no rows: each read assembles the database.
const SMALL_BYTES: usize = 1 << 20;

/// The columns of the classes.
pub(crate) fn class_columns() -> Columns<'static, ObjectClass> {
    Columns::<ObjectClass>::new()
        .text("Class", |it| it.name.clone())
        .markup(|it| link(format!("/objects/{}", escaped(&it.name)), &it.name))
        .number("Objects", |it| at_least(it.objects, it.more))
        .text("Served", |it| yes(it.served).into())
        .markup(|it| match it.served {
            true => badge(Tone::Good, "yes"),
            false => badge(Tone::Quiet, "by another program"),
        })
}

/// A truth value as a word.
pub(crate) fn yes(it: bool) -> &'static str {
    if it { "yes" } else { "no" }
}

/// A number that may be a lower bound.
fn at_least(number: usize, more: bool) -> String {
    format!("{number}{}", if more { "+" } else { "" })
}

/// Lists the classes.
pub(crate) async fn classes(
    State(server): State<Arc<Server>>,
    Params(params): Params<ListClasses>,
) -> Result<Page, Problem> {
    let page = api::classes(server, params).await?;
    // Long lists are not counted again every second.
    let busy = !page.items.iter().any(|it| it.more);
    let content = html! {
        h1 { "Objects" }
        p.lead {
            "Each has a name, a SQLite database of its own, and one turn at a time. · "
            a href="/v1/objects" { "JSON" }
        }
        (live(busy, &html! {
            (class_columns().page(&page, &empty("No class", &html! {
                p { "This program serves no objects." }
            }), "/objects", ""))
        }))
    };
    Ok(live_page("Objects", Section::Objects, content))
}

/// The columns of the objects of a class.
pub(crate) fn columns() -> Columns<'static, ObjectEntry> {
    Columns::<ObjectEntry>::new()
        .text("Name", |it| it.name.clone())
        .markup(|it| link(object_path(it.address.class(), &it.name), &it.name))
        .number("Turns", |it| it.turns.to_string())
        .text("In memory", |it| yes(it.awake).into())
        .markup(memory)
        .time("Updated", |it| it.updated_at.map(rfc3339).unwrap_or_default())
        .markup(|it| {
            html! {
                @if let Some(at) = it.updated_at { (time(rfc3339(at))) }
                @else { span.quiet { "long ago" } }
            }
        })
        .time("Created", |it| rfc3339(it.created_at))
}

/// Lists the objects of a class.
pub(crate) async fn objects(
    State(server): State<Arc<Server>>,
    Path(class): Path<String>,
    Params(params): Params<ListObjects>,
) -> Result<Page, Problem> {
    let prefix = &*params.prefix.clone().unwrap_or_default();
    let list = api::list(server, ListObjects { class: class.clone(), ..params }).await?;
    let path = format!("/objects/{}", escaped(&class));
    let filter = format!("prefix={}", escaped(prefix));
    let content = html! {
        (heading_of("/objects", "Objects", &class))
        form.search method="get" action=(path) role="search" {
            label for="prefix" { "Name begins with" }
            input #prefix name="prefix" type="search" value=(prefix);
            button.button { "Find" }
            a href={ "/v1" (path) "?" (filter) } { "JSON" }
        }
        (live(true, &html! {
            (columns().page(&list, &none(&class, prefix), &path, &filter))
        }))
    };
    Ok(live_page(&class, Section::Objects, content))
}

fn memory(it: &ObjectEntry) -> Markup {
    if it.awake { badge(Tone::Good, "awake") } else { badge(Tone::Quiet, "asleep") }
}

fn none(class: &str, prefix: &str) -> Markup {
    match prefix {
        "" => {
            let call = format!("steadfast objects call {class} NAME MESSAGE --body JSON");
            empty("No object", &command("The first call that changes an object creates it:", &call))
        }
        _ => {
            let why = html! { p { "No object has a name that begins with “" (prefix) "”." } };
            empty("No object", &why)
        }
    }
}

/// Shows one object.
pub(crate) async fn show(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Path((class, name)): Path<(String, String)>,
) -> Result<Page, Problem> {
    let asked = ShowObject { class: class.clone(), name: name.clone() };
    let object = api::show(server.clone(), caller.clone(), asked).await?;
    let (of, named) = (class.clone(), name.clone());
    let asked = ListTurns { class: of, name: named, limit: Limit::of(TURNS), cursor: None };
    let turns = api::turns(server.clone(), asked).await?.items;
    let is_small = object.damage.is_none() && object.bytes <= SMALL_BYTES;
    let inside = match is_small {
        true => Some(ObjectPreview::read(&server, &caller, &object, &turns).await?),
        false => None,
    };
    let path = object_path(&class, &name);
    let content = html! {
        (heading_of(&format!("/objects/{}", escaped(&class)), &class, &name))
        (live(is_small, &detail(&object, inside.as_ref(), &turns, &path)))
        @if object.damage.is_none() {
            @if object.served {
                h2.next { "Call" }
                (calls(&server, &class, &path, "", &BTreeMap::new()))
            }
            h2.next { "Query" }
            (query_form(&class, &path, "", None))
            (examples(&path, &object.tables))
        }
    };
    Ok(live_page(&name, Section::Objects, content).script(&SQL))
}

/// Data of a small object that is read in addition to its description.
struct ObjectPreview {
    /// The first rows of the first tables.
    rows: Vec<(String, SqlRows)>,
    /// The last turn, with rows before and after.
    last: Option<TurnDetail>,
}

impl ObjectPreview {
    async fn read(
        server: &Arc<Server>,
        caller: &Caller,
        object: &ObjectDetail,
        turns: &[TurnEntry],
    ) -> Result<Self, Problem> {
        let (class, name) = (&object.class, &object.entry.name);
        let mut rows = Vec::new();
        for it in own_tables(&object.tables).filter(|it| it.rows != Some(0)).take(PREVIEWS) {
            let (objects, token) = (server.runtime.objects(), api::token_of(caller));
            // The object may have changed since it was described.
            let found = objects.look_at_rows(token, class, name, &it.name, 0, PREVIEW_ROWS).await;
            rows.extend(found.ok().map(|found| (it.name.clone(), found)));
        }
        let last = match turns.first() {
            Some(it) => {
                let (class, name) = (class.clone(), name.clone());
                let asked = ShowTurn { class, name, turn: it.turn };
                api::turn(server.clone(), caller.clone(), asked).await.ok()
            }
            None => None,
        };
        Ok(Self { rows, last })
    }
}

fn own_tables(tables: &[TableEntry]) -> impl Iterator<Item = &TableEntry> {
    tables.iter().filter(|it| !it.system)
}

fn detail(
    object: &ObjectDetail,
    inside: Option<&ObjectPreview>,
    turns: &[TurnEntry],
    path: &str,
) -> Markup {
    let entry = &object.entry;
    html! {
        p.lead {
            (memory(entry))
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
            div.notice.bad { strong { "Its stored data is damaged" } p { (damage) } }
        }
        @if let Some(error) = &object.last_error {
            div.notice.bad {
                strong { "Last failed turn" }
                p { (error.message) }
                p.quiet {
                    (time(error.at.to_string())) " · "
                    code { (error.input) } " · " code { (error.code) }
                    " · nothing was changed"
                }
            }
        }
        @if !object.tables.is_empty() { (tables(&object.tables, path)) }
        @for (name, rows) in inside.iter().flat_map(|it| &it.rows) {
            h3.next.address { "First rows of " (name) }
            (row_table(rows))
        }
        @if !object.alarms.is_empty() { (alarms(&object.alarms)) }
        @if !object.connections.is_empty() { (connections(&object.connections)) }
        h2.next { "Latest turns" }
        @if turns.is_empty() { p.quiet { "Its turns are no longer stored." } }
        @else { (turn_columns(path).table(turns)) }
        @if (turns.len() as i64) < entry.turns && !turns.is_empty() {
            p.more { a.button href={ (path) "/turns" } { "All turns" } }
        }
        @if let Some(last) = inside.and_then(|it| it.last.as_ref()) {
            h2.next { "Turn " (last.entry.turn) ", before and after" }
            (changes(last))
        }
    }
}

/// The columns of the tables of the object whose page has this path.
pub(crate) fn table_columns(path: &str) -> Columns<'_, TableEntry> {
    let rows = |it: &TableEntry| it.rows.map(|rows| at_least(rows, it.more));
    Columns::<TableEntry>::new()
        .text("Table", |it| it.name.clone())
        .markup(move |it| link(format!("{path}/tables/{}", escaped(&it.name)), &it.name))
        .number("Rows", move |it| rows(it).unwrap_or_default())
        .markup(move |it| match rows(it) {
            Some(rows) => text(rows),
            None => html! { span.quiet { "many" } },
        })
        .text("Columns", |it| it.columns.join(", "))
        .class("address")
        .markup(|it| html! { span.quiet { (it.columns.join(", ")) } })
}

fn tables(tables: &[TableEntry], path: &str) -> Markup {
    let class = |it: &TableEntry| if it.system { "own" } else { "" };
    html! { h2.next { "Tables" } (table_columns(path).table_of("", tables, class)) }
}

/// The columns of alarms.
pub(crate) fn alarm_columns() -> Columns<'static, AlarmEntry> {
    Columns::<AlarmEntry>::new()
        .text("Alarm", |it| it.name.clone())
        .class("address")
        .time("Due", |it| rfc3339(it.ring_at))
        .text("Message", |it| it.message.clone())
        .markup(|it| html! { code { (it.message) } })
        .console("Repeats", |it| optional(it.every.map(|every| format!("every {}", period(every)))))
        .number("Attempts", |it| it.attempts.to_string())
        .text("State", |it| if it.failed { "failed" } else { "set" }.to_owned())
        .markup(
            |it| {
                if it.failed { badge(Tone::Bad, "failed") } else { badge(Tone::Waiting, "set") }
            },
        )
        .text("Error", |it| it.error.clone().unwrap_or_default())
        .class("error")
}

fn alarms(alarms: &[AlarmEntry]) -> Markup {
    html! {
        h2.next { "Alarms" }
        (alarm_columns().table(alarms.iter().take(LISTED)))
        (rest(alarms.len()))
    }
}

/// A period in its largest unit without a remainder.
fn period(period: Duration) -> String {
    let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let fits = units.into_iter().find(|(unit, _)| millis.is_multiple_of(*unit));
    let (unit, word) = fits.unwrap_or((1, "ms"));
    format!("{} {word}", millis / unit)
}

/// The columns of connections.
pub(crate) fn connection_columns() -> Columns<'static, ConnectionEntry> {
    Columns::<ConnectionEntry>::new()
        .number("Connection", |it| it.id.to_string())
        .time("Since", |it| it.connected_at.to_string())
        .text("Tags", |it| it.tags.join(", "))
        .class("address")
        .text("Attachment", |it| it.attachment.to_string())
        .class("address")
        .markup(|it| {
            html! { @if !it.attachment.is_null() { code { (it.attachment) } } }
        })
}

fn connections(connections: &[ConnectionEntry]) -> Markup {
    html! {
        h2.next { "Connections" }
        (connection_columns().table(connections.iter().take(LISTED)))
        (rest(connections.len()))
    }
}

fn rest(count: usize) -> Markup {
    html! { @if LISTED < count { p.hint { "The first " (LISTED) " of " (count) "." } } }
}

/// Formats a size for people.
fn size(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_short() {
        for (bytes, shown) in
            [(0, "0 bytes"), (1_023, "1023 bytes"), (4_096, "4 KiB"), (5 << 19, "2.5 MiB")]
        {
            assert_eq!(size(bytes), shown);
        }
    }
}
