//! Checks that find current and future problems.

mod access;
pub(crate) mod blobs;
mod disk;
pub(crate) mod store;

use steadfast_api::server::{Examination, Verdict};

use crate::{location::Location, server::Server};

/// Runs all checks. Add more of them here.
pub(crate) async fn examine(server: &Server, deep: bool) -> Examination {
    let _one_at_a_time = server.examination.lock().await;
    let (store, works) = (server.runtime.store(), server.runtime.works());
    let mut checks = store::checks(store.as_ref(), works, deep).await;
    if works {
        checks.push(store::wake_ups(&server.runtime).await);
    }
    checks.push(store::unserved(&server.runtime).await);
    checks.extend(access::checks(server, deep).await);
    checks.extend(blobs::quotas(server).await);
    checks.extend(blobs::check(server).await);
    checks.push(store::clock(&store.clock().report()));
    checks.extend(disk::open_files());
    checks.extend(access::secrets(server));
    if let Location::Folder(folder) = &server.location {
        checks.extend(disk::checks(folder.clone(), !server.is_read_only).await);
    }
    let ok = checks.iter().all(|it| it.status != Verdict::Failed);
    Examination { ok, checks }
}
