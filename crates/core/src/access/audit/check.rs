//! Checks of the audit log: whether records were changed, removed or written without the seal key.

use steadfast_store::{Commit, Expect, StoreError, Timestamp, Write};

use super::{
    Audit, AuditRecord, PURPOSE,
    record::{Head, KEPT, head_key, key, parse, put_head, read},
};

/// Records that a check reads at a time.
pub(super) const PAGE: usize = 1_000;

impl Audit {
    /// Checks this number of records, the newest first: the first one that does not have the hash
    /// of the one before it, or the newest one if the head has another one, or none. Records that
    /// this process adds meanwhile may be checked as well.
    #[steadfast_store::boxed]
    pub async fn broken(&self, limit: usize) -> Result<Option<i64>, StoreError> {
        // The head first: records that are added meanwhile are newer.
        let Some(head) = self.head().await? else {
            // A commit that writes a record writes the head as well.
            let newest = self.list(None, 1).await?.pop();
            let is_missing = self.head().await?.is_none();
            return Ok(newest.filter(|_| is_missing).map(|it| it.number));
        };
        let Some(sealed) = self.sealed(&head) else { return Ok(Some(head.number)) };
        let (sealed_number, sealed_hash) = (sealed.number, sealed.hash.clone());
        let now = self.store.clock().now();
        let (head_number, mut left) = (head.number, limit);
        let (mut expected, mut newer) = (Some(head), None::<AuditRecord>);
        loop {
            let count = left.min(PAGE);
            let records = self.list(newer.as_ref().map(|it| it.number), count).await?;
            let is_end = records.len() < count;
            left -= records.len();
            for it in records {
                // Behind the newest head with a code, records say that they have none.
                let is_next = it.number == sealed_number.saturating_add(1);
                let is_behind = sealed_number < it.number && it.number <= head_number;
                let is_wrong = !it.is_unsealed || (is_next && it.previous != sealed_hash);
                if is_behind && is_wrong {
                    return Ok(Some(it.number));
                }
                if let Some(newer) = newer.filter(|newer| !newer.follows(&it)) {
                    return Ok(Some(newer.number));
                }
                if let Some(head) = expected.take_if(|head| it.number <= head.number)
                    && (it.number, &it.hash) != (head.number, &head.hash)
                {
                    return Ok(Some(head.number));
                }
                newer = Some(it);
            }
            if is_end {
                // A head lasts a little longer than its record.
                let lost = expected.filter(|it| now < Timestamp(it.at).after(KEPT));
                let oldest = newer.filter(|it| !it.can_be_oldest(now));
                return Ok(lost.map(|it| it.number).or(oldest.map(|it| it.number)));
            }
            if left == 0 {
                return Ok(None);
            }
        }
    }

    /// The oldest and the newest of this number of records that were written without the seal key,
    /// the newest ones first.
    #[steadfast_store::boxed]
    pub async fn unsealed(&self, limit: usize) -> Result<Option<(i64, i64)>, StoreError> {
        let (mut found, mut before, mut left) = (None, None, limit);
        loop {
            let count = left.min(PAGE);
            let records = self.list(before, count).await?;
            for it in records.iter().filter(|it| it.is_unsealed) {
                let (_, newest) = found.unwrap_or((it.number, it.number));
                found = Some((it.number, newest));
            }
            left -= records.len();
            before = records.last().map(|it| it.number);
            if records.len() < count || left == 0 {
                return Ok(found);
            }
        }
    }

    /// Whether the log has the record of a head that was copied. A record that has expired need not
    /// be there.
    #[steadfast_store::boxed]
    pub async fn has(&self, head: &str) -> Result<bool, StoreError> {
        let head: Head = parse(head)?;
        if Timestamp(head.at).after(KEPT) <= self.store.clock().now() {
            return Ok(true);
        }
        let found = self.store.entry(&key(head.number)?).await?;
        let found = found.as_ref().map(read).transpose()?.flatten();
        Ok(found.is_some_and(|it| it.hash == head.hash))
    }

    /// Authenticates the head with the current key, if an earlier one has authenticated it, or if
    /// the records since then were written without a key.
    pub(crate) async fn seal_head(&self) -> Result<(), StoreError> {
        let Some(found) = self.store.entry(&head_key()?).await? else { return Ok(()) };
        // A damaged head does not prevent the start; checks report it.
        let head = found.value.as_ref().and_then(|it| parse::<Head>(it.as_str()).ok());
        let Some(mut head) = head else { return Ok(()) };
        let mac = self.seal.mac(PURPOSE, &head.text()).ok();
        if mac == head.mac || !(self.wrote(&head) || self.continues(&head).await?) {
            return Ok(());
        }
        (head.mac, head.sealed) = (mac, None);
        let expect = Expect::Revision { entry: head_key()?, revision: found.revision };
        // A process that was faster has written a newer head.
        match self.store.commit(Commit::of(Write::Put(put_head(&head)?)).expect(expect)).await {
            // A full disk does not prevent the start: the next one does it.
            Ok(_) | Err(StoreError::DiskFull) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The newest head with a code of this program: the head, or the one before records that were
    /// written without the seal key.
    fn sealed<'a>(&self, head: &'a Head) -> Option<&'a Head> {
        let before = head.sealed.as_deref().filter(|it| it.number < head.number);
        [Some(head), before].into_iter().flatten().find(|it| self.wrote(it))
    }

    /// Whether all records between the newest head with a code and this one were written without
    /// the seal key, and follow each other.
    pub(super) async fn continues(&self, head: &Head) -> Result<bool, StoreError> {
        if self.sealed(head).is_none() {
            return Ok(false);
        }
        match self.broken(usize::MAX).await {
            Ok(broken) => Ok(broken.is_none()),
            // Checks report it.
            Err(StoreError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
