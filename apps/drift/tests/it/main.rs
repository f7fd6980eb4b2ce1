//! Pairs and their comparisons on a store in memory, with two servers on this machine.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod holes;
mod stage;
