//! Quotas of organizations: their limits, and the counters of what each organization uses.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use steadfast_store::{Count, Entry, EntryKey, StoreError, Write};

use crate::{BlobKey, BucketError, BucketName, QuotaError};

/// The space of the rows.
pub(crate) const QUOTAS: &str = "quota";

/// The space of the counters.
pub(crate) const USAGE: &str = "usage";

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

/// The counted use of an organization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes of its blobs, and of the parts of its unfinished uploads.
    pub(crate) bytes: u64,
    /// Number of its blobs and unfinished uploads.
    pub(crate) objects: u64,
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

/// A counter of an organization that has a quota: `bytes`, `objects`, or `changes` while a count
/// runs.
pub(crate) fn counter_of(organization: &str, name: &str) -> Result<EntryKey, BucketError> {
    Ok(EntryKey::new(USAGE, format!("{organization}/{name}").as_bytes())?)
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

/// The organizations that have a quota.
#[derive(Debug, Default)]
pub(crate) struct KnownQuotas {
    /// Revision of the entry that changes with the list.
    pub(crate) version: i64,
    /// Their rows. A damaged one fails the changes of its organization only.
    pub(crate) organizations: HashMap<String, Entry>,
}

impl KnownQuotas {
    /// The row of an organization; `None` if it has no quota.
    pub(crate) fn row(&self, organization: &str) -> Result<Option<QuotaRow>, BucketError> {
        match self.organizations.get(organization) {
            Some(entry) => Ok(entry.parse()?),
            None => Ok(None),
        }
    }
}

/// The row of an organization that has a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuotaRow {
    pub(crate) quota: Quota,
    /// Rows up to here are counted; `None` if all are. A change of a row behind it is not counted,
    /// because the count has yet to read that row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counted_to: Option<Place>,
}

impl QuotaRow {
    /// Whether changes of this row are counted now.
    fn has_counted(&self, place: &Place) -> bool {
        self.counted_to.as_ref().is_none_or(|it| place <= it)
    }

    /// The writes that count changes, and that need as much room as the changes do. Less is always
    /// allowed, so that an organization that is over its quota can delete.
    pub(crate) fn count(
        &self,
        organization: &str,
        changes: &[UsageChange],
    ) -> Result<Vec<Write>, BucketError> {
        let all = sum_of(changes.iter());
        let counted = sum_of(changes.iter().filter(|it| self.has_counted(&it.place)));
        let mut writes = Vec::new();
        for (name, limit, all, counted) in [
            ("bytes", self.quota.bytes, all.0, counted.0),
            ("objects", self.quota.objects, all.1, counted.1),
        ] {
            let (entry, max) = (counter_of(organization, name)?, limit.filter(|_| 0 < all));
            let max = max.map(signed);
            let mut add = |delta, max| {
                if delta != 0 {
                    let count = Count { max, ..Count::of(entry.clone(), delta) };
                    writes.push(Write::Count(count));
                }
            };
            if max.is_some() && all != counted {
                // The count finds the row later, but its content needs room now.
                add(all, max);
                add(counted - all, None);
            } else {
                add(counted, max);
            }
        }
        Ok(writes)
    }
}

/// The bytes and objects of changes.
pub(crate) fn sum_of<'a>(changes: impl Iterator<Item = &'a UsageChange>) -> (i64, i64) {
    changes.fold((0, 0), |sum, it| (sum.0 + it.bytes, sum.1 + it.objects))
}

impl Quota {
    /// Refuses changes that need more than is left. Less is always allowed. `size` is that of the
    /// blob or part.
    pub(crate) fn check(
        &self,
        organization: &str,
        usage: Usage,
        (bytes, objects): (i64, i64),
        size: u64,
    ) -> Result<(), QuotaError> {
        let organization = || organization.to_owned();
        if let Some(limit) = self.bytes
            && 0 < bytes
            && limit < usage.bytes.saturating_add_signed(bytes)
        {
            if limit < size {
                return Err(QuotaError::TooLarge { organization: organization(), size, limit });
            }
            let (used, added) = (usage.bytes, bytes.unsigned_abs());
            return Err(QuotaError::Bytes { organization: organization(), used, added, limit });
        }
        if let Some(limit) = self.objects
            && 0 < objects
            && limit < usage.objects.saturating_add_signed(objects)
        {
            let used = usage.objects;
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
    pub(crate) quota: Quota,
    pub(crate) usage: Usage,
    /// Size of the content that is replaced.
    pub(crate) before: u64,
}

impl Room {
    /// Refuses content of this size if there is no space for it.
    pub(crate) fn check(&self, size: u64, objects: i64) -> Result<(), QuotaError> {
        let bytes = signed(size).saturating_sub(signed(self.before));
        self.quota.check(&self.organization, self.usage, (bytes, objects), size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota = Quota { bytes: Some(100), objects: Some(2), spend: None };

    fn check(
        (bytes, objects): (u64, u64),
        change: (i64, i64),
        size: u64,
    ) -> Result<(), QuotaError> {
        QUOTA.check("acme", Usage { bytes, objects }, change, size)
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
        assert_eq!(check((60, 1), (40, 1), 40), Ok(()));
        let refused = check((60, 1), (41, 1), 41).unwrap_err();
        assert!(matches!(refused, QuotaError::Bytes { used: 60, added: 41, limit: 100, .. }));
        let refused = check((0, 2), (1, 1), 1).unwrap_err();
        assert!(matches!(refused, QuotaError::Objects { used: 2, limit: 2, .. }));
        let refused = check((60, 1), (101, 1), 101).unwrap_err();
        assert!(matches!(refused, QuotaError::TooLarge { size: 101, limit: 100, .. }));
    }

    #[test]
    fn an_organization_over_its_quota_may_use_less() {
        for less in [(-1, 0), (0, 0), (-500, -1)] {
            assert_eq!(check((1_000, 9), less, 600), Ok(()));
        }
    }

    #[test]
    fn a_change_behind_the_count_needs_room_and_is_not_counted() {
        let name = BucketName::new("aaa").unwrap();
        let (first, last) = (Place::new(&name, false, b"acme/a"), Place::new(&name, false, b"b"));
        let change = |place: &Place, bytes| UsageChange { place: place.clone(), bytes, objects: 0 };
        let counts = |counted_to: Option<&Place>, changes: &[UsageChange]| -> Vec<_> {
            let row = QuotaRow { quota: QUOTA, counted_to: counted_to.cloned() };
            let writes = row.count("acme", changes).unwrap().into_iter();
            let count = |write| {
                let Write::Count(it) = write else { return None };
                Some((it.delta, it.max))
            };
            writes.filter_map(count).collect()
        };
        assert_eq!(counts(None, &[change(&first, 7)]), [(7, Some(100))]);
        assert_eq!(counts(None, &[change(&first, -7)]), [(-7, None)]);
        assert_eq!(counts(Some(&first), &[change(&first, 7)]), [(7, Some(100))]);
        assert_eq!(counts(Some(&first), &[change(&last, 7)]), [(7, Some(100)), (-7, None)]);
        assert_eq!(counts(Some(&first), &[change(&last, -7)]), []);
        // Parts become a blob: only the difference needs room.
        let both = [change(&first, 7), change(&last, -5)];
        assert_eq!(counts(None, &both), [(2, Some(100))]);
        assert_eq!(counts(Some(&first), &both), [(2, Some(100)), (5, None)]);
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
