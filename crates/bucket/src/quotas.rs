//! Setting, reading and removing quotas, and counting what was stored before a quota was set.
//!
//! The count reads the rows of an organization in order, a page at a time. The row of the quota has
//! the position of the count. A change of a blob up to that position is counted by its own commit;
//! the count finds those behind it later. Each page is one commit, so a count that was cut short
//! continues where it was. While a count runs, changes write a counter of changes that each page
//! expects, so no page is added that was read before a change.

use std::{sync::Arc, time::Duration};

use steadfast_store::{Count, EntryRange, Put, Record, Write};

use crate::{
    Blob, BucketError, BucketName, Buckets, Quota, QuotaInfo, QuotaUse, Upload,
    buckets::{Shared, removal},
    quota::{Place, QUOTAS, QuotaRow, Usage, counter_of, entry_of, signed, version_entry},
    usage::parts_of,
};

/// Rows that the count reads at a time.
const PAGE: usize = 1_000;

/// Uploads that the count reads at a time, each with its counter. Writers of the organization wait
/// for it.
const UPLOADS_PAGE: usize = 100;

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
        match Record::<QuotaRow>::read(&*self.shared.store, entry_of(organization)?).await?.value {
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
        let range = EntryRange::prefix(b"").after(after.unwrap_or_default().as_bytes());
        let mut found = Vec::new();
        for entry in self.shared.store.entries(QUOTAS, range, limit).await? {
            if let Some(row) = entry.parse()? {
                let organization = String::from_utf8_lossy(entry.entry.key()).into_owned();
                found.push(self.info(&organization, row).await?);
            }
        }
        Ok(found)
    }

    async fn info(&self, organization: &str, row: QuotaRow) -> Result<QuotaInfo, BucketError> {
        let used = self.shared.stored_usage(organization).await?;
        let (spent, quota) = (self.spent(organization).await?, row.quota);
        Ok(QuotaInfo {
            organization: organization.into(),
            bytes: QuotaUse { used: used.bytes, limit: quota.bytes },
            objects: QuotaUse { used: used.objects, limit: quota.objects },
            spend_micros: QuotaUse { used: spent, limit: quota.spend },
            is_counting: row.counted_to.is_some(),
        })
    }

    /// Counts what organizations stored before their quotas were set, to the end.
    #[steadfast_store::boxed]
    pub async fn count_usage(&self) -> Result<(), BucketError> {
        let known = self.shared.known_quotas().await?;
        let mut counted = Ok(());
        for organization in known.organizations.keys() {
            let all = async {
                while self.shared.count_page(organization, PAGE).await? {}
                Ok(())
            };
            // After an error the other organizations are counted all the same.
            counted = counted.and(all.await);
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
        loop {
            let list = Record::<()>::read(&*self.store, version.clone()).await?;
            let mut found = Record::<QuotaRow>::read(&*self.store, entry.clone()).await?;
            let before = found.value.take();
            let was_set = before.is_some();
            let mut commit = match quota {
                Some(quota) => {
                    let counted_to = before.map_or(Some(Place::default()), |it| it.counted_to);
                    found.change(&QuotaRow { quota, counted_to })?
                }
                None if was_set => found.remove(Duration::ZERO),
                None => return Ok(false),
            };
            if quota.is_none() {
                let counters =
                    ["bytes", "objects", "changes"].map(|it| counter_of(organization, it));
                commit.writes.extend(removal(counters.into_iter().collect::<Result<_, _>>()?));
            }
            let put = Put::of(version.clone(), &())?;
            let commit = commit.expect(list.expect()).write(Write::Put(put));
            let decided = self.commit(commit).await;
            self.quotas.forget(&());
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
        // Changes of the organization wait, so that none of them rejects this page.
        let _alone = self.counting.write().await;
        let found = Record::<QuotaRow>::read(&*self.store, entry_of(organization)?).await?;
        let Some(row) = &found.value else { return Ok(false) };
        let Some(cursor) = &row.counted_to else { return Ok(false) };
        let changes = counter_of(organization, "changes")?;
        let changes = Record::<i64>::read(&*self.store, changes).await?;
        let (added, counted_to) = match BucketName::new(&cursor.bucket) {
            Ok(bucket) => self.count_rows(organization, &bucket, cursor, page).await?,
            // The position before all buckets.
            Err(_) => (Usage::default(), self.first_of_next_bucket("").await?),
        };
        let is_last = counted_to.is_none();
        let next = QuotaRow { quota: row.quota, counted_to };
        let mut commit = found.change(&next)?.expect(changes.expect());
        for (name, delta) in [("bytes", added.bytes), ("objects", added.objects)] {
            let count = Count::of(counter_of(organization, name)?, signed(delta));
            commit = commit.write(Write::Count(count));
        }
        if is_last && changes.value.is_some() {
            commit.writes.extend(removal(vec![changes.entry]));
        }
        let decided = self.commit(commit).await;
        self.quotas.forget(&());
        // If another commit was first, the page is read again.
        decided?.ok();
        Ok(true)
    }

    async fn first_of_next_bucket(&self, after: &str) -> Result<Option<Place>, BucketError> {
        let range = EntryRange::prefix(b"").after(after.as_bytes());
        let page = self.store.entries(crate::name::BUCKETS, range, 1).await?;
        let Some(entry) = page.first() else { return Ok(None) };
        let name = BucketName::new(&String::from_utf8_lossy(entry.entry.key()))?;
        Ok(Some(Place::new(&name, false, b"")))
    }

    /// Counts a page of blobs, or of uploads, each as an object with the bytes of its parts.
    /// Returns the next position as well.
    async fn count_rows(
        &self,
        organization: &str,
        bucket: &BucketName,
        cursor: &Place,
        page: usize,
    ) -> Result<(Usage, Option<Place>), BucketError> {
        let (space, page) = match cursor.is_upload {
            true => (bucket.uploads(), page.min(UPLOADS_PAGE)),
            false => (bucket.blobs(), page),
        };
        let range = EntryRange::prefix(format!("{organization}/").as_bytes()).after(&cursor.key()?);
        let entries = self.store.entries(&space, range, page).await?;
        let mut added = Usage::default();
        for entry in &entries {
            // A damaged row cannot be changed, and is not counted.
            let bytes = if cursor.is_upload {
                let Ok(Some(upload)) = Upload::read(entry) else { continue };
                self.store.counter(&parts_of(upload.content)?).await?
            } else {
                let Ok(Some(blob)) = Blob::read(entry) else { continue };
                signed(blob.size)
            };
            added.bytes = added.bytes.saturating_add_signed(bytes);
            added.objects += 1;
        }
        let next = match entries.last().filter(|_| entries.len() == page) {
            Some(last) => Some(Place::new(bucket, cursor.is_upload, last.entry.key())),
            None if cursor.is_upload => self.first_of_next_bucket(bucket.as_str()).await?,
            None => Some(Place::new(bucket, true, b"")),
        };
        Ok((added, next))
    }
}

#[cfg(test)]
mod tests {
    use steadfast_store::{Entropy, ManualClock, MemoryStore, SeededEntropy, Timestamp};

    use super::*;
    use crate::{
        Attributes, BlobKey, BlobWriter, Condition, ExpectedContent, MemoryBlobs, Part, PartTag,
        PutOptions,
    };

    async fn opened() -> Buckets {
        let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000)));
        let store = Arc::new(MemoryStore::new(clock));
        Buckets::builder(store).open(Arc::new(MemoryBlobs::default())).await.unwrap()
    }

    /// Where the count is, the counters, and what they should be.
    async fn compared(buckets: &Buckets) -> (Option<Place>, Usage, Usage) {
        let shared = &buckets.shared;
        let found = shared.store.entry(&entry_of("acme").unwrap()).await.unwrap();
        let row: QuotaRow = found.unwrap().parse().unwrap().unwrap();
        let mut whole = Usage::default();
        for info in buckets.buckets(None, 10).await.unwrap() {
            let (bucket, start, rows) = (&info.name, Place::default(), 10_000);
            let blobs = shared.count_rows("acme", bucket, &start, rows).await.unwrap().0;
            whole.bytes += blobs.bytes;
            whole.objects += blobs.objects;
            for upload in buckets.uploads(bucket, "acme/", None, rows).await.unwrap() {
                let parts = buckets.parts(bucket, &upload, 0, rows).await.unwrap();
                whole.bytes += parts.iter().map(|it| it.size).sum::<u64>();
                whole.objects += 1;
            }
        }
        (row.counted_to, shared.stored_usage("acme").await.unwrap(), whole)
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
                let (counted_to, counted, whole) = compared(&buckets).await;
                assert_eq!(counted_to, None);
                assert_eq!(counted, whole, "seed {seed}");
            }
        }
    }
}
