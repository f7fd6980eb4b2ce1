//! Counts what organizations use, in the commits that change it, and what they spend per calendar
//! month, in millionths of a US dollar.
//!
//! The counters are changed by differences with a limit, so commits of one organization do not
//! reject each other, and the store refuses the one that would pass a limit.

use std::{collections::HashMap, sync::Arc, time::Duration};

use steadfast_store::{
    Address, Commit, Count, DateTime, EntityKind, EntryKey, Expect, Outcome, Receipt, Record,
    Rejection, Remember, StoreError, Timestamp, Write,
};
use tokio::sync::OwnedRwLockReadGuard;

use crate::{
    BlobKey, BucketError, Buckets, QuotaError,
    buckets::{Shared, removal},
    content::ContentId,
    quota::{
        KnownQuotas, QUOTAS, QuotaRow, Room, USAGE, Usage, UsageChange, counter_of, entry_of,
        organization_of, signed, sum_of, version_entry,
    },
};

/// Counts the changes of one commit.
pub(crate) struct UsageCounter {
    /// The version of the list of quotas; `None` if the key belongs to no organization.
    version: Option<i64>,
    /// The organization, if it has a quota.
    quota: Option<CountedQuota>,
}

struct CountedQuota {
    organization: String,
    row: QuotaRow,
    /// The revision of the row.
    revision: i64,
    /// Held if a count runs: its pages and changes exclude each other.
    _counting: Option<OwnedRwLockReadGuard<()>>,
}

impl Shared {
    /// The organizations that have a quota.
    pub(crate) async fn known_quotas(&self) -> Result<Arc<KnownQuotas>, BucketError> {
        let forgotten = match self.quotas.find(&()) {
            Ok(known) => return Ok(known),
            Err(forgotten) => forgotten,
        };
        // The version first: commits that expect it fail if the list changed while it was read.
        let version = self.store.entry(&version_entry()?).await?.map_or(0, |it| it.revision);
        let (mut organizations, mut pages) = (HashMap::new(), self.pages(QUOTAS.into(), b""));
        while let Some(page) = pages.next().await? {
            for entry in page {
                let organization = String::from_utf8_lossy(entry.entry.key()).into_owned();
                organizations.insert(organization, entry);
            }
        }
        let known = Arc::new(KnownQuotas { version, organizations });
        self.quotas.learn((), known.clone(), forgotten);
        Ok(known)
    }

    /// The bytes and objects that are counted for an organization.
    pub(crate) async fn stored_usage(&self, organization: &str) -> Result<Usage, BucketError> {
        let (mut usage, prefix) = (Usage::default(), format!("{organization}/"));
        for entry in self.page(USAGE, prefix.as_bytes(), b"").await? {
            let number = u64::try_from(entry.parse::<i64>()?.unwrap_or(0)).unwrap_or(0);
            match entry.entry.key().strip_prefix(prefix.as_bytes()) {
                Some(b"bytes") => usage.bytes = number,
                Some(b"objects") => usage.objects = number,
                Some(_) | None => {}
            }
        }
        Ok(usage)
    }

    /// Begins to count a commit that changes a key.
    pub(crate) async fn usage_counter(&self, key: &BlobKey) -> Result<UsageCounter, BucketError> {
        let Some(organization) = organization_of(key) else {
            return Ok(UsageCounter { version: None, quota: None });
        };
        let mut known = self.known_quotas().await?;
        let mut row = known.row(organization)?;
        let mut counting = None;
        if row.as_ref().is_some_and(|it| it.counted_to.is_some()) {
            counting = Some(self.counting.clone().read_owned().await);
            // The count may have passed the key meanwhile.
            known = self.known_quotas().await?;
            row = known.row(organization)?;
        }
        let revision = known.organizations.get(organization).map_or(0, |it| it.revision);
        let quota = row.map(|row| CountedQuota {
            organization: organization.to_owned(),
            row,
            revision,
            _counting: counting,
        });
        Ok(UsageCounter { version: Some(known.version), quota })
    }

    /// The space that an organization has left for the content at a key. `before` is the size of
    /// the content that is replaced. Content of an upload takes no further object.
    pub(crate) async fn room(
        &self,
        key: &BlobKey,
        is_upload: bool,
        before: impl Future<Output = Result<Option<u64>, BucketError>>,
    ) -> Result<Option<Room>, BucketError> {
        let Some(organization) = organization_of(key) else { return Ok(None) };
        let Some(row) = self.known_quotas().await?.row(organization)? else { return Ok(None) };
        let (usage, before) = (self.stored_usage(organization).await?, before.await?);
        let objects = i64::from(before.is_none() && !is_upload);
        let (organization, before) = (organization.to_owned(), before.unwrap_or_default());
        let room = Room { organization, quota: row.quota, usage, before };
        room.check(0, objects)?;
        Ok(Some(room))
    }

    /// Refuses content of this size if there is no space for it.
    pub(crate) async fn check_room(
        &self,
        room: &mut Option<Room>,
        size: u64,
    ) -> Result<(), BucketError> {
        let Some(old) = room else { return Ok(()) };
        if old.check(size, 0).is_ok() {
            return Ok(());
        }
        // Others may have deleted blobs, and the quota may be another one.
        let Some(row) = self.known_quotas().await?.row(&old.organization)? else {
            *room = None;
            return Ok(());
        };
        (old.quota, old.usage) = (row.quota, self.stored_usage(&old.organization).await?);
        Ok(old.check(size, 0)?)
    }

    /// Ends an upload: the bytes of its parts, and a commit that expects them and removes their
    /// counter.
    pub(crate) async fn end_parts(
        &self,
        content: ContentId,
        commit: Commit,
    ) -> Result<(i64, Commit), BucketError> {
        let parts = Record::<i64>::read(&*self.store, parts_of(content)?).await?;
        let mut commit = commit.expect(parts.expect());
        if parts.value.is_some() {
            commit.writes.extend(removal(vec![parts.entry]));
        }
        Ok((parts.value.unwrap_or(0), commit))
    }
}

/// The counter of the bytes of an upload's parts. Every part counts in it, whether the organization
/// has a quota or not, so that the end of the upload needs to read no parts.
pub(crate) fn parts_of(content: ContentId) -> Result<EntryKey, BucketError> {
    Ok(EntryKey::new("upload-bytes", &content.0)?)
}

impl UsageCounter {
    /// Commits, and counts these changes with it; or refuses them because of the quota. `size` is
    /// that of the new blob or part.
    pub(crate) async fn commit(
        self,
        shared: &Shared,
        mut commit: Commit,
        changes: &[UsageChange],
        size: u64,
    ) -> Result<Result<Receipt, Rejection>, BucketError> {
        let Some(version) = self.version else { return shared.commit(commit).await };
        commit = commit.expect(Expect::Revision { entry: version_entry()?, revision: version });
        if let Some(quota) = &self.quota {
            commit = quota.count(commit, changes)?;
        }
        let decided = shared.commit(commit).await?;
        if let (Err(Rejection::Limit { entry, count, .. }), Some(quota)) = (&decided, &self.quota) {
            quota.check(entry, *count, changes, size)?;
        }
        if let Err(Rejection::Revision { entry, .. }) = &decided
            && (*entry == version_entry()? || entry.space() == QUOTAS)
        {
            shared.quotas.forget(&());
        }
        Ok(decided)
    }
}

impl CountedQuota {
    fn count(&self, mut commit: Commit, changes: &[UsageChange]) -> Result<Commit, BucketError> {
        commit.writes.extend(self.row.count(&self.organization, changes)?);
        if self.row.counted_to.is_some() {
            // A page of the count that was read before this change must not be added after it, and
            // this change must not be decided by a position that the count has passed.
            let (entry, revision) = (entry_of(&self.organization)?, self.revision);
            let marker = Count::of(counter_of(&self.organization, "changes")?, 1);
            commit =
                commit.expect(Expect::Revision { entry, revision }).write(Write::Count(marker));
        }
        Ok(commit)
    }

    /// Why a counter with this value refuses the changes.
    fn check(
        &self,
        counter: &EntryKey,
        count: i64,
        changes: &[UsageChange],
        size: u64,
    ) -> Result<(), BucketError> {
        let used = u64::try_from(count).unwrap_or(0);
        let usage = match *counter == counter_of(&self.organization, "bytes")? {
            true => Usage { bytes: used, ..Usage::default() },
            false => Usage { objects: used, ..Usage::default() },
        };
        let change = sum_of(changes.iter());
        Ok(self.row.quota.check(&self.organization, usage, change, size)?)
    }
}

/// Retention of the row of a month.
const KEEP_MONTHS: Duration = Duration::from_hours(400 * 24);

/// Retention of the id of an expense: a caller that repeats it later is counted twice.
const KEEP_IDS: Duration = Duration::from_hours(35 * 24);

impl Buckets {
    /// Adds an expense of an organization to this month. An id counts once within 35 days: a
    /// repetition returns `false`.
    #[steadfast_store::boxed]
    pub async fn spend(
        &self,
        organization: &str,
        id: &str,
        micros: u64,
    ) -> Result<bool, BucketError> {
        entry_of(organization)?;
        let scope = Address::new(EntityKind::System, "spend", organization)?.id();
        // The first amount counts, whatever a repetition says.
        let once = Remember::new(scope, id, b"")?.keep(KEEP_IDS);
        let count = Count::of(self.month(organization)?.0, signed(micros));
        let count = Count { expires: Some(KEEP_MONTHS), ..count };
        let commit = Commit::of(Write::Count(count)).write(Write::Remember(once));
        match self.shared.store.commit(commit).await? {
            Outcome::Committed(_) => Ok(true),
            Outcome::Duplicate(_) => Ok(false),
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(BucketError::KeyReused { key }),
            // Nothing else is expected.
            Outcome::Rejected(rejection) => {
                Err(StoreError::Corrupt { reason: rejection.to_string() }.into())
            }
        }
    }

    /// The spend of an organization in this month.
    #[steadfast_store::boxed]
    pub async fn spent(&self, organization: &str) -> Result<u64, BucketError> {
        let micros = self.shared.store.counter(&self.month(organization)?.0).await?;
        Ok(u64::try_from(micros).unwrap_or(0))
    }

    /// Refuses if the organization has spent what it may spend in this month.
    #[steadfast_store::boxed]
    pub async fn check_spend(&self, organization: &str) -> Result<(), BucketError> {
        if !self.shared.known_quotas().await?.organizations.contains_key(organization) {
            return Ok(());
        }
        let row = Record::<QuotaRow>::read(&*self.shared.store, entry_of(organization)?).await?;
        let Some(limit) = row.value.and_then(|it| it.quota.spend) else { return Ok(()) };
        let used = self.spent(organization).await?;
        if used < limit {
            return Ok(());
        }
        let next = self.month(organization)?.1;
        let seconds = next.since(self.shared.clock.now()).as_secs();
        let organization = organization.into();
        Err(QuotaError::Spend { organization, used, limit, seconds }.into())
    }

    /// The entry of this month, and the begin of the next one.
    fn month(&self, organization: &str) -> Result<(EntryKey, Timestamp), BucketError> {
        let (month, next) = month_of(self.shared.clock.now())?;
        let key = format!("{organization}/{month}");
        Ok((EntryKey::new("spend", key.as_bytes())?, next))
    }
}

/// The month of a time in UTC as `2026-11`, and the begin of the next one.
fn month_of(at: Timestamp) -> Result<(String, Timestamp), BucketError> {
    let found = DateTime::of(at).and_then(|DateTime { year, month, .. }| {
        let next = DateTime::midnight(year + month / 12, month % 12 + 1, 1)?;
        Some((format!("{year:04}-{month:02}"), next))
    });
    found.ok_or_else(|| {
        let reason = "the clock is outside of the calendar".into();
        BucketError::Store(StoreError::Failed { reason })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(text: &str) -> (String, String) {
        let (month, next) = month_of(Timestamp::from_rfc3339(text).unwrap()).unwrap();
        (month, next.rfc3339())
    }

    #[test]
    fn months_are_those_of_utc() {
        let of = |month: &str, next: &str| (month.to_owned(), next.to_owned());
        assert_eq!(month("2026-11-30T23:59:59.999Z"), of("2026-11", "2026-12-01T00:00:00.000Z"));
        assert_eq!(month("2026-12-01T00:00:00Z"), of("2026-12", "2027-01-01T00:00:00.000Z"));
        assert_eq!(month("2028-02-29T12:00:00Z"), of("2028-02", "2028-03-01T00:00:00.000Z"));
    }
}
