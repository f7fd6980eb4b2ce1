//! End to end, with real processes.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod accounts;
mod buckets;
mod checkouts;
mod claims;
mod crash_points;
#[path = "../src/deeds.rs"]
mod deeds;
#[path = "../src/fate.rs"]
mod fate;
mod found;
#[path = "../../crates/core/tests/it/history.rs"]
mod history;
mod imports;
mod killer;
mod kills;
mod letters;
mod links;
mod objects;
#[path = "../src/order.rs"]
mod order;
mod poison;
mod postgres;
mod queues;
mod registers;
mod runs;
mod shots;
mod tidy;
mod trips;
mod words;
