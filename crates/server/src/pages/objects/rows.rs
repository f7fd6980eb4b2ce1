//! The rows of an object: of one table, or of a question.

use std::sync::Arc;

use axum::{
    extract::{Form, Path, State, rejection::FormRejection},
    http::StatusCode,
};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::objects::QueryObject;
use steadfast_web::{
    Page,
    console::{Section, console},
    escaped,
};
use utoipa::{IntoParams, ToSchema};

use super::{super::assets, path_of, question, value::shown};
use crate::{
    api::{
        id, objects,
        page::Params,
        problem::{Code, Problem},
        wire::SqlRows,
    },
    server::Server,
};

/// Rows of one page of a table.
const ROWS: usize = 50;

/// The query of a table.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in super::super) struct TableParams {
    /// Rows to pass over.
    offset: Option<String>,
}

/// Shows the rows of a table.
#[utoipa::path(get, path = "/objects/{class}/{name}/tables/{table}", tag = "pages",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
        ("table" = String, Path, description = "The table"),
        TableParams,
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn table(
    State(server): State<Arc<Server>>,
    Path((class, name, table)): Path<(String, String, String)>,
    Params(params): Params<TableParams>,
) -> Result<Page, Problem> {
    let offset: usize = params.offset.as_deref().map_or(Ok(0), str::parse).map_err(|_| {
        Problem::of(Code::BadRequest, "`offset` must be a number of rows to pass over")
    })?;
    let page =
        server.runtime.objects().look_at_rows(&class, &name, &table, offset, ROWS + 1).await?;
    let mut found = SqlRows::from(page);
    let sql = format!("SELECT * FROM \"{}\"", table.replace('"', "\"\""));
    let more = ROWS < found.rows.len();
    found.rows.truncate(ROWS);
    let (path, last) = (path_of(&class, &name), offset + found.rows.len());
    let here = format!("{path}/tables/{}", escaped(&table));
    let content = html! {
        p.crumbs { a href=(path) { "← " (name) } }
        h1.address { (table) }
        @if found.rows.is_empty() {
            div.empty { h2 { "No row here" } }
        } @else {
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
            @if more { a.button href={ (here) "?offset=" (last) } { "Next page" } }
        }
        h2.next { "Query" }
        (question(&class, &path, &sql, None))
    };
    Ok(console(&table, Section::Objects, content).script(&assets::SQL))
}

/// A question.
#[derive(Debug, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in super::super) struct SqlParams {
    /// The statement.
    #[serde(default)]
    sql: String,
    /// After which turn.
    #[serde(default)]
    turn: String,
}

/// Shows the form for a statement. It runs nothing: any page may link here.
#[utoipa::path(get, path = "/objects/{class}/{name}/sql", tag = "pages",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
        SqlParams,
    ),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn sql_form(
    Path((class, name)): Path<(String, String)>,
    Params(SqlParams { sql, turn }): Params<SqlParams>,
) -> Result<Page, Problem> {
    Ok(sql_page(&class, &name, &sql, turn_of(&turn)?, &html! {}))
}

/// Shows what a statement finds in an object.
#[utoipa::path(post, path = "/objects/{class}/{name}/sql", tag = "pages",
    params(
        ("class" = String, Path, description = "The class"),
        ("name" = String, Path, description = "The object; a slash in its name is %2F"),
    ),
    request_body(content = SqlParams, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, body = String, content_type = "text/html"),
        (status = 422, body = String, content_type = "text/html",
            description = "The statement does not work; the page says why"),
    ),
)]
pub(in super::super) async fn sql(
    State(server): State<Arc<Server>>,
    Path((class, name)): Path<(String, String)>,
    form: Result<Form<SqlParams>, FormRejection>,
) -> Result<(StatusCode, Page), Problem> {
    let Form(SqlParams { sql, turn }) =
        form.map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
    let turn = turn_of(&turn)?;
    let asked = if sql.trim().is_empty() {
        None
    } else {
        let (class, name) = (class.clone(), name.clone());
        let asked = QueryObject { class, name, sql: sql.clone(), params: None, turn };
        Some(objects::query(server, asked).await)
    };
    let (status, answer) = match asked {
        None => (200, html! {}),
        Some(Ok(found)) => (200, answer(&found)),
        Some(Err(problem)) => {
            let body = problem.body("", "");
            (
                body.status,
                html! {
                    div.notice.bad { strong { (body.title) } p { (body.detail) } }
                },
            )
        }
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok((status, sql_page(&class, &name, &sql, turn, &answer)))
}

fn turn_of(text: &str) -> Result<Option<i64>, Problem> {
    Some(text.trim()).filter(|it| !it.is_empty()).map(id::turn).transpose()
}

fn sql_page(class: &str, name: &str, sql: &str, turn: Option<i64>, answer: &Markup) -> Page {
    let path = path_of(class, name);
    let content = html! {
        p.crumbs { a href=(path) { "← " (name) } }
        h1 { "Query " span.address { (name) } }
        (question(class, &path, sql, turn))
        (answer)
    };
    console("Query", Section::Objects, content).script(&assets::SQL)
}

fn answer(found: &SqlRows) -> Markup {
    let count = found.rows.len();
    html! {
        p.lead.next {
            (count) @if count == 1 { " row" } @else { " rows" } " after turn " (found.turn)
            @if found.truncated { ". There is more than is shown." }
        }
        @if 0 < count { (row_table(found)) }
    }
}

fn row_table(found: &SqlRows) -> Markup {
    html! {
        div.scroll {
            table.rows.data {
                thead { tr { @for it in &found.columns { th { (it) } } } }
                tbody {
                    @for row in &found.rows {
                        tr {
                            @for (column, value) in found.columns.iter().zip(row) {
                                td data-label=(column) { (shown(value)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
