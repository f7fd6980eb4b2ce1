//! The audit log: who did what, from where, and how it ended. Each record has the hash of the one
//! before it. The head has that of the newest one, and an authentication code with a key that is
//! not in the store. A record that was changed or removed is noticed, and a chain that was written
//! anew as well. An older head with its code is noticed by those that know a newer one. Records
//! without the key continue the chain and say so; the head keeps the newest one with a code.

mod record;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steadfast_store::{
    Commit, EntryRange, Expect, Json, Outcome, Put, Seal, Store, StoreError, Timestamp, Write,
    futures::FutureExt,
};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot, watch};

pub use self::record::{AuditEvent, AuditRecord};
use self::record::{
    Head, KEPT, SPACE, Stored, UNVERIFIED, head_key, key, key_bytes, put_head, read,
};
use super::scope::hash;
use crate::body::read_stored;

/// The purpose of the key that authenticates the head.
const PURPOSE: &str = "audit";

/// Records of one commit at most.
const BATCH_MAX: usize = 100;

/// The audit log of a store. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    store: Arc<dyn Store>,
    seal: Seal,
    /// The newest record, once it is known.
    last: Arc<Mutex<Option<Head>>>,
    /// Events that the next commit writes.
    waiting: Arc<parking_lot::Mutex<Vec<Waiting>>>,
    /// The newest head that this process wrote, as JSON.
    heads: Arc<watch::Sender<Option<String>>>,
}

/// An event that waits for its commit.
struct Waiting {
    event: AuditEvent,
    done: oneshot::Sender<Result<(), StoreError>>,
}

impl Audit {
    pub(crate) fn new(store: Arc<dyn Store>, seal: Seal) -> Self {
        let (heads, _) = watch::channel(None);
        let (last, waiting) = (Arc::default(), Arc::default());
        Self { store, seal, last, waiting, heads: Arc::new(heads) }
    }

    /// Writes a record. It is durable when this returns. Records that arrive during a commit share
    /// the next one: their chain does not limit the requests to one per commit.
    #[steadfast_store::boxed]
    pub async fn record(&self, event: AuditEvent) -> Result<(), StoreError> {
        let (done, outcome) = oneshot::channel();
        self.waiting.lock().push(Waiting { event, done });
        let last = self.last.clone().lock_owned().await;
        let batch = {
            let mut waiting = self.waiting.lock();
            let count = waiting.len().min(BATCH_MAX);
            waiting.drain(..count).collect::<Vec<_>>()
        };
        if !batch.is_empty() {
            // A caller that goes away must not end the commit of others.
            let audit = self.clone();
            tokio::spawn(async move { audit.write(last, batch).await }.boxed());
        }
        outcome.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn write(&self, mut last: OwnedMutexGuard<Option<Head>>, batch: Vec<Waiting>) {
        let written = loop {
            match self.try_write(last.clone(), &batch).await {
                // Another process was first, or the outcome of an earlier record was unknown.
                Ok(None) => *last = None,
                Ok(Some(newest)) => {
                    self.heads.send_replace(serde_json::to_string(&newest).ok());
                    *last = Some(newest);
                    break Ok(());
                }
                Err(error) => {
                    *last = None;
                    break Err(error);
                }
            }
        };
        for it in batch {
            // Ignore receivers that were dropped.
            let _ = it.done.send(written.clone());
        }
    }

    /// Commits the records after the newest one; `None` if it is not the newest any more.
    async fn try_write(
        &self,
        last: Option<Head>,
        batch: &[Waiting],
    ) -> Result<Option<Head>, StoreError> {
        let mut head = match last {
            Some(known) => known,
            None => self.newest().await?,
        };
        let (mut commit, unsealed) = (Commit::default(), self.seal.fingerprint().is_err());
        // Without a key, the newest head with a code is kept: the chain continues from it.
        let sealed = match &head.mac {
            _ if !unsealed => None,
            Some(_) => Some(Box::new(head.clone())),
            None => head.sealed.clone(),
        };
        for Waiting { event, .. } in batch {
            let (number, at) = (head.number.saturating_add(1), self.store.clock().now().0);
            let (previous, previous_at, event) = (head.hash, head.at, event.clone());
            let value = Json::of(&Stored { number, at, previous, previous_at, unsealed, event })?;
            head = Head { number, at, hash: hash(value.as_str()), ..Head::default() };
            let entry = key(number)?;
            commit = commit.expect(Expect::Revision { entry: entry.clone(), revision: 0 });
            let put = Put { entry, value: Some(value), reference: None, expires: Some(KEPT) };
            commit = commit.write(Write::Put(put));
        }
        (head.mac, head.sealed) = (self.seal.mac(PURPOSE, &head.text()).ok(), sealed);
        let commit = commit.write(Write::Put(put_head(&head)?));
        match self.store.commit(commit).await? {
            Outcome::Committed(_) => Ok(Some(head)),
            Outcome::Duplicate(_) | Outcome::Rejected(_) => Ok(None),
        }
    }

    /// Records before a number, the newest first.
    #[steadfast_store::boxed]
    pub async fn list(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let after = before.map_or_else(Vec::new, |it| key_bytes(it).to_vec());
        let range = EntryRange::prefix(b"").after(&after);
        let found = self.store.entries(SPACE, range, limit).await?;
        found.iter().filter_map(|it| read(it).transpose()).collect()
    }

    /// The heads that this process writes, as JSON, for a copy in another place.
    pub fn heads(&self) -> watch::Receiver<Option<String>> {
        self.heads.subscribe()
    }

    /// The stored head as JSON, if this program or an earlier process of it wrote it.
    #[steadfast_store::boxed]
    pub async fn stored_head(&self) -> Result<Option<String>, StoreError> {
        let head = self.head().await?.filter(|it| self.wrote(it));
        Ok(head.and_then(|it| serde_json::to_string(&it).ok()))
    }

    async fn head(&self) -> Result<Option<Head>, StoreError> {
        let entry = self.store.entry(&head_key()?).await?;
        entry.and_then(|it| it.value).map(|it| read_stored(it.as_str())).transpose()
    }

    /// Whether a program with the seal key of the store wrote a head. Without a key nobody can say.
    fn wrote(&self, head: &Head) -> bool {
        let is_mac = |mac: &String| self.seal.is_mac(PURPOSE, &head.text(), mac);
        self.seal.fingerprint().is_err() || head.mac.as_ref().is_some_and(is_mac)
    }

    /// The newest record by the head, so that the number of a record that was removed is not used
    /// again. The chain stays broken behind a head of somebody else.
    async fn newest(&self) -> Result<Head, StoreError> {
        // The record first: another process may write a newer one with its head meanwhile.
        let listed = self.list(None, 1).await?.pop();
        let listed = listed.map_or(0, |it| it.number);
        let head = self.head().await?;
        let (is_first, head) = (head.is_none() && listed == 0, head.unwrap_or_default());
        if is_first || (listed <= head.number && self.wrote(&head)) {
            return Ok(head);
        }
        if listed <= head.number && self.continues(&head).await? {
            return Ok(head);
        }
        let (number, hash) = (listed.max(head.number), format!("{UNVERIFIED}{}", head.hash));
        Ok(Head { number, hash, at: head.at, ..Head::default() })
    }
}

/// Records that a check reads at a time.
const PAGE: usize = 1_000;

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
        let head: Head = read_stored(head)?;
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
        let Ok(Some(mut head)) = found.parse::<Head>() else { return Ok(()) };
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
    async fn continues(&self, head: &Head) -> Result<bool, StoreError> {
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
