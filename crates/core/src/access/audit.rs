//! The audit log: who did what, from where, and how it ended. Each record has the hash of the one
//! before it. The head has that of the newest one, and an authentication code with a key that is
//! not in the store. A record that was changed or removed is noticed, and a chain that was written
//! anew as well. An older head with its code is noticed by those that know a newer one. Records
//! without the key continue the chain and say so; the head keeps the newest one with a code.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use steadfast_store::{
    Commit, Entry, EntryKey, EntryRange, Expect, InvalidInput, Json, Outcome, Put, Seal, Store,
    StoreError, Timestamp, Write, futures::FutureExt,
};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot, watch};

use super::hash::hash;

const SPACE: &str = "audit";
/// The list whose one entry is the head.
const HEAD: &str = "audit-head";
/// Records are kept for this time.
const KEPT: Duration = Duration::from_hours(400 * 24);
/// The head is kept for longer than its record.
const HEAD_KEPT: Duration = Duration::from_hours(401 * 24);
/// The hash before the first record.
const FIRST: &str = "";
/// Begins the hash before a record that follows a head of somebody else. No record has it, so the
/// chain stays broken there.
const UNVERIFIED: &str = "unverified ";
/// The purpose of the key that authenticates the head.
const PURPOSE: &str = "audit";

/// Records of one commit at most.
const BATCH_MAX: usize = 100;
/// Records that a check reads at a time.
const PAGE: usize = 1_000;

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

/// An action, for the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// The id of the token or access key; none if there was no valid credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The name that the token or access key had then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address of the client.
    pub client: String,
    /// The method and the route.
    pub action: String,
    /// The path.
    pub target: String,
    /// The status of the response, or the code of the refusal.
    pub outcome: String,
    /// Facts that the path does not have, such as the role of a token that was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Refusals of the same token or client before this one that have no record of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
    /// The id of the request.
    pub request_id: String,
}

/// A record of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its number, from 1.
    pub number: i64,
    /// When it was written.
    pub at: Timestamp,
    /// The action.
    pub event: AuditEvent,
    /// The hash of the record before.
    pub previous: String,
    /// When the record before was written.
    pub previous_at: Timestamp,
    /// The hash of this record.
    pub hash: String,
    /// Whether it was written without the seal key.
    pub is_unsealed: bool,
}

impl AuditRecord {
    fn follows(&self, before: &AuditRecord) -> bool {
        self.previous == before.hash && self.number == before.number.saturating_add(1)
    }

    /// Whether this can be the oldest record: nothing was before it, or that has expired.
    fn can_be_oldest(&self, now: Timestamp) -> bool {
        let is_first = self.number == 1 && self.previous == FIRST;
        let has_expired = self.previous_at.after(KEPT) <= now;
        is_first || (has_expired && !self.previous.starts_with(UNVERIFIED))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    number: i64,
    at: i64,
    previous: String,
    previous_at: i64,
    /// Whether it was written without the seal key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unsealed: bool,
    #[serde(flatten)]
    event: AuditEvent,
}

/// The newest record.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Head {
    number: i64,
    at: i64,
    hash: String,
    /// The authentication code; none if the program has no seal key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
    /// The newest head with a code, if this one has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<Box<Head>>,
}

impl Head {
    /// The text that the code authenticates.
    fn text(&self) -> String {
        format!("{} {} {}", self.number, self.at, self.hash)
    }
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
        let range = EntryRange::prefix(b"");
        let range = match before {
            Some(before) => range.after(&key_bytes(before)),
            None => range,
        };
        let found = self.store.entries(SPACE, range, limit).await?;
        found.iter().filter_map(|it| read(it).transpose()).collect()
    }

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

    async fn head(&self) -> Result<Option<Head>, StoreError> {
        let entry = self.store.entry(&head_key()?).await?;
        entry.and_then(|it| it.value).map(|it| parse(it.as_str())).transpose()
    }

    /// Whether a program with the seal key of the store wrote a head. Without a key nobody can say.
    fn wrote(&self, head: &Head) -> bool {
        let is_mac = |mac: &String| self.seal.is_mac(PURPOSE, &head.text(), mac);
        self.seal.fingerprint().is_err() || head.mac.as_ref().is_some_and(is_mac)
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

/// Numbers count down in the keys, so that the newest record is the first.
fn key_bytes(number: i64) -> [u8; 8] {
    i64::MAX.saturating_sub(number).to_be_bytes()
}

fn key(number: i64) -> Result<EntryKey, InvalidInput> {
    EntryKey::new(SPACE, &key_bytes(number))
}

fn head_key() -> Result<EntryKey, InvalidInput> {
    EntryKey::new(HEAD, b"newest")
}

fn put_head(head: &Head) -> Result<Put, InvalidInput> {
    let value = Some(Json::of(head)?);
    Ok(Put { entry: head_key()?, value, reference: None, expires: Some(HEAD_KEPT) })
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}

fn read(entry: &Entry) -> Result<Option<AuditRecord>, StoreError> {
    let Some(value) = &entry.value else { return Ok(None) };
    let Stored { number, at, previous, previous_at, unsealed: is_unsealed, event } =
        parse(value.as_str())?;
    let (at, previous_at, hash) = (Timestamp(at), Timestamp(previous_at), hash(value.as_str()));
    Ok(Some(AuditRecord { number, at, event, previous, previous_at, hash, is_unsealed }))
}

#[cfg(test)]
mod tests {
    use steadfast_store::{ManualClock, MemoryStore, SealFile};

    use super::*;

    fn event(outcome: &str) -> AuditEvent {
        AuditEvent {
            token: Some("ABC".into()),
            client: "127.0.0.1".into(),
            action: "POST /v1/queues/{queue}/purge".into(),
            target: "/v1/queues/mail/purge".into(),
            outcome: outcome.into(),
            request_id: "r1".into(),
            ..AuditEvent::default()
        }
    }

    fn store() -> (Arc<ManualClock>, Arc<dyn Store>) {
        let clock = Arc::new(ManualClock::at(Timestamp(5)));
        (clock.clone(), Arc::new(MemoryStore::new(clock)))
    }

    fn seal() -> Seal {
        Seal::of_key([1; 32])
    }

    async fn written(store: &Arc<dyn Store>, seal: Seal, outcomes: &[&str]) -> Audit {
        let audit = Audit::new(store.clone(), seal);
        for outcome in outcomes {
            audit.record(event(outcome)).await.unwrap();
        }
        audit
    }

    /// Writes an entry, or removes it.
    async fn set(store: &Arc<dyn Store>, entry: EntryKey, value: Option<Json>) {
        let put = Put { entry, value, reference: None, expires: None };
        store.commit(Commit::of(Write::Put(put))).await.unwrap();
    }

    #[tokio::test]
    async fn records_are_numbered_and_chained_across_processes() {
        let (_, store) = store();
        for outcome in ["200", "403"] {
            // A new process each time.
            written(&store, seal(), &[outcome]).await;
        }
        let (one, other) = (Audit::new(store.clone(), seal()), Audit::new(store.clone(), seal()));
        one.record(event("3")).await.unwrap();
        other.record(event("4")).await.unwrap();
        one.record(event("5")).await.unwrap();
        let all = one.list(None, 9).await.unwrap();
        let numbers: Vec<i64> = all.iter().map(|it| it.number).collect();
        assert_eq!(numbers, [5, 4, 3, 2, 1]);
        assert_eq!(all[4].previous, FIRST);
        assert_eq!(one.broken(9).await.unwrap(), None);
        let older = one.list(Some(3), 9).await.unwrap();
        assert_eq!(older.iter().map(|it| it.number).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(older[0].event.outcome, "403");
    }

    #[tokio::test]
    async fn records_that_wait_for_a_commit_share_the_next_one() {
        let (_, store) = store();
        let audit = Audit::new(store.clone(), seal());
        let record = |it: usize| {
            let audit = audit.clone();
            tokio::spawn(async move { audit.record(event(&it.to_string())).await })
        };
        let before = store.activity().commits;
        let (tasks, gone): (Vec<_>, _) = ((0..250).map(record).collect(), record(250));
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let _ = gone.await;
        let all = audit.list(None, 999).await.unwrap();
        assert_eq!((all.len(), all[0].number), (251, 251));
        assert_eq!(audit.broken(999).await.unwrap(), None);
        let commits = store.activity().commits - before;
        assert!(commits < 20, "{commits} commits");
    }

    #[tokio::test]
    async fn a_changed_or_removed_record_breaks_the_chain() {
        // Also the newest one.
        for (number, is_removed) in [(2, true), (2, false), (3, true), (3, false)] {
            let changed = format!(
                r#"{{"number":{number},"at":5,"previous":"x","previousAt":5,"client":"",
                    "action":"","target":"","outcome":"","requestId":""}}"#
            );
            let (_, store) = store();
            let audit = written(&store, seal(), &["1", "2", "3"]).await;
            assert_eq!(audit.broken(9).await.unwrap(), None);
            let value = (!is_removed).then(|| Json::parse(&changed).unwrap());
            set(&store, key(number).unwrap(), value).await;
            assert_eq!(audit.broken(9).await.unwrap(), Some(3), "{number} {is_removed}");
            // The next process continues, and nothing hides it.
            let audit = written(&store, seal(), &["4"]).await;
            assert_eq!(audit.list(None, 1).await.unwrap()[0].number, 4);
            assert!(audit.broken(9).await.unwrap().is_some(), "{number} {is_removed}");
        }
    }

    #[tokio::test]
    async fn a_chain_that_was_written_anew_without_the_key_is_noticed() {
        for forger in [Seal::none(), Seal::of_key([2; 32])] {
            let (_, store) = store();
            let audit = written(&store, seal(), &["1", "2", "3"]).await;
            assert_eq!(audit.broken(9).await.unwrap(), None);
            let mut head = Head::default();
            for (number, outcome) in [(1, "1"), (2, "another"), (3, "3")] {
                let (previous, event) = (head.hash, event(outcome));
                let (previous_at, unsealed) = (head.at, forger.fingerprint().is_err());
                let stored = Stored { number, at: 5, previous, previous_at, unsealed, event };
                let value = Json::of(&stored).unwrap();
                let hash = hash(value.as_str());
                head = Head { number, at: 5, hash, ..Head::default() };
                set(&store, key(number).unwrap(), Some(value)).await;
            }
            head.mac = forger.mac(PURPOSE, &head.text()).ok();
            set(&store, head_key().unwrap(), Some(Json::of(&head).unwrap())).await;
            assert_eq!(audit.broken(9).await.unwrap(), Some(3));
            assert_eq!(audit.stored_head().await.unwrap(), None);
            // The next process authenticates its own records, and not those before.
            let audit = written(&store, seal(), &["4", "5"]).await;
            assert_eq!(audit.broken(9).await.unwrap(), Some(4));
            for number in 1..=3 {
                set(&store, key(number).unwrap(), None).await;
            }
            assert_eq!(audit.broken(9).await.unwrap(), Some(4), "nor without those before");
        }
    }

    #[tokio::test]
    async fn records_without_the_seal_key_are_named_and_do_not_break_the_chain() {
        for restarts in [true, false] {
            let (_, store) = store();
            written(&store, seal(), &["1", "2"]).await;
            for outcome in ["3", "4"] {
                let audit = written(&store, Seal::none(), &[outcome]).await;
                assert_eq!(audit.broken(9).await.unwrap(), None);
            }
            let audit = Audit::new(store.clone(), seal());
            let found = async || (audit.broken(9).await.unwrap(), audit.unsealed(9).await.unwrap());
            assert_eq!(found().await, (None, Some((3, 4))), "the key is back");
            if restarts {
                audit.seal_head().await.unwrap();
            }
            written(&store, seal(), &["5", "6"]).await;
            assert_eq!(found().await, (None, Some((3, 4))));
            assert!(audit.stored_head().await.unwrap().is_some());
            assert_eq!(audit.unsealed(2).await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn records_without_the_seal_key_that_do_not_continue_the_chain_are_noticed() {
        for change in ["record", "record before", "mark", "code"] {
            let (_, store) = store();
            written(&store, seal(), &["1", "2"]).await;
            written(&store, Seal::none(), &["3", "4"]).await;
            let mut head: Head = {
                let head = store.entry(&head_key().unwrap()).await.unwrap().unwrap();
                parse(head.value.unwrap().as_str()).unwrap()
            };
            let mut rewrite = async |from: i64, unsealed: bool| {
                for number in from..=4 {
                    let before = store.entry(&key(number - 1).unwrap()).await.unwrap().unwrap();
                    let previous = hash(before.value.unwrap().as_str());
                    let event = event("another");
                    let stored =
                        Stored { number, at: 5, previous, previous_at: 5, unsealed, event };
                    let value = Json::of(&stored).unwrap();
                    head.hash = hash(value.as_str());
                    set(&store, key(number).unwrap(), Some(value)).await;
                }
            };
            match change {
                "record" => set(&store, key(3).unwrap(), None).await,
                "record before" => rewrite(2, true).await,
                "mark" => rewrite(3, false).await,
                _ => {
                    let (number, mac) = (2, Some("00".repeat(32)));
                    head.sealed = Some(Box::new(Head { number, mac, ..Head::default() }));
                }
            }
            set(&store, head_key().unwrap(), Some(Json::of(&head).unwrap())).await;
            let audit = Audit::new(store.clone(), seal());
            assert!(audit.broken(9).await.unwrap().is_some(), "{change}");
            audit.seal_head().await.unwrap();
            let audit = written(&store, seal(), &["5"]).await;
            assert!(audit.broken(9).await.unwrap().is_some(), "{change}");
        }
    }

    #[tokio::test]
    async fn a_missing_head_and_missing_first_records_are_noticed_until_they_expire() {
        let (clock, store) = store();
        let audit = written(&store, seal(), &["1", "2", "3"]).await;
        let head = store.entry(&head_key().unwrap()).await.unwrap().unwrap().value;
        set(&store, head_key().unwrap(), None).await;
        assert_eq!(audit.broken(9).await.unwrap(), Some(3));
        set(&store, head_key().unwrap(), head).await;
        assert_eq!(audit.broken(9).await.unwrap(), None);
        set(&store, key(1).unwrap(), None).await;
        assert_eq!(audit.broken(9).await.unwrap(), Some(2));
        clock.advance(KEPT);
        assert_eq!(audit.broken(9).await.unwrap(), None, "it has expired");
    }

    #[tokio::test]
    async fn newest_records_that_were_removed_are_missing_for_the_copy_of_a_head() {
        let (clock, store) = store();
        let audit = written(&store, seal(), &["1"]).await;
        let old = store.entry(&head_key().unwrap()).await.unwrap().unwrap().value;
        let heads = audit.heads();
        for outcome in ["2", "3"] {
            audit.record(event(outcome)).await.unwrap();
        }
        let copy = heads.borrow().clone().unwrap();
        assert_eq!(audit.stored_head().await.unwrap().as_ref(), Some(&copy));
        assert!(audit.has(&copy).await.unwrap());
        for number in [2, 3] {
            set(&store, key(number).unwrap(), None).await;
        }
        set(&store, head_key().unwrap(), old).await;
        let audit = Audit::new(store, seal());
        assert_eq!(audit.broken(9).await.unwrap(), None, "the store alone is as it was once");
        assert!(!audit.has(&copy).await.unwrap());
        clock.advance(KEPT);
        assert!(audit.has(&copy).await.unwrap(), "it has expired");
    }

    #[tokio::test]
    async fn a_check_of_all_records_finds_a_change_behind_the_newest_thousand() {
        let (_, store) = store();
        let audit = written(&store, seal(), &["1"; PAGE + 50]).await;
        set(&store, key(3).unwrap(), None).await;
        assert_eq!(audit.broken(PAGE).await.unwrap(), None);
        assert_eq!(audit.broken(usize::MAX).await.unwrap(), Some(4));
    }

    #[tokio::test]
    async fn a_new_seal_key_authenticates_the_head_again() {
        let (folder, (_, store)) = (tempfile::tempdir().unwrap(), store());
        let file = folder.path().join("key");
        let load = async |keys: &[&str]| {
            std::fs::write(&file, keys.join("\n")).unwrap();
            Seal::load(&*store, SealFile::named(&file)).await.unwrap()
        };
        let (old, new) = ("0a".repeat(32), "0b".repeat(32));
        written(&store, load(&[old.as_str()]).await, &["1"]).await;
        let both = load(&[new.as_str(), old.as_str()]).await;
        let audit = Audit::new(store.clone(), both.clone());
        assert_eq!(audit.broken(9).await.unwrap(), None, "both keys are known");
        audit.seal_head().await.unwrap();
        both.record(&*store).await.unwrap();
        // The old key is not needed any more.
        let audit = Audit::new(store.clone(), load(&[new.as_str()]).await);
        assert_eq!(audit.broken(9).await.unwrap(), None);
    }
}
