//! Guarantees of buckets, on every store.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

#[path = "../../../store/tests/it/wrapper.rs"]
mod wrapper;

mod blobs;
mod conditions;
mod crashing_store;
mod events;
mod faulty_blobs;
mod files;
mod keys;
mod lists;
mod model;
mod quotas;
mod races;
mod sessions;
mod settings;
mod setup;
mod sweeps;
mod uploads;
