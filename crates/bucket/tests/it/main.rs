//! What buckets promise, on every store.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod blobs;
mod lab;
mod lists;
mod races;
mod trouble;
mod uploads;
