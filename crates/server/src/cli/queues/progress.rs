//! A bar that fills, on a terminal.

use std::time::Duration;

use crate::{cli::output::tell, failure::Failure};

/// Columns of the bar.
const WIDTH: u64 = 40;

/// How often it is drawn.
const PERIOD: Duration = Duration::from_millis(150);

/// Draws a bar until it is over, and takes it away again.
pub(super) fn watch(
    total: u64,
    is_over: impl Fn() -> bool,
    done: impl Fn() -> u64,
) -> Result<(), Failure> {
    while !is_over() {
        tell(&format!("\r{}", bar(done(), total)))?;
        std::thread::park_timeout(PERIOD);
    }
    tell("\r\x1b[K").map(|_| ())
}

/// One line.
fn bar(done: u64, total: u64) -> String {
    let done = done.min(total);
    let filled = (done * WIDTH).checked_div(total).unwrap_or(WIDTH);
    let (full, rest) = ("=".repeat(filled as usize), ".".repeat((WIDTH - filled) as usize));
    format!("|{full}{rest}| {done} of {total} moved")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_and_is_never_longer_than_its_end() {
        assert_eq!(bar(0, 8), format!("|{}| 0 of 8 moved", ".".repeat(40)));
        assert_eq!(bar(2, 8), format!("|{}{}| 2 of 8 moved", "=".repeat(10), ".".repeat(30)));
        assert_eq!(bar(9, 8), format!("|{}| 8 of 8 moved", "=".repeat(40)));
        assert_eq!(bar(0, 0), format!("|{}| 0 of 0 moved", "=".repeat(40)));
    }
}
