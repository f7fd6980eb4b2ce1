//! The audit log: who did what, from where, and how it ended. Each record has the hash of the one
//! before it, and the head has that of the newest one, so that a record that was changed or removed
//! is noticed.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use steadfast_store::{
    Commit, Entry, EntryKey, EntryRange, Expect, InvalidInput, Json, Outcome, Put, Store,
    StoreError, Timestamp, Write, futures::FutureExt,
};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::hash::hash;

const SPACE: &str = "audit";
/// The list whose one entry is the head.
const HEAD: &str = "audit-head";
/// Records are kept for this time.
const KEPT: Duration = Duration::from_hours(400 * 24);
/// The hash before the first record.
const FIRST: &str = "";

/// Records of one commit at most.
const BATCH_MAX: usize = 100;

/// The audit log of a store. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    store: Arc<dyn Store>,
    /// The newest record, once it is known: its number and its hash.
    last: Arc<Mutex<Newest>>,
    /// Events that the next commit writes.
    waiting: Arc<parking_lot::Mutex<Vec<Waiting>>>,
}

type Newest = Option<(i64, String)>;

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
    /// The hash of this record.
    pub hash: String,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    number: i64,
    at: i64,
    previous: String,
    #[serde(flatten)]
    event: AuditEvent,
}

/// Number and hash of the newest record.
#[derive(Serialize, Deserialize)]
struct Head {
    number: i64,
    hash: String,
}

impl Audit {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, last: Arc::default(), waiting: Arc::default() }
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

    async fn write(&self, mut last: OwnedMutexGuard<Newest>, batch: Vec<Waiting>) {
        let written = loop {
            match self.try_write(&last, &batch).await {
                // Another process was first, or the outcome of an earlier record was unknown.
                Ok(None) => *last = None,
                Ok(newest) => {
                    *last = newest;
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
    async fn try_write(&self, last: &Newest, batch: &[Waiting]) -> Result<Newest, StoreError> {
        let (mut number, mut previous) = match last.clone() {
            Some(known) => known,
            None => self.newest().await?,
        };
        let mut commit = Commit::default();
        for Waiting { event, .. } in batch {
            number = number.saturating_add(1);
            let (at, event) = (self.store.clock().now().0, event.clone());
            let value = Json::of(&Stored { number, at, previous, event })?;
            previous = hash(value.as_str());
            let entry = key(number)?;
            commit = commit.expect(Expect::Revision { entry: entry.clone(), revision: 0 });
            let put = Put { entry, value: Some(value), reference: None, expires: Some(KEPT) };
            commit = commit.write(Write::Put(put));
        }
        let value = Some(Json::of(&Head { number, hash: previous.clone() })?);
        let put = Put { entry: head_key()?, value, reference: None, expires: Some(KEPT) };
        commit = commit.write(Write::Put(put));
        match self.store.commit(commit).await? {
            Outcome::Committed(_) => Ok(Some((number, previous))),
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

    /// Checks the newest records: the first number whose record does not have the hash of the one
    /// before it, or that of the newest record if it is not as the head has it.
    #[steadfast_store::boxed]
    pub async fn broken(&self, limit: usize) -> Result<Option<i64>, StoreError> {
        // The head first: records that are added meanwhile are newer.
        let head = self.head().await?;
        let records = self.list(None, limit).await?;
        if let Some(Head { number, hash }) = head {
            let newest = records.iter().find(|it| it.number <= number);
            if newest.is_none_or(|it| it.number != number || it.hash != hash) {
                return Ok(Some(number));
            }
        }
        let mut pairs = records.windows(2);
        let broken = pairs.find(|it| {
            it[0].previous != it[1].hash || it[0].number != it[1].number.saturating_add(1)
        });
        Ok(broken.map(|it| it[0].number))
    }

    async fn head(&self) -> Result<Option<Head>, StoreError> {
        let entry = self.store.entry(&head_key()?).await?;
        entry.and_then(|it| it.value).map(|it| parse(&it)).transpose()
    }

    /// By the head, so that the number of a record that was removed is not used again.
    async fn newest(&self) -> Result<(i64, String), StoreError> {
        if let Some(head) = self.head().await? {
            return Ok((head.number, head.hash));
        }
        let newest = self.list(None, 1).await?.pop();
        Ok(newest.map_or((0, FIRST.to_owned()), |it| (it.number, it.hash)))
    }
}

/// Numbers count down in the keys, so that the newest record is the first.
fn key_bytes(number: i64) -> [u8; 8] {
    (i64::MAX - number).to_be_bytes()
}

fn key(number: i64) -> Result<EntryKey, InvalidInput> {
    EntryKey::new(SPACE, &key_bytes(number))
}

fn head_key() -> Result<EntryKey, InvalidInput> {
    EntryKey::new(HEAD, b"newest")
}

fn parse<T: DeserializeOwned>(value: &Json) -> Result<T, StoreError> {
    serde_json::from_str(value.as_str())
        .map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}

fn read(entry: &Entry) -> Result<Option<AuditRecord>, StoreError> {
    let Some(value) = &entry.value else { return Ok(None) };
    let Stored { number, at, previous, event } = parse(value)?;
    let hash = hash(value.as_str());
    Ok(Some(AuditRecord { number, at: Timestamp(at), event, previous, hash }))
}

#[cfg(test)]
mod tests {
    use steadfast_store::{ManualClock, MemoryStore};

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

    #[tokio::test]
    async fn records_are_numbered_and_chained_across_processes() {
        let clock = Arc::new(ManualClock::at(Timestamp(5)));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock));
        for outcome in ["200", "403"] {
            // A new process each time.
            Audit::new(store.clone()).record(event(outcome)).await.unwrap();
        }
        let (one, other) = (Audit::new(store.clone()), Audit::new(store.clone()));
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
        let clock = Arc::new(ManualClock::at(Timestamp(5)));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock));
        let audit = Audit::new(store.clone());
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
                r#"{{"number":{number},"at":5,"previous":"x","client":"","action":"",
                    "target":"","outcome":"","requestId":""}}"#
            );
            let clock = Arc::new(ManualClock::at(Timestamp(5)));
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock));
            let audit = Audit::new(store.clone());
            for outcome in ["1", "2", "3"] {
                audit.record(event(outcome)).await.unwrap();
            }
            assert_eq!(audit.broken(9).await.unwrap(), None);
            let value = (!is_removed).then(|| Json::parse(&changed).unwrap());
            let put = Put { entry: key(number).unwrap(), value, reference: None, expires: None };
            store.commit(Commit::of(Write::Put(put))).await.unwrap();
            assert_eq!(audit.broken(9).await.unwrap(), Some(3), "{number} {is_removed}");
            // The next process continues, and nothing hides it.
            let audit = Audit::new(store);
            audit.record(event("4")).await.unwrap();
            assert_eq!(audit.list(None, 1).await.unwrap()[0].number, 4);
            assert!(audit.broken(9).await.unwrap().is_some(), "{number} {is_removed}");
        }
    }
}
