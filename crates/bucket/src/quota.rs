//! Quotas of organizations: their limits, and the row that counts what each organization uses.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use steadfast_store::{Entry, EntryKey, Json, StoreError};

use crate::{BlobKey, BucketError, BucketName, QuotaError};

/// The space of the rows.
pub(crate) const QUOTAS: &str = "quota";

/// Maximum length of the name of an organization in bytes.
const ORGANIZATION_MAX: usize = 100;

/// The limits of an organization; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota {
    /// Bytes of all blobs, and of the parts of unfinished uploads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Number of blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Spend per calendar month (UTC), in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<u64>,
}

/// The quota of an organization, and what it uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Quota))]
pub struct QuotaInfo {
    /// The organization.
    pub organization: String,
    /// Bytes of its blobs and unfinished uploads.
    pub bytes: QuotaUse,
    /// Number of its blobs and unfinished uploads.
    pub objects: QuotaUse,
    /// Spend of this calendar month (UTC) in millionths of a US dollar.
    pub spend_micros: QuotaUse,
    /// Whether blobs from before the quota are still being counted: until then `used` is too low.
    pub is_counting: bool,
}

/// The use of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaUse {
    /// The amount in use.
    pub used: u64,
    /// The maximum; null for no limit.
    pub limit: Option<u64>,
}

impl QuotaUse {
    /// Whether at least this many percent of the limit are used.
    pub fn reaches(&self, percent: u64) -> bool {
        let (used, percent) = (u128::from(self.used), u128::from(percent));
        self.limit.is_some_and(|limit| u128::from(limit) * percent <= used * 100)
    }
}

/// The organization that a blob belongs to: the first segment of its key.
pub(crate) fn organization_of(key: &BlobKey) -> Option<&str> {
    let (organization, _) = key.as_str().split_once('/')?;
    (!organization.is_empty()).then_some(organization)
}

/// The entry of an organization's row.
pub(crate) fn entry_of(organization: &str) -> Result<EntryKey, BucketError> {
    let is_good = (1..=ORGANIZATION_MAX).contains(&organization.len());
    if !is_good || organization.contains('/') {
        let rule = format!("must be a name of 1 to {ORGANIZATION_MAX} bytes without slashes");
        return Err(BucketError::Argument { field: "organization", rule });
    }
    Ok(EntryKey::new(QUOTAS, organization.as_bytes())?)
}

/// The entry whose revision rises when a quota is set or removed. Every change of a blob of any
/// organization expects it, so that no change is decided by an outdated list of quotas.
pub(crate) fn version_entry() -> Result<EntryKey, BucketError> {
    Ok(EntryKey::new("system", b"quotas")?)
}

/// A position in the order in which blobs and uploads are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    pub(crate) bucket: String,
    /// Uploads of a bucket come after its blobs.
    pub(crate) is_upload: bool,
    /// The key of the row in hexadecimal digits, which have the order of the bytes.
    key: String,
}

impl Place {
    pub(crate) fn new(bucket: &BucketName, is_upload: bool, key: &[u8]) -> Self {
        Self { bucket: bucket.to_string(), is_upload, key: HEXLOWER.encode(key) }
    }

    pub(crate) fn of_blob(bucket: &BucketName, key: &BlobKey) -> Self {
        Self::new(bucket, false, key.as_str().as_bytes())
    }

    pub(crate) fn of_upload(bucket: &BucketName, upload: &EntryKey) -> Self {
        Self::new(bucket, true, upload.key())
    }

    /// The key of the row.
    pub(crate) fn key(&self) -> Result<Vec<u8>, BucketError> {
        HEXLOWER.decode(self.key.as_bytes()).map_err(|error| {
            let reason = format!("cursor of a quota: {error}");
            BucketError::Store(StoreError::Corrupt { reason })
        })
    }
}

/// A difference of what an organization uses, because of a row at a place.
#[derive(Clone, Debug)]
pub(crate) struct UsageChange {
    pub(crate) place: Place,
    pub(crate) bytes: i64,
    pub(crate) objects: i64,
}

/// A size as a difference.
pub(crate) fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The row of an organization that has a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuotaRow {
    pub(crate) quota: Quota,
    pub(crate) bytes: u64,
    pub(crate) objects: u64,
    /// Rows up to here are counted; `None` if all are. A change of a row behind it is not counted,
    /// because the count has yet to read that row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counted_to: Option<Place>,
}

impl QuotaRow {
    /// A quota of an organization whose blobs are not counted yet.
    pub(crate) fn new(quota: Quota) -> Self {
        Self { quota, bytes: 0, objects: 0, counted_to: Some(Place::default()) }
    }

    /// Reads a row; `None` if the quota was removed.
    pub(crate) fn read(entry: &Entry) -> Result<Option<Self>, BucketError> {
        let Some(value) = &entry.value else { return Ok(None) };
        serde_json::from_str(value.as_str()).map(Some).map_err(|error| {
            let reason = format!("entry {:?} is not a quota: {error}", entry.entry);
            BucketError::Store(StoreError::Corrupt { reason })
        })
    }

    pub(crate) fn json(&self) -> Result<Json, BucketError> {
        Ok(Json::of(self)?)
    }

    /// Whether changes of this row are counted now.
    fn has_counted(&self, place: &Place) -> bool {
        self.counted_to.as_ref().is_none_or(|it| place <= it)
    }

    /// The row after these changes.
    pub(crate) fn after(&self, changes: &[UsageChange]) -> Self {
        let mut next = self.clone();
        for change in changes.iter().filter(|it| self.has_counted(&it.place)) {
            next.bytes = next.bytes.saturating_add_signed(change.bytes);
            next.objects = next.objects.saturating_add_signed(change.objects);
        }
        next
    }

    /// Refuses changes that need more than is left. Less is always allowed, so that an organization
    /// that is over its quota can delete. `size` is that of the blob or part.
    pub(crate) fn check(
        &self,
        organization: &str,
        changes: &[UsageChange],
        size: u64,
    ) -> Result<(), QuotaError> {
        let organization = || organization.to_owned();
        let bytes: i64 = changes.iter().map(|it| it.bytes).sum();
        let objects: i64 = changes.iter().map(|it| it.objects).sum();
        if let Some(limit) = self.quota.bytes
            && 0 < bytes
            && limit < self.bytes.saturating_add_signed(bytes)
        {
            if limit < size {
                return Err(QuotaError::TooLarge { organization: organization(), size, limit });
            }
            let (used, added) = (self.bytes, bytes.unsigned_abs());
            return Err(QuotaError::Bytes { organization: organization(), used, added, limit });
        }
        if let Some(limit) = self.quota.objects
            && 0 < objects
            && limit < self.objects.saturating_add_signed(objects)
        {
            let used = self.objects;
            return Err(QuotaError::Objects { organization: organization(), used, limit });
        }
        Ok(())
    }
}

/// Space for new content of a key, as it was when its writer began. It refuses a body early; the
/// commit decides.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) organization: String,
    pub(crate) row: QuotaRow,
    place: Place,
    /// Size of the content that is replaced.
    before: u64,
}

impl Room {
    pub(crate) fn new(organization: String, row: QuotaRow, place: Place, before: u64) -> Self {
        Self { organization, row, place, before }
    }

    /// Refuses content of this size if there is no space for it.
    pub(crate) fn check(&self, size: u64, objects: i64) -> Result<(), QuotaError> {
        let bytes = signed(size).saturating_sub(signed(self.before));
        let change = UsageChange { place: self.place.clone(), bytes, objects };
        self.row.check(&self.organization, &[change], size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: u64, objects: u64) -> QuotaRow {
        let quota = Quota { bytes: Some(100), objects: Some(2), spend: None };
        QuotaRow { quota, bytes, objects, counted_to: None }
    }

    fn change(bytes: i64, objects: i64) -> Vec<UsageChange> {
        vec![UsageChange { place: Place::default(), bytes, objects }]
    }

    #[test]
    fn a_limit_is_reached_at_its_percentage() {
        let of = |used, limit| QuotaUse { used, limit: Some(limit) }.reaches(90);
        assert_eq!((of(89, 100), of(90, 100), of(0, 0)), (false, true, true));
        assert!(of(u64::MAX, u64::MAX));
        assert!(!QuotaUse { used: 9, limit: None }.reaches(90));
    }

    #[test]
    fn exactly_full_is_allowed_and_one_more_is_not() {
        assert_eq!(row(60, 1).check("acme", &change(40, 1), 40), Ok(()));
        let refused = row(60, 1).check("acme", &change(41, 1), 41).unwrap_err();
        assert!(matches!(refused, QuotaError::Bytes { used: 60, added: 41, limit: 100, .. }));
        let refused = row(0, 2).check("acme", &change(1, 1), 1).unwrap_err();
        assert!(matches!(refused, QuotaError::Objects { used: 2, limit: 2, .. }));
        let refused = row(60, 1).check("acme", &change(101, 1), 101).unwrap_err();
        assert!(matches!(refused, QuotaError::TooLarge { size: 101, limit: 100, .. }));
    }

    #[test]
    fn an_organization_over_its_quota_may_use_less() {
        for less in [change(-1, 0), change(0, 0), change(-500, -1)] {
            assert_eq!(row(1_000, 9).check("acme", &less, 600), Ok(()));
        }
    }

    #[test]
    fn places_have_the_order_of_buckets_blobs_uploads_and_bytes() {
        let (a, b) = (BucketName::new("aaa").unwrap(), BucketName::new("bbb").unwrap());
        let places = [
            Place::default(),
            Place::new(&a, false, b""),
            Place::new(&a, false, b"acme/"),
            Place::new(&a, false, b"acme/\x01"),
            Place::new(&a, false, b"acme/\xff"),
            Place::new(&a, true, b""),
            Place::new(&a, true, b"acme/"),
            Place::new(&b, false, b""),
        ];
        assert!(places.is_sorted());
        assert_eq!(places[4].key().unwrap(), b"acme/\xff");
    }

    #[test]
    fn a_key_belongs_to_its_first_segment() {
        let of = |key: &str| organization_of(&BlobKey::new(key).unwrap()).map(str::to_owned);
        assert_eq!(of("acme/a/b").as_deref(), Some("acme"));
        assert_eq!(of("acme/").as_deref(), Some("acme"));
        assert_eq!((of("acme"), of("/acme/a")), (None, None));
    }
}
