//! The cached rows of buckets. Only this process changes them.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::{Entry, EntryKey, Put, Timestamp};

use crate::{BucketError, BucketName, BucketSettings, LifecycleRule};

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
        let Some(stored) = entry.parse::<BucketRow>()? else { return Ok(None) };
        let (revision, created_at) = (entry.revision, Timestamp(stored.created_at));
        Ok(Some(Self { revision, created_at, settings: stored.settings, floor: 0 }))
    }

    /// Writes the row of a bucket.
    pub(crate) fn put(
        entry: EntryKey,
        created_at: Timestamp,
        settings: &BucketSettings,
    ) -> Result<Put, BucketError> {
        let row = BucketRow { created_at: created_at.0, settings: settings.clone() };
        Ok(Put::of(entry, &row)?)
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
