//! Cache of bucket settings. Only this process changes them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use steadfast_store::{Entry, Json, StoreError, Timestamp};

use crate::{BucketError, BucketName, BucketSettings, LifecycleRule};

/// Cached settings and floors by bucket.
#[derive(Debug, Default)]
pub(crate) struct BucketCache(RwLock<Pages>);

#[derive(Debug, Default)]
struct Pages {
    known: HashMap<BucketName, Arc<CachedBucket>>,
    /// Number of invalidations. A row that was read before an invalidation is not cached after it.
    forgotten: u64,
}

impl BucketCache {
    pub(crate) fn forget(&self, bucket: &BucketName) {
        let mut pages = self.0.write();
        pages.known.remove(bucket);
        pages.forgotten += 1;
    }

    /// Returns the cached bucket, or else the number to pass to [`BucketCache::learn`].
    pub(crate) fn find(&self, bucket: &BucketName) -> Result<Arc<CachedBucket>, u64> {
        let pages = self.0.read();
        pages.known.get(bucket).cloned().ok_or(pages.forgotten)
    }

    pub(crate) fn learn(&self, bucket: &BucketName, known: &Arc<CachedBucket>, forgotten: u64) {
        let mut pages = self.0.write();
        if pages.forgotten == forgotten {
            pages.known.insert(bucket.clone(), known.clone());
        }
    }
}

/// A bucket as it was last read.
#[derive(Clone, Debug)]
pub(crate) struct CachedBucket {
    pub(crate) revision: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) settings: BucketSettings,
    /// Every change of a key takes a number above this one.
    pub(crate) floor: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BucketRow {
    created_at: i64,
    #[serde(flatten)]
    settings: BucketSettings,
}

impl CachedBucket {
    /// Reads a bucket from its row, without its floor; `None` if it was deleted.
    pub(crate) fn read(entry: &Entry) -> Result<Option<Self>, BucketError> {
        let Some(value) = &entry.value else { return Ok(None) };
        let stored: BucketRow = serde_json::from_str(value.as_str()).map_err(|error| {
            let reason = format!("entry {:?} is not a bucket: {error}", entry.entry);
            BucketError::Store(StoreError::Corrupt { reason })
        })?;
        let (revision, created_at) = (entry.revision, Timestamp(stored.created_at));
        Ok(Some(Self { revision, created_at, settings: stored.settings, floor: 0 }))
    }

    /// The row of a bucket.
    pub(crate) fn value(
        created_at: Timestamp,
        settings: &BucketSettings,
    ) -> Result<Json, BucketError> {
        Ok(Json::of(&BucketRow { created_at: created_at.0, settings: settings.clone() })?)
    }
}

/// The earliest time at which an upload of a bucket can expire, and the lifecycle rules it was
/// computed for. The sweep does not list uploads before that time.
#[derive(Debug, Default)]
pub(crate) struct NextAborts(Mutex<HashMap<BucketName, (Vec<LifecycleRule>, Timestamp)>>);

impl NextAborts {
    pub(crate) fn of(&self, bucket: &BucketName, rules: &[LifecycleRule]) -> Option<Timestamp> {
        let inner = self.0.lock();
        let (known, at) = inner.get(bucket)?;
        (known == rules).then_some(*at)
    }

    pub(crate) fn set(&self, bucket: &BucketName, rules: &[LifecycleRule], at: Timestamp) {
        self.0.lock().insert(bucket.clone(), (rules.to_vec(), at));
    }

    pub(crate) fn forget(&self, bucket: &BucketName) {
        self.0.lock().remove(bucket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_read_before_a_change_is_not_cached_after_it() {
        let (cache, bucket) = (BucketCache::default(), BucketName::new("photos").unwrap());
        let settings = BucketSettings::default();
        let known =
            Arc::new(CachedBucket { revision: 1, created_at: Timestamp(0), settings, floor: 0 });
        let forgotten = cache.find(&bucket).unwrap_err();
        cache.forget(&bucket);
        cache.learn(&bucket, &known, forgotten);
        let forgotten = cache.find(&bucket).unwrap_err();
        cache.learn(&bucket, &known, forgotten);
        assert_eq!(cache.find(&bucket).unwrap().revision, 1);
    }
}
