//! Deletes a blob: one commit writes the tombstone and the event, then the files are removed.

use std::sync::Arc;

use crate::{
    BlobAction, BlobKey, BucketError, BucketName, Buckets, Condition, buckets::Shared,
    change::Change,
};

impl Buckets {
    /// Deletes a blob. Returns `None` if there was none; then nothing was committed.
    #[steadfast_store::boxed]
    pub async fn delete(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        condition: Condition,
    ) -> Result<Option<i64>, BucketError> {
        self.shared.delete(bucket, key, BlobAction::DeleteObject, condition).await
    }
}

impl Shared {
    pub(crate) async fn delete(
        self: &Arc<Self>,
        bucket: &BucketName,
        key: &BlobKey,
        action: BlobAction,
        condition: Condition,
    ) -> Result<Option<i64>, BucketError> {
        let (shared, bucket) = (self.clone(), bucket.clone());
        let change = Change::deletion(key, action, condition);
        Self::run_to_completion(async move {
            let _changing = shared.changes.begin()?;
            let changed = shared.change(&bucket, &change).await?;
            if let Some(before) = changed.before {
                shared.discard(before.files().into_iter().map(|it| it.0).collect()).await;
            }
            Ok(changed.sequence)
        })
        .await
    }
}
