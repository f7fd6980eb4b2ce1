//! Counts what organizations use, in the commits that change it.

use std::{collections::HashSet, sync::Arc};

use steadfast_store::{Commit, EntryRange, Expect, Outcome, Put, Receipt, Rejection, Write};

use crate::{
    BlobKey, BucketError,
    buckets::Shared,
    ledger::{KnownQuotas, Reservation},
    quota::{Place, QUOTAS, QuotaRow, Room, UsageChange, entry_of, organization_of, version_entry},
};

/// Quotas per read.
const PAGE: usize = 1_000;

/// Counts the changes of one commit.
pub(crate) struct UsageCounter {
    /// The version of the list of quotas; `None` if the key belongs to no organization.
    version: Option<i64>,
    /// The organization, if it has a quota.
    reserved: Option<(String, Reservation)>,
    /// Whether no other commit of the organization is in flight.
    is_alone: bool,
}

impl Shared {
    /// The organizations that have a quota.
    pub(crate) async fn known_quotas(&self) -> Result<Arc<KnownQuotas>, BucketError> {
        let forgotten = match self.ledgers.find() {
            Ok(known) => return Ok(known),
            Err(forgotten) => forgotten,
        };
        // The version first: commits that expect it fail if the list changed while it was read.
        let version = self.store.entry(&version_entry()?).await?.map_or(0, |it| it.revision);
        let (mut organizations, mut range) = (HashSet::new(), EntryRange::prefix(b""));
        loop {
            let page = self.store.entries(QUOTAS, range.clone(), PAGE).await?;
            for entry in page.iter().filter(|it| it.value.is_some()) {
                organizations.insert(String::from_utf8_lossy(entry.entry.key()).into_owned());
            }
            match page.last() {
                Some(last) if page.len() == PAGE => range = range.after(last.entry.key()),
                Some(_) | None => break,
            }
        }
        let known = Arc::new(KnownQuotas { version, organizations });
        self.ledgers.learn(&known, forgotten);
        Ok(known)
    }

    /// The right to submit the next commit of an organization; `None` if it has no quota.
    pub(crate) async fn reserve(
        &self,
        organization: &str,
        alone: bool,
    ) -> Result<(i64, Option<Reservation>), BucketError> {
        loop {
            let known = self.known_quotas().await?;
            if !known.organizations.contains(organization) {
                return Ok((known.version, None));
            }
            let (ledger, entry) = (self.ledgers.of(organization), entry_of(organization)?);
            match ledger.enter(&*self.store, &entry, alone).await? {
                Some(reserved) => return Ok((known.version, Some(reserved))),
                None => self.ledgers.forget(),
            }
        }
    }

    /// Begins to count a commit that changes a key. `alone` waits for all earlier commits of the
    /// organization, for a caller that reads what they write.
    pub(crate) async fn usage_counter(
        &self,
        key: &BlobKey,
        alone: bool,
    ) -> Result<UsageCounter, BucketError> {
        let Some(organization) = organization_of(key) else {
            return Ok(UsageCounter { version: None, reserved: None, is_alone: alone });
        };
        let (version, reserved) = self.reserve(organization, alone).await?;
        let reserved = reserved.map(|it| (organization.to_owned(), it));
        Ok(UsageCounter { version: Some(version), reserved, is_alone: alone })
    }

    /// The space that an organization has left for the content at a place. `before` is the size of
    /// the content that is replaced.
    pub(crate) async fn room(
        &self,
        key: &BlobKey,
        place: Place,
        before: impl Future<Output = Result<Option<u64>, BucketError>>,
    ) -> Result<Option<Room>, BucketError> {
        let Some(organization) = organization_of(key) else { return Ok(None) };
        let Some(reserved) = self.reserve(organization, false).await?.1 else { return Ok(None) };
        let row = reserved.row.clone();
        drop(reserved);
        let before = before.await?;
        let objects = i64::from(before.is_none() && !place.is_upload);
        let room = Room::new(organization.into(), row, place, before.unwrap_or_default());
        let mut room = Some(room);
        self.check_room(&mut room, 0, objects).await?;
        Ok(room)
    }

    /// Refuses content of this size if there is no space for it.
    pub(crate) async fn check_room(
        &self,
        room: &mut Option<Room>,
        size: u64,
        objects: i64,
    ) -> Result<(), BucketError> {
        let Some(old) = room else { return Ok(()) };
        if old.check(size, objects).is_ok() {
            return Ok(());
        }
        // Commits that were in flight may have been rejected, and others may have deleted blobs.
        let Some(reserved) = self.reserve(&old.organization, true).await?.1 else {
            *room = None;
            return Ok(());
        };
        old.row = reserved.row.clone();
        Ok(old.check(size, objects)?)
    }

    /// Expects that no quota was set or removed since the list was read.
    pub(crate) fn expect_version(version: i64) -> Result<Expect, BucketError> {
        Ok(Expect::Revision { entry: version_entry()?, revision: version })
    }
}

impl UsageCounter {
    /// Whether the organization has a quota: its changes must be passed to `commit`.
    pub(crate) fn has_quota(&self) -> bool {
        self.reserved.is_some()
    }

    /// Commits, and counts these changes with it; or refuses them because of the quota. `size` is
    /// that of the new blob or part.
    pub(crate) async fn commit(
        mut self,
        shared: &Shared,
        mut commit: Commit,
        changes: &[UsageChange],
        size: u64,
    ) -> Result<Result<Receipt, Rejection>, BucketError> {
        if let Some((organization, reserved)) = self.reserved.take() {
            match reserved.row.check(&organization, changes, size) {
                Ok(()) => self.reserved = Some((organization, reserved)),
                Err(error) if self.is_alone => return Err(error.into()),
                Err(_) => {
                    // A commit in flight may yet be rejected: decide by what is durable.
                    drop(reserved);
                    let (version, reserved) = shared.reserve(&organization, true).await?;
                    self.version = Some(version);
                    if let Some(reserved) = reserved {
                        reserved.row.check(&organization, changes, size)?;
                        self.reserved = Some((organization, reserved));
                    }
                }
            }
        }
        if let Some(version) = self.version {
            commit = commit.expect(Shared::expect_version(version)?);
        }
        let decided = match self.reserved {
            None => shared.commit(commit).await,
            Some((organization, reserved)) => {
                let next = reserved.row.after(changes);
                let is_same = next == reserved.row && next.counted_to.is_none();
                // A caller that is alone must be the next one: it has read rows of others.
                if is_same && !self.is_alone {
                    drop(reserved);
                    shared.commit(commit).await
                } else {
                    // While the count runs, the row is written even if it stays the same:
                    // a page that was read before this change must not be added after it.
                    commit_reserved(shared, &organization, reserved, commit, next).await
                }
            }
        };
        if let Ok(Err(Rejection::Revision { entry, .. })) = &decided
            && *entry == version_entry()?
        {
            shared.ledgers.forget();
        }
        decided
    }
}

/// Commits together with the next row of an organization.
pub(crate) async fn commit_reserved(
    shared: &Shared,
    organization: &str,
    reserved: Reservation,
    commit: Commit,
    next: QuotaRow,
) -> Result<Result<Receipt, Rejection>, BucketError> {
    let entry = entry_of(organization)?;
    let expect = Expect::Revision { entry: entry.clone(), revision: reserved.revision };
    let put = Put { entry, value: Some(next.json()?), reference: None, expires: None };
    let commit = commit.expect(expect).write(Write::Put(put));
    match reserved.commit(&*shared.store, commit, next).await? {
        Outcome::Committed(receipt) => Ok(Ok(receipt)),
        Outcome::Rejected(rejection) => Ok(Err(rejection)),
        Outcome::Duplicate(before) => Err(BucketError::repeated(&before)),
    }
}
