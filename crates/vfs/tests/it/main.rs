//! SQLite over an image, against ordinary SQLite, and its deltas in both directions.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod chance;
mod connections;
mod deltas;
mod differential;
mod garbage;
mod history;
mod lazy;
mod limits;
mod oracle;
mod time;
mod workload;
