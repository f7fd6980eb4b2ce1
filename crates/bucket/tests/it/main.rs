//! Guarantees of buckets, on every store.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

#[path = "../../../store/tests/it/wrapper.rs"]
mod wrapper;

mod blobs;
mod conditions;
mod events;
mod files;
mod lab;
mod lists;
mod model;
mod mortal;
mod races;
mod sessions;
mod settings;
mod sweeps;
mod trouble;
mod uploads;
