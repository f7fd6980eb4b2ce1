//! Pairs and their comparisons on every store, with servers on this machine.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod again;
mod crashes;
mod holes;
mod later;
mod stage;
