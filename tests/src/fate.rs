//! The outcome of each numbered letter: the victim produces it, the killer checks it.

use std::time::Duration;

/// Retries of each letter. Attempts that ended with their process count, and must not be the last
/// of a letter that can be handled.
pub(crate) const RETRIES: u32 = 15;

/// Letters that are sent one after the other, or in one batch.
pub(crate) const GROUP: u64 = 4;

/// The number of tallies.
pub(crate) const TALLIES: u64 = 3;

/// Kills the process that handles it.
pub(crate) const POISON: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// The first attempt fails.
    SecondTime,
    /// A tally counts it.
    Counted,
    /// Every attempt fails.
    Dead,
}

/// Everything about a letter follows from its number.
pub(crate) struct Fate {
    pub(crate) queue: &'static str,
    pub(crate) end: End,
    pub(crate) delay: Duration,
    /// Whether it is sent in one batch with its group.
    pub(crate) together: bool,
}

impl Fate {
    pub(crate) fn of(number: u64) -> Self {
        let group = number / GROUP;
        let end = match number % 10 {
            0 => End::Dead,
            1 | 2 => End::SecondTime,
            3..=5 => End::Counted,
            _ => End::Done,
        };
        let delay = if number % 7 == 3 { number % 90 } else { 0 };
        Self {
            queue: ["letters", "bundles"][(group % 2) as usize],
            end: if number == POISON { End::Done } else { end },
            delay: Duration::from_millis(delay),
            together: !group.is_multiple_of(3),
        }
    }
}
