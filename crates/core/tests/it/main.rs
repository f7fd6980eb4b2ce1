//! The platform on every store, with a virtual clock.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that meets something else has failed"
)]

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
                    super::$law(crate::lab::Lab::$store().await).await;
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
#[expect(dead_code, reason = "shared with the store's tests, which use all of it")]
#[path = "../../../store/tests/it/lab.rs"]
mod lab;
#[path = "../../../store/tests/it/wait.rs"]
mod wait;
#[path = "../../../store/tests/it/wrapper.rs"]
mod wrapper;

mod app;
mod bucket;
mod client;
mod clock;
mod dispatch;
mod dropped;
mod events;
mod gated_store;
mod hall;
mod handlers;
mod history;
mod holes;
mod job_crashes;
mod keyed;
mod ledger;
mod load;
mod memory;
mod object;
mod order;
mod play;
mod post;
mod process;
mod process_callers;
mod process_crashes;
mod process_edges;
mod process_publish;
mod process_versions;
mod queue;
mod queue_batches;
mod queue_careful;
mod queue_control;
mod queue_delivery;
mod queue_model;
mod queue_pull;
mod queue_races;
mod queue_redrive;
mod queue_sends;
mod scale;
mod served;
mod shop;
mod starvation;
mod sweeper;
mod trip;
mod watched;
mod workflow;
mod workflow_calls;
mod workflow_control;
mod workflow_cost;
mod workflow_edges;
mod workflow_erased;
mod workflow_flaws;
mod workflow_random;
mod workflow_replay;
mod workflow_room;
mod workflow_sends;
mod workflow_steps;
mod workflow_takeover;
mod workflow_trouble;
mod workflow_view;
mod years;
