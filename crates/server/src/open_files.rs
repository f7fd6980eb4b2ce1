//! The limit of open files: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files as far as permitted. Without permission, connections wait.
pub(crate) fn allow_many() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "limit of open files stays");
    }
}

/// The number of files that this process may open.
pub(crate) fn limit() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX)
}
