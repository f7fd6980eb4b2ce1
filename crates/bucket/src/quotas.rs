//! Setting, reading and removing quotas, and counting what was stored before a quota was set.
//!
//! The count reads the rows of an organization in order, a page at a time. The row of the quota has
//! the position of the count. A change of a blob up to that position is counted by its own commit;
//! the count finds those behind it later. Each page is one commit, so a count that was cut short
//! continues where it was.

use std::sync::Arc;

use steadfast_store::{Commit, EntryKey, EntryRange, Expect, Json, Put, Write};

use crate::{
    Blob, BucketError, BucketName, Buckets, Part, Quota, QuotaInfo, QuotaUse, Upload,
    buckets::Shared,
    content::ContentId,
    quota::{Place, QUOTAS, QuotaRow, entry_of, version_entry},
    usage::commit_reserved,
};

/// Rows that the count reads at a time.
const PAGE: usize = 1_000;

/// Uploads that the count reads at a time, each with all of its parts. Writers of the organization
/// wait for it.
const UPLOADS_PAGE: usize = 10;

impl Buckets {
    /// Sets the quota of an organization. What it has stored before is counted in the background.
    #[steadfast_store::boxed]
    pub async fn set_quota(&self, organization: &str, quota: Quota) -> Result<(), BucketError> {
        let (shared, name) = (self.shared.clone(), organization.to_owned());
        Shared::run_to_completion(async move {
            shared.replace_quota(&name, Some(quota)).await?;
            shared.count_later(name);
            Ok(())
        })
        .await
    }

    /// Removes the quota of an organization. Returns `false` if it has none.
    #[steadfast_store::boxed]
    pub async fn remove_quota(&self, organization: &str) -> Result<bool, BucketError> {
        let (shared, name) = (self.shared.clone(), organization.to_owned());
        Shared::run_to_completion(async move { shared.replace_quota(&name, None).await }).await
    }

    /// The quota of an organization and what it uses; `None` if it has no quota.
    #[steadfast_store::boxed]
    pub async fn quota(&self, organization: &str) -> Result<Option<QuotaInfo>, BucketError> {
        let found = self.shared.store.entry(&entry_of(organization)?).await?;
        match found.as_ref().map(QuotaRow::read).transpose()?.flatten() {
            Some(row) => Ok(Some(self.info(organization, row).await?)),
            None => Ok(None),
        }
    }

    /// Quotas in the order of the names of their organizations, after one of them.
    #[steadfast_store::boxed]
    pub async fn quotas(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<QuotaInfo>, BucketError> {
        let range = EntryRange::prefix(b"");
        let range = match after {
            Some(after) => range.after(after.as_bytes()),
            None => range,
        };
        let mut found = Vec::new();
        for entry in self.shared.store.entries(QUOTAS, range, limit).await? {
            if let Some(row) = QuotaRow::read(&entry)? {
                let organization = String::from_utf8_lossy(entry.entry.key()).into_owned();
                found.push(self.info(&organization, row).await?);
            }
        }
        Ok(found)
    }

    async fn info(&self, organization: &str, row: QuotaRow) -> Result<QuotaInfo, BucketError> {
        let (spent, quota) = (self.spent(organization).await?, row.quota);
        Ok(QuotaInfo {
            organization: organization.into(),
            bytes: QuotaUse { used: row.bytes, limit: quota.bytes },
            objects: QuotaUse { used: row.objects, limit: quota.objects },
            spend_micros: QuotaUse { used: spent, limit: quota.spend },
            is_counting: row.counted_to.is_some(),
        })
    }

    /// Counts what organizations stored before their quotas were set, to the end.
    #[steadfast_store::boxed]
    pub async fn count_usage(&self) -> Result<(), BucketError> {
        let known = self.shared.known_quotas().await?;
        let mut counted = Ok(());
        for organization in &known.organizations {
            loop {
                match self.shared.count_page(organization, PAGE).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    // The other organizations are counted all the same.
                    Err(error) => {
                        counted = counted.and(Err(error));
                        break;
                    }
                }
            }
        }
        counted
    }
}

impl Shared {
    /// Writes or removes the limits of an organization. Returns whether it had some.
    async fn replace_quota(
        &self,
        organization: &str,
        quota: Option<Quota>,
    ) -> Result<bool, BucketError> {
        let (entry, version) = (entry_of(organization)?, version_entry()?);
        let ledger = self.ledgers.of(organization);
        loop {
            let _held = ledger.hold().await;
            let of_list = self.store.entry(&version).await?.map_or(0, |it| it.revision);
            let found = self.store.entry(&entry).await?;
            let revision = found.as_ref().map_or(0, |it| it.revision);
            let before = found.as_ref().map(QuotaRow::read).transpose()?.flatten();
            let was_set = before.is_some();
            let next = quota.map(|quota| match before {
                Some(row) => QuotaRow { quota, ..row },
                None => QuotaRow::new(quota),
            });
            if !was_set && next.is_none() {
                return Ok(false);
            }
            let expires = next.is_none().then_some(std::time::Duration::ZERO);
            let value = next.as_ref().map(QuotaRow::json).transpose()?;
            let put = |entry: &EntryKey, value, expires| {
                Write::Put(Put { entry: entry.clone(), value, reference: None, expires })
            };
            let commit = Commit::of(put(&entry, value, expires))
                .write(put(&version, Some(Json::of(&())?), None))
                .expect(Expect::Revision { entry: entry.clone(), revision })
                .expect(Self::expect_version(of_list)?);
            let decided = self.commit(commit).await;
            self.ledgers.forget();
            if decided?.is_ok() {
                return Ok(was_set);
            }
        }
    }

    /// Counts in the background. If it fails or the process ends, the sweep continues.
    fn count_later(self: &Arc<Self>, organization: String) {
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let Some(shared) = shared.upgrade() else { return };
                match shared.count_page(&organization, PAGE).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        tracing::warn!(%error, organization, "blobs are counted by the next sweep");
                        return;
                    }
                }
            }
        });
    }

    /// Counts the next page of an organization. Returns `false` if nothing is left to count.
    pub(crate) async fn count_page(
        self: &Arc<Self>,
        organization: &str,
        page: usize,
    ) -> Result<bool, BucketError> {
        let (shared, organization) = (self.clone(), organization.to_owned());
        Self::run_to_completion(async move { shared.count(&organization, page).await }).await
    }

    async fn count(&self, organization: &str, page: usize) -> Result<bool, BucketError> {
        // Alone: commits in flight may change rows of the page.
        let (version, reserved) = self.reserve(organization, true).await?;
        let Some(reserved) = reserved else { return Ok(false) };
        let Some(cursor) = reserved.row.counted_to.clone() else { return Ok(false) };
        let mut next = reserved.row.clone();
        next.counted_to = match BucketName::new(&cursor.bucket) {
            Ok(bucket) if cursor.is_upload => {
                self.count_uploads(organization, &bucket, &cursor, page, &mut next).await?
            }
            Ok(bucket) => self.count_blobs(organization, &bucket, &cursor, page, &mut next).await?,
            // The position before all buckets.
            Err(_) => self.first_of_next_bucket(None).await?,
        };
        let commit = Commit::default().expect(Self::expect_version(version)?);
        if commit_reserved(self, organization, reserved, commit, next).await?.is_err() {
            self.ledgers.forget();
        }
        Ok(true)
    }

    async fn first_of_next_bucket(
        &self,
        after: Option<&BucketName>,
    ) -> Result<Option<Place>, BucketError> {
        let range = EntryRange::prefix(b"");
        let mut range = match after {
            Some(after) => range.after(after.as_str().as_bytes()),
            None => range,
        };
        loop {
            let page = self.store.entries(crate::name::BUCKETS, range.clone(), 1).await?;
            let Some(entry) = page.first() else { return Ok(None) };
            if entry.value.is_some() {
                let name = BucketName::new(&String::from_utf8_lossy(entry.entry.key()))?;
                return Ok(Some(Place::new(&name, false, b"")));
            }
            range = range.after(entry.entry.key());
        }
    }

    /// Adds a page of blobs. Returns the next position.
    async fn count_blobs(
        &self,
        organization: &str,
        bucket: &BucketName,
        cursor: &Place,
        page: usize,
        next: &mut QuotaRow,
    ) -> Result<Option<Place>, BucketError> {
        let range = EntryRange::prefix(format!("{organization}/").as_bytes()).after(&cursor.key()?);
        let entries = self.store.entries(&bucket.blobs(), range, page).await?;
        for entry in &entries {
            // A damaged row cannot be changed, and is not counted.
            if let Ok(Some(blob)) = Blob::read(entry) {
                next.bytes = next.bytes.saturating_add(blob.size);
                next.objects += 1;
            }
        }
        Ok(Some(match entries.last() {
            Some(last) if entries.len() == page => Place::new(bucket, false, last.entry.key()),
            Some(_) | None => Place::new(bucket, true, b""),
        }))
    }

    /// Adds a page of uploads, each as an object with the bytes of its parts. Returns the next
    /// position.
    async fn count_uploads(
        &self,
        organization: &str,
        bucket: &BucketName,
        cursor: &Place,
        page: usize,
        next: &mut QuotaRow,
    ) -> Result<Option<Place>, BucketError> {
        let range = EntryRange::prefix(format!("{organization}/").as_bytes()).after(&cursor.key()?);
        let page = page.min(UPLOADS_PAGE);
        let entries = self.store.entries(&bucket.uploads(), range, page).await?;
        for entry in &entries {
            if let Ok(Some(upload)) = Upload::read(entry) {
                let bytes = self.bytes_of_parts(bucket, upload.content).await?;
                next.bytes = next.bytes.saturating_add(bytes);
                next.objects += 1;
            }
        }
        match entries.last() {
            Some(last) if entries.len() == page => {
                Ok(Some(Place::new(bucket, true, last.entry.key())))
            }
            Some(_) | None => self.first_of_next_bucket(Some(bucket)).await,
        }
    }

    /// The bytes of all parts of an upload. A damaged row counts nothing, here as when it was read
    /// before: it must not prevent the end of the upload.
    pub(crate) async fn bytes_of_parts(
        &self,
        bucket: &BucketName,
        content: ContentId,
    ) -> Result<u64, BucketError> {
        let (mut bytes, mut last): (u64, Option<Vec<u8>>) = (0, None);
        loop {
            let page = self.page(&bucket.parts(), &content.0, last.as_deref()).await?;
            let Some(end) = page.last() else { return Ok(bytes) };
            last = Some(end.entry.key().to_vec());
            for entry in &page {
                let part = Part::read(entry).ok().flatten();
                bytes = bytes.saturating_add(part.map_or(0, |it| it.size));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_store::{Entropy, ManualClock, MemoryStore, SeededEntropy, Timestamp};

    use super::*;
    use crate::{
        Attributes, BlobKey, BlobWriter, Condition, ExpectedContent, MemoryBlobs, PartTag,
        PutOptions,
    };

    async fn opened() -> Buckets {
        let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000)));
        let store = Arc::new(MemoryStore::new(clock));
        Buckets::builder(store).open(Arc::new(MemoryBlobs::default())).await.unwrap()
    }

    /// The row, and what it should be.
    async fn compared(buckets: &Buckets) -> (QuotaRow, (u64, u64)) {
        let found = buckets.shared.store.entry(&entry_of("acme").unwrap()).await.unwrap();
        let row = QuotaRow::read(&found.unwrap()).unwrap().unwrap();
        let mut whole = QuotaRow { bytes: 0, objects: 0, ..row.clone() };
        for info in buckets.buckets(None, 10).await.unwrap() {
            let (bucket, start) = (&info.name, Place::default());
            let (rows, shared) = (10_000, &buckets.shared);
            shared.count_blobs("acme", bucket, &start, rows, &mut whole).await.unwrap();
            let mut place = Place::new(bucket, true, b"");
            while place.bucket == bucket.as_str() {
                let counted = shared.count_uploads("acme", bucket, &place, rows, &mut whole);
                let Some(next) = counted.await.unwrap() else { break };
                place = next;
            }
        }
        (row, (whole.bytes, whole.objects))
    }

    async fn put(buckets: &Buckets, bucket: &BucketName, key: &BlobKey, len: u64) {
        let mut writer: BlobWriter = buckets.writer(bucket, key).await.unwrap();
        writer.write(&vec![0; len as usize]).await.unwrap();
        writer.finish(PutOptions::default()).await.unwrap();
    }

    /// One random change of one of two buckets.
    async fn change(buckets: &Buckets, chance: &SeededEntropy, uploads: &mut Vec<Upload>) {
        let below = |limit: u64| chance.next() % limit;
        let bucket = BucketName::new(["aaa", "bbb"][below(2) as usize]).unwrap();
        let key = BlobKey::new(&format!("acme/{}", below(6))).unwrap();
        match below(6) {
            0 | 1 => put(buckets, &bucket, &key, below(20)).await,
            2 => _ = buckets.delete(&bucket, &key, Condition::default()).await.unwrap(),
            3 if bucket.as_str() == "aaa" => {
                let begun = buckets.begin_upload(&bucket, &key, Attributes::default()).await;
                uploads.push(begun.unwrap());
            }
            3 | 4 => {
                let Some(upload) = uploads.last() else { return };
                let (aaa, number) = (BucketName::new("aaa").unwrap(), 1 + below(2) as u32);
                let writer = buckets.part_writer(&aaa, &upload.key, &upload.id, number).await;
                let mut writer = writer.unwrap();
                writer.write(&vec![0; below(20) as usize]).await.unwrap();
                writer.finish(ExpectedContent::default()).await.unwrap();
            }
            _ => {
                let Some(upload) = uploads.pop() else { return };
                let aaa = BucketName::new("aaa").unwrap();
                let parts = buckets.parts(&aaa, &upload, 0, 10).await.unwrap();
                let tag = |it: &Part| PartTag { number: it.number, ..PartTag::default() };
                let tags: Vec<PartTag> = parts.iter().rev().take(1).map(tag).collect();
                match tags.is_empty() {
                    true => buckets.abort_upload(&aaa, &upload.key, &upload.id).await.unwrap(),
                    false => {
                        let (key, any) = (&upload.key, Condition::default());
                        let done = buckets.complete_upload(&aaa, key, &upload.id, &tags, any);
                        done.await.map(drop).unwrap();
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn a_count_between_changes_is_exact() {
        for seed in 0..200 {
            let (buckets, chance) = (opened().await, SeededEntropy::new(seed));
            let mut uploads = Vec::new();
            for bucket in ["aaa", "bbb"] {
                buckets.create(&BucketName::new(bucket).unwrap()).await.unwrap();
            }
            for _ in 0..15 {
                change(&buckets, &chance, &mut uploads).await;
            }
            let quota = Quota { bytes: Some(u64::MAX), ..Quota::default() };
            // Without the count in the background.
            buckets.shared.replace_quota("acme", Some(quota)).await.unwrap();
            let page = 1 + (chance.next() % 3) as usize;
            while buckets.shared.count_page("acme", page).await.unwrap() {
                if chance.next() % 2 == 0 {
                    change(&buckets, &chance, &mut uploads).await;
                }
            }
            for _ in 0..5 {
                change(&buckets, &chance, &mut uploads).await;
                let (row, whole) = compared(&buckets).await;
                assert_eq!(row.counted_to, None);
                assert_eq!((row.bytes, row.objects), whole, "seed {seed}");
            }
        }
    }
}
