//! A connection is an open file to the system, which allows few of them unless asked.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files as far as we may. It is no error if we may not: connections wait
/// then.
pub(crate) fn allow_many() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "limit of open files stays");
    }
}
