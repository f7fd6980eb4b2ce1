//! `/docs`: the OpenAPI document as pages of the console, those of applications included.

mod document;
mod schema;

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use steadfast_api::Code;
use steadfast_web::{
    Page, Problem,
    console::{Section, console},
    escaped,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    document::{Document, Endpoint},
    schema::{Field, Kind},
};
use crate::{args::SERVER, server::Server};

pub(crate) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::default().routes(routes!(index)).routes(routes!(errors)).routes(routes!(noun))
}

/// Lists all operations by noun.
#[utoipa::path(get, path = "/docs", tag = "pages",
    extensions(("x-needs-role" = json!("viewer"))),
    responses((status = 200, body = String, content_type = "text/html")),
)]
async fn index(State(server): State<Arc<Server>>) -> Result<Page, Problem> {
    let document = read(&server)?;
    let content = html! {
        h1 { "API" }
        p.lead {
            "All operations over HTTP, with those of the applications. For programs: "
            a href="/openapi.json" { "OpenAPI document" } ". Errors: "
            a href="/docs/errors" { "codes" } "."
        }
        @for noun in document.nouns() {
            h2 { a href={ "/docs/" (escaped(noun)) } { (noun) } }
            (endpoint_table(noun, &document.endpoints(noun)))
        }
    };
    Ok(console("API", Section::None, content))
}

fn endpoint_table(noun: &str, endpoints: &[Endpoint<'_>]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr { th { "Method" } th { "Path" } th { "Summary" } th { "Role" } } }
                tbody {
                    @for it in endpoints {
                        tr {
                            td data-label="Method" { code { (it.method) } }
                            td data-label="Path" {
                                a.address href={ "/docs/" (escaped(noun)) "#" (it.anchor()) } {
                                    (it.path)
                                }
                            }
                            td data-label="Summary" { (prose(it.summary())) }
                            td data-label="Role" { (it.needs()) }
                        }
                    }
                }
            }
        }
    }
}

/// Lists the error codes of the platform.
#[utoipa::path(get, path = "/docs/errors", tag = "pages",
    extensions(("x-needs-role" = json!("viewer"))),
    responses((status = 200, body = String, content_type = "text/html")),
)]
async fn errors() -> Page {
    let answer = |yes: bool| if yes { "yes" } else { "no" };
    let content = html! {
        p.crumbs { a href="/docs" { "← API" } }
        h1 { "Error codes" }
        p.lead {
            "An error is " code { "application/problem+json" } " with one of these codes. "
            "Applications and objects add codes of their own."
        }
        div.scroll {
            table.rows {
                thead { tr {
                    th { "Code" } th.number { "Status" } th { "Meaning" } th { "Retry" }
                    th { "Applied" }
                } }
                tbody {
                    @for code in Code::ALL {
                        @let applied = !code.is_surely_not_applied();
                        tr #(code.tag()) {
                            td data-label="Code" { code { (code.tag()) } }
                            td.number data-label="Status" { (code.status()) }
                            td data-label="Meaning" { (code.meaning()) }
                            td data-label="Retry" { (answer(code.is_retryable())) }
                            td data-label="Applied" { @if applied { "perhaps" } @else { "no" } }
                        }
                    }
                }
            }
        }
    };
    console("Error codes", Section::None, content)
}

/// Shows the operations of a noun: fields, answers, errors, and an example.
#[utoipa::path(get, path = "/docs/{noun}", tag = "pages",
    params(("noun" = String, Path, description = "Noun of the API, or an application")),
    extensions(("x-needs-role" = json!("viewer"))),
    responses((status = 200, body = String, content_type = "text/html")),
)]
async fn noun(
    State(server): State<Arc<Server>>,
    Path(noun): Path<String>,
) -> Result<Page, Problem> {
    let document = read(&server)?;
    let endpoints = document.endpoints(&noun);
    if endpoints.is_empty() {
        let detail = format!("the API has no noun `{noun}`; see /docs");
        return Err(Problem::of(Code::RouteNotFound, detail));
    }
    let base = server.address.get().map_or(SERVER.to_owned(), |it| format!("http://{it}"));
    let content = html! {
        p.crumbs { a href="/docs" { "← API" } }
        h1 { (noun) }
        (endpoint_table(&noun, &endpoints))
        @for it in &endpoints { (endpoint(&document, it, &base)) }
        (types(&document, &endpoints))
    };
    Ok(console(&format!("{noun} · API"), Section::None, content))
}

fn endpoint(document: &Document, it: &Endpoint<'_>, base: &str) -> Markup {
    let parameters = it.parameters(document);
    html! {
        section #(it.anchor()) {
            h2.address { (it.method) " " (it.path) }
            p { (prose(it.summary())) }
            @for line in it.description() { p.quiet { (prose(line)) } }
            p.quiet { "Role: " (it.needs()) }
            @if !parameters.is_empty() {
                h3 { "Parameters" }
                (field_table(&parameters))
            }
            @if let Some((kind, schema)) = it.body() {
                h3 { "Request · " code { (kind) } }
                (fields_or_type(document, schema))
            }
            @for answer in it.answers() {
                h3 {
                    "Answer " (answer.status)
                    @if let Some((kind, _)) = answer.content { " · " code { (kind) } }
                }
                @if let Some(about) = answer.about { p.quiet { (prose(about)) } }
                @if let Some((_, schema)) = answer.content { (fields_or_type(document, schema)) }
            }
            h3 { "Likely errors" }
            p {
                @for code in it.codes() {
                    a href={ "/docs/errors#" (code.tag()) } { code { (code.tag()) } } " "
                }
            }
            h3 { "Example" }
            pre { code { (it.curl(document, base)) } }
        }
    }
}

/// The fields of an object, or the name of what else it is.
fn fields_or_type(document: &Document, schema: &serde_json::Value) -> Markup {
    let fields = document.fields(schema);
    match fields.is_empty() {
        true => html! { p { (kind(&document.kind(schema))) } },
        false => field_table(&fields),
    }
}

fn field_table(fields: &[Field<'_>]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr { th { "Field" } th { "Type" } th { "Required" } th { "Meaning" } } }
                tbody {
                    @for it in fields {
                        tr {
                            td data-label="Field" {
                                code { (it.name) }
                                @if let Some(place) = it.place { " " span.quiet { (place) } }
                            }
                            td data-label="Type" { (kind(&it.kind)) }
                            td data-label="Required" { @if it.is_required { "yes" } @else { "no" } }
                            td data-label="Meaning" { (prose(it.about)) }
                        }
                    }
                }
            }
        }
    }
}

fn kind(kind: &Kind<'_>) -> Markup {
    html! {
        (kind.before)
        @if let Some(name) = kind.reference { a href={ "#type-" (name) } { (name) } }
        (kind.after)
    }
}

/// A text with `code` in backticks.
fn prose(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// The types that the operations refer to.
fn types(document: &Document, endpoints: &[Endpoint<'_>]) -> Markup {
    let names = document.referenced(endpoints.iter().map(|it| it.operation));
    html! {
        @if !names.is_empty() { h2 { "Types" } }
        @for name in names {
            @let schema = document.schema(name);
            section id={ "type-" (name) } {
                h3 { (name) }
                @if let Some(about) = schema["description"].as_str() { p { (prose(about)) } }
                @match document.values(schema) {
                    Some(values) => p { @for it in values { code { (it) } " " } },
                    None => (fields_or_type(document, schema)),
                }
            }
        }
    }
}

fn read(server: &Server) -> Result<Document, Problem> {
    let text = server.openapi.get().map_or("{}", String::as_str);
    let document = serde_json::from_str(text).map(Document::new);
    document.map_err(|error| Problem::of(Code::Internal, error.to_string()))
}
