//! Counts what organizations use, in the commits that change it.
//!
//! The counters are changed by differences with a limit, so commits of one organization do not
//! reject each other, and the store refuses the one that would pass a limit.

use std::{collections::HashMap, sync::Arc};

use steadfast_store::{
    Commit, Count, EntryKey, EntryRange, Expect, Receipt, Record, Rejection, Write,
};
use tokio::sync::OwnedRwLockReadGuard;

use crate::{
    BlobKey, BucketError,
    buckets::{Shared, removal},
    content::ContentId,
    quota::{
        KnownQuotas, QUOTAS, QuotaRow, Room, USAGE, Usage, UsageChange, counter_of, entry_of,
        organization_of, sum_of, version_entry,
    },
};

/// Quotas per read.
const PAGE: usize = 1_000;

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
        let (mut organizations, mut range) = (HashMap::new(), EntryRange::prefix(b""));
        loop {
            let page = self.store.entries(QUOTAS, range.clone(), PAGE).await?;
            let last = page.last().filter(|_| page.len() == PAGE);
            let next = last.map(|it| range.clone().after(it.entry.key()));
            for entry in page {
                let organization = String::from_utf8_lossy(entry.entry.key()).into_owned();
                organizations.insert(organization, entry);
            }
            match next {
                Some(next) => range = next,
                None => break,
            }
        }
        let known = Arc::new(KnownQuotas { version, organizations });
        self.quotas.learn((), known.clone(), forgotten);
        Ok(known)
    }

    /// The bytes and objects that are counted for an organization.
    pub(crate) async fn stored_usage(&self, organization: &str) -> Result<Usage, BucketError> {
        let (mut usage, prefix) = (Usage::default(), format!("{organization}/"));
        let range = EntryRange::prefix(prefix.as_bytes());
        for entry in self.store.entries(USAGE, range, PAGE).await? {
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
