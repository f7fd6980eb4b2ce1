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

use self::{
    document::Endpoint,
    schema::{Document, Field, Kind},
};
use super::{
    PageRoute,
    components::{column, heading_of, number, quoted, table, text},
    get,
};
use crate::{args::SERVER, server::Server};

pub(super) fn pages() -> [PageRoute; 3] {
    [get("/docs", index), get("/docs/errors", errors), get("/docs/{noun}", noun)]
}

/// Lists all operations by noun.
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
    let columns = [
        column("Method"),
        column("Path").class("path"),
        column("Summary").class("content"),
        column("Role"),
    ];
    let row = |it: &Endpoint<'_>| {
        let href = format!("/docs/{}#{}", escaped(noun), it.anchor());
        [
            html! { code { (it.method) } },
            html! { a href=(href) { (path(it.path)) } },
            html! { div { (quoted(it.summary())) } },
            text(it.needs()),
        ]
    };
    table(&columns, endpoints.iter().map(row))
}

/// A path that wraps only before a slash.
fn path(path: &str) -> Markup {
    html! {
        @for (at, part) in path.split('/').enumerate() {
            @if at != 0 { wbr; "/" }
            (part)
        }
    }
}

/// Lists the error codes of the platform.
async fn errors() -> Page {
    let answer = |yes: bool| text(if yes { "yes" } else { "no" });
    let columns = [
        column("Code"),
        number("Status"),
        column("Meaning"),
        column("Retry"),
        column("Nothing changed"),
    ];
    let row = |code: &Code| {
        [
            html! { code #(code.tag()) { (code.tag()) } },
            text(code.status()),
            text(code.meaning()),
            answer(code.is_retryable()),
            answer(code.surely_unapplied()),
        ]
    };
    let is_general = |it: &&Code| Code::GENERAL.contains(it);
    let (general, others): (Vec<&Code>, Vec<&Code>) = Code::ALL.iter().partition(is_general);
    let content = html! {
        (heading_of("/docs", "API", "Error codes"))
        p.lead {
            "An error is " code { "application/problem+json" } " with one of these codes. "
            "Applications and objects add codes of their own."
        }
        h2 #every-operation { "Errors of every operation" }
        (table(&columns, general.into_iter().map(row)))
        h2 { "Errors of single operations" }
        (table(&columns, others.into_iter().map(row)))
    };
    console("Error codes", Section::None, content)
}

/// Shows the operations of a noun: fields, responses, errors, and an example.
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
    let base = server.url().unwrap_or(SERVER.to_owned());
    let content = html! {
        (heading_of("/docs", "API", &noun))
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
            h2.path { (it.method) " " (path(it.path)) }
            p { (quoted(it.summary())) }
            @for line in it.description() { p.quiet { (quoted(line)) } }
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
                @if let Some(about) = answer.about { p.quiet { (quoted(about)) } }
                @if let Some((_, schema)) = answer.content { (fields_or_type(document, schema)) }
            }
            h3 { "Errors" }
            (errors_of(it))
            h3 { "Example" }
            pre { code { (it.curl(document, base)) } }
        }
    }
}

/// The errors of an operation. Applications need not declare theirs.
fn errors_of(it: &Endpoint<'_>) -> Markup {
    let columns = [column("Code"), number("Status"), column("Meaning").class("content")];
    let row = |code: &Code| {
        let href = format!("/docs/errors#{}", code.tag());
        [
            html! { a href=(href) { code { (code.tag()) } } },
            text(code.status()),
            html! { div { (code.meaning()) } },
        ]
    };
    let codes = it.codes();
    html! {
        @match &codes {
            Some(codes) if codes.is_empty() => {}
            Some(codes) => (table(&columns, codes.iter().map(row))),
            None => p { "The application may add its own codes." },
        }
        p.quiet {
            @if codes.is_some_and(|it| it.is_empty()) { "Only the " } @else { "In addition, the " }
            a href="/docs/errors#every-operation" { "errors of every operation" } "."
        }
    }
}

/// The fields of an object, or the name of another type.
fn fields_or_type(document: &Document, schema: &serde_json::Value) -> Markup {
    let fields = document.fields(schema);
    match fields.is_empty() {
        true => html! { p { (kind(&document.kind(schema))) } },
        false => field_table(&fields),
    }
}

fn field_table(fields: &[Field<'_>]) -> Markup {
    let columns =
        [column("Field"), column("Type"), column("Required"), column("Meaning").class("content")];
    let row = |it: &Field<'_>| {
        [
            html! {
                div {
                    code { (it.name) }
                    @if let Some(location) = it.location { " " span.quiet { (location) } }
                }
            },
            html! { div { (kind(&it.kind)) } },
            text(if it.is_required { "yes" } else { "no" }),
            html! { @if !it.about.is_empty() { div { (quoted(it.about)) } } },
        ]
    };
    table(&columns, fields.iter().map(row))
}

fn kind(kind: &Kind<'_>) -> Markup {
    html! {
        (kind.before)
        @if let Some(name) = kind.reference { a href={ "#type-" (name) } { (name) } }
        (kind.after)
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
                @if let Some(about) = schema["description"].as_str() { p { (quoted(about)) } }
                @match document.values(schema) {
                    Some(values) => p { @for it in values { code { (it) } " " } },
                    None => (fields_or_type(document, schema)),
                }
            }
        }
    }
}

fn read(server: &Server) -> Result<Document, Problem> {
    let text = server.openapi.get().map_or("{}", |it| it.as_str());
    let document = serde_json::from_str(text).map(Document);
    document.map_err(|error| Problem::of(Code::Internal, error.to_string()))
}
