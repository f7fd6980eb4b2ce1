//! The classes, and the objects of one.

use std::sync::Arc;

use axum::extract::{Path, State};
use maud::{Markup, html};
use steadfast_api::objects::{ListClasses, ListObjects};
use steadfast_web::{Page, console::Section, escaped};

use super::{
    super::{
        live::{live, live_page},
        table::{more, time},
    },
    path_of,
};
use crate::{
    api::{
        objects as api,
        page::Params,
        problem::Problem,
        wire::{ObjectClass, ObjectEntry},
    },
    server::Server,
};

/// Shows the classes.
#[utoipa::path(get, path = "/objects", tag = "pages", responses(
    (status = 200, body = String, content_type = "text/html"),
))]
pub(in super::super) async fn classes(State(server): State<Arc<Server>>) -> Result<Page, Problem> {
    let classes = api::classes(server, ListClasses {}).await?.items;
    // Where there are many, they are not counted again every second.
    let busy = !classes.iter().any(|it| it.more);
    let content = html! {
        h1 { "Objects" }
        p.lead {
            "Each has a name, a SQLite database of its own, and one turn at a time. · "
            a href="/v1/objects" { "JSON" }
        }
        (live(busy, &class_table(&classes)))
    };
    Ok(live_page("Objects", Section::Objects, content))
}

fn class_table(classes: &[ObjectClass]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr { th { "Class" } th.number { "Objects" } th { "Served here" } } }
                tbody {
                    @for it in classes {
                        tr {
                            td data-label="Class" {
                                a.address href={ "/objects/" (escaped(&it.name)) } { (it.name) }
                            }
                            td.number data-label="Objects" {
                                span { (it.objects) @if it.more { "+" } }
                            }
                            td data-label="Served here" {
                                @if it.served { span.badge.done { "yes" } }
                                @else { span.badge { "by another program" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Lists the objects of a class.
#[utoipa::path(get, path = "/objects/{class}", tag = "pages",
    params(("class" = String, Path, description = "The class")),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(in super::super) async fn objects(
    State(server): State<Arc<Server>>,
    Path(class): Path<String>,
    Params(params): Params<ListObjects>,
) -> Result<Page, Problem> {
    let prefix = &*params.prefix.clone().unwrap_or_default();
    let list = api::list(server, ListObjects { class: class.clone(), ..params }).await?;
    let path = format!("/objects/{}", escaped(&class));
    let next = list.next.map(|it| format!("{it}&prefix={}", escaped(prefix)));
    let content = html! {
        p.crumbs { a href="/objects" { "← Objects" } }
        h1.address { (class) }
        form.search method="get" action=(path) role="search" {
            label for="prefix" { "Name begins with" }
            input #prefix name="prefix" type="search" value=(prefix);
            button.button { "Find" }
            a href={ "/v1" (path) "?prefix=" (escaped(prefix)) } { "JSON" }
        }
        (live(true, &html! {
            @if list.items.is_empty() { (none(&class, prefix)) } @else {
                (object_table(&class, &list.items))
            }
            (more(&path, next.as_deref()))
        }))
    };
    Ok(live_page(&class, Section::Objects, content))
}

fn none(class: &str, prefix: &str) -> Markup {
    html! {
        div.empty {
            h2 { "No object here" }
            @if prefix.is_empty() {
                p { "One begins with the first call that changes it:" }
                pre { code { "steadfast objects call " (class) " NAME MESSAGE --body JSON" } }
            } @else {
                p { "None has a name that begins with “" (prefix) "”." }
            }
        }
    }
}

fn object_table(class: &str, objects: &[ObjectEntry]) -> Markup {
    html! {
        div.scroll {
            table.rows {
                thead { tr {
                    th { "Object" } th.number { "Turns" } th { "In memory" }
                    th { "Updated (UTC)" } th { "Created (UTC)" }
                } }
                tbody {
                    @for it in objects {
                        tr {
                            td data-label="Object" {
                                a.address href=(path_of(class, &it.name)) { (it.name) }
                            }
                            td.number data-label="Turns" { (it.turns) }
                            td data-label="In memory" {
                                @if it.awake { span.badge.done { "awake" } }
                                @else { span.badge { "asleep" } }
                            }
                            td data-label="Updated" {
                                @if let Some(at) = &it.updated_at { (time(at)) }
                                @else { span.quiet { "long ago" } }
                            }
                            td data-label="Created" { (time(&it.created_at)) }
                        }
                    }
                }
            }
        }
    }
}
