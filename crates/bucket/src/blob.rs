//! Blobs and the parts of multipart uploads, their rows in the index, and the conditions of a
//! request on the current blob.

use std::{collections::BTreeMap, io};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize, Serializer};
use steadfast_store::{Entry, EntryKey, StoreError, Timestamp};

use crate::{
    BlobKey, BucketError, BucketName, ChecksumKind, Checksums, METADATA_BYTES_MAX,
    content::{ContentId, FileName},
    digest::{ContentSums, unhex},
};

/// `EMFILE` and `ENFILE`.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

/// Attributes that the writer of a blob sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Media type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Headers that reads return: Cache-Control, Content-Disposition, Content-Encoding,
    /// Content-Language, Expires. Names are lowercase.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// User metadata. Names are lowercase.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl Attributes {
    /// Attributes with a media type only.
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

/// A blob in a bucket. In the API it is a `BlobJson`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BlobJson")]
pub struct Blob {
    /// Its key.
    pub key: BlobKey,
    /// Size in bytes.
    pub size: u64,
    /// The ETag, without quotes: the SHA-256 of the content. Blobs written through S3 have the MD5,
    /// or the MD5 of the MD5s of their parts and the number of parts, because S3 clients expect it.
    pub etag: String,
    /// Number of this write in the sequence of its key.
    pub sequence: i64,
    /// Time of the write.
    pub modified_at: Timestamp,
    /// Attributes that the writer set.
    pub attributes: Attributes,
    /// CRC-32 of the bytes.
    pub crc32: u32,
    /// SHA-256 of the bytes; `None` if S3 wrote the blob without one. For a multipart upload it is
    /// the SHA-256 of the SHA-256s of the parts, as in S3.
    pub sha256: Option<[u8; 32]>,
    /// Other checksums that the writer asked for.
    pub more: Checksums,
    pub(crate) content: ContentId,
    pub(crate) parts: Vec<(u64, u64)>,
}

/// A blob.
// Without its parts, its other checksums and the headers of its attributes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct BlobJson {
    /// Its key.
    key: String,
    /// Size in bytes.
    size: u64,
    /// The ETag of its content.
    etag: String,
    /// When it was written.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    modified_at: Timestamp,
    /// Its media type, if the writer sent one.
    content_type: Option<String>,
    /// The number of the write in the sequence of its key.
    sequence: i64,
    /// Identifies this write of the key.
    version: String,
    /// User metadata.
    metadata: BTreeMap<String, String>,
    /// The CRC-32 of its bytes, 8 hexadecimal digits.
    crc32: String,
    /// The SHA-256 of its bytes, 64 hexadecimal digits; null if it was not computed.
    sha256: Option<String>,
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = BlobJson {
            key: self.key.to_string(),
            size: self.size,
            modified_at: self.modified_at,
            sequence: self.sequence,
            version: self.version(),
            etag: self.etag.clone(),
            content_type: self.attributes.content_type.clone(),
            metadata: self.attributes.metadata.clone(),
            crc32: format!("{:08x}", self.crc32),
            sha256: self.sha256.map(|it| HEXLOWER.encode(&it)),
        };
        json.serialize(serializer)
    }
}

/// Fails with the name of the field that cannot be parsed.
impl TryFrom<BlobJson> for Blob {
    type Error = String;

    fn try_from(it: BlobJson) -> Result<Self, String> {
        let wrong =
            |field: &str, value: &str| format!("`{value}` is not a valid {field} of a blob");
        let sha256 = it.sha256.map(|text| unhex(&text).ok_or_else(|| wrong("sha256", &text)));
        let (content_type, metadata) = (it.content_type, it.metadata);
        Ok(Self {
            key: BlobKey::new(&it.key).map_err(|error| error.to_string())?,
            size: it.size,
            etag: it.etag,
            sequence: it.sequence,
            modified_at: it.modified_at,
            attributes: Attributes { content_type, metadata, ..Attributes::default() },
            crc32: u32::from_str_radix(&it.crc32, 16).map_err(|_| wrong("crc32", &it.crc32))?,
            sha256: sha256.transpose()?,
            more: Checksums::default(),
            content: ContentId::from_hex(&it.version)
                .ok_or_else(|| wrong("version", &it.version))?,
            parts: Vec::new(),
        })
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Blob {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        BlobJson::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Blob {}

impl Blob {
    /// Identifies this write of the key.
    pub fn version(&self) -> String {
        self.content.to_string()
    }

    pub(crate) fn sums(&self) -> ContentSums {
        let Self { size, crc32, sha256, .. } = *self;
        ContentSums { size, md5: None, crc32, sha256, more: self.more.clone() }
    }

    /// Number of parts of the multipart upload; 0 if the blob was written in one piece.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Bytes of a part, counted from 1. A blob written in one piece has one part.
    pub fn part_range(&self, number: u32) -> Option<std::ops::Range<u64>> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        if self.parts.is_empty() {
            return (index == 0).then_some(0..self.size);
        }
        let (_, size) = self.parts.get(index)?;
        let begin = self.parts[..index].iter().map(|it| it.1).sum();
        Some(begin..begin + size)
    }

    /// The blob's files with their sizes.
    pub(crate) fn files(&self) -> Vec<(FileName, u64)> {
        let content = self.content;
        if self.parts.is_empty() {
            return vec![(FileName { content, part: None }, self.size)];
        }
        let name = |part: u64| FileName { content, part: Some(part) };
        self.parts.iter().map(|(part, size)| (name(*part), *size)).collect()
    }

    /// The error of a file of it that cannot be read.
    pub(crate) fn unreadable(&self, error: io::Error) -> BucketError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return self.damaged("its file is too short");
        }
        if error.kind() == io::ErrorKind::NotFound {
            return BucketError::Missing { key: self.key.to_string(), version: self.version() };
        }
        if error.raw_os_error().is_some_and(|it| TOO_MANY_FILES.contains(&it)) {
            // This says nothing about the file.
            return StoreError::Unavailable { reason: error.to_string() }.into();
        }
        error.into()
    }

    pub(crate) fn damaged(&self, reason: &'static str) -> BucketError {
        BucketError::Damaged { key: self.key.to_string(), version: self.version(), reason }
    }

    pub(crate) fn read(entry: &Entry) -> Result<Option<Self>, BucketError> {
        let Some(stored) = entry.parse::<BlobRow>()? else { return Ok(None) };
        let key = std::str::from_utf8(entry.entry.key());
        let key = key.map_err(|_| damaged(entry, "is not a text"))?;
        let content = ContentId::from_hex(&stored.id);
        let content = content.ok_or_else(|| damaged(entry, "has no id"))?;
        let key = BlobKey::new(key)?;
        Ok(Some(stored.blob(key, content, entry.revision, entry.changed_at)))
    }
}

/// The error of a row that does not have its form.
pub(crate) fn damaged(entry: &Entry, reason: &str) -> BucketError {
    let reason = format!("entry {:?} {reason}", entry.entry);
    BucketError::Store(StoreError::Corrupt { reason })
}

/// The row of a blob in the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BlobRow {
    id: String,
    pub(crate) size: u64,
    pub(crate) etag: String,
    crc32: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(rename = "sums", default, skip_serializing_if = "BTreeMap::is_empty")]
    more: Checksums,
    #[serde(flatten)]
    pub(crate) attributes: Attributes,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<(u64, u64)>,
    /// Floor of the bucket at the time of the write.
    #[serde(default, skip_serializing_if = "is_zero")]
    floor: i64,
}

fn is_zero(it: &i64) -> bool {
    *it == 0
}

impl BlobRow {
    /// A blob written in one piece.
    pub(crate) fn whole(id: ContentId, sums: ContentSums, attributes: Attributes) -> Self {
        let (etag, sha256) = (sums.tag(), sums.sha256.map(|it| HEXLOWER.encode(&it)));
        let (id, ContentSums { size, crc32, more, .. }) = (id.to_string(), sums);
        Self { id, size, etag, crc32, sha256, more, attributes, parts: Vec::new(), floor: 0 }
    }

    /// A blob of a multipart upload.
    pub(crate) fn of_parts(
        id: ContentId,
        etag: String,
        sums: ContentSums,
        attributes: Attributes,
        parts: Vec<(u64, u64)>,
    ) -> Self {
        Self { etag, parts, ..Self::whole(id, sums, attributes) }
    }

    /// The same content under another id.
    pub(crate) fn copy(blob: &Blob, id: ContentId, attributes: Attributes) -> Self {
        let (etag, parts) = (blob.etag.clone(), blob.parts.clone());
        Self::of_parts(id, etag, blob.sums(), attributes, parts)
    }

    /// The blob whose row this is, with its revision.
    pub(crate) fn blob(
        self,
        key: BlobKey,
        content: ContentId,
        revision: i64,
        modified_at: Timestamp,
    ) -> Blob {
        let Self { id: _, size, etag, crc32, sha256, more, attributes, parts, floor } = self;
        let (sequence, sha256) = (floor + revision, sha256.as_deref().and_then(unhex));
        Blob {
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
        }
    }

    /// The same row, written above this floor of the bucket.
    pub(crate) fn with_floor(&self, floor: i64) -> Self {
        Self { floor, ..self.clone() }
    }
}

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
    pub more: Checksums,
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
    #[serde(rename = "sums", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) more: Checksums,
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
        let Some(stored) = entry.parse::<PartRow>()? else { return Ok(None) };
        let number = entry.entry.key().split_last_chunk::<4>();
        let (_, number) = number.ok_or_else(|| damaged(entry, "is not a part"))?;
        Ok(Some(stored.part(u32::from_be_bytes(*number), entry.changed_at)))
    }

    pub(crate) fn name(&self, content: ContentId) -> FileName {
        FileName { content, part: Some(self.file) }
    }

    /// The checksum that one of this kind of the whole is made of, if it is known.
    pub(crate) fn sum(&self, kind: ChecksumKind) -> Option<Vec<u8>> {
        match kind {
            ChecksumKind::Crc32 | ChecksumKind::CompositeCrc32 => {
                Some(self.crc32.to_be_bytes().to_vec())
            }
            ChecksumKind::Sha256 => self.sha256.map(|it| it.to_vec()),
            ChecksumKind::CompositeCrc32c => self.sum(ChecksumKind::Crc32c),
            ChecksumKind::Crc32c | ChecksumKind::Crc64nvme | ChecksumKind::Sha1 => {
                HEXLOWER.decode(self.more.get(&kind)?.as_bytes()).ok()
            }
        }
    }
}

/// Matches a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// Any blob.
    Any,
    /// A blob with one of these ETags, without quotes.
    Etag(Vec<String>),
    /// Exactly this write of the key.
    Version(String),
}

impl Match {
    fn fits(&self, blob: &Blob) -> bool {
        match self {
            Match::Any => true,
            Match::Etag(etags) => etags.contains(&blob.etag),
            Match::Version(version) => *version == blob.version(),
        }
    }
}

/// Conditions of a request on the current blob, as in HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The blob must match.
    pub if_match: Option<Match>,
    /// The blob must not match.
    pub if_none_match: Option<Match>,
    /// The blob was written after this time.
    pub if_modified_since: Option<Timestamp>,
    /// The blob was not written after this time.
    pub if_unmodified_since: Option<Timestamp>,
}

impl Condition {
    /// No blob exists under the key.
    pub fn absent() -> Self {
        Self { if_none_match: Some(Match::Any), ..Self::default() }
    }

    /// The current blob is exactly this write of the key.
    pub fn version(version: &str) -> Self {
        Self { if_match: Some(Match::Version(version.into())), ..Self::default() }
    }

    /// Checks the condition of a read.
    pub fn check_read(&self, blob: &Blob) -> Result<(), BucketError> {
        let failed = |reason| Err(BucketError::Condition { key: blob.key.to_string(), reason });
        match (&self.if_match, self.if_unmodified_since) {
            (Some(it), _) if !it.fits(blob) => return failed("its ETag or version differs"),
            // Times in HTTP headers have whole seconds.
            (None, Some(at)) if seconds(at) < seconds(blob.modified_at) => {
                return failed("it was modified after that time");
            }
            _ => {}
        }
        let is_same = match (&self.if_none_match, self.if_modified_since) {
            (Some(it), _) => it.fits(blob),
            (None, Some(at)) => seconds(blob.modified_at) <= seconds(at),
            (None, None) => false,
        };
        if is_same {
            let (key, etag) = (blob.key.to_string(), blob.etag.clone());
            return Err(BucketError::NotModified { key, etag });
        }
        Ok(())
    }

    /// Checks the condition of a write or delete.
    pub(crate) fn check_write(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        found: Option<&Blob>,
    ) -> Result<(), BucketError> {
        let failed = |reason| Err(BucketError::Condition { key: key.to_string(), reason });
        match found {
            None if self.if_match.is_some() => {
                Err(BucketError::UnknownBlob { bucket: bucket.to_string(), key: key.to_string() })
            }
            None => Ok(()),
            Some(blob) if self.if_match.as_ref().is_some_and(|it| !it.fits(blob)) => {
                failed("its ETag or version differs")
            }
            Some(blob) if self.if_none_match.as_ref().is_some_and(|it| it.fits(blob)) => {
                failed("it exists")
            }
            Some(_) => Ok(()),
        }
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000)
}

#[cfg(test)]
mod tests {
    use steadfast_store::{Json, limits::ENTRY_BYTES_MAX};

    use super::*;

    #[test]
    fn a_blob_of_ten_thousand_large_parts_fits_into_an_entry() {
        let (id, attributes) = (ContentId([u8::MAX; 16]), Attributes::default());
        let parts = (0..10_000).map(|it| (u64::MAX - it, 5 << 30)).collect();
        let more = ChecksumKind::ALL.map(|it| (it, "f".repeat(40))).into();
        let (size, sha256) = (50_000 << 30, Some([1; 32]));
        let sums = ContentSums { size, md5: None, crc32: u32::MAX, sha256, more };
        let stored = BlobRow::of_parts(id, "e".repeat(38), sums, attributes, parts);
        assert!(Json::of(&stored).unwrap().as_str().len() < ENTRY_BYTES_MAX / 2);
    }
}
