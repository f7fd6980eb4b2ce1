//! Lifecycle rules. Each rule visits blobs once, in the order of their last change.

use std::{collections::HashMap, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_store::{
    AgeCursor, Commit, Entry, EntryKey, EntryRange, Json, Put, StoreError, Timestamp, Write, crash,
};

use crate::{
    Blob, BlobAction, BucketError, BucketInfo, BucketName, Buckets, Condition, LifecycleRule,
    buckets::{Shared, removal},
    sweep::keep_first_error,
};

/// Number of blobs per read.
const PAGE: usize = 1_000;

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
    pub(crate) async fn delete_old(
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
            let cursor =
                entry.value.and_then(|it| serde_json::from_str::<RuleCursor>(it.as_str()).ok());
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
            let next = settled.and_then(|it| behind(it, &rule.prefix));
            if next.is_some() && next != cursor {
                self.save_cursor(bucket, rule, next.as_ref()).await?;
                cursor = next;
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
        cursor: Option<&RuleCursor>,
    ) -> Result<(), BucketError> {
        let known = match self.shared.bucket(bucket).await {
            Ok(known) => known,
            Err(BucketError::UnknownBucket { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let entry = EntryKey::new(&bucket.cursors(), rule.id.as_bytes())?;
        let (value, reference, expires) = (cursor.map(Json::of).transpose()?, None, None);
        let put = Write::Put(Put { entry, value, reference, expires });
        let commit = Commit::of(put).expect(Shared::expect_bucket(bucket, &known)?);
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

fn behind(entry: &Entry, prefix: &str) -> Option<RuleCursor> {
    let key = String::from_utf8(entry.entry.key().to_vec()).ok()?;
    Some(RuleCursor { prefix: prefix.into(), changed_at: entry.changed_at.0, key })
}
