//! The columns of lists: one description for the command line and for the console.

use maud::{Markup, html};
use steadfast_api::Page;

use crate::{
    cli::output::Table,
    pages::components::{self, Row, pager, time},
};

/// The columns of a list of `T`. Methods without a heading change the last column.
pub(crate) struct Columns<'a, T>(Vec<Column<'a, T>>);

/// Makes a cell of an item.
type Cell<'a, T, C> = Box<dyn Fn(&T) -> C + 'a>;

struct Column<'a, T> {
    heading: &'static str,
    class: &'static str,
    is_time: bool,
    /// The text of a cell; an empty one is a missing value. `None` for a column of the console.
    text: Option<Cell<'a, T, String>>,
    /// The cell of the console, if it is more than the text.
    markup: Option<Cell<'a, T, Markup>>,
    is_on_console: bool,
    /// Whether an empty text is a value on the command line, not a missing one.
    may_be_empty: bool,
}

impl<'a, T> Columns<'a, T> {
    /// No columns yet.
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a column. The command line shows its heading in upper case.
    pub(crate) fn text(self, heading: &'static str, text: impl Fn(&T) -> String + 'a) -> Self {
        self.add(heading, Some(Box::new(text)))
    }

    /// Adds a column of numbers, which the console aligns to the right.
    pub(crate) fn number(self, heading: &'static str, text: impl Fn(&T) -> String + 'a) -> Self {
        self.text(heading, text).class("number")
    }

    /// Adds a column of times in RFC 3339.
    pub(crate) fn time(self, heading: &'static str, text: impl Fn(&T) -> String + 'a) -> Self {
        self.text(heading, text).last(|it| it.is_time = true)
    }

    /// Adds a column of the console only.
    pub(crate) fn console(self, heading: &'static str, markup: impl Fn(&T) -> Markup + 'a) -> Self {
        self.add(heading, None).markup(markup)
    }

    /// Sets the cells of the console: links, badges, or other units.
    pub(crate) fn markup(self, markup: impl Fn(&T) -> Markup + 'a) -> Self {
        self.last(|it| it.markup = Some(Box::new(markup)))
    }

    /// Sets the class of the cells.
    pub(crate) fn class(self, class: &'static str) -> Self {
        self.last(|it| it.class = class)
    }

    /// Leaves the column out of the console.
    pub(crate) fn on_command_line(self) -> Self {
        self.last(|it| it.is_on_console = false)
    }

    /// Shows an empty text on the command line as it is.
    pub(crate) fn may_be_empty(self) -> Self {
        self.last(|it| it.may_be_empty = true)
    }

    fn add(mut self, heading: &'static str, text: Option<Cell<'a, T, String>>) -> Self {
        let (class, markup, is_time, may_be_empty) = ("", None, false, false);
        let is_on_console = true;
        self.0.push(Column { heading, class, is_time, text, markup, is_on_console, may_be_empty });
        self
    }

    fn last(mut self, change: impl FnOnce(&mut Column<'a, T>)) -> Self {
        if let Some(last) = self.0.last_mut() {
            change(last);
        }
        self
    }

    /// Writes a list for the command line.
    pub(crate) fn write<'t>(&self, items: impl IntoIterator<Item = &'t T>) -> String
    where
        T: 't,
    {
        let texts: Vec<_> = self.0.iter().filter_map(|it| Some((it, it.text.as_ref()?))).collect();
        let headings: Vec<String> = texts.iter().map(|it| it.0.heading.to_uppercase()).collect();
        let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
        for item in items {
            table.row(texts.iter().map(|(column, text)| match text(item) {
                text if text.is_empty() && !column.may_be_empty => "-".to_owned(),
                text => text,
            }));
        }
        table.write()
    }

    /// The same, or another text if there are no items.
    pub(crate) fn list(&self, items: &[T], empty: impl Into<String>) -> String {
        if items.is_empty() { empty.into() } else { self.write(items) }
    }

    /// Shows a list on the console.
    pub(crate) fn table<'t>(&self, items: impl IntoIterator<Item = &'t T>) -> Markup
    where
        T: 't,
    {
        self.table_of("", items, |_| "")
    }

    /// The same, with a class for the table and one for each row.
    pub(crate) fn table_of<'t>(
        &self,
        class: &'static str,
        items: impl IntoIterator<Item = &'t T>,
        class_of: impl Fn(&T) -> &'static str,
    ) -> Markup
    where
        T: 't,
    {
        let columns: Vec<_> = self.0.iter().filter(|it| it.is_on_console).collect();
        let headings: Vec<_> = columns.iter().map(|it| it.heading()).collect();
        let row = |item: &'t T| {
            let cells = columns.iter().map(|it| it.cell(item)).collect::<Vec<_>>();
            Row::from(cells).class(class_of(item))
        };
        components::table_of(class, &headings, items.into_iter().map(row))
    }

    /// Shows a page of a list on the console, or `empty`, and the link to the next page.
    pub(crate) fn page(&self, list: &Page<T>, empty: &Markup, path: &str, filters: &str) -> Markup {
        html! {
            @if list.items.is_empty() { (empty) } @else { (self.table(&list.items)) }
            (pager(path, filters, list.next.as_deref()))
        }
    }
}

impl<T> Column<'_, T> {
    fn heading(&self) -> components::Column {
        let heading = match self.is_time {
            true => components::times(self.heading),
            false => components::column(self.heading),
        };
        heading.class(self.class)
    }

    fn cell(&self, it: &T) -> Markup {
        let text = || self.text.as_ref().map(|text| text(it)).unwrap_or_default();
        match &self.markup {
            Some(markup) => markup(it),
            None if self.is_time => components::optional(some(text()).map(time)),
            None => components::text(text()),
        }
    }
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    #[test]
    fn one_description_is_a_list_of_the_command_line_and_a_table_of_the_console() {
        let columns = Columns::<(&str, u64)>::new()
            .text("Name", |it| it.0.to_owned())
            .number("In flight", |it| it.1.to_string())
            .markup(|it| html! { b { (it.1) } })
            .time("Ended", |_| String::new())
            .text("Id", |_| "7".to_owned())
            .on_command_line()
            .console("Actions", |_| html! { "End" });
        let text = "NAME  IN FLIGHT  ENDED  ID\nmail  3          -      7\n";
        assert_eq!(columns.write(&[("mail", 3)]), text);
        let table = columns.table(&[("mail", 3)]).into_string();
        let head = "<th>Name</th><th class=\"number\">In flight</th><th>Ended (UTC)</th>\
                    <th>Actions</th>";
        let row = "<td data-label=\"Name\">mail</td>\
                   <td class=\"number\" data-label=\"In flight\"><b>3</b></td>\
                   <td class=\"none\" data-label=\"Ended\"><span class=\"quiet\">–</span></td>\
                   <td data-label=\"Actions\">End</td>";
        assert!(table.contains(head) && table.contains(row), "{table}");
    }
}
