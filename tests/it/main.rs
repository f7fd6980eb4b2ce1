//! End to end, with real processes.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod checkouts;
mod crash_points;
mod killer;
mod kills;
mod poison;
mod postgres;
mod tidy;
