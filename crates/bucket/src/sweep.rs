//! What nobody needs any more: old blobs, uploads that nobody completes, numbers of deleted keys,
//! and files that no row refers to.

use std::{collections::HashSet, time::Duration};

use steadfast_store::{Clock, Commit, Entry, Timestamp, Write, crash};

use crate::{
    Blob, BlobAction, BucketError, BucketInfo, BucketName, Buckets, Condition, Upload,
    content::FileName,
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

impl Buckets {
    /// Removes what nobody needs any more.
    pub async fn sweep(&self) -> Result<Swept, BucketError> {
        let mut swept = Swept::default();
        let mut last: Option<BucketName> = None;
        loop {
            let page = self.buckets(last.as_ref(), 100).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.name.clone());
            for bucket in &page {
                swept.blobs += self.delete_old(bucket).await?;
                swept.uploads += self.abort_old(bucket).await?;
                self.forget_lost_parts(&bucket.name).await?;
            }
        }
        swept.rows = self.expire_rows().await?;
        swept.files = self.remove_orphans().await?;
        Ok(swept)
    }

    async fn delete_old(&self, bucket: &BucketInfo) -> Result<usize, BucketError> {
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
                    count += usize::from(self.delete_if_same(&bucket.name, entry).await?);
                }
            }
        }
        Ok(count)
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
    async fn forget_lost_parts(&self, bucket: &BucketName) -> Result<(), BucketError> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let page = self.shared.page(&bucket.parts(), b"", last.as_deref()).await?;
            let Some(end) = page.last() else { return Ok(()) };
            last = Some(end.entry.key().to_vec());
            let contents: HashSet<[u8; 16]> =
                page.iter().filter_map(|it| it.entry.key().first_chunk().copied()).collect();
            for content in contents {
                let content = crate::content::ContentId(content);
                if !self.is_uploading(bucket, content).await? {
                    self.shared.forget_parts(bucket, content).await?;
                }
            }
        }
    }

    async fn is_uploading(
        &self,
        bucket: &BucketName,
        content: crate::content::ContentId,
    ) -> Result<bool, BucketError> {
        // The list of uploads is in the order of keys; there are few.
        let mut last: Option<Upload> = None;
        loop {
            let after = last.as_ref().map(|it| (it.key.as_str(), Some(it.id.as_str())));
            let page = self.uploads(bucket, "", after, 1_000).await?;
            if page.iter().any(|it| it.content == content) {
                return Ok(true);
            }
            match page.into_iter().next_back() {
                Some(upload) => last = Some(upload),
                None => return Ok(false),
            }
        }
    }

    /// Rows whose time is over, of whatever list.
    async fn expire_rows(&self) -> Result<usize, BucketError> {
        let mut count = 0;
        loop {
            let now = self.shared.clock.now();
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

    /// Files that no row refers to. One that is new may be about to.
    async fn remove_orphans(&self) -> Result<usize, BucketError> {
        let keep = self.shared.options.keep_orphans;
        let mut count = 0;
        for (shelf, ended_at) in self.shared.off(|blobs| Ok(blobs.shelves()?)).await? {
            let here = shelf.clone();
            let mut files = self.shared.off(move |blobs| Ok(blobs.shelf(&here)?)).await?;
            files.retain(|it| {
                self.is_older(it.content.made_at(), keep)
                    && !self.shared.readers.is_in_use(it.content)
            });
            for some in files.chunks(500) {
                count += self.remove_unreferenced(some).await?;
            }
            if self.is_older(ended_at, keep) {
                self.shared
                    .off(move |blobs| {
                        blobs.remove_shelf(&shelf);
                        Ok(())
                    })
                    .await?;
            }
        }
        Ok(count)
    }

    async fn remove_unreferenced(&self, files: &[FileName]) -> Result<usize, BucketError> {
        let ids: Vec<_> = files.iter().map(|it| it.content.reference()).collect();
        let needed: HashSet<_> = self.shared.store.referenced(&ids).await?.into_iter().collect();
        let orphans = files.iter().filter(|it| !needed.contains(&it.content.reference()));
        // Who began to read before the row went holds it by now.
        let orphans = orphans.filter(|it| !self.shared.readers.is_in_use(it.content));
        let orphans: Vec<FileName> = orphans.copied().collect();
        let count = orphans.len();
        if 0 < count {
            self.shared.off(move |blobs| Ok(blobs.remove(&orphans)?)).await?;
        }
        Ok(count)
    }

    fn is_older(&self, at: Timestamp, age: Duration) -> bool {
        at.after(age) <= Clock::now(&*self.shared.clock)
    }
}
