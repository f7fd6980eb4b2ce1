//! The guarantees of a store, tested on every store.
//!
//! PostgreSQL is the one that `./test` starts and names in `STEADFAST_TEST_POSTGRES`.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets something else has failed"
)]

/// Tests that run on each store that is on disk.
macro_rules! on_disk {
    ($($claim:ident),* $(,)?) => {
        $(mod $claim {
            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() { super::$claim(crate::lab::Lab::sqlite().await).await }
            #[tokio::test(flavor = "multi_thread")]
            async fn on_postgres() { super::$claim(crate::lab::Lab::postgres().await).await }
        })*
    };
}

mod clock;
mod costs;
mod differential;
mod failover;
mod faults;
mod holes;
mod lab;
mod laws;
mod limits;
mod migrations;
mod owners;
mod postgres_writer;
mod retention;
mod tls;
mod view;
mod wait;
mod wire;
