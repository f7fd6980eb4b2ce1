//! Guarantees of buckets.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

/// Makes a test of each law, on SQLite or on the named stores. The tests of the store prove that
/// all stores do the same; a law that depends on ownership, restarts, concurrency, retention or the
/// text of SQL runs on PostgreSQL as well.
macro_rules! laws {
    (on sqlite, postgres: $($laws:tt)*) => {
        laws!(@on sqlite: $($laws)*);
        laws!(@on postgres: $($laws)*);
    };
    (also on postgres: $($laws:tt)*) => {
        laws!(@on postgres: $($laws)*);
    };
    (@on $store:ident: $($law:ident),* $(,)?) => {
        mod $store {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    super::$law(crate::setup::Setup::$store().await).await;
                }
            )*
        }
    };
    ($($laws:tt)*) => {
        laws!(@on sqlite: $($laws)*);
    };
}

#[path = "../../../store/tests/it/dropping.rs"]
mod dropping;
#[path = "../../../store/tests/it/wrapper.rs"]
mod wrapper;

mod blobs;
mod checks;
mod conditions;
mod crashing_store;
mod dropped;
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
