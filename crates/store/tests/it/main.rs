//! The guarantees of a store, tested on every store.
//!
//! PostgreSQL is the one that `./test` starts and names in `STEADFAST_TEST_POSTGRES`.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets something else has failed"
)]

mod clock;
mod costs;
mod differential;
mod failover;
mod faults;
mod holes;
mod lab;
mod laws;
mod limits;
mod migrated_queues;
mod migrations;
mod owners;
mod retention;
mod tls;
mod view;
mod wire;
