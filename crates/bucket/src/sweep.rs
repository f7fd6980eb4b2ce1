//! Removes expired blobs, abandoned uploads, old tombstones and orphaned files. Each lifecycle rule
//! visits blobs once, in the order of their last change.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_store::{
    AgeCursor, Commit, Entry, EntryKey, EntryRange, Put, StoreError, Timestamp, Write, behind,
    crash,
};

use crate::{
    Blob, BlobAction, BucketError, BucketInfo, BucketName, Buckets, Condition, LifecycleRule, Part,
    Upload,
    buckets::{PAGE, Shared, removal},
    content::{Blobs, ContentId},
};

/// After this time every list of uploads contains an upload that began.
const BEGUN_WITHIN: Duration = Duration::from_mins(10);

/// Counts of one sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepCounts {
    /// Blobs deleted by lifecycle rules.
    pub blobs: usize,
    /// Aborted uploads.
    pub uploads: usize,
    /// Expired rows.
    pub rows: usize,
    /// Orphaned files.
    pub files: usize,
}

/// Records the first error about a single item and continues. An error of the store ends the sweep.
pub(crate) fn keep_first_error<T: Default>(
    result: Result<T, BucketError>,
    failed: &mut Option<BucketError>,
) -> Result<T, BucketError> {
    match result {
        Err(BucketError::Store(error)) if !matches!(error, StoreError::Corrupt { .. }) => {
            Err(error.into())
        }
        Err(error) => {
            tracing::warn!(error = %error, "the sweep skipped an item");
            failed.get_or_insert(error);
            Ok(T::default())
        }
        Ok(done) => Ok(done),
    }
}

impl Buckets {
    /// Removes expired data and orphaned files. An item that cannot be read or removed does not
    /// stop the sweep; its error is returned at the end.
    #[steadfast_store::boxed]
    pub async fn sweep(&self) -> Result<SweepCounts, BucketError> {
        let Some(now) = self.shared.clock.deletion_time() else {
            return Ok(SweepCounts::default());
        };
        let (mut swept, mut failed) = (SweepCounts::default(), None);
        // Until the session begins, another copy of the store may have used the files last.
        if self.shared.changes.has_no_session() {
            return Ok(swept);
        }
        // A newer copy of the store may still need data that is expired here.
        if !self.is_restored() {
            self.sweep_buckets(&mut swept, &mut failed).await?;
        }
        swept.rows = self.expire_rows().await?;
        keep_first_error(self.count_usage().await, &mut failed)?;
        swept.files = keep_first_error(self.recheck_files().await, &mut failed)?;
        swept.files += self.walk(&mut failed).await?;
        let keep = self.shared.options.keep_orphans.as_millis() as i64;
        let remove_empty_subfolders = move |blobs: &dyn Blobs| {
            blobs.remove_empty_subfolders(Timestamp(now.0.saturating_sub(keep)));
            Ok(())
        };
        keep_first_error(self.shared.run_blocking(remove_empty_subfolders).await, &mut failed)?;
        failed.map_or(Ok(swept), Err)
    }

    /// Whether an older copy of the store was restored recently. Then nothing expires by age.
    fn is_restored(&self) -> bool {
        let restored_at = self.shared.found.lock().restored_at;
        let keep = self.shared.options.keep_unknown_files;
        restored_at.is_some_and(|it| !self.is_older(Timestamp(it), keep))
    }

    async fn sweep_buckets(
        &self,
        swept: &mut SweepCounts,
        failed: &mut Option<BucketError>,
    ) -> Result<(), BucketError> {
        let left = self.shared.changes.unswept_lost_parts();
        let is_owed = left.is_some() || self.shared.session.lock().await.session.lost_parts;
        let mut parts_failed = None;
        let mut last: Option<BucketName> = None;
        loop {
            let page = self.buckets(last.as_ref(), 100).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.name.clone());
            for bucket in &page {
                swept.blobs += self.delete_old(bucket, failed).await?;
                swept.uploads += keep_first_error(self.abort_old(bucket).await, failed)?;
                if is_owed {
                    keep_first_error(
                        self.forget_lost_parts(&bucket.name).await,
                        &mut parts_failed,
                    )?;
                }
            }
        }
        if let Some(error) = parts_failed {
            failed.get_or_insert(error);
        } else if is_owed {
            left.iter().for_each(|it| self.shared.changes.mark_lost_parts_swept(*it));
            let mut state = self.shared.session.lock().await;
            if std::mem::take(&mut state.session.lost_parts) && !state.is_over {
                state.save(&*self.shared.store).await?;
            }
        }
        Ok(())
    }

    async fn abort_old(&self, bucket: &BucketInfo) -> Result<usize, BucketError> {
        let Some(now) = self.shared.clock.deletion_time() else { return Ok(0) };
        let rules = &bucket.lifecycle;
        if self.shared.next_aborts.of(&bucket.name, rules).is_some_and(|next| now < next) {
            return Ok(0);
        }
        let keep = self.shared.options.keep_uploads;
        let least = rules.iter().filter_map(|it| it.abort_uploads_after()).min();
        let least = least.map_or(keep, |it| it.min(keep)).saturating_sub(BEGUN_WITHIN);
        let (mut count, mut next) = (0, now.after(least));
        let mut last: Option<Upload> = None;
        loop {
            let after = last.as_ref().map(|it| (it.key.as_str(), Some(it.id.as_str())));
            let page = match self.uploads(&bucket.name, "", after, 1_000).await {
                Ok(page) => page,
                Err(BucketError::UnknownBucket { .. }) => return Ok(count),
                Err(error) => return Err(error),
            };
            for upload in &page {
                let its = rules.iter().filter(|it| upload.key.as_str().starts_with(&it.prefix));
                let age = its.filter_map(|it| it.abort_uploads_after()).min().unwrap_or(keep);
                if !self.is_older(upload.began_at, age) {
                    next = next.min(upload.began_at.after(age));
                    continue;
                }
                match self.abort_upload(&bucket.name, &upload.key, &upload.id).await {
                    Ok(()) => count += 1,
                    Err(BucketError::UnknownUpload { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            last = page.into_iter().next_back();
            if last.is_none() {
                break;
            }
        }
        self.shared.next_aborts.set(&bucket.name, rules, next);
        Ok(count)
    }

    /// Removes rows of parts of finished uploads: the process ended before it removed them or their
    /// files.
    pub(crate) async fn forget_lost_parts(&self, bucket: &BucketName) -> Result<(), BucketError> {
        let lost = self.contents_of_parts(bucket).await?;
        if lost.is_empty() {
            return Ok(());
        }
        // Read after the parts, so that no upload of these parts began later.
        let mut open: HashSet<ContentId> = HashSet::new();
        let mut pages = self.shared.pages(bucket.uploads(), b"");
        while let Some(page) = pages.next().await? {
            open.extend(page.iter().filter_map(|it| it.reference).map(|it| ContentId(it.0)));
        }
        for content in lost.into_iter().filter(|it| !open.contains(it)) {
            self.recheck_parts(bucket, content).await?;
            self.shared.remove_part_rows(bucket, content).await?;
        }
        Ok(())
    }

    /// Rechecks the files of parts: some may belong to a blob.
    async fn recheck_parts(
        &self,
        bucket: &BucketName,
        content: ContentId,
    ) -> Result<(), BucketError> {
        let mut pages = self.shared.pages(bucket.parts(), &content.0);
        while let Some(page) = pages.next().await? {
            let parts = page.iter().filter_map(|it| Part::read(it).ok().flatten());
            self.shared.recheck(&parts.map(|it| it.name(content)).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Uploads that have parts, with one read per upload.
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

    /// Removes expired rows of all spaces.
    async fn expire_rows(&self) -> Result<usize, BucketError> {
        let mut count = 0;
        loop {
            let Some(now) = self.shared.clock.deletion_time() else { return Ok(count) };
            let entries = self.shared.store.expired_entries(now, 1_000).await?;
            if entries.is_empty() {
                return Ok(count);
            }
            let (commit, buckets) = self.expiry(entries).await?;
            let done = self.shared.commit(commit).await;
            buckets.iter().for_each(|it| self.shared.cache.forget(it));
            match done? {
                Ok(receipt) if receipt.forgotten == 0 => return Ok(count),
                Ok(receipt) => count += receipt.forgotten,
                // A bucket changed meanwhile.
                Err(_) => {}
            }
        }
    }

    pub(crate) fn is_older(&self, at: Timestamp, age: Duration) -> bool {
        self.shared.clock.deletion_time().is_some_and(|now| at.after(age) <= now)
    }
}

/// A cursor does not pass entries younger than this: an entry with the same time may still be in
/// flight to the store.
const SETTLED_AFTER: Duration = Duration::from_mins(10);

/// Position of a rule. Blobs before it were deleted or have another prefix. They need no second
/// visit until they are written again, even if the age of the rule changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleCursor {
    prefix: String,
    changed_at: i64,
    key: String,
}

impl BucketName {
    /// The space of the cursors of the bucket's rules.
    fn cursors(&self) -> String {
        format!("lifecycle/{self}")
    }
}

impl Buckets {
    /// Deletes blobs that are older than a rule allows.
    async fn delete_old(
        &self,
        bucket: &BucketInfo,
        failed: &mut Option<BucketError>,
    ) -> Result<usize, BucketError> {
        let rules = &bucket.lifecycle;
        if rules.iter().all(|it| it.delete_after().is_none()) {
            return Ok(0);
        }
        let mut cursor = self.rule_cursors(bucket).await?;
        let mut count = 0;
        for rule in rules {
            let Some(age) = rule.delete_after() else { continue };
            let cursor = cursor.remove(&rule.id);
            count += self.delete_by(&bucket.name, (rule, age), cursor, failed).await?;
        }
        Ok(count)
    }

    /// Positions of the rules. Removes positions of rules that were deleted or changed.
    async fn rule_cursors(
        &self,
        bucket: &BucketInfo,
    ) -> Result<HashMap<String, RuleCursor>, BucketError> {
        let (space, all) = (bucket.name.cursors(), EntryRange::prefix(b""));
        let (mut found, mut stale) = (HashMap::new(), Vec::new());
        for entry in self.shared.store.entries(&space, all, PAGE).await? {
            let id = String::from_utf8_lossy(entry.entry.key()).into_owned();
            let cursor = entry.parse::<RuleCursor>().ok().flatten();
            let rule = bucket.lifecycle.iter().find(|it| it.id == id);
            match (rule, cursor) {
                (Some(rule), Some(cursor)) if rule.prefix == cursor.prefix => {
                    found.insert(id, cursor);
                }
                _ => stale.push(entry.entry),
            }
        }
        if !stale.is_empty() {
            let commit = Commit { expects: Vec::new(), writes: removal(stale) };
            self.shared.commit(commit).await?.ok();
        }
        Ok(found)
    }

    async fn delete_by(
        &self,
        bucket: &BucketName,
        (rule, age): (&LifecycleRule, Duration),
        mut cursor: Option<RuleCursor>,
        failed: &mut Option<BucketError>,
    ) -> Result<usize, BucketError> {
        let Some(now) = self.shared.clock.deletion_time() else { return Ok(0) };
        let until = Timestamp(now.0.saturating_sub(age.as_millis() as i64));
        let mut after = cursor.as_ref().map_or(AgeCursor::START, |it| AgeCursor {
            changed_at: Timestamp(it.changed_at),
            key: it.key.clone().into_bytes(),
        });
        let (space, prefix, mut count) = (bucket.blobs(), rule.prefix.as_bytes(), 0);
        loop {
            let page = self.shared.store.entries_by_age(&space, &after, until, PAGE).await?;
            let Some(last) = page.last() else { return Ok(count) };
            after = AgeCursor::behind(last);
            for entry in page.iter().filter(|it| it.entry.key().starts_with(prefix)) {
                if !self.has_rule(bucket, rule).await? {
                    return Ok(count);
                }
                let deleted = self.delete_unless_changed(bucket, entry).await;
                let is_damaged =
                    matches!(deleted, Err(BucketError::Store(StoreError::Corrupt { .. })));
                let is_left = deleted.is_err() && !is_damaged;
                count += usize::from(keep_first_error(deleted, failed)?);
                if is_left {
                    // The next sweep retries this blob. Damaged rows are passed.
                    return Ok(count);
                }
            }
            let settled = page.iter().rfind(|it| self.is_older(it.changed_at, SETTLED_AFTER));
            let next = settled.and_then(|it| next_of(it, &rule.prefix));
            if let Some(next) = next.filter(|it| Some(it) != cursor.as_ref()) {
                self.save_cursor(bucket, rule, &next).await?;
                cursor = Some(next);
            }
            if page.len() < PAGE {
                return Ok(count);
            }
        }
    }

    /// Stores the position of a rule, if the bucket still exists.
    async fn save_cursor(
        &self,
        bucket: &BucketName,
        rule: &LifecycleRule,
        cursor: &RuleCursor,
    ) -> Result<(), BucketError> {
        let known = match self.shared.bucket(bucket).await {
            Ok(known) => known,
            Err(BucketError::UnknownBucket { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let put = Put::of(EntryKey::new(&bucket.cursors(), rule.id.as_bytes())?, cursor)?;
        let commit = Commit::of(Write::Put(put)).expect(Shared::expect_bucket(bucket, &known)?);
        // If the bucket changed, the rule visits the same blobs again.
        self.shared.commit(commit).await?.ok();
        Ok(())
    }

    /// Writes that remove the cursors of a bucket.
    pub(crate) async fn forget_cursors(
        &self,
        bucket: &BucketName,
    ) -> Result<Vec<Write>, BucketError> {
        let all = EntryRange::prefix(b"");
        let found = self.shared.store.entries(&bucket.cursors(), all, PAGE).await?;
        Ok(removal(found.into_iter().map(|it| it.entry).collect()))
    }

    /// Checks that the bucket still has the rule: a concurrent change of rules takes effect first.
    async fn has_rule(
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

    /// Deletes a blob unless its key was written again.
    async fn delete_unless_changed(
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
}

fn next_of(entry: &Entry, prefix: &str) -> Option<RuleCursor> {
    let key = String::from_utf8(entry.entry.key().to_vec()).ok()?;
    Some(RuleCursor { prefix: prefix.into(), changed_at: entry.changed_at.0, key })
}
