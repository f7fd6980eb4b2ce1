//! The observable state of a bucket: as the model has it, and as it is found.

use std::{collections::BTreeMap, time::Duration};

use steadfast_bucket::{BlobAction, BlobEvent, Buckets, GetOptions, ListOptions};
use steadfast_store::{DueCursor, EntryKey, Store, Timestamp, queue_address};

use crate::setup::{bucket, key};

pub(crate) const KEYS: [&str; 6] = ["a", "b", "b/c", "old/a", "old/b", "ü"];
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// The compared state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketState {
    pub(crate) blobs: BTreeMap<String, BlobState>,
    /// The revision of each key, and the expiry of a tombstone.
    pub(crate) numbers: BTreeMap<String, (i64, Option<Timestamp>)>,
    /// The number of a change is its revision plus this.
    pub(crate) floor: i64,
    /// Every event that was ever sent, in order.
    pub(crate) events: Vec<SentFields>,
    /// By id: the key, and the CRC-32 of each part. A new upload has no id yet.
    pub(crate) uploads: BTreeMap<String, (String, BTreeMap<u32, u32>)>,
    /// Whether events are sent.
    pub(crate) listens: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobState {
    /// The CRC-32 of its bytes.
    pub(crate) bytes: u32,
    pub(crate) size: u64,
    pub(crate) sequence: i64,
    /// The step that wrote it.
    pub(crate) step: String,
    pub(crate) written_at: Timestamp,
}

/// Key, action, sequence number, size, and the step.
pub(crate) type SentFields = (String, BlobAction, i64, Option<u64>, Option<String>);

impl BucketState {
    /// The state after a write of a key.
    pub(crate) fn written(
        mut self,
        at: &str,
        action: BlobAction,
        (bytes, size): (u32, u64),
        (step, written_at): (&str, Timestamp),
    ) -> Self {
        let revision = self.numbers.get(at).map_or(0, |it| it.0) + 1;
        let (sequence, step) = (self.floor + revision, step.to_owned());
        self.numbers.insert(at.into(), (revision, None));
        if self.listens {
            self.events.push((at.into(), action, sequence, Some(size), Some(step.clone())));
        }
        self.blobs.insert(at.into(), BlobState { bytes, size, sequence, step, written_at });
        self
    }

    /// The state after a deletion of an existing key.
    pub(crate) fn deleted(mut self, at: &str, action: BlobAction, now: Timestamp) -> Self {
        let revision = self.numbers[at].0 + 1;
        let sequence = self.floor + revision;
        self.numbers.insert(at.into(), (revision, Some(now.after(30 * DAY))));
        if self.listens {
            self.events.push((at.into(), action, sequence, None, None));
        }
        self.blobs.remove(at);
        self
    }

    /// The states after each action of a sweep.
    pub(crate) fn swept(&self, now: Timestamp, began: &BTreeMap<String, Timestamp>) -> Vec<Self> {
        let (mut states, mut last) = (Vec::new(), self.clone());
        let is_old = |shot: &BlobState| shot.written_at.after(DAY) <= now;
        let old = self.blobs.iter().filter(|it| it.0.starts_with("old/") && is_old(it.1));
        let mut old: Vec<_> = old.map(|(at, shot)| (shot.written_at, at)).collect();
        // The oldest first.
        old.sort();
        for (_, at) in old {
            last = last.deleted(at, BlobAction::LifecycleDeletion, now);
            states.push(last.clone());
        }
        let mut uploads: Vec<_> = self.uploads.iter().map(|(id, it)| (it.0.clone(), id)).collect();
        uploads.sort();
        for (_, id) in uploads {
            if began[id].after(7 * DAY) <= now {
                last.uploads.remove(id);
                states.push(last.clone());
            }
        }
        let is_over = |it: &(i64, Option<Timestamp>)| it.1.is_some_and(|it| it <= now);
        let gone = last.numbers.values().filter(|it| is_over(it));
        last.floor += gone.map(|it| it.0).max().unwrap_or(0);
        last.numbers.retain(|_, it| !is_over(it));
        states.push(last);
        states
    }

    /// Reads the state, and checks that it is consistent.
    pub(crate) async fn read(store: &dyn Store, buckets: &Buckets) -> Self {
        let mut found = Self::default();
        let list = buckets.list(&bucket(), &ListOptions::default()).await.unwrap();
        for blob in &list.blobs {
            let reading = buckets.get(&bucket(), &blob.key, GetOptions::default()).await.unwrap();
            assert_eq!(&reading.blob, blob);
            let bytes = crc32fast::hash(&reading.bytes().await.unwrap());
            assert_eq!(bytes, blob.crc32, "{blob:?} has other bytes");
            let shot = BlobState {
                bytes,
                size: blob.size,
                sequence: blob.sequence,
                step: blob.attributes.metadata["step"].clone(),
                written_at: blob.modified_at,
            };
            found.blobs.insert(blob.key.to_string(), shot);
        }
        for at in KEYS {
            let entry = EntryKey::new("blob/photos", key(at).as_str().as_bytes()).unwrap();
            if let Some(entry) = store.entry(&entry).await.unwrap() {
                found.numbers.insert(at.into(), (entry.revision, entry.expires_at));
            }
        }
        let entry = EntryKey::new("sequence-floor", b"photos").unwrap();
        if let Some(entry) = store.entry(&entry).await.unwrap() {
            let value: serde_json::Value =
                serde_json::from_str(entry.value.unwrap().as_str()).unwrap();
            found.floor = value["floor"].as_i64().unwrap();
        }
        found.events = events(store, &list.blobs).await;
        let old = list.blobs.iter().filter(|it| it.key.as_str().starts_with("old/"));
        let (mut bytes, mut objects) = (0, 0);
        for blob in old {
            (bytes, objects) = (bytes + blob.size, objects + 1);
        }
        for upload in buckets.uploads(&bucket(), "", None, 1_000).await.unwrap() {
            let parts = buckets.parts(&bucket(), &upload, 0, 1_000).await.unwrap();
            if upload.key.as_str().starts_with("old/") {
                bytes += parts.iter().map(|it| it.size).sum::<u64>();
                objects += 1;
            }
            let parts = parts.iter().map(|it| (it.number, it.crc32)).collect();
            found.uploads.insert(upload.id, (upload.key.to_string(), parts));
        }
        let counted = buckets.quota("old").await.unwrap();
        if let Some(counted) = counted.filter(|it| !it.is_counting) {
            assert_eq!((counted.bytes.used, counted.objects.used), (bytes, objects));
        }
        found.listens = !buckets.bucket(&bucket()).await.unwrap().rules.is_empty();
        found
    }

    /// Expected number of files of each content.
    pub(crate) async fn files(&self, buckets: &Buckets) -> BTreeMap<String, usize> {
        let list = buckets.list(&bucket(), &ListOptions::default()).await.unwrap();
        let blobs = list.blobs.iter().map(|it| (it.version(), it.parts().max(1)));
        let uploads = self.uploads.iter().map(|(id, it)| (id.clone(), it.1.len()));
        blobs.chain(uploads).filter(|it| 0 < it.1).collect()
    }
}

async fn events(store: &dyn Store, blobs: &[steadfast_bucket::Blob]) -> Vec<SentFields> {
    let queue = queue_address("events").unwrap().id();
    let found =
        store.queue_messages(queue, DueCursor::START, Timestamp::MAX, 10_000).await.unwrap();
    let mut found: Vec<_> = found.into_iter().map(|it| it.message).collect();
    found.sort_by_key(|it| it.position);
    let read = |it: &steadfast_store::Recorded| serde_json::from_str(it.data.as_str()).unwrap();
    let events: Vec<BlobEvent> = found.iter().map(read).collect();
    for event in events.iter().filter(|it| !it.action.is_deletion()) {
        let its = |it: &&steadfast_bucket::Blob| {
            it.key.as_str() == event.key() && it.sequence == event.sequence
        };
        if let Some(blob) = blobs.iter().find(its) {
            let (version, sequence, size) = (blob.version(), blob.sequence, Some(blob.size));
            let e_tag = Some(blob.etag.as_str());
            assert_eq!((&event.version, event.sequence), (&version, sequence));
            assert_eq!((event.object.size, event.object.e_tag.as_deref()), (size, e_tag));
        }
    }
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for event in &events {
        let before = last.insert(event.key(), event.sequence);
        assert!(before < Some(event.sequence), "{before:?} came before {event:?}");
    }
    let told = |it: BlobEvent| {
        let step = it.metadata.get("step").cloned();
        (it.object.key, it.action, it.sequence, it.object.size, step)
    };
    events.into_iter().map(told).collect()
}
