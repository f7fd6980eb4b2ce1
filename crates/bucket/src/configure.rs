//! Creating, configuring and deleting buckets.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Commit, EntryRange, Expect, Put, Receipt, Record, Rejection, Timestamp, Write,
};

use crate::{
    BucketError, BucketName, BucketSettings, Buckets, CorsRule, LifecycleRule, Rule,
    buckets::{BucketRow, CachedBucket, Shared},
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
        let found = Record::<BucketRow>::read(&*self.store, bucket.entry()?).await?;
        let Some(BucketRow { created_at, settings }) = found.value else {
            return Err(BucketError::UnknownBucket { bucket: bucket.to_string() });
        };
        let (revision, created_at) = (found.revision, Timestamp(created_at));
        let floor = self.floor(bucket).await?;
        let found = Arc::new(CachedBucket { revision, created_at, settings, floor });
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
        let row = BucketRow { created_at: created_at.0, settings: settings.clone() };
        let put = Put::of(entry.clone(), &row)?;
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
            if !self.shared.page(&bucket.blobs(), b"", b"").await?.is_empty() {
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
        let after = after.map_or("", BucketName::as_str);
        let range = EntryRange::prefix(b"").after(after.as_bytes());
        let mut found = Vec::new();
        for entry in self.shared.store.entries(BUCKETS, range, limit).await? {
            let name = String::from_utf8_lossy(entry.entry.key()).into_owned();
            if let Some(BucketRow { created_at, settings }) = entry.parse()? {
                let (name, created_at) = (BucketName::new(&name)?, Timestamp(created_at));
                found.push(BucketInfo::new(name, created_at, settings));
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
        let is_it = |it: &Rule| it.id == id;
        self.configure(bucket, &|it| remove(&mut it.rules, is_it, (bucket, id))).await.map(drop)
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
        let is_it = |it: &LifecycleRule| it.id == id;
        self.configure(bucket, &|it| remove(&mut it.lifecycle, is_it, (bucket, id))).await.map(drop)
    }

    /// The rules of a bucket for pages of other origins.
    #[steadfast_store::boxed]
    pub async fn cors(&self, bucket: &BucketName) -> Result<Vec<CorsRule>, BucketError> {
        Ok(self.shared.bucket(bucket).await?.settings.cors.clone())
    }

    /// Adds a rule for pages of other origins, or replaces the rule with its id.
    #[steadfast_store::boxed]
    pub async fn put_cors(&self, bucket: &BucketName, rule: CorsRule) -> Result<(), BucketError> {
        self.configure(bucket, &|it| put_cors(&mut it.cors, rule.clone())).await.map(drop)
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
        let is_it = |it: &CorsRule| it.id == id;
        self.configure(bucket, &|it| remove(&mut it.cors, is_it, (bucket, id))).await.map(drop)
    }
}

/// Removes a rule from those of a bucket.
fn remove<T>(
    rules: &mut Vec<T>,
    is_it: impl Fn(&T) -> bool,
    (bucket, id): (&BucketName, &str),
) -> Result<(), BucketError> {
    let before = rules.len();
    rules.retain(|it| !is_it(it));
    if before == rules.len() {
        return Err(BucketError::UnknownRule { bucket: bucket.to_string(), rule: id.into() });
    }
    Ok(())
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
