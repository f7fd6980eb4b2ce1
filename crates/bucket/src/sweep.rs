//! What nobody needs any more: old blobs, uploads that nobody completes, numbers of deleted keys,
//! and files that no row refers to.

use std::{collections::HashSet, time::Duration};

use steadfast_store::{Commit, Entry, EntryRange, StoreError, Timestamp, Write, behind, crash};

use crate::{
    Blob, BlobAction, BucketError, BucketInfo, BucketName, Buckets, Condition, LifecycleRule,
    Upload, content::ContentId,
};

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Blobs that a lifecycle rule deleted.
    pub blobs: usize,
    /// Uploads that were aborted.
    pub uploads: usize,
    /// Rows of what was deleted long ago.
    pub rows: usize,
    /// Files that no row refers to.
    pub files: usize,
}

/// Keeps the first error that says something of one thing only. A store that does not answer ends
/// the sweep.
fn go_on<T: Default>(
    result: Result<T, BucketError>,
    failed: &mut Option<BucketError>,
) -> Result<T, BucketError> {
    match result {
        Err(BucketError::Store(error)) if !matches!(error, StoreError::Corrupt { .. }) => {
            Err(error.into())
        }
        Err(error) => {
            tracing::warn!(error = %error, "something could not be swept");
            failed.get_or_insert(error);
            Ok(T::default())
        }
        Ok(done) => Ok(done),
    }
}

impl Buckets {
    /// Removes what nobody needs any more. What cannot be read or removed does not keep the rest
    /// from going; then its error is the answer.
    pub async fn sweep(&self) -> Result<Swept, BucketError> {
        if self.shared.clock.deletion_time().is_none() {
            return Ok(Swept::default());
        }
        let (mut swept, mut failed) = (Swept::default(), None);
        let mut last: Option<BucketName> = None;
        loop {
            let page = self.buckets(last.as_ref(), 100).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.name.clone());
            for bucket in &page {
                swept.blobs += self.delete_old(bucket, &mut failed).await?;
                swept.uploads += go_on(self.abort_old(bucket).await, &mut failed)?;
                go_on(self.forget_lost_parts(&bucket.name).await, &mut failed)?;
            }
        }
        swept.rows = self.expire_rows().await?;
        for shelf in self.shared.off(|blobs| Ok(blobs.shelves()?)).await? {
            swept.files += go_on(self.remove_orphans(shelf).await, &mut failed)?;
        }
        failed.map_or(Ok(swept), Err)
    }

    async fn delete_old(
        &self,
        bucket: &BucketInfo,
        failed: &mut Option<BucketError>,
    ) -> Result<usize, BucketError> {
        let mut count = 0;
        for rule in &bucket.settings.lifecycle {
            let Some(age) = rule.delete_after() else { continue };
            let mut last: Option<Vec<u8>> = None;
            loop {
                let (space, prefix) = (bucket.name.blobs(), rule.prefix.as_bytes());
                let page = self.shared.page(&space, prefix, last.as_deref()).await?;
                let Some(end) = page.last() else { break };
                last = Some(end.entry.key().to_vec());
                for entry in page.iter().filter(|it| self.is_older(it.changed_at, age)) {
                    if !self.still_has(&bucket.name, rule).await? {
                        return Ok(count);
                    }
                    let deleted = self.delete_if_same(&bucket.name, entry).await;
                    count += usize::from(go_on(deleted, failed)?);
                }
            }
        }
        Ok(count)
    }

    /// Whoever removes or changes a rule has the last word.
    async fn still_has(
        &self,
        bucket: &BucketName,
        rule: &LifecycleRule,
    ) -> Result<bool, BucketError> {
        match self.shared.bucket(bucket).await {
            Ok(known) => Ok(known.settings.lifecycle.contains(rule)),
            Err(BucketError::UnknownBucket { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes what was found, if nobody has written the key again meanwhile.
    async fn delete_if_same(
        &self,
        bucket: &BucketName,
        entry: &Entry,
    ) -> Result<bool, BucketError> {
        let Some(blob) = Blob::read(entry)? else { return Ok(false) };
        let (action, same) = (BlobAction::LifecycleDeletion, Condition::version(&blob.version()));
        let deleted = self.shared.delete(bucket, &blob.key, action, same).await;
        crash::point("lifecycle.deleted");
        match deleted {
            Ok(sequence) => Ok(sequence.is_some()),
            Err(
                BucketError::Condition { .. }
                | BucketError::UnknownBlob { .. }
                | BucketError::UnknownBucket { .. },
            ) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn abort_old(&self, bucket: &BucketInfo) -> Result<usize, BucketError> {
        let mut count = 0;
        let mut last: Option<Upload> = None;
        loop {
            let after = last.as_ref().map(|it| (it.key.as_str(), Some(it.id.as_str())));
            let page = match self.uploads(&bucket.name, "", after, 1_000).await {
                Ok(page) => page,
                Err(BucketError::UnknownBucket { .. }) => return Ok(count),
                Err(error) => return Err(error),
            };
            if page.is_empty() {
                return Ok(count);
            }
            for upload in &page {
                let rules = bucket.settings.lifecycle.iter();
                let rules = rules.filter(|it| upload.key.as_str().starts_with(&it.prefix));
                let age = rules.filter_map(|it| it.abort_uploads_after()).min();
                let age = age.unwrap_or(self.shared.options.keep_uploads);
                if self.is_older(upload.began_at, age) {
                    match self.abort_upload(&bucket.name, &upload.key, &upload.id).await {
                        Ok(()) => count += 1,
                        Err(BucketError::UnknownUpload { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            last = page.into_iter().next_back();
        }
    }

    /// Rows of parts whose upload has ended: the process ended before it had removed them.
    pub(crate) async fn forget_lost_parts(&self, bucket: &BucketName) -> Result<(), BucketError> {
        let lost = self.contents_of_parts(bucket).await?;
        if lost.is_empty() {
            return Ok(());
        }
        // Read later, so that none of them was begun since.
        let mut open: HashSet<ContentId> = HashSet::new();
        let mut last: Option<Vec<u8>> = None;
        loop {
            let page = self.shared.page(&bucket.uploads(), b"", last.as_deref()).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.entry.key().to_vec());
            open.extend(page.iter().filter_map(|it| it.reference).map(|it| ContentId(it.0)));
        }
        for content in lost.into_iter().filter(|it| !open.contains(it)) {
            self.shared.forget_parts(bucket, content).await?;
        }
        Ok(())
    }

    /// Which uploads have parts: one look for each of them, however many parts it has.
    async fn contents_of_parts(&self, bucket: &BucketName) -> Result<Vec<ContentId>, BucketError> {
        let (space, mut found) = (bucket.parts(), Vec::new());
        let mut range = EntryRange::prefix(b"");
        loop {
            let next = self.shared.store.entries(&space, range, 1).await?;
            let content = next.first().and_then(|it| it.entry.key().first_chunk().copied());
            let Some(content) = content.map(ContentId) else { return Ok(found) };
            found.push(content);
            let Some(behind) = behind(&content.0) else { return Ok(found) };
            range = EntryRange::prefix(b"").from(behind);
        }
    }

    /// Rows whose time is over, of whatever list.
    async fn expire_rows(&self) -> Result<usize, BucketError> {
        let mut count = 0;
        loop {
            let Some(now) = self.shared.clock.deletion_time() else { return Ok(count) };
            let entries = self.shared.store.expired_entries(now, 1_000).await?;
            if entries.is_empty() {
                return Ok(count);
            }
            let commit = Commit::of(Write::ExpireEntries { entries });
            let gone = self.shared.commit(commit).await?.map_or(0, |it| it.forgotten);
            if gone == 0 {
                return Ok(count);
            }
            count += gone;
        }
    }

    pub(crate) fn is_older(&self, at: Timestamp, age: Duration) -> bool {
        self.shared.clock.deletion_time().is_some_and(|now| at.after(age) <= now)
    }
}
