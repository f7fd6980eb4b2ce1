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
    let (store, works) = (node.runtime.store(), node.runtime.works());
    let mut checks = store::checks(store.as_ref(), works, deep).await;
    if works {
        checks.push(work::wake_ups(&node.runtime).await);
    }
    checks.push(work::unserved(&node.runtime).await);
    checks.push(clock::check(&store.clock().report()));
    if let Place::Folder(folder) = &node.place {
        checks.extend(disk::checks(folder.clone(), node.is_read_only.get().is_none()).await);
    }
    let ok = checks.iter().all(|it| it.status != Verdict::Failed);
    Examination { ok, checks }
}
