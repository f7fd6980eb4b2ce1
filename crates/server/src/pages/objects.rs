//! Pages of objects: the classes, the objects of a class, and an object with its rows, turns and
//! messages.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};
use steadfast_api::{
    Code, Limit,
    objects::{
        AlarmEntry, CallObject, ConnectionEntry, ListClasses, ListObjects, ListTurns, ObjectClass,
        ObjectDetail, ObjectEntry, QueryObject, RowEntry, ShowObject, ShowTurn, SqlRows,
        TableEntry, TurnDetail, TurnEntry,
    },
};
use steadfast_store::secret_text;
use steadfast_web::{
    Page, Problem,
    console::{Section, console},
    escaped,
};

use super::{
    SQL,
    components::{
        Row, Tone, badge, code, column, command, empty, heading_of, hidden, link, live, live_page,
        number, optional, pager, table, table_of, text, time, times,
    },
    forms::Fields,
    message_form::{body_of, inputs, json_body},
};
use crate::{
    api::{id, objects as api, page::Params},
    server::Server,
};

/// Rows per page of a table.
const ROWS: usize = 50;

/// Turns on the page of an object.
const TURNS: u32 = 10;

/// Tables whose first rows are on the page of an object, and how many rows.
const PREVIEWS: usize = 3;
const PREVIEW_ROWS: usize = 5;

/// Alarms and connections on the page of an object.
const LISTED: usize = 50;

/// Larger objects are not refreshed and show no rows: each read assembles the database.
const SMALL_BYTES: usize = 1 << 20;

/// Maximum characters of a text in a row; a query reads the rest.
const CHARACTERS_MAX: usize = 500;

/// Maximum bytes of a blob in a row.
const BLOB_BYTES_MAX: usize = 16;

/// Length of an idempotency key.
const KEY_LEN: usize = 26;

/// The path of the page of an object.
pub(super) fn path_of(class: &str, name: &str) -> String {
    format!("/objects/{}/{}", escaped(class), escaped(name))
}

/// Lists the classes.
pub(super) async fn classes(
    State(server): State<Arc<Server>>,
    Params(params): Params<ListClasses>,
) -> Result<Page, Problem> {
    let page = api::classes(server, params).await?;
    // Long lists are not counted again every second.
    let busy = !page.items.iter().any(|it| it.more);
    let row = |it: &ObjectClass| {
        let count = html! { span { (it.objects) @if it.more { "+" } } };
        let served = match it.served {
            true => badge(Tone::Good, "yes"),
            false => badge(Tone::Quiet, "by another program"),
        };
        [link(format!("/objects/{}", escaped(&it.name)), &it.name), count, served]
    };
    let columns = [column("Class"), number("Objects"), column("Served here")];
    let content = html! {
        h1 { "Objects" }
        p.lead {
            "Each has a name, a SQLite database of its own, and one turn at a time. · "
            a href="/v1/objects" { "JSON" }
        }
        (live(busy, &html! {
            @if page.items.is_empty() {
                (empty("No class", &html! { p { "This program serves no objects." } }))
            } @else { (table(&columns, page.items.iter().map(row))) }
            (pager("/objects", "", page.next.as_deref()))
        }))
    };
    Ok(live_page("Objects", Section::Objects, content))
}

/// Lists the objects of a class.
pub(super) async fn objects(
    State(server): State<Arc<Server>>,
    Path(class): Path<String>,
    Params(params): Params<ListObjects>,
) -> Result<Page, Problem> {
    let prefix = &*params.prefix.clone().unwrap_or_default();
    let list = api::list(server, ListObjects { class: class.clone(), ..params }).await?;
    let path = format!("/objects/{}", escaped(&class));
    let filter = format!("prefix={}", escaped(prefix));
    let row = |it: &ObjectEntry| {
        let updated = html! {
            @if let Some(at) = &it.updated_at { (time(at)) } @else { span.quiet { "long ago" } }
        };
        let name = link(path_of(&class, &it.name), &it.name);
        [name, text(it.turns), memory(it), updated, time(&it.created_at)]
    };
    let columns = [
        column("Object"),
        number("Turns"),
        column("In memory"),
        times("Updated"),
        times("Created"),
    ];
    let content = html! {
        (heading_of("/objects", "Objects", &class))
        form.search method="get" action=(path) role="search" {
            label for="prefix" { "Name begins with" }
            input #prefix name="prefix" type="search" value=(prefix);
            button.button { "Find" }
            a href={ "/v1" (path) "?" (filter) } { "JSON" }
        }
        (live(true, &html! {
            @if list.items.is_empty() { (none(&class, prefix)) }
            @else { (table(&columns, list.items.iter().map(row))) }
            (pager(&path, &filter, list.next.as_deref()))
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
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
) -> Result<Page, Problem> {
    let asked = ShowObject { class: class.clone(), name: name.clone() };
    let object = api::show(server.clone(), asked).await?;
    let (of, named) = (class.clone(), name.clone());
    let asked = ListTurns { class: of, name: named, limit: Limit::of(TURNS), cursor: None };
    let turns = api::turns(server.clone(), asked).await?.items;
    let is_small = object.damage.is_none() && object.bytes <= SMALL_BYTES;
    let inside =
        if is_small { Some(ObjectPreview::read(&server, &object, &turns).await?) } else { None };
    let path = path_of(&class, &name);
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
        object: &ObjectDetail,
        turns: &[TurnEntry],
    ) -> Result<Self, Problem> {
        let (class, name) = (&object.class, &object.entry.name);
        let mut rows = Vec::new();
        for it in own_tables(&object.tables).filter(|it| it.rows != Some(0)).take(PREVIEWS) {
            let objects = server.runtime.objects();
            // The object may have changed since it was described.
            let found = objects.look_at_rows(class, name, &it.name, 0, PREVIEW_ROWS).await;
            rows.extend(found.ok().map(|found| (it.name.clone(), found)));
        }
        let last = match turns.first() {
            Some(it) => {
                let (class, name) = (class.clone(), name.clone());
                api::turn(server.clone(), ShowTurn { class, name, turn: it.turn }).await.ok()
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
        @else { (turn_table(turns, path)) }
        @if (turns.len() as i64) < entry.turns && !turns.is_empty() {
            p.more { a.button href={ (path) "/turns" } { "All turns" } }
        }
        @if let Some(last) = inside.and_then(|it| it.last.as_ref()) {
            h2.next { "Turn " (last.entry.turn) ", before and after" }
            (changes(last))
        }
    }
}

fn tables(tables: &[TableEntry], path: &str) -> Markup {
    let row = |it: &TableEntry| {
        let rows = html! {
            @match it.rows {
                Some(rows) => span { (rows) @if it.more { "+" } },
                None => span.quiet { "many" },
            }
        };
        let name = link(format!("{path}/tables/{}", escaped(&it.name)), &it.name);
        let columns = html! { span.quiet { (it.columns.join(", ")) } };
        Row::from([name, rows, columns]).class(if it.system { "own" } else { "" })
    };
    let columns = [column("Table"), number("Rows"), column("Columns").class("address")];
    html! { h2.next { "Tables" } (table(&columns, tables.iter().map(row))) }
}

fn alarms(alarms: &[AlarmEntry]) -> Markup {
    let row = |it: &AlarmEntry| {
        let state =
            if it.failed { badge(Tone::Bad, "failed") } else { badge(Tone::Waiting, "set") };
        let repeats = it.every_ms.map(|every| format!("every {}", period(every)));
        let message = html! { code { (it.message) } };
        let (repeats, attempts) = (optional(repeats), text(it.attempts));
        let error = optional(it.error.as_deref());
        [text(&it.name), state, time(&it.ring_at), message, repeats, attempts, error]
    };
    let columns = [
        column("Alarm").class("address"),
        column("State"),
        times("Rings"),
        column("Message"),
        column("Repeats"),
        number("Failed attempts"),
        column("Error").class("error"),
    ];
    html! {
        h2.next { "Alarms" }
        (table(&columns, alarms.iter().take(LISTED).map(row)))
        (rest(alarms.len()))
    }
}

/// A period in its largest unit without a remainder.
fn period(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let fits = units.into_iter().find(|(unit, _)| millis.is_multiple_of(*unit));
    let (unit, word) = fits.unwrap_or((1, "ms"));
    format!("{} {word}", millis / unit)
}

fn connections(connections: &[ConnectionEntry]) -> Markup {
    let row = |it: &ConnectionEntry| {
        let tags = Some(it.tags.join(", ")).filter(|it| !it.is_empty());
        let attachment = Some(&it.attachment).filter(|it| !it.is_null());
        let attachment = attachment.map(|it| html! { code { (it) } });
        [text(it.id), time(it.connected_at.to_string()), optional(tags), optional(attachment)]
    };
    let columns = [
        number("#"),
        times("Since"),
        column("Tags").class("address"),
        column("Attachment").class("address"),
    ];
    html! {
        h2.next { "Connections" }
        (table(&columns, connections.iter().take(LISTED).map(row)))
        (rest(connections.len()))
    }
}

fn rest(count: usize) -> Markup {
    html! { @if LISTED < count { p.hint { "The first " (LISTED) " of " (count) "." } } }
}

/// The form for SQL queries. `sql.js` adds the last statements of the class.
fn query_form(class: &str, path: &str, sql: &str, turn: Option<i64>) -> Markup {
    html! {
        form.ask method="post" action={ (path) "/sql" } data-statements=(class) {
            label for="sql" { "Read-only statement" }
            textarea #sql name="sql" rows="3" spellcheck="false"
                placeholder="SELECT name, sql FROM sqlite_schema" { (sql) }
            div.line {
                label for="turn" { "after turn" }
                input #turn name="turn" inputmode="numeric" size="8" placeholder="now"
                    value=[turn];
                button.button { "Run" }
            }
            details hidden { summary { "Last statements" } ul.links {} }
        }
    }
}

/// Example statements. A link fills in the form and runs nothing.
fn examples(path: &str, tables: &[TableEntry]) -> Markup {
    let of_tables = own_tables(tables).take(PREVIEWS).flat_map(|it| {
        let name = quoted(&it.name);
        [format!("SELECT * FROM {name} LIMIT 20"), format!("SELECT count(*) FROM {name}")]
    });
    let schema = "SELECT name, sql FROM sqlite_schema".to_owned();
    html! {
        p.quiet.examples {
            "Examples: "
            @for sql in of_tables.chain([schema]) {
                a href={ (path) "/sql?sql=" (escaped(&sql)) } { code { (sql) } } " "
            }
        }
    }
}

/// Quotes a name for SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The query of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableParams {
    offset: Option<String>,
}

/// Shows the rows of a table.
pub(super) async fn rows(
    State(server): State<Arc<Server>>,
    Path((class, name, table)): Path<(String, String, String)>,
    Params(params): Params<TableParams>,
) -> Result<Page, Problem> {
    let offset: usize = params.offset.as_deref().map_or(Ok(0), str::parse).map_err(|_| {
        Problem::of(Code::BadRequest, "`offset` must be the number of rows to skip")
    })?;
    let objects = server.runtime.objects();
    let page = objects.look_at_rows(&class, &name, &table, offset, ROWS + 1).await?;
    let mut found = page;
    let is_more = ROWS < found.rows.len();
    found.rows.truncate(ROWS);
    let (path, last) = (path_of(&class, &name), offset + found.rows.len());
    let here = format!("{path}/tables/{}", escaped(&table));
    let content = html! {
        (heading_of(&path, &name, &table))
        @if found.rows.is_empty() { (empty("No row", &html! {})) } @else {
            p.lead { "Rows " (offset + 1) " to " (last) " after turn " (found.turn) }
            (row_table(&found))
        }
        p.more {
            @if 0 < offset {
                a.button href={ (here) "?offset=" (offset.saturating_sub(ROWS)) } {
                    "Previous page"
                }
                " "
            }
            @if is_more { a.button href={ (here) "?offset=" (last) } { "Next page" } }
        }
        h2.next { "Query" }
        (query_form(&class, &path, &format!("SELECT * FROM {}", quoted(&table)), None))
    };
    Ok(console(&table, Section::Objects, content).script(&SQL))
}

/// The query of the form for statements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SqlParams {
    #[serde(default)]
    sql: String,
    #[serde(default)]
    turn: String,
}

/// Shows the form for a statement. It runs nothing: any page may link here.
pub(super) async fn sql_form(
    Path((class, name)): Path<(String, String)>,
    Params(SqlParams { sql, turn }): Params<SqlParams>,
) -> Result<Page, Problem> {
    let turn = Some(turn.trim()).filter(|it| !it.is_empty()).map(id::turn).transpose()?;
    Ok(sql_page(&class, &name, &sql, turn, &html! {}))
}

/// Runs a statement and shows its rows.
pub(super) async fn sql(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
    mut form: Fields,
) -> Result<(StatusCode, Page), Problem> {
    let (sql, turn) = (form.text("sql").unwrap_or_default(), form.parsed("turn")?);
    form.end()?;
    if sql.is_empty() {
        return Ok((StatusCode::OK, sql_page(&class, &name, &sql, turn, &html! {})));
    }
    let (of, named) = (class.clone(), name.clone());
    let asked = QueryObject { class: of, name: named, sql: sql.clone(), params: None, turn };
    let (status, answer) = match api::query(server, asked).await {
        Ok(found) => (StatusCode::OK, answer(&found)),
        Err(problem) => refused(&problem),
    };
    Ok((status, sql_page(&class, &name, &sql, turn, &answer)))
}

fn sql_page(class: &str, name: &str, sql: &str, turn: Option<i64>, answer: &Markup) -> Page {
    let path = path_of(class, name);
    let content = html! {
        (heading_of(&path, name, &format!("Query {name}")))
        (query_form(class, &path, sql, turn))
        (answer)
    };
    console("Query", Section::Objects, content).script(&SQL)
}

fn answer(found: &SqlRows) -> Markup {
    let count = found.rows.len();
    html! {
        p.lead.next {
            (count) @if count == 1 { " row" } @else { " rows" } " after turn " (found.turn)
            @if found.truncated { ". There are more rows than are shown." }
        }
        @if 0 < count { (row_table(found)) }
    }
}

/// Renders an error as a part of a page.
fn refused(problem: &Problem) -> (StatusCode, Markup) {
    let body = problem.body("", "");
    let status = StatusCode::from_u16(body.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, html! { div.notice.bad { strong { (body.title) } p { (body.detail) } } })
}

fn row_table(found: &SqlRows) -> Markup {
    let columns: Vec<_> = found.columns.iter().map(|it| column(it.clone())).collect();
    table_of(
        "data",
        &columns,
        found.rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>()),
    )
}

/// Renders a value. NULL, blobs and numbers look different from text.
fn value(value: &Value) -> Markup {
    match value {
        Value::Null => html! { span.quiet { "NULL" } },
        Value::String(text) => {
            let shown: String = text.chars().take(CHARACTERS_MAX).collect();
            let rest = text.len() - shown.len();
            html! {
                span.text { (shown) }
                @if 0 < rest { span.quiet { "… and " (rest) " more bytes" } }
            }
        }
        Value::Object(fields) => match fields.get("blob").and_then(Value::as_str) {
            Some(hex) => {
                let shown: String = hex.chars().take(2 * BLOB_BYTES_MAX).collect();
                html! {
                    span.quiet { "blob, " (hex.len() / 2) " bytes " }
                    code { (shown) @if shown.len() < hex.len() { "…" } }
                }
            }
            None => html! {
                // An infinite number, or the bytes of a text that is not UTF-8.
                @for (kind, it) in fields {
                    @if kind == "text" { span.quiet { "not UTF-8 " } }
                    code { (it.as_str().unwrap_or_default()) }
                }
            },
        },
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => html! { span { (value) } },
    }
}

/// Lists the turns of an object.
pub(super) async fn turns(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
    Params(params): Params<ListTurns>,
) -> Result<Page, Problem> {
    // Only the newest page grows.
    let busy = params.cursor.is_none();
    let asked = ListTurns { class: class.clone(), name: name.clone(), ..params };
    let list = api::turns(server, asked).await?;
    let path = path_of(&class, &name);
    let here = format!("{path}/turns");
    let content = html! {
        (heading_of(&path, &name, "Turns"))
        p.lead { "Stored turns, newest first. · " a href={ "/v1" (here) } { "JSON" } }
        (live(busy, &html! {
            (turn_table(&list.items, &path))
            (pager(&here, "", list.next.as_deref()))
        }))
    };
    Ok(live_page("Turns", Section::Objects, content))
}

fn turn_table(turns: &[TurnEntry], path: &str) -> Markup {
    let row = |it: &TurnEntry| {
        let turn = html! { a href={ (path) "/turns/" (it.turn) } { (it.turn) } };
        let changed = html! { span { (size(usize::try_from(it.bytes).unwrap_or(0))) } };
        let cause = html! {
            @match it.cause {
                Some(cause) => a href={ "/v1/messages/" (cause) } { (cause) },
                None => span.quiet { "call" },
            }
        };
        [turn, time(&it.at), html! { code { (it.input) } }, changed, text(it.sent), cause]
    };
    let columns = [
        number("Turn"),
        times("At"),
        column("Message"),
        number("Changed"),
        number("Sent"),
        number("Cause"),
    ];
    table(&columns, turns.iter().map(row))
}

/// Shows the rows that a turn changed, before and after.
pub(super) async fn turn(
    State(server): State<Arc<Server>>,
    Path((class, name, turn)): Path<(String, String, String)>,
) -> Result<Page, Problem> {
    let turn = id::turn(&turn)?;
    let asked = ShowTurn { class: class.clone(), name: name.clone(), turn };
    let newest = ListTurns { class: class.clone(), name: name.clone(), ..ListTurns::default() };
    let newest = ListTurns { limit: Limit::of(1), ..newest };
    let last = api::turns(server.clone(), newest).await?.items.first().map_or(0, |it| it.turn);
    let turn = api::turn(server, asked).await?;
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

fn changes(turn: &TurnDetail) -> Markup {
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

/// Calls an object and shows its reply.
pub(super) async fn call(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
    mut form: Fields,
) -> Result<(StatusCode, Page), Problem> {
    let message = form.required("message")?;
    let idempotency_key = form.text("key");
    let known = server.runtime.objects().public_messages(&class);
    let fields = known.into_iter().find(|it| it.name == message).and_then(|it| it.fields);
    let (body, filled) = match form.text("body") {
        Some(text) => (json_body(&text), BTreeMap::from([(String::new(), text)])),
        None => body_of(&fields.unwrap_or_default(), &mut form),
    };
    form.end()?;
    let called = match body {
        Ok(body) => {
            let (class, name, message) = (class.clone(), name.clone(), message.clone());
            let call = CallObject { class, name, message, body, idempotency_key };
            api::call(server.clone(), call).await
        }
        Err(problem) => Err(problem),
    };
    let path = path_of(&class, &name);
    let (status, reply) = match called {
        Ok(text) => (StatusCode::OK, reply(text.get(), &path)),
        Err(problem) => refused(&problem),
    };
    let content = html! {
        (heading_of(&path, &name, &format!("Call {name}")))
        (reply)
        (calls(&server, &class, &path, &message, &filled))
    };
    Ok((status, console("Call", Section::Objects, content)))
}

fn reply(text: &str, path: &str) -> Markup {
    let value = serde_json::from_str::<Value>(text);
    html! {
        div.notice.good { strong { "Done; the result is durable" } }
        (code(&value.map_or(text.to_owned(), |it| format!("{it:#}")), path))
    }
}

/// A form for each public message of a class. The form of `called` is open, with the texts of its
/// fields.
fn calls(
    server: &Server,
    class: &str,
    path: &str,
    called: &str,
    filled: &BTreeMap<String, String>,
) -> Markup {
    let messages = server.runtime.objects().public_messages(class);
    // With the key, reloading the page does not call again.
    let key = secret_text(KEY_LEN, b"abcdefghijklmnopqrstuvwxyz234567").unwrap_or_default();
    let empty = BTreeMap::new();
    html! {
        @if messages.is_empty() { p.quiet { "Its class has no public message." } }
        div.mend {
            @for it in &messages {
                @let is_called = called == it.name;
                details.act data-key=(it.name) open[is_called] {
                    summary.button { (it.name) "…" }
                    form.ask method="post" action={ (path) "/call" } {
                        (hidden("message", it.name))
                        (hidden("key", format!("{key}-{}", it.name)))
                        (inputs(it, if is_called { filled } else { &empty }))
                        div.line { button.button { "Call " (it.name) } }
                    }
                }
            }
        }
    }
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
