//! Objects: the classes, the objects of one, and one of those with its rows and turns.

pub(super) mod list;
pub(super) mod rows;
pub(super) mod show;
pub(super) mod turns;
mod value;

use maud::{Markup, html};
use steadfast_web::escaped;

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

/// Where to ask an object in SQL.
fn question(path: &str, sql: &str, turn: Option<i64>) -> Markup {
    html! {
        form.ask method="post" action={ (path) "/sql" } {
            label for="sql" { "A statement that reads" }
            textarea #sql name="sql" rows="3" spellcheck="false"
                placeholder="SELECT name, sql FROM sqlite_schema" { (sql) }
            div.line {
                label for="turn" { "after turn" }
                input #turn name="turn" inputmode="numeric" size="8" placeholder="now"
                    value=[turn];
                button.button { "Ask" }
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
