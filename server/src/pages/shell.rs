//! What all pages share: head, navigation, footer.

use maud::{DOCTYPE, Markup, html};

use super::assets;

/// The part of the site that a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Start,
    Processes,
    Workflows,
    Objects,
    Queues,
    Buckets,
    Streams,
    Pending,
    Dead,
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

/// Puts `content` into the page.
pub(super) fn shell(title: &str, section: Section, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Steadfast" }
                link rel="icon" type="image/svg+xml" href=(assets::icon_url());
                link rel="stylesheet" href=(assets::style_url());
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" {
                        img src=(assets::icon_url()) alt="" width="28" height="28";
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
