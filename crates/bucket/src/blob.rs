//! A blob as the index knows it.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use steadfast_store::{Entry, Json, StoreError, Timestamp};

use crate::{
    BlobKey, BucketError, METADATA_BYTES_MAX, MoreSums,
    content::{ContentId, FileName},
    digest::Checksums,
    more_sums::unhex,
};

/// Attributes that the writer of a blob gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Its media type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Headers that are given back with it: Cache-Control, Content-Disposition, Content-Encoding,
    /// Content-Language, Expires. Names are lowercase.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Its own metadata. Names are lowercase.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl Attributes {
    /// Says only of which type it is.
    pub fn of_type(content_type: &str) -> Self {
        Self { content_type: Some(content_type.into()), ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), BucketError> {
        let bytes = |it: &BTreeMap<String, String>| -> usize {
            it.iter().map(|(name, value)| name.len() + value.len()).sum()
        };
        let headers = bytes(&self.headers) + self.content_type.as_ref().map_or(0, String::len);
        for len in [bytes(&self.metadata), headers] {
            if METADATA_BYTES_MAX < len {
                return Err(BucketError::Metadata { len, max: METADATA_BYTES_MAX });
            }
        }
        Ok(())
    }
}

/// A blob in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its key.
    pub key: BlobKey,
    /// How many bytes it has.
    pub size: u64,
    /// The tag of its content, without quotes: its SHA-256. What came through S3 has the MD5, or
    /// that of its parts and their number, because clients there expect it.
    pub etag: String,
    /// The number of the write in the sequence of its key.
    pub sequence: i64,
    /// When it was written.
    pub modified_at: Timestamp,
    /// Attributes that its writer gave it.
    pub attributes: Attributes,
    /// The CRC-32 of its bytes.
    pub crc32: u32,
    /// The SHA-256 of its bytes, unless it came through S3 without one; of a blob that came in
    /// parts, that of the SHA-256 of its parts, as S3 has it.
    pub sha256: Option<[u8; 32]>,
    /// Other checksums that were asked for when it was written.
    pub more: MoreSums,
    pub(crate) content: ContentId,
    pub(crate) parts: Vec<(u64, u64)>,
}

impl Blob {
    /// A blob that a program in another process tells of, without its parts and other checksums;
    /// `None` if `version` names no write.
    pub fn told(
        key: BlobKey,
        (size, sequence, modified_at): (u64, i64, Timestamp),
        (etag, version): (String, &str),
        attributes: Attributes,
        (crc32, sha256): (u32, Option<[u8; 32]>),
    ) -> Option<Self> {
        let content = ContentId::from_hex(version)?;
        let (more, parts) = (MoreSums::default(), Vec::new());
        let blob = Self {
            key,
            size,
            etag,
            sequence,
            modified_at,
            attributes,
            crc32,
            sha256,
            more,
            content,
            parts,
        };
        Some(blob)
    }

    /// Names this write of the key, and no other.
    pub fn version(&self) -> String {
        self.content.to_string()
    }

    pub(crate) fn sums(&self) -> Checksums {
        let Self { size, crc32, sha256, more, .. } = *self;
        Checksums { size, md5: None, crc32, sha256, more }
    }

    /// How many parts it was uploaded in; 0 if in one piece.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The bytes of a part, counted from 1. What came in one piece is its only part.
    pub fn part_range(&self, number: u32) -> Option<std::ops::Range<u64>> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        if self.parts.is_empty() {
            return (index == 0).then_some(0..self.size);
        }
        let (_, size) = self.parts.get(index)?;
        let begin = self.parts[..index].iter().map(|it| it.1).sum();
        Some(begin..begin + size)
    }

    /// Its files, and how many bytes each has.
    pub(crate) fn files(&self) -> Vec<(FileName, u64)> {
        let content = self.content;
        if self.parts.is_empty() {
            return vec![(FileName { content, part: None }, self.size)];
        }
        let name = |part: u64| FileName { content, part: Some(part) };
        self.parts.iter().map(|(part, size)| (name(*part), *size)).collect()
    }

    pub(crate) fn read(entry: &Entry) -> Result<Option<Self>, BucketError> {
        let Some(value) = &entry.value else { return Ok(None) };
        let damaged = |reason: &str| {
            let reason = format!("entry {:?} {reason}", entry.entry);
            BucketError::Store(StoreError::Corrupt { reason })
        };
        let key = std::str::from_utf8(entry.entry.key()).map_err(|_| damaged("is not a text"))?;
        let stored: Stored = serde_json::from_str(value.as_str())
            .map_err(|error| damaged(&format!("is not a blob: {error}")))?;
        let content = ContentId::from_hex(&stored.id).ok_or_else(|| damaged("has no id"))?;
        Ok(Some(Self {
            key: BlobKey::new(key)?,
            size: stored.size,
            etag: stored.etag,
            sequence: stored.floor + entry.revision,
            modified_at: entry.changed_at,
            attributes: stored.attributes,
            crc32: stored.crc32,
            sha256: stored.sha256.as_deref().and_then(unhex),
            more: stored.more,
            content,
            parts: stored.parts,
        }))
    }
}

/// The row of a blob in the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    id: String,
    pub(crate) size: u64,
    pub(crate) etag: String,
    crc32: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(rename = "sums", default, skip_serializing_if = "MoreSums::is_empty")]
    more: MoreSums,
    #[serde(flatten)]
    pub(crate) attributes: Attributes,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<(u64, u64)>,
    /// The floor of the bucket when it was written.
    #[serde(default, skip_serializing_if = "is_zero")]
    floor: i64,
}

fn is_zero(it: &i64) -> bool {
    *it == 0
}

impl Stored {
    /// A blob in one piece.
    pub(crate) fn whole(id: ContentId, sums: &Checksums, attributes: Attributes) -> Self {
        let (etag, sha256) = (sums.tag(), sums.sha256.map(|it| HEXLOWER.encode(&it)));
        let (id, size, crc32, more) = (id.to_string(), sums.size, sums.crc32, sums.more);
        Self { id, size, etag, crc32, sha256, more, attributes, parts: Vec::new(), floor: 0 }
    }

    /// A blob that came in parts.
    pub(crate) fn of_parts(
        id: ContentId,
        etag: String,
        sums: &Checksums,
        attributes: Attributes,
        parts: Vec<(u64, u64)>,
    ) -> Self {
        Self { etag, parts, ..Self::whole(id, sums, attributes) }
    }

    /// The same bytes under another id.
    pub(crate) fn copy(blob: &Blob, id: ContentId, attributes: Attributes) -> Self {
        Self {
            id: id.to_string(),
            size: blob.size,
            etag: blob.etag.clone(),
            crc32: blob.crc32,
            sha256: blob.sha256.map(|it| HEXLOWER.encode(&it)),
            more: blob.more,
            attributes,
            parts: blob.parts.clone(),
            floor: 0,
        }
    }

    /// The same, written when this was the floor of the bucket.
    pub(crate) fn above(&self, floor: i64) -> Self {
        Self { floor, ..self.clone() }
    }

    pub(crate) fn json(&self) -> Result<Json, BucketError> {
        Ok(Json::of(self)?)
    }
}

#[cfg(test)]
mod tests {
    use steadfast_store::limits::ENTRY_BYTES_MAX;

    use super::*;

    #[test]
    fn a_blob_of_ten_thousand_large_parts_fits_into_an_entry() {
        let (id, attributes) = (ContentId([u8::MAX; 16]), Attributes::default());
        let parts = (0..10_000).map(|it| (u64::MAX - it, 5 << 30)).collect();
        let (crc32c, crc64nvme, sha1) = (Some(u32::MAX), Some(u64::MAX), Some([1; 20]));
        let more = MoreSums { crc32c, crc64nvme, sha1 };
        let (size, sha256) = (50_000 << 30, Some([1; 32]));
        let sums = Checksums { size, md5: None, crc32: u32::MAX, sha256, more };
        let stored = Stored::of_parts(id, "e".repeat(38), &sums, attributes, parts);
        assert!(stored.json().unwrap().as_str().len() < ENTRY_BYTES_MAX / 2);
    }
}
