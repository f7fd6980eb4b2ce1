//! Creating, configuring and deleting buckets.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steadfast_store::{Commit, Expect, Put, Receipt, Rejection, Timestamp, Write};

use crate::{
    BucketError, BucketName, BucketSettings, Buckets, CorsRule, LifecycleRule, Rule,
    buckets::{CachedBucket, Shared},
    name::BUCKETS,
    settings::{put_cors, put_lifecycle, put_rule},
};

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Bucket))]
pub struct BucketInfo {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: BucketName,
    /// When it was created.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Maximum bytes of a blob; null: 5 TiB.
    pub max_blob_bytes: Option<u64>,
    /// Rules that send its events to queues.
    pub rules: Vec<Rule>,
    /// Rules that delete old blobs.
    pub lifecycle: Vec<LifecycleRule>,
}

impl BucketInfo {
    fn new(name: BucketName, created_at: Timestamp, settings: BucketSettings) -> Self {
        let BucketSettings { max_blob_bytes, rules, lifecycle, cors: _ } = settings;
        Self { name, created_at, max_blob_bytes, rules, lifecycle }
    }
}

impl Shared {
    /// Returns a bucket from the cache or the store; an error if it does not exist.
    pub(crate) async fn bucket(
        &self,
        bucket: &BucketName,
    ) -> Result<Arc<CachedBucket>, BucketError> {
        let forgotten = match self.cache.find(bucket) {
            Ok(known) => {
                self.store.check_lease()?;
                return Ok(known);
            }
            Err(forgotten) => forgotten,
        };
        let entry = self.store.entry(&bucket.entry()?).await?;
        let found = entry.as_ref().map(CachedBucket::read).transpose()?.flatten();
        let Some(mut found) = found else {
            return Err(BucketError::UnknownBucket { bucket: bucket.to_string() });
        };
        found.floor = self.floor(bucket).await?;
        let found = Arc::new(found);
        self.cache.learn(bucket.clone(), found.clone(), forgotten);
        Ok(found)
    }

    /// Expects that a bucket has not changed since it was read.
    pub(crate) fn expect_bucket(
        bucket: &BucketName,
        known: &CachedBucket,
    ) -> Result<Expect, BucketError> {
        Ok(Expect::Revision { entry: bucket.entry()?, revision: known.revision })
    }
}

impl Buckets {
    /// Creates a bucket.
    #[steadfast_store::boxed]
    pub async fn create(&self, bucket: &BucketName) -> Result<BucketInfo, BucketError> {
        let entry = bucket.entry()?;
        loop {
            let before = self.shared.store.entry(&entry).await?;
            if before.as_ref().is_some_and(|it| it.value.is_some()) {
                return Err(BucketError::BucketExists { bucket: bucket.to_string() });
            }
            let revision = before.map_or(0, |it| it.revision);
            let created_at = self.shared.clock.now();
            let settings = BucketSettings::default();
            if self.write(bucket, revision, created_at, &settings).await? {
                return Ok(BucketInfo::new(bucket.clone(), created_at, settings));
            }
        }
    }

    /// Creates a bucket unless it exists.
    #[steadfast_store::boxed]
    pub async fn ensure(&self, bucket: &BucketName) -> Result<(), BucketError> {
        match self.create(bucket).await {
            Ok(_) | Err(BucketError::BucketExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &self,
        bucket: &BucketName,
        revision: i64,
        created_at: Timestamp,
        settings: &BucketSettings,
    ) -> Result<bool, BucketError> {
        let entry = bucket.entry()?;
        let put = CachedBucket::put(entry.clone(), created_at, settings)?;
        let commit = Commit::of(Write::Put(put)).expect(Expect::Revision { entry, revision });
        Ok(self.commit_settings(bucket, commit).await?.is_ok())
    }

    /// Commits, and invalidates the cached bucket.
    async fn commit_settings(
        &self,
        bucket: &BucketName,
        commit: Commit,
    ) -> Result<Result<Receipt, Rejection>, BucketError> {
        let (shared, bucket) = (self.shared.clone(), bucket.clone());
        Shared::run_to_completion(async move {
            let done = shared.commit(commit).await;
            shared.cache.forget(&bucket);
            done
        })
        .await
    }

    /// Deletes an empty bucket and aborts its multipart uploads.
    #[steadfast_store::boxed]
    pub async fn delete_bucket(&self, bucket: &BucketName) -> Result<(), BucketError> {
        loop {
            let known = self.shared.bucket(bucket).await?;
            let full = || BucketError::NotEmpty { bucket: bucket.to_string() };
            if !self.shared.page(&bucket.blobs(), b"", None).await?.is_empty() {
                return Err(full());
            }
            self.abort_all(bucket).await?;
            self.forget_lost_parts(bucket).await?;
            let keep = self.shared.options.keep_tombstones;
            let mut commit = Commit::of(Write::Put(Put::removal(bucket.entry()?, keep)));
            commit.writes.extend(self.forget_cursors(bucket).await?);
            self.shared.next_aborts.forget(bucket);
            let commit = commit
                .expect(Shared::expect_bucket(bucket, &known)?)
                .expect(Expect::Vacant { space: bucket.blobs().into() })
                .expect(Expect::Vacant { space: bucket.uploads().into() })
                .expect(Expect::Vacant { space: bucket.parts().into() });
            match self.commit_settings(bucket, commit).await? {
                Ok(_) => return Ok(()),
                Err(Rejection::NotVacant { space }) if *space == *bucket.blobs() => {
                    return Err(full());
                }
                // The bucket changed, or has more uploads than one page.
                Err(_) => {}
            }
        }
    }

    /// A bucket and its settings.
    #[steadfast_store::boxed]
    pub async fn bucket(&self, bucket: &BucketName) -> Result<BucketInfo, BucketError> {
        let known = self.shared.bucket(bucket).await?;
        Ok(BucketInfo::new(bucket.clone(), known.created_at, known.settings.clone()))
    }

    /// Buckets in the order of their names, after one of them.
    #[steadfast_store::boxed]
    pub async fn buckets(
        &self,
        after: Option<&BucketName>,
        limit: usize,
    ) -> Result<Vec<BucketInfo>, BucketError> {
        let range = steadfast_store::EntryRange::prefix(b"");
        let range = match after {
            Some(after) => range.after(after.as_str().as_bytes()),
            None => range,
        };
        let mut found = Vec::new();
        for entry in self.shared.store.entries(BUCKETS, range, limit).await? {
            let name = String::from_utf8_lossy(entry.entry.key()).into_owned();
            if let Some(CachedBucket { created_at, settings, .. }) = CachedBucket::read(&entry)? {
                found.push(BucketInfo::new(BucketName::new(&name)?, created_at, settings));
            }
        }
        Ok(found)
    }

    /// Changes the settings of a bucket. Writes that are decided later use the new settings.
    #[steadfast_store::boxed]
    pub async fn configure(
        &self,
        bucket: &BucketName,
        change: &(dyn Fn(&mut BucketSettings) -> Result<(), BucketError> + Sync),
    ) -> Result<BucketSettings, BucketError> {
        loop {
            let known = self.shared.bucket(bucket).await?;
            let mut settings = known.settings.clone();
            change(&mut settings)?;
            settings.check()?;
            if settings == known.settings
                || self.write(bucket, known.revision, known.created_at, &settings).await?
            {
                return Ok(settings);
            }
        }
    }

    /// Adds a rule that sends events to a queue, or replaces the rule with its id.
    #[steadfast_store::boxed]
    pub async fn put_rule(&self, bucket: &BucketName, rule: Rule) -> Result<(), BucketError> {
        self.configure(bucket, &|it| put_rule(&mut it.rules, rule.clone())).await.map(drop)
    }

    /// Deletes a rule.
    #[steadfast_store::boxed]
    pub async fn delete_rule(&self, bucket: &BucketName, id: &str) -> Result<(), BucketError> {
        let remove = |it: &mut BucketSettings| {
            let before = it.rules.len();
            it.rules.retain(|it| it.id != id);
            check_deleted(bucket, id, before != it.rules.len())
        };
        self.configure(bucket, &remove).await.map(drop)
    }

    /// Adds a lifecycle rule, or replaces the rule with its id.
    #[steadfast_store::boxed]
    pub async fn put_lifecycle(
        &self,
        bucket: &BucketName,
        rule: LifecycleRule,
    ) -> Result<(), BucketError> {
        self.configure(bucket, &|it| put_lifecycle(&mut it.lifecycle, rule.clone())).await.map(drop)
    }

    /// Deletes a lifecycle rule.
    #[steadfast_store::boxed]
    pub async fn delete_lifecycle(&self, bucket: &BucketName, id: &str) -> Result<(), BucketError> {
        let remove = |it: &mut BucketSettings| {
            let before = it.lifecycle.len();
            it.lifecycle.retain(|it| it.id != id);
            check_deleted(bucket, id, before != it.lifecycle.len())
        };
        self.configure(bucket, &remove).await.map(drop)
    }

    /// The rules of a bucket for pages of other origins.
    #[steadfast_store::boxed]
    pub async fn cors(&self, bucket: &BucketName) -> Result<Vec<CorsRule>, BucketError> {
        Ok(self.shared.bucket(bucket).await?.settings.cors.clone())
    }

    /// Adds a rule for pages of other origins, or replaces the rule with its id.
    #[steadfast_store::boxed]
    pub async fn put_cors(&self, bucket: &BucketName, rule: CorsRule) -> Result<(), BucketError> {
        let put = |it: &mut BucketSettings| {
            put_cors(&mut it.cors, rule.clone());
            Ok(())
        };
        self.configure(bucket, &put).await.map(drop)
    }

    /// Replaces all rules for pages of other origins.
    #[steadfast_store::boxed]
    pub async fn set_cors(
        &self,
        bucket: &BucketName,
        rules: Vec<CorsRule>,
    ) -> Result<(), BucketError> {
        let set = |it: &mut BucketSettings| {
            it.cors.clone_from(&rules);
            Ok(())
        };
        self.configure(bucket, &set).await.map(drop)
    }

    /// Deletes a rule for pages of other origins.
    #[steadfast_store::boxed]
    pub async fn delete_cors(&self, bucket: &BucketName, id: &str) -> Result<(), BucketError> {
        let remove = |it: &mut BucketSettings| {
            let before = it.cors.len();
            it.cors.retain(|it| it.id != id);
            check_deleted(bucket, id, before != it.cors.len())
        };
        self.configure(bucket, &remove).await.map(drop)
    }
}

fn check_deleted(bucket: &BucketName, rule: &str, is_gone: bool) -> Result<(), BucketError> {
    if is_gone {
        return Ok(());
    }
    Err(BucketError::UnknownRule { bucket: bucket.to_string(), rule: rule.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_written_as_the_api_shows_it() {
        let settings = BucketSettings {
            rules: vec![Rule::new("all", &[], "q")],
            lifecycle: vec![LifecycleRule { id: "old".into(), ..LifecycleRule::default() }],
            cors: vec![CorsRule::default()],
            ..BucketSettings::default()
        };
        let photos = BucketName::new("photos").unwrap();
        let shown = BucketInfo::new(photos, Timestamp(0), settings);
        let text = r#"{"name":"photos","createdAt":"1970-01-01T00:00:00.000Z",
            "maxBlobBytes":null,
            "rules":[{"id":"all","events":[],"prefix":"","suffix":"","queue":"q"}],
            "lifecycle":[{"id":"old","prefix":"","deleteAfterMs":null,
            "abortUploadsAfterMs":null}]}"#;
        let text = text.split_whitespace().collect::<String>();
        assert_eq!(serde_json::to_string(&shown).unwrap(), text);
        assert_eq!(serde_json::from_str::<BucketInfo>(&text).unwrap(), shown);
    }
}
