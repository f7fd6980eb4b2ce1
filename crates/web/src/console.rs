//! The console's shell: head, navigation and footer around the content of a page.

use std::sync::LazyLock;

use maud::{DOCTYPE, Markup, html};

pub use crate::page::Section;
use crate::{Asset, NavLink, Page};

/// The style of the console.
pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::css("/assets/steadfast.css", include_str!("../assets/console.css")));

/// The icon of the console.
pub static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::svg("/assets/steadfast.svg", include_str!("../assets/console.svg")));

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

/// Attributes of links to this server. Scripts find the base in `data-base` of the document.
const LINKS: [&str; 6] = ["href", "src", "action", "formaction", "poster", "data-objects"];

/// A page of the console.
pub fn console(title: &str, section: Section, content: Markup) -> Page {
    Page::new(title, content).section(section)
}

/// The frame of every page, with data that only the server knows.
#[derive(Clone, Copy, Debug)]
pub struct Shell<'a> {
    /// Pages of the applications.
    pub pages: &'a [NavLink],
    /// The path prefix under which a host program serves the routes; empty for the root.
    pub base: &'a str,
    /// The path of the request without the base. It determines the current application.
    pub path: &'a str,
    /// The nonce of the response, as in its content security policy.
    pub nonce: &'a str,
    /// The visitor of the page.
    pub visitor: Visitor<'a>,
}

/// The visitor of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visitor<'a> {
    /// Anybody: access is open.
    Anybody,
    /// Somebody whose access the host program decides, or who has not logged in.
    Unknown,
    /// The holder of a token: its id and role.
    Principal(&'a str, &'a str),
}

impl Shell<'_> {
    /// Renders the page as a document.
    pub fn render(&self, page: &Page) -> String {
        let mut document = self.document(page).into_string();
        // Pages write their links from `/`. Quotation marks in text are escaped, so only attributes
        // match.
        for attribute in LINKS.iter().filter(|_| !self.base.is_empty()) {
            let base = html! { (self.base) }.into_string();
            let (own, root) = (format!(" {attribute}=\"/"), format!(" {attribute}=\"{base}"));
            let below = format!("{root}/");
            document = document.replace(&own, &below);
            // axum serves the root of nested routes without a trailing slash.
            for end in ['"', '?', '#'] {
                document = document.replace(&format!("{below}{end}"), &format!("{root}{end}"));
            }
        }
        document
    }

    fn document(&self, page: &Page) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" data-base=[(!self.base.is_empty()).then_some(self.base)] {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (page.title) " · Steadfast" }
                    link rel="icon" type="image/svg+xml" href=(ICON.url());
                    @for url in std::iter::once(&STYLE.url()).chain(&page.styles) {
                        link rel="stylesheet" href=(url) nonce=(self.nonce);
                    }
                    @for url in &page.scripts {
                        script src=(url) nonce=(self.nonce) defer {}
                    }
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    (self.header(page.section))
                    @if self.visitor == Visitor::Anybody { (open_banner()) }
                    main #main { (page.content) }
                    (footer(self.visitor))
                }
            }
        }
    }

    fn header(&self, section: Section) -> Markup {
        html! {
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
                @if !self.pages.is_empty() {
                    nav.apps aria-label="Applications" {
                        @for it in self.pages {
                            @let is_current = section == Section::None && self.is_in(it);
                            a href=(it.path) title=(it.about)
                                aria-current=[is_current.then_some("page")] { (it.title) }
                        }
                    }
                }
                form.find method="get" action="/search" role="search" {
                    label.hidden for="q" { "Search" }
                    input #q type="search" name="q" placeholder="Search by name or id"
                        maxlength="600" autocomplete="off";
                }
            }
        }
    }

    /// Whether the request is for an application: its pages share their first segment.
    fn is_in(&self, link: &NavLink) -> bool {
        let first = |path: &str| path.split('/').nth(1).map(str::to_owned);
        first(self.path).is_some_and(|it| !it.is_empty() && Some(it) == first(link.path))
    }
}

/// Says on every page that nobody needs a credential.
fn open_banner() -> Markup {
    html! {
        p.open-access role="note" {
            "Access is open: everybody on this machine may do everything. "
            code { "steadfast tokens create --role admin" } " closes it."
        }
    }
}

fn footer(visitor: Visitor<'_>) -> Markup {
    html! {
        footer.bottom {
            span { "Steadfast " (env!("CARGO_PKG_VERSION")) }
            @if let Visitor::Principal(token, role) = visitor {
                form.logout method="post" action="/logout" {
                    span { "Token " code { (token) } ", role " (role) }
                    button { "Log out" }
                }
                a href="/sessions" { "Sessions" }
                a href="/audit" { "Audit log" }
            }
            a href="/quotas" { "Quotas" }
            a href="/docs" { "API" }
            a href="/metrics" { "Metrics" }
            a href="/readyz" { "Health" }
            a href="/v1/doctor" { "Doctor" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [NavLink; 2] = [
        NavLink { title: "Uploads", path: "/uploads/demo", about: "images" },
        NavLink { title: "Drift", path: "/drift", about: "environments" },
    ];

    fn rendered(path: &str, section: Section) -> String {
        let page = Page::new("<T>", html! { p { "content" } }).section(section);
        let page = page.script(&Asset::js("/own.js", "1")).style(&Asset::css("/own.css", "2"));
        let visitor = Visitor::Anybody;
        Shell { pages: &PAGES, base: "", path, nonce: "n0", visitor }.render(&page)
    }

    #[test]
    fn links_of_a_page_below_a_path_of_a_host_begin_with_it() {
        let content = html! {
            p { "text like  href=\"/x\" stays" }
            a href="/queues" { "q" } a href="#main" {} a href="https://example.com/" {}
            form action="/queues/a/purge" {}
        };
        let page = Page::new("T", content).script(&Asset::js("/own.js", "1"));
        let visitor = Visitor::Principal("ABC", "operator");
        let shell = Shell { pages: &PAGES, base: "/durable", path: "/drift", nonce: "n0", visitor };
        let page = shell.render(&page);
        for link in [
            "<html lang=\"en\" data-base=\"/durable\">",
            "href=\"/durable/queues\"",
            "action=\"/durable/logout\"",
            "href=\"/durable\"",
            "action=\"/durable/queues/a/purge\"",
            "src=\"/durable/own.js?v=",
            "href=\"/durable/drift\"",
            "href=\"https://example.com/\"",
            "text like  href=&quot;/x&quot; stays",
        ] {
            assert!(page.contains(link), "{link} in {page}");
        }
        for attribute in LINKS {
            for link in page.split(&format!(" {attribute}=\"/")).skip(1) {
                assert!(link.starts_with("durable/") || link.starts_with("durable\""), "{link}");
            }
        }
    }

    #[test]
    fn the_navigation_marks_the_section_or_the_application() {
        let current = |page: &str| {
            let marked = page.split("aria-current=\"page\">").skip(1);
            marked.map(|it| it.split('<').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(current(&rendered("/queues/x", Section::Queues)), ["Queues"]);
        assert_eq!(current(&rendered("/uploads/acme", Section::None)), ["Uploads"]);
        assert_eq!(current(&rendered("/drift/7", Section::None)), ["Drift"]);
        assert!(current(&rendered("/nowhere", Section::None)).is_empty());
    }

    #[test]
    fn scripts_and_styles_have_the_nonce_and_texts_are_escaped() {
        let page = rendered("/drift", Section::None);
        assert_eq!(page.matches(" nonce=\"n0\"").count(), 3, "{page}");
        assert!(page.contains("&lt;T&gt;") && page.contains("<script src=\"/own.js?v="), "{page}");
        assert!(page.find("steadfast.css") < page.find("own.css"), "{page}");
    }
}
