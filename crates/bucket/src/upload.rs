//! Multipart uploads: each part is durable by itself, and one commit makes the blob visible.

use std::{collections::HashSet, time::Duration};

use crc_fast::{
    CrcAlgorithm::{self, Crc32Iscsi, Crc32IsoHdlc, Crc64Nvme},
    checksum, checksum_combine,
};
use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::Sha256;
use steadfast_store::{
    Commit, Entry, EntryKey, Expect, Put, Receipt, Rejection, Timestamp, Write, crash,
};

use crate::{
    Attributes, Blob, BlobAction, BlobKey, BucketError, BucketName, Buckets, ChecksumKind,
    Checksums, Condition, ExpectedContent, PART_BYTES_MIN, Part, PartError,
    blob::{BlobRow, damaged},
    buckets::{Hold, Shared},
    change::Change,
    content::ContentId,
    digest::{ContentSums, first_mismatch, unhex},
    quota::{Place, UsageChange},
};

/// A multipart upload in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its id.
    pub id: String,
    /// The key of the blob.
    pub key: BlobKey,
    /// Time of the beginning.
    pub began_at: Timestamp,
    /// Attributes of the blob.
    pub attributes: Attributes,
    /// The checksum that the sender announced.
    pub checksum: Option<ChecksumKind>,
    pub(crate) content: ContentId,
    /// Changes when a part is replaced.
    pub(crate) revision: i64,
}

#[derive(Serialize, Deserialize)]
struct UploadRow {
    #[serde(flatten)]
    attributes: Attributes,
    /// The name of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

impl Upload {
    pub(crate) fn entry(
        bucket: &BucketName,
        key: &BlobKey,
        content: ContentId,
    ) -> Result<EntryKey, BucketError> {
        let mut bytes = key.as_str().as_bytes().to_vec();
        bytes.push(0);
        bytes.extend_from_slice(&content.0);
        Ok(EntryKey::new(&bucket.uploads(), &bytes)?)
    }

    pub(crate) fn read(entry: &Entry) -> Result<Option<Self>, BucketError> {
        let Some(row) = entry.parse::<UploadRow>()? else { return Ok(None) };
        let damaged = || damaged(entry, "is not an upload");
        let (key, id) = entry.entry.key().split_last_chunk::<16>().ok_or_else(damaged)?;
        let key = key.split_last().ok_or_else(damaged)?.1;
        let key = BlobKey::new(std::str::from_utf8(key).map_err(|_| damaged())?)?;
        let UploadRow { attributes, checksum } = row;
        let checksum = checksum.map(|it| it.parse()).transpose().map_err(|_| damaged())?;
        let content = ContentId(*id);
        let (id, began_at, revision) = (content.to_string(), content.created_at(), entry.revision);
        Ok(Some(Self { id, key, began_at, attributes, checksum, content, revision }))
    }
}

/// A part in the list of a completed upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartTag {
    /// Its number.
    pub number: u32,
    /// ETag, without quotes; `None` accepts any.
    pub etag: Option<String>,
    /// CRC-32 to verify.
    pub crc32: Option<u32>,
    /// SHA-256 to verify.
    pub sha256: Option<[u8; 32]>,
    /// Other checksums to verify.
    pub more: Checksums,
}

impl Buckets {
    /// Begins a multipart upload.
    #[steadfast_store::boxed]
    pub async fn begin_upload(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        attributes: Attributes,
    ) -> Result<Upload, BucketError> {
        self.begin_upload_as(bucket, key, attributes, None).await
    }

    /// Begins a multipart upload, and announces its checksum.
    #[steadfast_store::boxed]
    pub async fn begin_upload_as(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        attributes: Attributes,
        checksum: Option<ChecksumKind>,
    ) -> Result<Upload, BucketError> {
        attributes.check()?;
        let name = checksum.map(|it| <&str>::from(it).to_owned());
        let row = UploadRow { attributes, checksum: name };
        loop {
            let known = self.shared.bucket(bucket).await?;
            let content = self.shared.new_content();
            let entry = Upload::entry(bucket, key, content)?;
            let place = Place::of_upload(bucket, &entry);
            let put = Put { reference: Some(content.reference()), ..Put::of(entry, &row)? };
            let expect = Shared::expect_bucket(bucket, &known)?;
            let commit = Commit::of(Write::Put(put)).expect(expect);
            // An upload counts as an object until it ends: it takes a row, and files for its parts.
            let counter = self.shared.usage_counter(key).await?;
            let change = UsageChange { place, bytes: 0, objects: 1 };
            if counter.commit(&self.shared, commit, &[change], 0).await?.is_ok() {
                crash::point("upload.begun");
                let (id, key) = (content.to_string(), key.clone());
                let (began_at, revision) = (content.created_at(), 1);
                let attributes = row.attributes;
                return Ok(Upload { id, key, began_at, attributes, checksum, content, revision });
            }
            self.shared.cache.forget(bucket);
        }
    }

    /// An upload in progress.
    #[steadfast_store::boxed]
    pub async fn upload(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        id: &str,
    ) -> Result<Upload, BucketError> {
        self.shared.bucket(bucket).await?;
        let unknown = || BucketError::UnknownUpload { upload: id.into() };
        let content = ContentId::from_hex(id).ok_or_else(unknown)?;
        let entry = self.shared.store.entry(&Upload::entry(bucket, key, content)?).await?;
        entry.as_ref().map(Upload::read).transpose()?.flatten().ok_or_else(unknown)
    }

    /// The parts of an upload in the order of their numbers, after one of them.
    #[steadfast_store::boxed]
    pub async fn parts(
        &self,
        bucket: &BucketName,
        upload: &Upload,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Part>, BucketError> {
        let range = steadfast_store::EntryRange::prefix(&upload.content.0)
            .after(Part::entry(bucket, upload.content, after)?.key());
        let entries = self.shared.store.entries(&bucket.parts(), range, limit).await?;
        entries.iter().filter_map(|it| Part::read(it).transpose()).collect()
    }

    /// Uploads in progress, ordered by key and time, after one of them.
    #[steadfast_store::boxed]
    pub async fn uploads(
        &self,
        bucket: &BucketName,
        prefix: &str,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Result<Vec<Upload>, BucketError> {
        self.shared.bucket(bucket).await?;
        let mut range = steadfast_store::EntryRange::prefix(prefix.as_bytes());
        // Without an id, after all uploads of that key.
        let mut passed = None;
        if let Some((key, id)) = after {
            let mut behind = key.as_bytes().to_vec();
            behind.push(0);
            match id.and_then(ContentId::from_hex) {
                Some(id) => behind.extend_from_slice(&id.0),
                None => passed = Some(key),
            }
            range = range.after(&behind);
        }
        let mut found = Vec::new();
        while found.len() < limit {
            let page = limit - found.len();
            let entries = self.shared.store.entries(&bucket.uploads(), range.clone(), page).await?;
            let Some(last) = entries.last() else { break };
            range = range.after(last.entry.key());
            for upload in entries.iter().filter_map(|it| Upload::read(it).transpose()) {
                let upload = upload?;
                // The entry has an id after the key, which is not compared: keys may contain NUL.
                let key = upload.key.as_str();
                if key.starts_with(prefix) && passed != Some(key) {
                    found.push(upload);
                }
            }
        }
        Ok(found)
    }

    /// Assembles the parts. The blob and its event are durable when this returns. No bytes are
    /// copied.
    #[steadfast_store::boxed]
    pub async fn complete_upload(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        id: &str,
        tags: &[PartTag],
        condition: Condition,
    ) -> Result<Blob, BucketError> {
        let expected = ExpectedContent::default();
        self.complete_upload_as(bucket, key, id, tags, condition, expected).await
    }

    /// Completes an upload, if the blob has this size and these checksums. SHA-256 and SHA-1 are
    /// those of the checksums of the parts. A checksum that some part lacks does not match.
    #[steadfast_store::boxed]
    pub async fn complete_upload_as(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        id: &str,
        tags: &[PartTag],
        condition: Condition,
        expected: ExpectedContent,
    ) -> Result<Blob, BucketError> {
        loop {
            let upload = match self.upload(bucket, key, id).await {
                Ok(upload) => upload,
                Err(error @ BucketError::UnknownUpload { .. }) => {
                    // A caller that lost the response may repeat the request.
                    let found = self.head(bucket, key).await.ok();
                    let found = found.filter(|it| it.version() == id).ok_or(error)?;
                    expected.check(&found.sums())?;
                    return Ok(found);
                }
                Err(error) => return Err(error),
            };
            match self.complete(bucket, &upload, tags, condition.clone(), &expected).await {
                // The upload has ended, or a part was replaced after it was read.
                Err(BucketError::UnknownUpload { .. }) => {}
                Err(error @ BucketError::Part { .. }) => match self.upload(bucket, key, id).await {
                    // It ended before its parts were read, and their rows were removed.
                    Err(BucketError::UnknownUpload { .. }) => {}
                    now => return Err(now.err().unwrap_or(error)),
                },
                done => return done,
            }
        }
    }

    async fn complete(
        &self,
        bucket: &BucketName,
        upload: &Upload,
        tags: &[PartTag],
        condition: Condition,
        expected: &ExpectedContent,
    ) -> Result<Blob, BucketError> {
        let all = self.shared.all_parts(bucket, upload.content).await?;
        let chosen = choose(&all, tags)?;
        let parts = chosen.iter().map(|it| (it.file, it.size)).collect();
        let sums = sums_of(&chosen, upload.checksum);
        expected.check(&sums)?;
        let (etag, attributes) = (etag_of(&chosen), upload.attributes.clone());
        let stored = BlobRow::of_parts(upload.content, etag, sums, attributes, parts);
        let entry = Upload::entry(bucket, &upload.key, upload.content)?;
        let (action, content) = (BlobAction::CompleteMultipartUpload, (upload.content, stored));
        let change = Change {
            upload: Some((entry, upload.revision)),
            ..Change::new(&upload.key, action, Some(content), condition)
        };
        let chosen: HashSet<u64> = chosen.iter().map(|it| it.file).collect();
        let (shared, bucket, content) = (self.shared.clone(), bucket.clone(), upload.content);
        Shared::run_to_completion(async move {
            let _changing = shared.changes.begin()?;
            let hold = Hold::new(&shared, content);
            // If it fails the parts stay, and the upload can be completed later.
            let replaced = shared.replace(&bucket, change, Vec::new(), hold).await;
            let blob = replaced.inspect_err(|it| shared.note_lost_parts(it))?;
            // Read after the end: a new part does not change the revision of the upload.
            let Ok(all) = shared.all_parts(&bucket, content).await else {
                shared.changes.note_lost_parts();
                return Ok(blob);
            };
            let left = all.iter().filter(|it| !chosen.contains(&it.file));
            shared.discard(left.map(|it| it.name(content)).collect()).await;
            crash::point("upload.completed");
            if let Err(error) = shared.remove_part_rows(&bucket, content).await {
                tracing::warn!(error = %error, "rows of parts were not removed; the sweep retries");
            }
            Ok(blob)
        })
        .await
    }

    /// Aborts an upload and removes its parts.
    #[steadfast_store::boxed]
    pub async fn abort_upload(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        id: &str,
    ) -> Result<(), BucketError> {
        let (buckets, bucket, key, id) = (self.clone(), bucket.clone(), key.clone(), id.to_owned());
        Shared::run_to_completion(async move { buckets.abort(&bucket, &key, &id).await }).await
    }

    async fn abort(&self, bucket: &BucketName, key: &BlobKey, id: &str) -> Result<(), BucketError> {
        let _changing = self.shared.changes.begin()?;
        let upload = loop {
            let upload = self.upload(bucket, key, id).await?;
            let entry = Upload::entry(bucket, key, upload.content)?;
            let expect = Expect::Revision { entry: entry.clone(), revision: upload.revision };
            let put = Put::removal(entry, Duration::ZERO);
            let commit = Commit::of(Write::Put(put)).expect(expect);
            let ended = self.commit_abort(bucket, &upload, commit).await;
            if ended.inspect_err(|it| self.shared.note_lost_parts(it))?.is_ok() {
                break upload;
            }
        };
        crash::point("upload.aborted");
        let parts = self.shared.all_parts(bucket, upload.content).await;
        let parts = parts.inspect_err(|_| self.shared.changes.note_lost_parts())?;
        self.shared.discard(parts.iter().map(|it| it.name(upload.content)).collect()).await;
        self.shared.remove_part_rows(bucket, upload.content).await
    }

    /// Commits the end of an upload, whose parts do not count any more.
    async fn commit_abort(
        &self,
        bucket: &BucketName,
        upload: &Upload,
        commit: Commit,
    ) -> Result<Result<Receipt, Rejection>, BucketError> {
        let counter = self.shared.usage_counter(&upload.key).await?;
        let (parts, commit) = self.shared.end_parts(upload.content, commit).await?;
        let entry = Upload::entry(bucket, &upload.key, upload.content)?;
        let place = Place::of_upload(bucket, &entry);
        let change = UsageChange { place, bytes: -parts, objects: -1 };
        counter.commit(&self.shared, commit, &[change], 0).await
    }

    pub(crate) async fn abort_all(&self, bucket: &BucketName) -> Result<(), BucketError> {
        for upload in self.uploads(bucket, "", None, 1_000).await? {
            match self.abort_upload(bucket, &upload.key, &upload.id).await {
                Ok(()) | Err(BucketError::UnknownUpload { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The listed parts, if the list is valid.
fn choose<'a>(all: &'a [Part], tags: &[PartTag]) -> Result<Vec<&'a Part>, BucketError> {
    let wrong = |number, reason| Err(BucketError::Part { number, reason });
    if tags.is_empty() {
        return wrong(1, PartError::None);
    }
    let mut chosen: Vec<&Part> = Vec::new();
    for (index, tag) in tags.iter().enumerate() {
        if chosen.last().is_some_and(|it| tag.number <= it.number) {
            return wrong(tag.number, PartError::Order);
        }
        let found = all.binary_search_by_key(&tag.number, |it| it.number);
        let found = found.ok().map(|it| &all[it]);
        let fits = |it: &&Part| {
            tag.etag.as_ref().is_none_or(|etag| *etag == it.etag)
                && tag.crc32.is_none_or(|crc32| crc32 == it.crc32)
                && (tag.sha256.is_none() || tag.sha256 == it.sha256)
                && first_mismatch(&tag.more, &it.more).is_none()
        };
        let Some(part) = found.filter(fits) else {
            return wrong(tag.number, PartError::Unknown);
        };
        if part.size < PART_BYTES_MIN && index + 1 < tags.len() {
            return wrong(tag.number, PartError::Small);
        }
        chosen.push(part);
    }
    Ok(chosen)
}

/// As in S3: the MD5 of the MD5s, and the number of parts.
fn etag_of(parts: &[&Part]) -> String {
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(unhex::<16>(&part.etag).unwrap_or_default());
    }
    format!("{}-{}", HEXLOWER.encode(&md5.finalize()), parts.len())
}

/// The checksums of the whole that can be made of those of the parts, and the announced one.
fn sums_of(parts: &[&Part], announced: Option<ChecksumKind>) -> ContentSums {
    use ChecksumKind::{CompositeCrc32, CompositeCrc32c, Crc32c, Crc64nvme, Sha1};
    let composite = announced.filter(|it| [CompositeCrc32, CompositeCrc32c].contains(it));
    let kinds = [Crc32c, Crc64nvme, Sha1].into_iter().chain(composite);
    let crc32 = whole(ChecksumKind::Crc32, parts).and_then(|it| it.try_into().ok());
    ContentSums {
        size: parts.iter().map(|it| it.size).sum(),
        // That of the whole is unknown.
        md5: None,
        crc32: crc32.map_or(0, u32::from_be_bytes),
        sha256: whole(ChecksumKind::Sha256, parts).and_then(|it| it.try_into().ok()),
        more: kinds.filter_map(|it| Some((it, HEXLOWER.encode(&whole(it, parts)?)))).collect(),
    }
}

/// A checksum of the whole, if every part has one. CRCs of the whole are combined from those of the
/// parts; hashes and composite CRCs are those of the parts' checksums, as in S3.
fn whole(kind: ChecksumKind, parts: &[&Part]) -> Option<Vec<u8>> {
    let sums = parts.iter().map(|it| it.sum(kind)).collect::<Option<Vec<_>>>()?;
    let combined = |algorithm: CrcAlgorithm| {
        let number = |sum: &Vec<u8>| sum.iter().fold(0, |it, byte| it << 8 | u64::from(*byte));
        let each = sums.iter().zip(parts);
        each.fold(0, |it, (sum, part)| checksum_combine(algorithm, it, number(sum), part.size))
    };
    let all = sums.concat();
    Some(match kind {
        ChecksumKind::Crc32 => combined(Crc32IsoHdlc).to_be_bytes()[4..].to_vec(),
        ChecksumKind::Crc32c => combined(Crc32Iscsi).to_be_bytes()[4..].to_vec(),
        ChecksumKind::Crc64nvme => combined(Crc64Nvme).to_be_bytes().to_vec(),
        ChecksumKind::Sha1 => Sha1::digest(all).to_vec(),
        ChecksumKind::Sha256 => Sha256::digest(all).to_vec(),
        ChecksumKind::CompositeCrc32 => checksum(Crc32IsoHdlc, &all).to_be_bytes()[4..].to_vec(),
        ChecksumKind::CompositeCrc32c => checksum(Crc32Iscsi, &all).to_be_bytes()[4..].to_vec(),
    })
}
