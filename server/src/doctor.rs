//! Looks for what is wrong, and for what will be.

mod check;
pub(crate) mod clock;
mod disk;
mod fsync;
mod store;
mod work;

pub(crate) use self::check::{Check, Examination, Verdict};
use crate::{node::Node, place::Place};

/// Makes all checks. More of them are appended here.
pub(crate) async fn examine(node: &Node, deep: bool) -> Examination {
    let _one_at_a_time = node.examination.lock().await;
    let dispatcher = node.dispatcher.lock().await;
    let mut checks = store::checks(node.store.as_ref(), dispatcher.is_some(), deep).await;
    if let Some(dispatcher) = dispatcher.as_ref() {
        checks.push(work::wake_ups(dispatcher).await);
    }
    drop(dispatcher);
    checks.push(clock::check(&node.store.clock().report()));
    if let Place::Folder(folder) = &node.place {
        checks.extend(disk::checks(folder.clone()).await);
    }
    let ok = checks.iter().all(|it| it.status != Verdict::Failed);
    Examination { ok, checks }
}
