//! The settings of a bucket.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BLOB_BYTES_MAX, BucketError, CorsRule, KEY_BYTES_MAX, Rule, cors, rule};

/// The settings of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BucketSettings {
    /// Maximum size of a blob in bytes; `None`: 5 TiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_blob_bytes: Option<u64>,
    /// Rules that send events.
    pub rules: Vec<Rule>,
    /// Rules that delete old blobs.
    pub lifecycle: Vec<LifecycleRule>,
    /// Rules for pages of other origins. The first one that fits counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cors: Vec<CorsRule>,
}

impl BucketSettings {
    pub(crate) fn blob_bytes_max(&self) -> u64 {
        self.max_blob_bytes.unwrap_or(BLOB_BYTES_MAX)
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<(), BucketError> {
        if self.max_blob_bytes.is_some_and(|it| !(1..=BLOB_BYTES_MAX).contains(&it)) {
            let rule = format!("must be 1 to {BLOB_BYTES_MAX}");
            return Err(BucketError::Argument { field: "maxBlobBytes", rule });
        }
        cors::check(&self.cors)
    }
}

/// A rule that deletes old blobs and uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LifecycleRule {
    /// Its id in the bucket.
    pub id: String,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Age at which blobs are deleted.
    pub delete_after_ms: Option<u64>,
    /// Age at which multipart uploads are aborted.
    pub abort_uploads_after_ms: Option<u64>,
}

impl LifecycleRule {
    pub(crate) fn delete_after(&self) -> Option<Duration> {
        self.delete_after_ms.map(Duration::from_millis)
    }

    pub(crate) fn abort_uploads_after(&self) -> Option<Duration> {
        self.abort_uploads_after_ms.map(Duration::from_millis)
    }

    fn check(&self) -> Result<(), BucketError> {
        rule::check_id(&self.id)?;
        let wrong = |field, rule: &str| Err(BucketError::Argument { field, rule: rule.into() });
        if KEY_BYTES_MAX < self.prefix.len() {
            return wrong("prefix", "must have 1,024 bytes at most");
        }
        if self.delete_after_ms.is_none() && self.abort_uploads_after_ms.is_none() {
            return wrong("deleteAfterMs", "or abortUploadsAfterMs is required");
        }
        const CENTURY: u64 = 100 * 366 * 24 * 60 * 60 * 1_000;
        for (field, value) in [
            ("deleteAfterMs", self.delete_after_ms),
            ("abortUploadsAfterMs", self.abort_uploads_after_ms),
        ] {
            if value.is_some_and(|it| !(1_000..=CENTURY).contains(&it)) {
                return wrong(field, "must be between 1 second and 100 years");
            }
        }
        Ok(())
    }
}

/// Adds a lifecycle rule, or replaces the rule with its id.
pub(crate) fn put_lifecycle(
    rules: &mut Vec<LifecycleRule>,
    rule: LifecycleRule,
) -> Result<(), BucketError> {
    rule.check()?;
    const RULES_MAX: usize = 100;
    rules.retain(|it| it.id != rule.id);
    if RULES_MAX <= rules.len() {
        let rule = format!("exceeds the limit of {RULES_MAX} rules");
        return Err(BucketError::Argument { field: "id", rule });
    }
    rules.push(rule);
    rules.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(())
}
