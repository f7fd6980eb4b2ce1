//! A page: its content and the files that it uses. The server renders the shell around it.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use maud::Markup;
use steadfast_api::escaped;

use crate::Asset;

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
    /// No section: a page of an application, or an error.
    None,
}

/// A page of the console or of an application, as a response.
///
/// The response carries it in its extensions to the server, which knows the navigation and the
/// nonce and renders it with [`Shell`](crate::console::Shell). Add scripts and styles to the page:
/// a tag in the content has no nonce, and the browser ignores it.
#[derive(Clone, Debug)]
pub struct Page {
    pub(crate) title: String,
    pub(crate) section: Section,
    pub(crate) content: Markup,
    pub(crate) styles: Vec<String>,
    pub(crate) scripts: Vec<String>,
}

impl Page {
    /// A page of an application.
    pub fn new(title: impl Into<String>, content: Markup) -> Self {
        Self {
            title: title.into(),
            section: Section::None,
            content,
            styles: Vec::new(),
            scripts: Vec::new(),
        }
    }

    /// Puts the page into a section of the console.
    #[must_use]
    pub fn section(self, section: Section) -> Self {
        Self { section, ..self }
    }

    /// Adds a style sheet after that of the console.
    #[must_use]
    pub fn style(mut self, style: &Asset) -> Self {
        self.styles.push(style.url());
        self
    }

    /// Adds a script, which runs after parsing.
    #[must_use]
    pub fn script(mut self, script: &Asset) -> Self {
        self.scripts.push(script.url());
        self
    }
}

/// A path with a query.
pub fn link<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let parts = query.into_iter().map(|(name, value)| format!("{name}={}", escaped(value)));
    let parts = parts.collect::<Vec<_>>().join("&");
    if parts.is_empty() { path.into() } else { format!("{path}?{parts}") }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = [(header::CONTENT_TYPE, "text/html; charset=utf-8")].into_response();
        response.extensions_mut().insert(self);
        response
    }
}
