//! The page of an organization: it works without script; with one it is live.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use maud::{Markup, html};
use steadfast_web::{Asset, Limit, ListPage, Page, Params, Problem, link};

use super::{
    api::{ListQuery, find, image_url},
    site::Site,
};
use crate::{Status, Upload};

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::css("/uploads-assets/uploads.css", include_str!("../../assets/uploads.css"))
});

pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::js("/uploads-assets/uploads.js", include_str!("../../assets/uploads.js"))
});

/// The file types that a browser offers.
const TYPES: &str = "image/png,image/jpeg,image/webp,image/gif";
/// How many cards a page has.
const CARDS: u32 = 200;

pub(super) async fn show(
    site: Site,
    Path(organization): Path<String>,
    Params(query): Params<ListQuery>,
) -> Response {
    match cards(&site, &organization, &query).await {
        Ok(ListPage { items: uploads, next }) => {
            let notice = (site.notice)();
            let next = next.map(|it| next_page(&query, &it));
            let shown = (&*uploads, next.as_deref());
            let body = main(&organization, &query, notice.as_deref(), shown);
            page(&organization, &body).into_response()
        }
        Err(problem) => refused(&organization, problem),
    }
}

async fn cards(
    site: &Site,
    organization: &str,
    query: &ListQuery,
) -> Result<ListPage<Upload>, Problem> {
    site.admit(organization)?;
    let cards = Limit::of(CARDS);
    let limit = query.limit.filter(|it| it.rows() < cards.rows()).unwrap_or(cards);
    find(site, organization, query, limit).await
}

/// Where the images are that come behind those of this page.
fn next_page(query: &ListQuery, cursor: &str) -> String {
    let limit = query.limit.map(|it| it.to_string());
    let parts = [
        ("status", query.status.as_deref()),
        ("label", query.label.as_deref()),
        ("limit", limit.as_deref()),
        ("cursor", Some(cursor)),
    ];
    link("", parts.into_iter().filter_map(|(name, value)| Some((name, value?))))
}

/// A page with the reason of a refusal.
pub(super) fn refused(organization: &str, problem: Problem) -> Response {
    let body = html! {
        p.error role="alert" { (problem.detail()) }
        p { a href={ "/uploads/" (organization) } { "Back" } }
    };
    problem.on_page(page(organization, &body))
}

fn page(organization: &str, body: &Markup) -> Page {
    let title = format!("Uploads of {organization}");
    let content = html! {
        div.heading {
            h1 { (title) }
            span.badge #line data-organization=(organization) aria-live="polite" {}
        }
        (body)
    };
    Page::new(title, content).style(&STYLE).script(&SCRIPT)
}

fn main(
    organization: &str,
    query: &ListQuery,
    notice: Option<&str>,
    (uploads, next): (&[Upload], Option<&str>),
) -> Markup {
    html! {
        div #notice { @if let Some(notice) = notice { p.notice { (notice) } } }
        form #drop method="post" enctype="multipart/form-data"
            action={ "/uploads/" (organization) } {
            label for="file" { "Drop images here, or choose them" }
            input #file type="file" name="file" required multiple
                accept=(TYPES);
            button.button.main { "Upload" }
            ul #progress {}
        }
        (filter(query))
        ul #cards {
            @for upload in uploads { (card(organization, upload)) }
        }
        @if uploads.is_empty() { p.empty #empty { "No images yet." } }
        nav #pages aria-label="Pages" {
            @if let Some(next) = next { a href=(next) { "Older images" } }
        }
        details #feed { summary { "Events" } ol {} }
    }
}

fn filter(query: &ListQuery) -> Markup {
    let status = query.status.as_deref().unwrap_or_default();
    let label = query.label.as_deref().unwrap_or_default();
    html! {
        form #filter method="get" {
            label { "Label " input name="label" value=(label); }
            label {
                "Status "
                select name="status" {
                    option value="" { "all" }
                    @for it in ["queued", "running", "classified", "failed"] {
                        option value=(it) selected[it == status] { (it) }
                    }
                }
            }
            button.button { "Filter" }
        }
    }
}

fn card(organization: &str, upload: &Upload) -> Markup {
    let action = |what: &str| format!("/uploads/{organization}/{}/{what}", upload.name);
    let score = upload.classification_score.map(|it| format!("{:.0} %", it * 100.0));
    html! {
        li.card data-name=(upload.name) data-status=(upload.status.name()) {
            a href=(image_url(organization, upload, "image")) {
                img src=(image_url(organization, upload, "thumbnail")) alt=(upload.name)
                    loading="lazy";
            }
            h2 { (upload.name) }
            @match upload.status {
                Status::Queued => p.status { "Waiting…" },
                Status::Running => p.status { "Classifying…" },
                Status::Failed => p.status.error { (upload.error.as_deref().unwrap_or("failed")) },
                Status::Classified => {
                    p.label {
                        strong { (upload.classification_label.as_deref().unwrap_or_default()) }
                        " " span { (score.unwrap_or_default()) }
                    }
                    meter min="0" max="1" value=(upload.classification_score.unwrap_or_default()) {}
                    details {
                        summary { "Top five" }
                        ol {
                            @for it in &upload.top_five {
                                li { (it.label) " " (format!("{:.1} %", it.score * 100.0)) }
                            }
                        }
                    }
                }
            }
            div.actions.small {
                form.delete method="post" action=(action("delete")) { button.button { "Delete" } }
                form.replace method="post" enctype="multipart/form-data"
                    action={ "/uploads/" (organization) } {
                    input type="hidden" name="name" value=(upload.name);
                    label.button {
                        "Replace "
                        input type="file" name="file" required accept=(TYPES);
                    }
                    button.button { "Replace" }
                }
                @if upload.status != Status::Classified {
                    form.retry method="post" action=(action("retry")) { button.button { "Retry" } }
                }
            }
        }
    }
}
