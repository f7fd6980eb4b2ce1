//! The laws: claims that hold on every store.

mod appending;
mod deduplication;
mod delivery;
mod entries;
mod erasing;
mod images;
mod objects;
mod queues;
mod reading;
mod runs;

/// Runs each law on all three stores.
macro_rules! laws {
    ($($law:ident),* $(,)?) => {
        crate::laws::laws!(@on memory: $($law),*);
        crate::laws::laws!(@on sqlite: $($law),*);
        crate::laws::laws!(@on postgres: $($law),*);
    };
    (@on $store:ident: $($law:ident),*) => {
        mod $store {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $law() {
                    super::$law(crate::lab::Lab::$store().await).await;
                }
            )*
        }
    };
}
pub(crate) use laws;
