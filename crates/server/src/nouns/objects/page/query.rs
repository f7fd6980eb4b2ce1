//! The rows of a table, and SQL queries on an object.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use steadfast_api::{
    Code,
    objects::{QueryObject, SqlRows, TableEntry},
};
use steadfast_core::object::Caller;
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
    escaped,
};

use crate::{
    nouns::objects::{
        self as api,
        page::{PREVIEWS, own_tables},
    },
    pages::{
        SQL,
        components::{column, empty, heading_of, table_of},
        forms::Fields,
        links::object_path,
    },
    path,
    server::Server,
};

/// Rows per page of a table.
const ROWS: usize = 50;

/// Maximum characters of a text in a row; a query reads the rest.
const CHARACTERS_MAX: usize = 500;

/// Maximum bytes of a blob in a row.
const BLOB_BYTES_MAX: usize = 16;

/// The query of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableParams {
    offset: Option<String>,
}

/// Shows the rows of a table.
pub(crate) async fn rows(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
    Path((class, name, table)): Path<(String, String, String)>,
    Params(params): Params<TableParams>,
) -> Result<Page, Problem> {
    let offset: usize = params.offset.as_deref().map_or(Ok(0), str::parse).map_err(|_| {
        Problem::of(Code::BadRequest, "`offset` must be the number of rows to skip")
    })?;
    let (objects, token) = (server.runtime.objects(), api::token_of(&caller));
    let page = objects.look_at_rows(token, &class, &name, &table, offset, ROWS + 1).await?;
    let mut found = page;
    let is_more = ROWS < found.rows.len();
    found.rows.truncate(ROWS);
    let (path, last) = (object_path(&class, &name), offset + found.rows.len());
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
pub(crate) struct SqlParams {
    #[serde(default)]
    sql: String,
    #[serde(default)]
    turn: String,
}

/// Shows the form for a statement. It runs nothing: any page may link here.
pub(crate) async fn sql_form(
    Path((class, name)): Path<(String, String)>,
    Params(SqlParams { sql, turn }): Params<SqlParams>,
) -> Result<Page, Problem> {
    let turn = Some(turn.trim()).filter(|it| !it.is_empty()).map(path::turn).transpose()?;
    Ok(sql_page(&class, &name, &sql, turn, &html! {}))
}

/// Runs a statement and shows its rows.
pub(crate) async fn sql(
    State(server): State<Arc<Server>>,
    Extension(caller): Extension<Caller>,
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
    let (status, answer) = match api::query(server, caller, asked).await {
        Ok(found) => (StatusCode::OK, answer(&found)),
        Err(problem) => refused(&problem),
    };
    Ok((status, sql_page(&class, &name, &sql, turn, &answer)))
}

fn sql_page(class: &str, name: &str, sql: &str, turn: Option<i64>, answer: &Markup) -> Page {
    let path = object_path(class, name);
    let content = html! {
        (heading_of(&path, name, &format!("Query {name}")))
        (query_form(class, &path, sql, turn))
        (answer)
    };
    console("Query", Section::Objects, content).script(&SQL)
}

/// The form for SQL queries. `sql.js` adds the last statements of the class.
pub(crate) fn query_form(class: &str, path: &str, sql: &str, turn: Option<i64>) -> Markup {
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
pub(crate) fn examples(path: &str, tables: &[TableEntry]) -> Markup {
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
pub(crate) fn refused(problem: &Problem) -> (StatusCode, Markup) {
    let body = problem.body("", "");
    let status = StatusCode::from_u16(body.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, html! { div.notice.bad { strong { (body.title) } p { (body.detail) } } })
}

pub(crate) fn row_table(found: &SqlRows) -> Markup {
    let columns: Vec<_> = found.columns.iter().map(|it| column(it.clone())).collect();
    table_of(
        "data",
        &columns,
        found.rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>()),
    )
}

/// Renders a value. NULL, blobs and numbers look different from text.
pub(crate) fn value(value: &Value) -> Markup {
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
