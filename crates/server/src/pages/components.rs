//! Components of pages: table, facts, form, status, code, empty state, pager.
//!
//! A page has no style attribute and no inline script; variants use a class or an attribute.

use std::borrow::Cow;

use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;
use steadfast_api::Limit;
use steadfast_web::{
    Page,
    console::{Section, console},
    escaped,
};

use super::SCRIPT;

/// Maximum characters of a text on a page.
const CODE_CHARACTERS_MAX: usize = 20_000;

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    heading: Cow<'static, str>,
    class: &'static str,
}

/// A column of texts.
pub(crate) fn column(heading: impl Into<Cow<'static, str>>) -> Column {
    Column { heading: heading.into(), class: "" }
}

/// A column of numbers, aligned to the right.
pub(crate) fn number(heading: impl Into<Cow<'static, str>>) -> Column {
    column(heading).class("number")
}

/// A column of times.
pub(crate) fn times(heading: &str) -> Column {
    column(format!("{heading} (UTC)"))
}

impl Column {
    /// Sets the class of its cells.
    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    /// The heading of a cell on a narrow screen, where each row is a card.
    fn label(&self) -> &str {
        self.heading.strip_suffix(" (UTC)").unwrap_or(&self.heading)
    }
}

/// A row of a table.
#[derive(Debug)]
pub(crate) struct Row {
    class: &'static str,
    cells: Vec<Markup>,
}

impl<const N: usize> From<[Markup; N]> for Row {
    fn from(cells: [Markup; N]) -> Self {
        Self { class: "", cells: cells.into() }
    }
}

impl From<Vec<Markup>> for Row {
    fn from(cells: Vec<Markup>) -> Self {
        Self { class: "", cells }
    }
}

impl Row {
    /// Sets the class of the row.
    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

/// A table. An empty cell is a dash, and is omitted where rows are cards. A cell with several
/// elements must wrap them in one `div`.
pub(crate) fn table<R: Into<Row>>(columns: &[Column], rows: impl IntoIterator<Item = R>) -> Markup {
    table_of("", columns, rows)
}

/// A table with its own class.
pub(crate) fn table_of<R: Into<Row>>(
    class: &'static str,
    columns: &[Column],
    rows: impl IntoIterator<Item = R>,
) -> Markup {
    html! {
        div.scroll {
            table class=(joined("rows", class)) {
                thead { tr { @for it in columns { (heading(it)) } } }
                tbody {
                    @for row in rows.into_iter().map(Into::into) {
                        tr class=[some(row.class)] {
                            @for (column, content) in columns.iter().zip(&row.cells) {
                                (cell(column, content))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn heading(it: &Column) -> Markup {
    // The heading of a picture is for screen readers only.
    let is_hidden = it.class == "picture";
    html! {
        th class=[Some("number").filter(|class| *class == it.class)] {
            @if is_hidden { span.hidden { (it.heading) } } @else { (it.heading) }
        }
    }
}

fn cell(column: &Column, content: &Markup) -> Markup {
    let is_empty = content.0.is_empty();
    let class = joined(column.class, if is_empty { "none" } else { "" });
    let label = (column.class != "picture").then_some(column.label());
    html! {
        td class=[some(&class)] data-label=[label] {
            @if is_empty { span.quiet { "–" } } @else { (content) }
        }
    }
}

fn joined(one: &str, other: &str) -> String {
    format!("{one} {other}").trim().to_owned()
}

fn some(class: &str) -> Option<&str> {
    Some(class).filter(|it| !it.is_empty())
}

/// A text, escaped.
pub(crate) fn text(text: impl maud::Render) -> Markup {
    html! { (text) }
}

/// A value that may be missing.
pub(crate) fn optional(value: Option<impl maud::Render>) -> Markup {
    html! { @if let Some(value) = value { (value) } }
}

/// A link with a name.
pub(crate) fn link(href: impl AsRef<str>, label: impl maud::Render) -> Markup {
    html! { a.address href=(href.as_ref()) { (label) } }
}

/// A count with a link to the counted items; nothing if it is 0.
pub(crate) fn count(count: u64, href: impl AsRef<str>) -> Markup {
    html! { @if 0 < count { a href=(href.as_ref()) { (count) } } }
}

/// The colour of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Done, or as intended.
    Good,
    /// In progress.
    Active,
    /// Waiting.
    Waiting,
    /// Failed.
    Bad,
    /// Needs no attention.
    Quiet,
}

/// A status badge.
pub(crate) fn badge(tone: Tone, word: &str) -> Markup {
    let class = match tone {
        Tone::Good => "done",
        Tone::Active => "going",
        Tone::Waiting => "waiting",
        Tone::Bad => "dead",
        Tone::Quiet => "quiet",
    };
    html! { span.badge.(class) { (word) } }
}

/// A time for people, with the exact value for programs.
pub(crate) fn time(rfc3339: impl AsRef<str>) -> Markup {
    let time = rfc3339.as_ref();
    let shown = time.split_once('.').map_or(time, |(seconds, _)| seconds).replace('T', " ");
    html! { time datetime=(time) title=(time) { (shown) } }
}

/// Text between backticks becomes code.
pub(crate) fn quoted(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Fixed-width text. `all` links to the full text if it is too long for a page.
pub(crate) fn code(text: &str, all: &str) -> Markup {
    code_of(text, CODE_CHARACTERS_MAX, all)
}

/// The same with another limit.
pub(crate) fn code_of(text: &str, characters_max: usize, all: &str) -> Markup {
    let end = text.char_indices().nth(characters_max).map(|it| it.0);
    html! {
        pre { code { (text[..end.unwrap_or(text.len())]) @if end.is_some() { "…" } } }
        @if let Some(end) = end {
            p.quiet {
                "The first " (end) " of " (text.len()) " bytes. " a href=(all) { "Show all" }
            }
        }
    }
}

/// A value as JSON.
pub(crate) fn json(value: &Value, all: &str) -> Markup {
    code(&format!("{value:#}"), all)
}

/// The empty state of a list: the fact, and the next step.
pub(crate) fn empty(fact: &str, next: &Markup) -> Markup {
    html! { div.empty { h2.address { (fact) } (next) } }
}

/// A command that a reader can copy.
pub(crate) fn command(about: &str, command: &str) -> Markup {
    html! { p { (about) } pre { code { (command) } } }
}

/// The filters of a list as a query, from its request without the cursor.
pub(crate) fn filters(request: &impl Serialize) -> String {
    let query = serde_urlencoded::to_string(request).unwrap_or_default();
    let limit = format!("limit={}", Limit::default());
    let is_filter = |it: &&str| **it != *limit && !it.ends_with('=');
    query.split('&').filter(is_filter).collect::<Vec<_>>().join("&")
}

/// The link to the next page of a list. The filters are a query without its `?`.
pub(crate) fn pager(path: &str, filters: &str, next: Option<&str>) -> Markup {
    let filters = if filters.is_empty() { String::new() } else { format!("{filters}&") };
    html! {
        @if let Some(next) = next {
            p.more {
                a.button href={ (path) "?" (filters) "cursor=" (escaped(next)) } { "Next page" }
            }
        }
    }
}

/// The link back, and the title of a page.
pub(crate) fn heading_of(back: &str, label: &str, title: &str) -> Markup {
    html! {
        p.crumbs { a href=(back) { "← " (label) } }
        h1.address { (title) }
    }
}

/// A group of facts under a title.
pub(crate) fn card(title: &str, content: &Markup) -> Markup {
    html! { section.card { h2 { (title) } (content) } }
}

/// Facts: a name and a value each.
pub(crate) fn facts(facts: impl IntoIterator<Item = (&'static str, Markup)>) -> Markup {
    html! {
        dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
    }
}

/// Lines of a card: a name or a link, and its details.
pub(crate) fn lines(lines: impl IntoIterator<Item = (Markup, Markup)>) -> Markup {
    html! { ul.links { @for (name, about) in lines { li { (name) span { (about) } } } } }
}

/// A large number with its name, linked to the counted items.
pub(crate) fn figure(href: Option<&str>, value: impl maud::Render, about: &Markup) -> Markup {
    html! {
        @if let Some(href) = href { a.figure href=(href) { strong { (value) } span { (about) } } }
        @else { div.figure { strong { (value) } span { (about) } } }
    }
}

/// A number that should be 0.
pub(crate) fn alarm(href: &str, value: u64, about: &str) -> Markup {
    html! {
        a.figure.alarm[0 < value] href=(href) { strong { (value) } span { (about) } }
    }
}

/// Links, one of which is current.
pub(crate) fn tabs(label: &str, tabs: impl IntoIterator<Item = (String, String, bool)>) -> Markup {
    html! {
        nav.tabs aria-label=(label) {
            @for (href, word, is_chosen) in tabs {
                a href=(href) aria-current=[is_chosen.then_some("page")] { (word) }
            }
        }
    }
}

/// A form with one button, which is disabled unless `fits`.
pub(crate) fn button(action: &str, word: &str, fits: bool) -> Markup {
    html! {
        form method="post" action=(action) { button.button disabled[!fits] { (word) } }
    }
}

/// A form with one button that needs a confirmation, for irreversible actions.
pub(crate) fn confirm(action: &str, word: &str, warning: &str, sure: &str) -> Markup {
    let key = action.rsplit('/').next().unwrap_or_default();
    html! {
        details.confirm data-key=(key) {
            summary.button { (word) "…" }
            form method="post" action=(action) {
                span { (warning) }
                button.button.bad { (sure) }
            }
        }
    }
}

/// A hidden field of a form.
pub(crate) fn hidden(name: &str, value: impl maud::Render) -> Markup {
    html! { input type="hidden" name=(name) value=(value); }
}

/// A labelled field of a form in one line.
pub(crate) fn field(label: &str, name: &str, value: &str, placeholder: &str) -> Markup {
    html! {
        span.pair {
            label for=(name) { (label) }
            input.short id=(name) name=(name) value=[some(value)] autocomplete="off"
                placeholder=[some(placeholder)];
        }
    }
}

/// A form behind a button. It stays open while the page is refreshed.
pub(crate) fn ask(key: &str, word: &str, action: &str, fields: &Markup) -> Markup {
    html! {
        details.act data-key=(key) {
            summary.button { (word) "…" }
            form.ask method="post" action=(action) { (fields) }
        }
    }
}

/// The part of a page that the script refreshes while it is busy. Without a script it stays as
/// rendered.
pub(crate) fn live(busy: bool, content: &Markup) -> Markup {
    html! {
        div #live data-busy[busy] { (content) }
    }
}

/// The same with a longer period, for content that is expensive to read.
pub(crate) fn live_every(seconds: u32, content: &Markup) -> Markup {
    html! { div #live data-busy data-every=(seconds) { (content) } }
}

/// A page with a refreshed part: see [`live`].
pub(crate) fn live_page(title: &str, section: Section, content: Markup) -> Page {
    console(title, section, content).script(&SCRIPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_labels_for_narrow_screens_and_dashes_for_empty_cells() {
        let columns = [column("Run"), number("Attempts"), times("Changed")];
        let row = Row::from([link("/r", "<a>"), text(7), html! {}]).class("was");
        let table = table(&columns, [row]).into_string();
        for shown in [
            "<th>Run</th><th class=\"number\">Attempts</th><th>Changed (UTC)</th>",
            "<tr class=\"was\"><td data-label=\"Run\"><a class=\"address\" href=\"/r\">&lt;a&gt;",
            "<td class=\"number\" data-label=\"Attempts\">7</td>",
            "<td class=\"none\" data-label=\"Changed\"><span class=\"quiet\">–</span></td>",
        ] {
            assert!(table.contains(shown), "{shown} is missing in {table}");
        }
    }

    #[test]
    fn a_long_text_is_truncated_and_links_to_the_rest() {
        let shown = code_of("äöü", 2, "/v1/messages/7").into_string();
        assert!(shown.contains("<code>äö…</code>"), "{shown}");
        assert!(shown.contains("The first 4 of 6 bytes. <a href=\"/v1/messages/7\">"), "{shown}");
        assert_eq!(code_of("äö", 2, "").into_string(), "<pre><code>äö</code></pre>");
    }

    #[test]
    fn the_next_page_keeps_the_filters_and_escapes_its_cursor() {
        let next = |filters| pager("/runs", filters, Some("a&b")).into_string();
        assert!(next("").contains("href=\"/runs?cursor=a%26b\""), "{}", next(""));
        let filtered = next("status=paused");
        assert!(filtered.contains("href=\"/runs?status=paused&amp;cursor=a%26b\""), "{filtered}");
        assert_eq!(pager("/runs", "", None).into_string(), "");
    }
}
