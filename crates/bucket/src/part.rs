//! A part of a multipart upload, and its row.

use serde::{Deserialize, Serialize};
use steadfast_store::{Entry, EntryKey, StoreError, Timestamp};

use crate::{
    BucketError, BucketName, ExtraChecksums,
    content::{ContentId, FileName},
    extra_checksums::unhex,
};

/// A part of a multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number, from 1.
    pub number: u32,
    /// Size in bytes.
    pub size: u64,
    /// ETag: the MD5 of the content.
    pub etag: String,
    /// CRC-32 of the bytes.
    pub crc32: u32,
    /// SHA-256 of the bytes, if the writer asked for it.
    pub sha256: Option<[u8; 32]>,
    /// Other checksums that the writer asked for.
    pub more: ExtraChecksums,
    /// Time of the upload.
    pub modified_at: Timestamp,
    pub(crate) file: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PartRow {
    pub(crate) file: u64,
    pub(crate) size: u64,
    pub(crate) etag: String,
    pub(crate) crc32: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
    #[serde(rename = "sums", default, skip_serializing_if = "ExtraChecksums::is_empty")]
    pub(crate) more: ExtraChecksums,
}

impl PartRow {
    pub(crate) fn part(self, number: u32, modified_at: Timestamp) -> Part {
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
        let stored: PartRow = serde_json::from_str(value.as_str()).map_err(|_| damaged())?;
        Ok(Some(stored.part(u32::from_be_bytes(*number), entry.changed_at)))
    }

    pub(crate) fn name(&self, content: ContentId) -> FileName {
        FileName { content, part: Some(self.file) }
    }
}
