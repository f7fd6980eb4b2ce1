//! Several small commits as one. If one of them conflicts, the others are committed one by one.

use steadfast_store::{Commit, Outcome, Store, StoreError};

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
