//! The console's shell: head, navigation and footer around the content of a page.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};

/// A file inside of the binary. Browsers keep it under a URL that changes with its text.
pub struct Asset {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
    tag: String,
}

/// The style of the console.
pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::css("/assets/steadfast.css", include_str!("../assets/console.css")));

/// The icon of the console.
pub static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::svg("/assets/steadfast.svg", include_str!("../assets/console.svg")));

impl Asset {
    /// A style sheet.
    pub fn css(path: &'static str, text: &'static str) -> Self {
        Self::new(path, "text/css; charset=utf-8", text)
    }

    /// A script.
    pub fn js(path: &'static str, text: &'static str) -> Self {
        Self::new(path, "text/javascript; charset=utf-8", text)
    }

    /// A drawing.
    pub fn svg(path: &'static str, text: &'static str) -> Self {
        Self::new(path, "image/svg+xml", text)
    }

    fn new(path: &'static str, content_type: &'static str, text: &'static str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self { path, content_type, text, tag: format!("{:016x}", hasher.finish()) }
    }

    /// The URL for a page.
    pub fn url(&self) -> String {
        format!("{}?v={}", self.path, self.tag)
    }

    /// The response to a request for it.
    pub fn response(&self, headers: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", self.tag);
        let known = headers.get(header::IF_NONE_MATCH).and_then(|it| it.to_str().ok());
        let caching = [
            (header::ETAG, tag.clone()),
            (header::CACHE_CONTROL, "public, max-age=31536000, immutable".into()),
        ];
        if known.is_some_and(|it| it.split(',').any(|one| one.trim() == tag)) {
            return (StatusCode::NOT_MODIFIED, caching).into_response();
        }
        ([(header::CONTENT_TYPE, self.content_type)], caching, self.text).into_response()
    }
}

/// The entry of the navigation that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the entry of its name")]
pub enum Section {
    Start,
    Processes,
    Workflows,
    Objects,
    Queues,
    Buckets,
    Streams,
    Pending,
    Dead,
    /// None of them: a page of an application.
    None,
}

const NAVIGATION: [(Section, &str, &str); 9] = [
    (Section::Start, "/", "Overview"),
    (Section::Processes, "/processes", "Processes"),
    (Section::Workflows, "/workflows", "Workflows"),
    (Section::Objects, "/objects", "Objects"),
    (Section::Queues, "/queues", "Queues"),
    (Section::Buckets, "/buckets", "Buckets"),
    (Section::Streams, "/streams", "Streams"),
    (Section::Pending, "/streams/pending", "Pending"),
    (Section::Dead, "/streams/dead", "Dead"),
];

/// A page of the console.
pub fn console(title: &str, section: Section, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Steadfast" }
                link rel="icon" type="image/svg+xml" href=(ICON.url());
                link rel="stylesheet" href=(STYLE.url());
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" {
                        img src=(ICON.url()) alt="" width="28" height="28";
                        "Steadfast"
                    }
                    nav aria-label="Main" {
                        @for (target, href, label) in NAVIGATION {
                            a href=(href) aria-current=[(target == section).then_some("page")] {
                                (label)
                            }
                        }
                    }
                }
                main #main { (content) }
                footer.bottom {
                    span { "Steadfast " (env!("CARGO_PKG_VERSION")) }
                    a href="/openapi.json" { "API" }
                    a href="/metrics" { "Metrics" }
                    a href="/readyz" { "Health" }
                    a href="/v1/doctor" { "Doctor" }
                }
            }
        }
    }
}
