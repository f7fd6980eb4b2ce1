//! Several small commits as one: what others have changed meanwhile does not harm the rest.

use steadfast_store::{Commit, Receipt, Store, StoreError};

/// Commits all in one, or one by one if something is no longer as it was. Each is answered with its
/// receipt, if it happened.
pub(crate) async fn commit_each(
    store: &dyn Store,
    commits: &[Commit],
) -> Result<Vec<Option<Receipt>>, StoreError> {
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let mut together = Commit::default();
    for commit in commits {
        together.expects.extend_from_slice(&commit.expects);
        together.writes.extend_from_slice(&commit.writes);
    }
    if let Ok(receipt) = store.commit(together).await?.committed() {
        return Ok(vec![Some(receipt); commits.len()]);
    }
    let mut receipts = Vec::new();
    for commit in commits {
        receipts.push(store.commit(commit.clone()).await?.committed().ok());
    }
    Ok(receipts)
}
