//! Writes to stdout: texts, JSON, and plain tables: aligned with spaces, readable without colour,
//! never truncated.

use steadfast_web::printable;

use crate::failure::Failure;

/// Prints a text.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    try_print(text).map(|_| ())
}

/// Prints a text. Returns `false` if the reader has closed the pipe.
pub(crate) fn try_print(text: &str) -> Result<bool, Failure> {
    Ok(steadfast_web::print(text)?)
}

/// Prints the JSON of the API unchanged.
pub(crate) fn print_json(body: &str) -> Result<(), Failure> {
    print(&format!("{}\n", body.trim_end()))
}

/// Rows under headings.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|it| printable(it)).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|it| printable(&it)).collect());
    }

    /// Writes it.
    pub(crate) fn write(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|it| it.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// A bar of progress.
pub(crate) fn bar(done: u64, total: u64) -> String {
    const WIDTH: u64 = 40;
    let filled = (done.min(total) * WIDTH).checked_div(total).unwrap_or(WIDTH);
    let (full, rest) = ("=".repeat(filled as usize), ".".repeat((WIDTH - filled) as usize));
    format!("|{full}{rest}|")
}

/// A cell, or a dash if it is empty.
pub(crate) fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_without_trailing_spaces() {
        let mut table = Table::new(&["ID", "NAME"]);
        table.row(["1".into(), "ü".into()]);
        table.row(["1000".into(), "x".into()]);
        assert_eq!(table.write(), "ID    NAME\n1     ü\n1000  x\n");
    }

    #[test]
    fn stored_text_cannot_control_the_terminal() {
        let mut table = Table::new(&["ERR\tOR"]);
        table.row(["a\u{1b}[2Jb\nc".into()]);
        assert_eq!(table.write(), "ERR OR\na [2Jb c\n");
    }
}
