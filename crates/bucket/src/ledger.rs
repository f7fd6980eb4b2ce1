//! The usage of organizations in memory: commits that count follow each other without waiting for
//! the disk.
//!
//! Every commit that counts expects the revision of the row that the one before it writes. Commits
//! in flight therefore form a chain: if one is rejected, so are all behind it. The row is read
//! again when none of them is in flight.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use steadfast_store::{Commit, EntryKey, Outcome, Store, StoreError};
use tokio::sync::{self, OwnedMutexGuard, OwnedRwLockReadGuard, oneshot};

use crate::{BucketError, quota::QuotaRow};

/// Organizations that have a quota.
#[derive(Debug, Default)]
pub(crate) struct KnownQuotas {
    /// Revision of the entry that changes with the list.
    pub(crate) version: i64,
    pub(crate) organizations: HashSet<String>,
}

/// Cache of the list of quotas, and the ledgers of organizations.
#[derive(Default)]
pub(crate) struct Ledgers {
    known: RwLock<Cache>,
    /// An organization keeps its ledger, so that its commits in flight are known.
    ledgers: Mutex<HashMap<String, Arc<Ledger>>>,
}

#[derive(Default)]
struct Cache {
    known: Option<Arc<KnownQuotas>>,
    /// Number of invalidations. A list that was read before an invalidation is not cached after it.
    forgotten: u64,
}

impl Ledgers {
    /// Returns the cached list, or else the number to pass to [`Ledgers::learn`].
    pub(crate) fn find(&self) -> Result<Arc<KnownQuotas>, u64> {
        let cache = self.known.read();
        cache.known.clone().ok_or(cache.forgotten)
    }

    pub(crate) fn learn(&self, known: &Arc<KnownQuotas>, forgotten: u64) {
        let mut cache = self.known.write();
        if cache.forgotten == forgotten {
            cache.known = Some(known.clone());
        }
    }

    pub(crate) fn forget(&self) {
        let mut cache = self.known.write();
        cache.known = None;
        cache.forgotten += 1;
    }

    pub(crate) fn of(&self, organization: &str) -> Arc<Ledger> {
        let mut ledgers = self.ledgers.lock();
        if let Some(ledger) = ledgers.get(organization) {
            return ledger.clone();
        }
        let ledger = Arc::new(Ledger::default());
        ledgers.insert(organization.into(), ledger.clone());
        ledger
    }
}

/// The usage of one organization.
#[derive(Default)]
pub(crate) struct Ledger {
    /// The row after all commits in flight; `None` if it must be read.
    last: Arc<sync::Mutex<Option<(i64, QuotaRow)>>>,
    /// Each commit in flight holds it for reading.
    flights: Arc<sync::RwLock<()>>,
    /// A commit in flight was not applied: `last` is wrong.
    is_broken: AtomicBool,
}

impl Ledger {
    /// Waits until no other commit of the organization is being built, and with `alone` until none
    /// is in flight: what the caller reads then is complete. Returns `None` if the organization has
    /// no quota any more.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        store: &dyn Store,
        entry: &EntryKey,
        alone: bool,
    ) -> Result<Option<Reservation>, BucketError> {
        let mut last = self.last.clone().lock_owned().await;
        if alone || last.is_none() || self.is_broken.load(Ordering::Acquire) {
            let _quiet = self.flights.write().await;
            if self.is_broken.swap(false, Ordering::AcqRel) {
                *last = None;
            }
            if last.is_none() {
                let found = store.entry(entry).await?;
                *last = match &found {
                    Some(found) => QuotaRow::read(found)?.map(|row| (found.revision, row)),
                    None => None,
                };
            }
        }
        let Some((revision, row)) = last.clone() else { return Ok(None) };
        Ok(Some(Reservation { ledger: self.clone(), last, revision, row }))
    }

    /// Excludes all other commits of the organization, while its quota is set or removed.
    pub(crate) async fn hold(&self) -> OwnedMutexGuard<Option<(i64, QuotaRow)>> {
        let mut last = self.last.clone().lock_owned().await;
        let _quiet = self.flights.write().await;
        *last = None;
        last
    }
}

/// The exclusive right to submit the next commit of an organization.
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    last: OwnedMutexGuard<Option<(i64, QuotaRow)>>,
    pub(crate) revision: i64,
    pub(crate) row: QuotaRow,
}

impl Reservation {
    /// Submits a commit that expects the revision and writes this row. The next commit of the
    /// organization may be submitted before this one is durable.
    pub(crate) async fn commit(
        mut self,
        store: &dyn Store,
        commit: Commit,
        next: QuotaRow,
    ) -> Result<Outcome, StoreError> {
        let _held = self.ledger.flights.clone().read_owned().await;
        let mut flight = InFlight { ledger: self.ledger, _held, is_committed: false };
        let (answer, answered) = oneshot::channel();
        // Ignore a caller that was dropped.
        store.submit(commit, Box::new(|result| _ = answer.send(result)));
        *self.last = Some((self.revision + 1, next));
        drop(self.last);
        let outcome = answered.await.unwrap_or(Err(StoreError::Closed));
        flight.is_committed = matches!(outcome, Ok(Outcome::Committed(_)));
        outcome
    }
}

/// A commit in flight.
struct InFlight {
    ledger: Arc<Ledger>,
    _held: OwnedRwLockReadGuard<()>,
    is_committed: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.is_committed {
            self.ledger.is_broken.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_quotas_that_was_read_before_a_change_is_not_kept() {
        let (ledgers, list) = (Ledgers::default(), Arc::new(KnownQuotas::default()));
        let before = ledgers.find().expect_err("nothing is known");
        ledgers.forget();
        ledgers.learn(&list, before);
        let now = ledgers.find().expect_err("the list is outdated");
        ledgers.learn(&list, now);
        assert!(ledgers.find().is_ok());
    }
}
