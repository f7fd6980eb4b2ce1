//! Commits of several changes at once, and operations that end although their callers go away.

use std::panic::resume_unwind;

use steadfast_store::{Commit, Outcome, Store, StoreError, futures::FutureExt};

/// Commits all in one transaction, or one by one if one of them is rejected. Returns the outcome of
/// each.
pub(crate) async fn commit_each<'a>(
    store: &dyn Store,
    commits: impl IntoIterator<Item = &'a Commit>,
) -> Result<Vec<Outcome>, StoreError> {
    let commits: Vec<&Commit> = commits.into_iter().collect();
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let mut together = Commit::default();
    for commit in &commits {
        together.expects.extend_from_slice(&commit.expects);
        together.writes.extend_from_slice(&commit.writes);
    }
    let outcome = store.commit(together).await?;
    if commits.len() == 1 || matches!(outcome, Outcome::Committed(_)) {
        return Ok(vec![outcome; commits.len()]);
    }
    let mut outcomes = Vec::new();
    for commit in commits {
        outcomes.push(store.commit(commit.clone()).await?);
    }
    Ok(outcomes)
}

/// Runs an operation in a task of its own: if the caller is dropped while a commit is in flight,
/// what the commit changes in memory is changed all the same.
pub(crate) async fn to_end<T, E>(
    operation: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    match tokio::spawn(operation.boxed()).await {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The program is stopping.
            Err(_) => Err(StoreError::Closed.into()),
        },
    }
}
