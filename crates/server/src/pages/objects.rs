//! Objects: the classes, the objects of one, and one of those with its rows and turns.

pub(super) mod call;
pub(super) mod list;
pub(super) mod rows;
pub(super) mod show;
pub(super) mod turns;
mod value;

use maud::{Markup, html};
use steadfast_web::escaped;

use crate::api::wire::TableEntry;

/// Tables with example statements.
const EXAMPLE_TABLES: usize = 3;

/// Where the pages of an object are.
pub(super) fn path_of(class: &str, name: &str) -> String {
    format!("/objects/{}/{}", escaped(class), escaped(name))
}

/// A size as people read it.
fn size(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// The form that queries an object in SQL. `sql.js` adds the last statements of the class.
fn question(class: &str, path: &str, sql: &str, turn: Option<i64>) -> Markup {
    html! {
        form.ask method="post" action={ (path) "/sql" } data-statements=(class) {
            label for="sql" { "A statement that reads" }
            textarea #sql name="sql" rows="3" spellcheck="false"
                placeholder="SELECT name, sql FROM sqlite_schema" { (sql) }
            div.line {
                label for="turn" { "after turn" }
                input #turn name="turn" inputmode="numeric" size="8" placeholder="now"
                    value=[turn];
                button.button { "Run" }
            }
            details hidden { summary { "Last statements" } ul.links {} }
        }
    }
}

/// Statements to begin with. A link fills in the form and runs nothing.
fn examples(path: &str, tables: &[TableEntry]) -> Markup {
    let named = tables.iter().filter(|it| !it.system).take(EXAMPLE_TABLES);
    let quoted = named.map(|it| format!("\"{}\"", it.name.replace('"', "\"\"")));
    let of_tables = quoted.flat_map(|it| {
        [format!("SELECT * FROM {it} LIMIT 20"), format!("SELECT count(*) FROM {it}")]
    });
    let schema = "SELECT name, sql FROM sqlite_schema".to_owned();
    html! {
        p.quiet.examples {
            "Examples: "
            @for sql in of_tables.chain([schema]) {
                a href={ (path) "/sql?sql=" (escaped(&sql)) } { code { (sql) } } " "
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_short() {
        for (bytes, shown) in
            [(0, "0 bytes"), (1_023, "1023 bytes"), (4_096, "4 KiB"), (5 << 19, "2.5 MiB")]
        {
            assert_eq!(size(bytes), shown);
        }
    }
}
