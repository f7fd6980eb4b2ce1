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

use std::{
    collections::BTreeMap,
    fs,
    future::{Future, poll_fn},
    path::Path,
    pin::pin,
    task::Poll,
};

use steadfast_core::{App, Runtime, store::Commit};

/// Polls after which an operation is dropped: the first one, the first two, and so on.
const POLLS: usize = 50;

/// Public asynchronous operations of a file.
pub(crate) struct Area {
    file: &'static str,
    /// Tried by the laws beside this list.
    tried: &'static [&'static str],
    /// They read or wait, or only call those of other areas.
    others: &'static [&'static str],
}

/// Files whose operations no caller drops: a program awaits them at its start, or in its own tasks,
/// and a process that is killed may end in the middle of them. Those of buckets are tried beside
/// them.
const UNTRIED: &[&str] = &[
    "app/start.rs",
    "bucket/handle.rs",
    "bucket/location.rs",
    "dispatch.rs",
    "dispatch/handler.rs",
    "object/storage/history.rs",
    "open.rs",
    "process/stage.rs",
    "queue/delivery.rs",
    "retention.rs",
    "runtime.rs",
    "test.rs",
    "workflow/drive.rs",
];

/// Files whose operations only read.
const READING: &[&str] = &[
    "idempotency.rs",
    "object/inspect.rs",
    "queue/peek.rs",
    "queue/views.rs",
    "workflow/begin.rs",
    "workflow/history.rs",
    "workflow/list.rs",
    "workflow/look.rs",
];

/// Polls an operation this often, and drops it. `None` if it has not ended.
pub(crate) async fn dropped<T>(polls: usize, operation: impl Future<Output = T>) -> Option<T> {
    let (mut operation, mut left) = (pin!(operation), polls);
    poll_fn(|context| {
        left -= 1;
        match operation.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Tries an operation with 1, 2, 3 polls, until it ends. The argument is that number.
pub(crate) async fn each<T>(try_once: impl AsyncFn(usize) -> Option<T>) {
    for polls in 1..=POLLS {
        if try_once(polls).await.is_some() {
            return;
        }
    }
}

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

/// Comparisons until a difference is taken to last.
const ATTEMPTS: usize = 300;

#[test]
fn every_public_operation_is_tried_or_commits_nothing() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut found);
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let areas = [access::AREAS, objects::AREAS, processes::AREAS, queues::AREAS];
    for area in areas.into_iter().flatten().chain(runs::AREAS) {
        let names = area.tried.iter().chain(area.others);
        listed.entry(area.file.into()).or_default().extend(names.map(|it| (*it).to_owned()));
    }
    for file in UNTRIED.iter().chain(READING) {
        let names = found.get(*file).cloned().unwrap_or_default();
        assert!(!names.is_empty() && listed.insert((*file).into(), names).is_none(), "{file}");
    }
    listed.values_mut().for_each(|it| it.sort_unstable());
    assert_eq!(found, listed, "found in the source, and listed in the areas");
}

/// The public asynchronous operations of each file of a folder.
fn read(folder: &Path, within: &str, found: &mut BTreeMap<String, Vec<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{within}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read(&entry.path(), &format!("{name}/"), found);
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let begins = |it: &str| it.trim_start().strip_prefix("pub async fn ").map(str::to_owned);
        let until_name = |it: String| it.split(['(', '<']).next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = text.lines().filter_map(begins).map(until_name).collect();
        names.sort_unstable();
        if !names.is_empty() {
            found.insert(name, names);
        }
    }
}
