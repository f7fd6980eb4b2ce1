//! Parts of uploads: each is durable for itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Commit, Entry, EntryKey, Expect, Json, Put, StoreError, Timestamp, Write, crash,
};

use crate::{
    BucketError, BucketName, Buckets, Expected, MoreHashes, MoreSums, Upload,
    buckets::Shared,
    change::is_certain,
    content::{ContentId, FileName},
    digest::{Hashes, hex, unhex},
    readers::Hold,
    writer::BytesWriter,
};

/// A part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 1.
    pub number: u32,
    /// How many bytes it has.
    pub size: u64,
    /// The tag of its content: its MD5.
    pub etag: String,
    /// The CRC-32 of its bytes.
    pub crc32: u32,
    /// The SHA-256 of its bytes, if it was sent.
    pub sha256: Option<[u8; 32]>,
    /// Other checksums that were asked for when it was sent.
    pub more: MoreSums,
    /// When it was uploaded.
    pub modified_at: Timestamp,
    pub(crate) file: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredPart {
    file: u64,
    size: u64,
    etag: String,
    crc32: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(rename = "sums", default, skip_serializing_if = "MoreSums::is_empty")]
    more: MoreSums,
}

impl StoredPart {
    fn part(self, number: u32, modified_at: Timestamp) -> Part {
        let Self { file, size, etag, crc32, sha256, more } = self;
        let sha256 = sha256.as_deref().and_then(unhex);
        Part { number, size, etag, crc32, sha256, more, modified_at, file }
    }
}

impl Part {
    pub(crate) fn entry(
        bucket: &BucketName,
        content: ContentId,
        number: u32,
    ) -> Result<EntryKey, BucketError> {
        let mut bytes = content.0.to_vec();
        bytes.extend_from_slice(&number.to_be_bytes());
        Ok(EntryKey::new(&bucket.parts(), &bytes)?)
    }

    pub(crate) fn read(entry: &Entry) -> Result<Option<Self>, BucketError> {
        let Some(value) = &entry.value else { return Ok(None) };
        let damaged = || {
            let reason = format!("entry {:?} is not a part", entry.entry);
            BucketError::Store(StoreError::Corrupt { reason })
        };
        let (_, number) = entry.entry.key().split_last_chunk::<4>().ok_or_else(damaged)?;
        let stored: StoredPart = serde_json::from_str(value.as_str()).map_err(|_| damaged())?;
        Ok(Some(stored.part(u32::from_be_bytes(*number), entry.changed_at)))
    }

    pub(crate) fn name(&self, content: ContentId) -> FileName {
        FileName { content, part: Some(self.file) }
    }
}

/// A part that is being written. Dropped, it leaves nothing.
pub struct PartWriter {
    pub(crate) buckets: Buckets,
    pub(crate) bucket: BucketName,
    pub(crate) upload: Upload,
    pub(crate) number: u32,
    pub(crate) bytes: BytesWriter,
}

impl PartWriter {
    /// Computes the SHA-256, too. To be said before anything is written.
    pub fn with_sha256(mut self) -> Self {
        self.bytes = self.bytes.with(Hashes::Both);
        self
    }

    /// Computes these checksums, too. To be said before anything is written, behind the others.
    pub fn with_more(mut self, more: MoreHashes) -> Self {
        self.bytes = self.bytes.and(more);
        self
    }

    /// Adds bytes to its end.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.bytes.write(bytes).await
    }

    /// Puts it into the upload, in place of one of the same number.
    pub async fn finish(self, expected: Expected) -> Result<Part, BucketError> {
        Shared::to_the_end(self.seal_and_put(expected)).await
    }

    async fn seal_and_put(self, expected: Expected) -> Result<Part, BucketError> {
        let Self { buckets, bucket, upload, number, bytes } = self;
        let name = bytes.name;
        let hold = Hold::new(&buckets.shared, name.content);
        let (sums, _changing) = bytes.seal(expected).await?;
        let (file, etag) = (name.part.unwrap_or_default(), sums.tag());
        let sha256 = sums.sha256.map(|it| hex(&it));
        let (size, crc32, more) = (sums.size, sums.crc32, sums.more);
        let stored = StoredPart { file, size, etag, crc32, sha256, more };
        let result = buckets.shared.put_part(&bucket, &upload, number, stored).await;
        drop(hold);
        match &result {
            Ok((_, Some(before))) => buckets.shared.discard(vec![*before]).await,
            Err(error) if is_certain(error) => buckets.shared.discard(vec![name]).await,
            Err(_) => buckets.shared.doubt(&[name]),
            Ok((_, None)) => {}
        }
        Ok(result?.0)
    }
}

impl Shared {
    async fn put_part(
        &self,
        bucket: &BucketName,
        upload: &Upload,
        number: u32,
        stored: StoredPart,
    ) -> Result<(Part, Option<FileName>), BucketError> {
        let entry = Part::entry(bucket, upload.content, number)?;
        let of_upload = Upload::entry(bucket, &upload.key, upload.content)?;
        let value = Some(Json::of(&stored)?);
        loop {
            let whole = self.store.entry(&of_upload).await?.filter(|it| it.value.is_some());
            let Some(whole) = whole else {
                return Err(BucketError::UnknownUpload { upload: upload.id.clone() });
            };
            let found = self.store.entry(&entry).await?;
            let revision = found.as_ref().map_or(0, |it| it.revision);
            let before = found.as_ref().map(Part::read).transpose()?.flatten();
            let (reference, expires) = (None, None);
            let put = Put { entry: entry.clone(), value: value.clone(), reference, expires };
            let its = (of_upload.clone(), whole.revision);
            let mut commit = Commit::of(Write::Put(put))
                .expect(Expect::Revision { entry: its.0, revision: its.1 })
                .expect(Expect::Revision { entry: entry.clone(), revision });
            if before.is_some() {
                // Who puts the parts together may have read the old one, whose file is about to go.
                let Entry { entry, value, reference, .. } = whole;
                commit = commit.write(Write::Put(Put { entry, value, reference, expires }));
            }
            crash::point("part.prepared");
            // Otherwise somebody was faster, and it is decided anew.
            let before = before.map(|it| it.name(upload.content));
            let decided = self.commit(commit).await;
            if decided.as_ref().is_err_and(|it| !is_certain(it)) {
                self.doubt(before.as_slice());
            }
            if let Ok(receipt) = decided? {
                crash::point("part.committed");
                let part = stored.part(number, receipt.at);
                return Ok((part, before));
            }
        }
    }

    /// If the upload has perhaps ended, its parts are left to the sweep.
    pub(crate) fn leave_parts(&self, error: &BucketError) {
        if !is_certain(error) {
            self.changes.leave_parts();
        }
    }

    /// Removes the rows of the parts of an upload that has ended; what is left, the sweep removes.
    pub(crate) async fn forget_parts(
        &self,
        bucket: &BucketName,
        content: ContentId,
    ) -> Result<(), BucketError> {
        let forgotten = self.remove_parts(bucket, content).await;
        if forgotten.is_err() {
            self.changes.leave_parts();
        }
        forgotten
    }

    async fn remove_parts(
        &self,
        bucket: &BucketName,
        content: ContentId,
    ) -> Result<(), BucketError> {
        loop {
            let entries = self.page(&bucket.parts(), &content.0, None).await?;
            if entries.is_empty() {
                return Ok(());
            }
            let mut commit = Commit::default();
            let mut gone = Vec::new();
            for Entry { entry, .. } in entries {
                let (value, reference, expires) = (None, None, Some(Duration::ZERO));
                gone.push(entry.clone());
                commit = commit.write(Write::Put(Put { entry, value, reference, expires }));
            }
            self.commit(commit.write(Write::ExpireEntries { entries: gone })).await?.ok();
        }
    }
}
