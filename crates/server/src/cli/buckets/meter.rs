//! A progress bar on a terminal.

use std::io::{IsTerminal, Read};

use crate::{cli::output::try_print, failure::Failure};

/// Columns of the bar.
const WIDTH: u64 = 40;

/// Counts and shows copied bytes.
#[derive(Debug)]
pub(super) struct Meter {
    done: u64,
    total: u64,
    /// The per mille shown last; `None` without a terminal.
    shown: Option<u64>,
}

impl Meter {
    /// Shows the bar only on a terminal, and only if `wanted`.
    pub(super) fn new(total: u64, wanted: bool) -> Self {
        let shown = (wanted && std::io::stdout().is_terminal()).then_some(u64::MAX);
        Self { done: 0, total, shown }
    }

    /// Adds copied bytes.
    pub(super) fn add(&mut self, bytes: usize, total: u64) {
        (self.done, self.total) = (self.done + bytes as u64, total);
        let now = (self.done * 1_000).checked_div(self.total).unwrap_or(1_000);
        if self.shown.is_some_and(|it| it != now) {
            self.shown = Some(now);
            // Ignore output errors: the copy reports its own.
            let _ = try_print(&format!("\r{}", line(self.done, self.total)));
        }
    }

    /// Bytes so far.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Clears the line.
    pub(super) fn end(&self) -> Result<(), Failure> {
        if self.shown.is_some() { try_print("\r\x1b[K").map(|_| ()) } else { Ok(()) }
    }
}

/// One line of progress.
fn line(done: u64, total: u64) -> String {
    let filled = (done.min(total) * WIDTH).checked_div(total).unwrap_or(WIDTH);
    let (full, rest) = ("=".repeat(filled as usize), ".".repeat((WIDTH - filled) as usize));
    format!("|{full}{rest}| {} of {}", megabytes(done), megabytes(total))
}

/// Formats a size for people.
pub(super) fn megabytes(bytes: u64) -> String {
    match bytes {
        0..100_000 => format!("{bytes} bytes"),
        _ => format!("{:.1} MB", bytes as f64 / 1_000_000.0),
    }
}

/// A reader that counts its bytes.
pub(super) struct Metered<R> {
    pub(super) file: R,
    pub(super) meter: Meter,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(piece)?;
        self.meter.add(count, self.meter.total);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_line_fills_and_keeps_its_width() {
        assert_eq!(line(0, 8), format!("|{}| 0 bytes of 8 bytes", ".".repeat(40)));
        let half = format!("|{}{}| 1.0 MB of 2.0 MB", "=".repeat(20), ".".repeat(20));
        assert_eq!(line(1_000_000, 2_000_000), half);
        assert_eq!(line(9, 8), format!("|{}| 9 bytes of 8 bytes", "=".repeat(40)));
        assert_eq!(line(0, 0), format!("|{}| 0 bytes of 0 bytes", "=".repeat(40)));
    }

    #[test]
    fn read_bytes_are_counted() {
        let mut file = Metered { file: &b"12345"[..], meter: Meter::new(5, true) };
        let mut all = Vec::new();
        file.read_to_end(&mut all).unwrap();
        assert_eq!((all.len(), file.meter.done()), (5, 5));
    }
}
