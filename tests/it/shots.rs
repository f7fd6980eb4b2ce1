//! Checks a bucket after its process was killed.
//!
//! The oracle: acknowledged changes are found, found changes were requested, each event has its
//! blob and each blob its event, the sequence numbers of a key have no gap, and no file is missing
//! or left over.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use steadfast_bucket::{
    BlobAction, BlobEvent, BlobKey, Blobs, BucketName, BucketOptions, Buckets, FileBlobs,
    GetOptions, ListOptions, account,
};
use steadfast_core::store::{Clock, ManualClock, SeededEntropy, State, Store, SystemClock};

use crate::{
    deeds::{Deed, EVENTS, OLD, WRITERS, bytes_of, key_of, source_of},
    killer::{Victim, open_by, read_all},
};

/// The requests of the victims of one store, and the answers.
pub(crate) struct Album {
    folder: PathBuf,
    invoked: BTreeSet<u64>,
    /// The number that each took.
    acked: BTreeMap<u64, i64>,
    /// Deeds that are still unknown, or changed nothing.
    summary: String,
    /// The number of checks: each time the clock of the store is hours ahead of the last one.
    checks: u32,
}

/// Blobs by key, and events by key, in order.
struct Found {
    events: BTreeMap<String, Vec<BlobEvent>>,
    blobs: BTreeMap<String, steadfast_bucket::Blob>,
}

impl Album {
    pub(crate) fn new(folder: &Path) -> Self {
        let (invoked, acked) = (BTreeSet::new(), BTreeMap::new());
        Self { folder: folder.to_owned(), invoked, acked, summary: String::new(), checks: 0 }
    }

    /// The next victim.
    pub(crate) fn victim(&self, place: &str, at: Option<&str>) -> Victim {
        let first = self.invoked.last().map_or(0, |it| it + 1).next_multiple_of(8 * WRITERS);
        let folder = self.folder.to_str().expect("a text");
        // The clock of the last check.
        let ahead = Duration::from_hours(6) * self.checks + Duration::from_hours(3);
        let mode = ["shots", folder, &first.to_string()];
        Victim::ahead(place, &mode, at, ahead.as_millis())
    }

    /// Follows a victim to its end, and kills it after this many lines.
    pub(crate) fn follow(&mut self, victim: Victim, lines: usize) -> std::process::ExitStatus {
        victim.follow(lines, |line| self.note(line))
    }

    pub(crate) fn summary(&self) -> String {
        format!("{} deeds, {} acknowledged, {}", self.invoked.len(), self.acked.len(), self.summary)
    }

    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        match words[..] {
            ["ready"] | ["nothing", _] => {}
            ["invoked", _] => assert!(self.invoked.insert(number(1)), "done twice: {line}"),
            ["acked", _, _] => _ = self.acked.insert(number(1), number(2) as i64),
            _ => panic!("unexpected line {line}"),
        }
    }

    /// The oracle. The clock of the check is hours ahead, so that every orphan is old; the
    /// suspension of deletion after the start is waited for.
    pub(crate) async fn check(&mut self, place: &str) {
        self.checks += 1;
        let ahead = Duration::from_hours(6) * self.checks;
        let later = ManualClock::at(SystemClock.now().after(ahead));
        let store = open_by(place, Arc::new(later.clone())).await;
        later.advance(Duration::from_hours(1));
        let name = account(&*store, &SeededEntropy::from_system()).await.unwrap();
        let files = Arc::new(FileBlobs::open(&self.folder, &name).unwrap());
        // No older store is restored here: files of the victim are deleted when they are old
        // enough.
        let keep_unknown_files = Duration::ZERO;
        let options = BucketOptions { keep_unknown_files, ..BucketOptions::default() };
        let buckets = Buckets::builder(store.clone()).options(options);
        let buckets = buckets.open(files.clone()).await.unwrap();
        later.advance(Duration::from_hours(2));
        let bucket = BucketName::new("shots").unwrap();
        if buckets.bucket(&bucket).await.is_ok() {
            let found = Found::read(&*store, &buckets, &bucket).await;
            self.check_events(&found);
            found.check_blobs(&buckets, &bucket).await;
            buckets.sweep().await.unwrap();
            let found = Found::read(&*store, &buckets, &bucket).await;
            self.check_events(&found);
            found.check_blobs(&buckets, &bucket).await;
            found.check_files(&files, &buckets, &bucket).await;
            assert_eq!(store.violations().await.unwrap(), Vec::<String>::new());
            let events: usize = found.events.values().map(Vec::len).sum();
            self.summary = format!("{events} events, {} blobs", found.blobs.len());
        }
        assert_eq!(drafts(&self.folder), 0, "unfinished files are deleted");
        buckets.close().await;
        drop((buckets, files));
        store.close().await;
    }

    fn check_events(&self, found: &Found) {
        let mut deeds: BTreeMap<u64, &BlobEvent> = BTreeMap::new();
        for event in found.events.values().flatten().filter(|it| !it.action.is_deletion()) {
            let number: u64 = event.metadata["deed"].parse().unwrap();
            assert!(self.invoked.contains(&number), "never asked for: {event:?}");
            assert_eq!(event.key(), key_of(number));
            let action = match Deed::of(number) {
                Deed::Put => BlobAction::PutObject,
                Deed::Copy => BlobAction::CopyObject,
                Deed::Upload => BlobAction::CompleteMultipartUpload,
                deed @ (Deed::Abort | Deed::Delete) => panic!("{deed:?} made {event:?}"),
            };
            assert_eq!(event.action, action);
            let source = event.copy_source.as_ref().map(|it| it.object.clone());
            assert_eq!(source, (action == BlobAction::CopyObject).then(|| source_of(number)));
            assert!(deeds.insert(number, event).is_none(), "found twice: {event:?}");
        }
        for (number, sequence) in &self.acked {
            if Deed::of(*number) == Deed::Delete {
                let events = &found.events[&key_of(*number)];
                let event = &events[*sequence as usize - 1];
                assert_eq!(event.action, BlobAction::DeleteObject, "deed {number}: {event:?}");
            } else {
                let event = deeds.get(number).unwrap_or_else(|| panic!("{number} is lost"));
                assert_eq!(event.sequence, *sequence, "deed {number}");
            }
        }
    }
}

impl Found {
    async fn read(store: &dyn Store, buckets: &Buckets, bucket: &BucketName) -> Self {
        let mut events: BTreeMap<String, Vec<BlobEvent>> = BTreeMap::new();
        for message in read_all(store).await.iter().filter(|it| it.message_type == EVENTS) {
            assert!(matches!(message.state, Some(State::Pending { .. })), "{message:?}");
            let event: BlobEvent = serde_json::from_str(message.data.as_str()).unwrap();
            let of_key = events.entry(event.key().into()).or_default();
            assert_eq!(event.sequence, of_key.len() as i64 + 1, "a gap: {event:?}");
            of_key.push(event);
        }
        let list = buckets.list(bucket, &ListOptions::default()).await.unwrap();
        assert_eq!(list.next, None);
        let blobs = list.blobs.into_iter().map(|it| (it.key.to_string(), it)).collect();
        Self { events, blobs }
    }

    /// Each key matches its last event, and its bytes are those of one put.
    async fn check_blobs(&self, buckets: &Buckets, bucket: &BucketName) {
        for (key, events) in &self.events {
            for pair in events.windows(2) {
                let is_old = pair[1].action == BlobAction::LifecycleDeletion;
                assert!(!is_old || key.starts_with(OLD), "{key} was never old");
                if pair[1].action.is_deletion() {
                    assert!(!pair[0].action.is_deletion(), "{key} was deleted twice");
                    assert_eq!(pair[0].version, pair[1].version);
                }
            }
            let last = events.last().unwrap();
            let Some(blob) = self.blobs.get(key) else {
                assert!(last.action.is_deletion(), "no blob of {last:?}");
                continue;
            };
            assert_eq!(last.version, blob.version(), "no event of {blob:?}");
            assert_eq!((last.sequence, last.object.size), (blob.sequence, Some(blob.size)));
            let key = BlobKey::new(key).unwrap();
            let reading = buckets.get(bucket, &key, GetOptions::default()).await.unwrap();
            let bytes = reading.bytes().await.unwrap();
            let whose = u64::from_be_bytes(*bytes.first_chunk().unwrap());
            assert!(bytes == bytes_of(whose), "{blob:?} is not what {whose} put");
            let deed = &blob.attributes.metadata["deed"];
            assert!(last.action == BlobAction::CopyObject || *deed == whose.to_string());
        }
        let unknown = self.blobs.keys().find(|it| !self.events.contains_key(*it));
        assert_eq!(unknown, None, "a blob without an event");
    }

    /// Each blob and each open upload has its files, and there are no others.
    async fn check_files(&self, files: &FileBlobs, buckets: &Buckets, bucket: &BucketName) {
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        for blob in self.blobs.values() {
            expected.insert(blob.version(), blob.parts().max(1));
        }
        for upload in buckets.uploads(bucket, "", None, 10_000).await.unwrap() {
            let parts = buckets.parts(bucket, &upload, 0, 10_000).await.unwrap().len();
            if 0 < parts {
                expected.insert(upload.id, parts);
            }
        }
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for (subfolder, _) in files.subfolders().unwrap() {
            for file in files.files_in(&subfolder).unwrap() {
                *found.entry(file.content.to_string()).or_default() += 1;
            }
        }
        assert_eq!(found, expected, "files by content");
    }
}

/// Unfinished files below a folder.
fn drafts(folder: &std::path::Path) -> usize {
    let found = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    found
        .map(|it| match it.is_dir() {
            true => drafts(&it),
            false => usize::from(it.extension().is_some_and(|it| it == "tmp")),
        })
        .sum()
}
