//! Numbers of keys whose tombstones are gone.
//!
//! The number of a change is the revision of the key's row plus the floor of its bucket. The sweep
//! raises the floor in the commit that removes tombstones. A key whose row starts again therefore
//! takes a number above every earlier one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steadfast_store::{Commit, EntryKey, Expect, Put, Record, Write};

use crate::{BucketError, BucketName, Buckets, buckets::Shared};

#[derive(Default, Serialize, Deserialize)]
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
    async fn floor_row(&self, bucket: &BucketName) -> Result<Record<FloorRow>, BucketError> {
        Ok(Record::read(&*self.store, bucket.floor()?).await?)
    }

    /// The floor of a bucket. Callers that decide by it read the bucket first and expect it
    /// unchanged: raising the floor takes the next revision of the bucket.
    pub(crate) async fn floor(&self, bucket: &BucketName) -> Result<i64, BucketError> {
        Ok(self.floor_row(bucket).await?.value.unwrap_or_default().floor)
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
            let mut floor = self.shared.floor_row(bucket).await?;
            let raised = floor.value.take().unwrap_or_default().floor + highest;
            let put = Put::of(floor.entry.clone(), &FloorRow { floor: raised })?;
            commit = commit.expect(floor.expect()).write(Write::Put(put));
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
