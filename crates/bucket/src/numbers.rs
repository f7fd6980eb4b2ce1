//! Numbers of keys whose tombstones are gone.
//!
//! The number of a change is the revision of the key's row plus the floor of its bucket. The sweep
//! raises the floor in the commit that removes tombstones. A key whose row starts again therefore
//! takes a number above every earlier one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_store::{Commit, EntryKey, Expect, Json, Put, StoreError, Write};

use crate::{BucketError, BucketName, Buckets, buckets::Shared};

#[derive(Serialize, Deserialize)]
struct FloorRow {
    floor: i64,
}

impl BucketName {
    /// The entry of its floor. It stays when the bucket is deleted.
    fn floor(&self) -> Result<EntryKey, BucketError> {
        Ok(EntryKey::new("sequence-floor", self.as_str().as_bytes())?)
    }

    /// The bucket whose blobs are in a space.
    fn of_blobs(space: &str) -> Option<Self> {
        space.strip_prefix("blob/").and_then(|it| Self::new(it).ok())
    }
}

impl Shared {
    /// The floor of a bucket and the revision of its entry.
    async fn read_floor(&self, bucket: &BucketName) -> Result<(i64, i64), BucketError> {
        let Some(entry) = self.store.entry(&bucket.floor()?).await? else { return Ok((0, 0)) };
        let Some(value) = &entry.value else { return Ok((0, entry.revision)) };
        let stored: FloorRow = serde_json::from_str(value.as_str()).map_err(|error| {
            let reason = format!("entry {:?} is not a number: {error}", entry.entry);
            BucketError::Store(StoreError::Corrupt { reason })
        })?;
        Ok((stored.floor, entry.revision))
    }

    /// The floor of a bucket. Callers that decide by it read the bucket first and expect it
    /// unchanged: raising the floor takes the next revision of the bucket.
    pub(crate) async fn floor(&self, bucket: &BucketName) -> Result<i64, BucketError> {
        Ok(self.read_floor(bucket).await?.0)
    }
}

impl Buckets {
    /// Commit that removes expired rows and raises the floors of buckets whose tombstones it
    /// removes.
    pub(crate) async fn expiry(
        &self,
        entries: Vec<EntryKey>,
    ) -> Result<(Commit, Vec<BucketName>), BucketError> {
        let mut highest: BTreeMap<BucketName, i64> = BTreeMap::new();
        for entry in &entries {
            let Some(bucket) = BucketName::of_blobs(entry.space()) else { continue };
            if let Some(tombstone) = self.shared.store.entry(entry).await? {
                let it = highest.entry(bucket).or_default();
                *it = tombstone.revision.max(*it);
            }
        }
        let mut commit = Commit::of(Write::ExpireEntries { entries });
        for (bucket, highest) in &highest {
            let row = self.shared.store.entry(&bucket.entry()?).await?;
            let (floor, revision) = self.shared.read_floor(bucket).await?;
            let (entry, value) = (bucket.floor()?, Json::of(&FloorRow { floor: floor + highest })?);
            commit = commit.expect(Expect::Revision { entry: entry.clone(), revision });
            let put = Put { entry, value: Some(value), reference: None, expires: None };
            commit = commit.write(Write::Put(put));
            let (entry, revision) = (bucket.entry()?, row.as_ref().map_or(0, |it| it.revision));
            commit = commit.expect(Expect::Revision { entry: entry.clone(), revision });
            if let Some(value) = row.and_then(|it| it.value) {
                let put = Put { entry, value: Some(value), reference: None, expires: None };
                commit = commit.write(Write::Put(put));
            }
        }
        Ok((commit, highest.into_keys().collect()))
    }
}
