//! Reads the contents of all blobs, to find those that are damaged or missing before someone needs
//! them.

use std::{sync::atomic::Ordering, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_store::{Commit, Put, Records, Timestamp, Write};

use crate::{
    Blob, BlobKey, BlobReader, BucketError, BucketName, Buckets, buckets::Shared, session::Found,
};

/// Bytes per second that a check in the background reads.
const BACKGROUND_RATE: u64 = 8 << 20;
/// Bytes that it reads before it records how far it came.
const BACKGROUND_BYTES: u64 = 1 << 30;
/// A program that starts has more urgent work.
const FIRST: Duration = Duration::from_mins(10);
/// Pause after an error of the store.
const PAUSE: Duration = Duration::from_mins(10);
/// Number of unreadable blobs that are recorded by name.
const NAMED_MAX: usize = 100;
/// Blobs after which a check pauses, however small they are.
const BLOBS_MAX: u64 = 10_000;
/// Bytes that are read to see whether named blobs are still unreadable.
const AGAIN_BYTES: u64 = 64 << 20;

/// How far a check has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckCursor {
    /// The bucket of the last blob.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// The part of it that was read; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<PartlyRead>,
}

/// The beginning of a blob, which was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartlyRead {
    /// The version of the blob.
    pub version: String,
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub crc32: u32,
}

/// A blob whose content is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnreadableBlob {
    /// Its bucket.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// Its version.
    pub version: String,
    /// `blob_damaged`, `blob_missing`, or `storage_failed` if the disk cannot read it.
    pub code: String,
}

/// The blobs that a check has read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// Number of blobs.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of unreadable blobs.
    pub unreadable: u64,
    /// The first hundred of them.
    pub named: Vec<UnreadableBlob>,
    /// Where to continue; `None` at the end.
    pub next: Option<CheckCursor>,
}

/// The checks in the background, as recorded in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckRecord {
    /// When the check in progress began.
    pub began_at: Option<i64>,
    /// Its result so far.
    pub now: Checked,
    /// When the last complete check ended.
    pub ended_at: Option<i64>,
    /// Its result.
    pub last: Checked,
    /// When the folder of the contents was found to be new, although the store was not.
    #[serde(skip)]
    pub emptied_at: Option<i64>,
    /// When the store was found to be another copy than the one that used the contents last.
    #[serde(skip)]
    pub restored_at: Option<i64>,
}

impl CheckRecord {
    /// Whether the folder of the contents was emptied, and no check has ended since.
    pub fn is_emptied(&self) -> bool {
        self.ended_at < self.emptied_at
    }
}

impl Buckets {
    /// Blobs whose content was checked, and those found damaged or missing, by checks and by other
    /// reads, since the process started.
    pub fn check_counts(&self) -> (u64, u64) {
        let Shared { checked, unreadable, .. } = &*self.shared;
        (checked.load(Ordering::Relaxed), unreadable.load(Ordering::Relaxed))
    }

    /// The number of blobs in all buckets. It reads all rows.
    #[steadfast_store::boxed]
    pub async fn count_blobs(&self) -> Result<u64, BucketError> {
        let (mut count, mut last) = (0, None);
        while let Some(bucket) = self.buckets(last.as_ref(), 1).await?.pop() {
            let mut pages = self.shared.pages(bucket.name.blobs(), b"");
            while let Some(page) = pages.next().await? {
                count += page.len() as u64;
            }
            last = Some(bucket.name);
        }
        Ok(count)
    }

    /// Reads blobs behind a place until so many bytes are read, at most `rate` per second.
    #[steadfast_store::boxed]
    pub async fn check(
        &self,
        after: Option<CheckCursor>,
        bytes: u64,
        rate: u64,
    ) -> Result<Checked, BucketError> {
        let mut checked = Checked { next: after, ..Checked::default() };
        let mut pace = Pace { rate, owed: 0 };
        let mut bucket = checked.next.as_ref().map(|it| BucketName::new(&it.bucket)).transpose()?;
        loop {
            if let Some(bucket) = &bucket
                && self.check_bucket(bucket, bytes, &mut pace, &mut checked).await?
            {
                return Ok(checked);
            }
            let next = self.buckets(bucket.as_ref(), 1).await?;
            let Some(found) = next.into_iter().next() else {
                checked.next = None;
                return Ok(checked);
            };
            let bucket_name = found.name.to_string();
            checked.next = Some(CheckCursor { bucket: bucket_name, ..CheckCursor::default() });
            bucket = Some(found.name);
        }
    }

    /// Checks the blobs of a bucket behind the place. Returns `true` if enough bytes are read.
    async fn check_bucket(
        &self,
        bucket: &BucketName,
        bytes: u64,
        pace: &mut Pace,
        checked: &mut Checked,
    ) -> Result<bool, BucketError> {
        let is_enough = |checked: &Checked| {
            bytes <= checked.bytes || BLOBS_MAX <= checked.blobs || self.shared.changes.is_closed()
        };
        if let Some(CheckCursor { key, read: Some(before), .. }) = checked.next.clone()
            && let Ok(blob) = self.head(bucket, &BlobKey::new(&key)?).await
            && blob.version() == before.version
        {
            self.check_blob(bucket, blob, Some(before), (bytes, pace), checked).await?;
            if is_enough(checked) {
                return Ok(true);
            }
        }
        loop {
            let after = checked.next.as_ref().map(|it| it.key.clone()).unwrap_or_default();
            let page = self.shared.page(&bucket.blobs(), b"", after.as_bytes()).await?;
            if page.is_empty() {
                return Ok(false);
            }
            for entry in &page {
                let Some(blob) = Blob::read(entry)? else { continue };
                if is_enough(checked) {
                    return Ok(true);
                }
                self.check_blob(bucket, blob, None, (bytes, pace), checked).await?;
                if checked.next.as_ref().is_some_and(|it| it.read.is_some()) {
                    return Ok(true);
                }
            }
        }
    }

    /// Reads a blob to its end, or until enough bytes are read. A blob that was replaced or deleted
    /// meanwhile is not reported.
    async fn check_blob(
        &self,
        bucket: &BucketName,
        blob: Blob,
        before: Option<PartlyRead>,
        (bytes, pace): (u64, &mut Pace),
        checked: &mut Checked,
    ) -> Result<(), BucketError> {
        let (key, version, size) = (blob.key.clone(), blob.version(), blob.size);
        let mut next = CheckCursor { bucket: bucket.to_string(), key: key.to_string(), read: None };
        let (from, crc32) = before.map_or((0, 0), |it| (it.bytes, it.crc32));
        let left = bytes.saturating_sub(checked.bytes);
        let mut read = 0;
        let error = match self.read_on(blob, (from, crc32), (left, pace), &mut read).await {
            Ok(crc32) => {
                next.read = crc32.map(|crc32| PartlyRead { version, bytes: from + read, crc32 });
                let blobs = u64::from(next.read.is_none());
                self.shared.checked.fetch_add(blobs, Ordering::Relaxed);
                checked.add(Checked { blobs, bytes: read, next: Some(next), ..Checked::default() });
                return Ok(());
            }
            // It says nothing about the file: the same read may succeed later. With any other error
            // the store works; whatever is wrong with the file, the other blobs follow.
            Err(error @ BucketError::Store(_)) => return Err(error),
            Err(error) => error,
        };
        let is_same = match self.head(bucket, &key).await {
            Ok(now) => now.version() == version,
            Err(BucketError::UnknownBlob { .. } | BucketError::UnknownBucket { .. }) => false,
            Err(error) => return Err(error),
        };
        let mut named = Vec::new();
        if is_same {
            self.shared.count_unreadable(&error);
            tracing::error!(bucket = %bucket, error = %error, "blob is not as it was written");
            let code = error.code().to_owned();
            named.push(UnreadableBlob {
                bucket: bucket.to_string(),
                key: key.to_string(),
                version,
                code,
            });
        }
        let (unreadable, bytes) = (named.len() as u64, size.saturating_sub(from));
        checked.add(Checked { blobs: 1, bytes, unreadable, named, next: Some(next) });
        Ok(())
    }

    /// Reads a blob on from a place. `None` at its end, else the checksum up to where it paused.
    async fn read_on(
        &self,
        blob: Blob,
        (from, crc32): (u64, u32),
        (bytes, pace): (u64, &mut Pace),
        read: &mut u64,
    ) -> Result<Option<u32>, BucketError> {
        let end = blob.size;
        let mut reading = BlobReader::resume(&self.shared, blob, from, crc32).await?;
        while let Some(piece) = reading.piece().await? {
            *read += piece.len() as u64;
            pace.read(&self.shared, piece.len()).await;
            if from + *read < end && (bytes <= *read || self.shared.changes.is_closed()) {
                return Ok(Some(reading.crc32()));
            }
        }
        Ok(None)
    }

    /// Those of the named blobs that still cannot be read. Large ones are not read again.
    #[steadfast_store::boxed]
    pub async fn still_unreadable(
        &self,
        named: Vec<UnreadableBlob>,
    ) -> Result<Vec<UnreadableBlob>, BucketError> {
        let (mut left, mut still) = (AGAIN_BYTES, Vec::new());
        for it in named {
            let (bucket, key) = (BucketName::new(&it.bucket)?, BlobKey::new(&it.key)?);
            let blob = match self.head(&bucket, &key).await {
                Ok(blob) if blob.version() == it.version => blob,
                Ok(_)
                | Err(BucketError::UnknownBlob { .. } | BucketError::UnknownBucket { .. }) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (size, mut read) = (blob.size, 0);
            let mut pace = Pace { rate: u64::MAX, owed: 0 };
            let is_good = size <= left && {
                let again = self.read_on(blob, (0, 0), (u64::MAX, &mut pace), &mut read).await;
                matches!(again, Ok(None))
            };
            left = left.saturating_sub(read);
            if !is_good {
                still.push(it);
            }
        }
        Ok(still)
    }

    /// The record of the checks in the background.
    #[steadfast_store::boxed]
    pub async fn check_record(&self) -> Result<CheckRecord, BucketError> {
        let Found { emptied_at, restored_at } = *self.shared.found.lock();
        let record = SYSTEM.find(&*self.shared.store, CHECK).await?.value.unwrap_or_default();
        Ok(CheckRecord { emptied_at, restored_at, ..record })
    }

    /// Checks all blobs once per period, for as long as it is polled. After a restart it continues.
    #[steadfast_store::boxed]
    pub async fn check_in_background(self) {
        let clock = self.shared.clock.clone();
        let is_emptied = self.check_record().await.is_ok_and(|it| it.is_emptied());
        if !is_emptied {
            clock.sleep(FIRST).await;
        }
        loop {
            let pause = match self.next_check().await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(error = %error, "blobs are not checked");
                    PAUSE
                }
            };
            if self.shared.changes.is_closed() {
                return;
            }
            clock.sleep(pause).await;
        }
    }

    /// Continues or begins a check, if one is due. Returns the time until the next.
    async fn next_check(&self) -> Result<Duration, BucketError> {
        let mut record = self.check_record().await?;
        let (now, every) = (self.shared.clock.now(), self.shared.options.check_every);
        if record.is_emptied() && record.began_at < record.emptied_at {
            tracing::error!("the folder of the blobs was emptied: all blobs are checked now");
            record.began_at = None;
        }
        if record.began_at.is_none() {
            let next = record.ended_at.map_or(now, |it| Timestamp(it).after(every));
            if now < next && !record.is_emptied() {
                return Ok(Duration::from_millis((next.0 - now.0).unsigned_abs()));
            }
            (record.began_at, record.now) = (Some(now.0), Checked::default());
        }
        let after = record.now.next.clone();
        let part = self.check(after, BACKGROUND_BYTES, BACKGROUND_RATE).await?;
        record.now.add(part);
        let is_over = record.now.next.is_none();
        if is_over && record.now.blobs == 0 && record.ended_at.is_none() && !record.is_emptied() {
            return Ok(every);
        }
        if is_over {
            record.last = std::mem::take(&mut record.now);
            (record.began_at, record.ended_at) = (None, Some(self.shared.clock.now().0));
        }
        let put = Put::of(SYSTEM.entry(CHECK)?, &record)?;
        let _ = self.shared.commit(Commit::of(Write::Put(put))).await?;
        Ok(if is_over { every } else { Duration::ZERO })
    }
}

/// The record of the checks is one of them.
const SYSTEM: Records<CheckRecord> = Records::new("system");

const CHECK: &[u8] = b"blob-check";

impl Checked {
    /// Adds the next part of the same check.
    pub fn add(&mut self, part: Self) {
        self.blobs += part.blobs;
        self.bytes += part.bytes;
        self.unreadable += part.unreadable;
        let room = NAMED_MAX.saturating_sub(self.named.len());
        self.named.extend(part.named.into_iter().take(room));
        self.next = part.next;
    }
}

/// Limits the bytes read per second.
struct Pace {
    rate: u64,
    owed: u64,
}

impl Pace {
    /// Waits once a tenth of a second's bytes are read. What the reads themselves take is not
    /// subtracted: the rate is an upper bound.
    async fn read(&mut self, shared: &Shared, bytes: usize) {
        self.owed += bytes as u64;
        if self.rate / 10 <= self.owed {
            let wait = Duration::from_micros(self.owed * 1_000_000 / self.rate.max(1));
            self.owed = 0;
            shared.clock.sleep(wait).await;
        }
    }
}
