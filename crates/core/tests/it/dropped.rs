//! Operations whose callers go away. Each public operation that commits is dropped after each of
//! its first polls; afterwards the answers of the program are those of the store.
//!
//! [`every_public_operation_is_tried_or_commits_nothing`] reads the source: a new operation must be
//! added to one of the areas.

mod access;
mod objects;
mod processes;
mod queues;
mod runs;

use steadfast_core::{App, Runtime, store::Commit};

use crate::dropping::{ATTEMPTS, Area, check_areas, dropped, each};

/// Files whose operations no caller drops: a program awaits them at its start, or in its own tasks,
/// and a process that is killed may end in the middle of them. Those of buckets are tried by the
/// tests of buckets.
const UNTRIED: &[&str] = &[
    "app/start.rs",
    "bucket.rs",
    "dispatch.rs",
    "dispatch/handler.rs",
    "object/history.rs",
    "open.rs",
    "process/kit.rs",
    "queue/consumer.rs",
    "retention.rs",
    "runtime.rs",
    "test.rs",
    "workflow/drive.rs",
];

/// Files whose operations only read.
const READING: &[&str] = &[
    "idempotency.rs",
    "object/inspect.rs",
    "places.rs",
    "queue/views.rs",
    "workflow/begin.rs",
    "workflow/list.rs",
    "workflow/look.rs",
];

/// Waits until a program answers as one does that has nothing in memory.
pub(crate) async fn agree(
    app: &Runtime,
    program: impl Fn() -> App,
    answers: impl AsyncFn(&Runtime) -> Vec<String>,
) {
    // Behind this, every commit of a dropped operation is decided.
    app.store().commit(Commit::default()).await.unwrap();
    let mut differ = (Vec::new(), Vec::new());
    for _ in 0..ATTEMPTS {
        let fresh = program().prepare(app.store().clone()).await.unwrap();
        differ = (answers(app).await, answers(&fresh).await);
        if differ.0 == differ.1 {
            return;
        }
        // A task that ends what the caller began may still run.
        tokio::task::yield_now().await;
    }
    assert_eq!(differ.0, differ.1, "the program and its store differ");
}

#[test]
fn every_public_operation_is_tried_or_commits_nothing() {
    let areas = [access::AREAS, objects::AREAS, processes::AREAS, queues::AREAS, runs::AREAS];
    let files = UNTRIED.iter().chain(READING);
    check_areas(env!("CARGO_MANIFEST_DIR"), areas.into_iter().flatten(), files);
}
