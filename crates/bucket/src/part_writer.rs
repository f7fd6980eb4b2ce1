//! Writes parts of multipart uploads. Each part is durable by itself.

use data_encoding::HEXLOWER;
use steadfast_store::{Commit, Count, Entry, Expect, Put, Write, crash};

use crate::{
    BlobKey, BucketError, BucketName, Buckets, ExpectedContent, Hashes, PART_BYTES_MAX, PARTS_MAX,
    Part, PartError, Upload,
    blob::PartRow,
    buckets::{Hold, Shared, removal},
    content::{ContentId, FileName},
    quota::{Place, UsageChange, signed},
    usage::parts_of,
    writer::BytesWriter,
};

/// A part being written. Dropping it removes its file.
pub struct PartWriter {
    buckets: Buckets,
    bucket: BucketName,
    upload: Upload,
    number: u32,
    bytes: BytesWriter,
}

impl PartWriter {
    /// Also computes these hashes, and the announced one of the upload: it covers parts without a
    /// checksum of their own. Call it before the first write.
    pub fn with(mut self, hashes: Hashes) -> Self {
        let hashes = self.upload.checksum.into_iter().fold(hashes, Hashes::and);
        self.bytes = self.bytes.with(Hashes { md5: true, ..hashes });
        self
    }

    /// Appends bytes.
    #[steadfast_store::boxed]
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.bytes.write(bytes).await
    }

    /// Refuses a part of this size before its bytes are read, if there is no space for it.
    #[steadfast_store::boxed]
    pub async fn expect_size(&mut self, size: u64) -> Result<(), BucketError> {
        self.bytes.check_size(size).await
    }

    /// Adds the part to the upload, or replaces the part with its number.
    #[steadfast_store::boxed]
    pub async fn finish(self, expected: ExpectedContent) -> Result<Part, BucketError> {
        Shared::run_to_completion(self.seal_and_put(expected)).await
    }

    async fn seal_and_put(self, expected: ExpectedContent) -> Result<Part, BucketError> {
        let Self { buckets, bucket, upload, number, bytes } = self;
        let name = bytes.name;
        let hold = Hold::new(&buckets.shared, name.content);
        let (sums, _changing) = bytes.seal(expected).await?;
        let (file, etag) = (name.part.unwrap_or_default(), sums.tag());
        let sha256 = sums.sha256.map(|it| HEXLOWER.encode(&it));
        let (size, crc32, more) = (sums.size, sums.crc32, sums.more);
        let stored = PartRow { file, size, etag, crc32, sha256, more };
        let result = buckets.shared.put_part(&bucket, &upload, number, stored).await;
        drop(hold);
        match &result {
            Ok((_, Some(before))) => buckets.shared.discard(vec![*before]).await,
            Err(error) if error.surely_unapplied() => buckets.shared.discard(vec![name]).await,
            Err(_) => buckets.shared.recheck(&[name]),
            Ok((_, None)) => {}
        }
        Ok(result?.0)
    }
}

impl Buckets {
    /// Begins to write a part.
    #[steadfast_store::boxed]
    pub async fn part_writer(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        upload: &str,
        number: u32,
    ) -> Result<PartWriter, BucketError> {
        if !(1..=PARTS_MAX).contains(&number) {
            return Err(BucketError::Part { number, reason: PartError::Number });
        }
        let upload = self.upload(bucket, key, upload).await?;
        let max = self.shared.bucket(bucket).await?.settings.blob_bytes_max();
        let now = self.shared.clock.now();
        let name = FileName::new_part(upload.content, now, &*self.shared.entropy);
        let before = async {
            let entry = Part::entry(bucket, upload.content, number)?;
            let found = self.shared.store.entry(&entry).await?;
            Ok(found.as_ref().map(Part::read).transpose()?.flatten().map(|it| it.size))
        };
        let room = self.shared.room(key, true, before).await?;
        let limits = (max.min(PART_BYTES_MAX), room);
        let md5 = Hashes { md5: true, ..Hashes::default() };
        let bytes = BytesWriter::new(&self.shared, name, limits, md5)?;
        let (buckets, bucket) = (self.clone(), bucket.clone());
        Ok(PartWriter { buckets, bucket, upload, number, bytes })
    }
}

impl Shared {
    async fn put_part(
        &self,
        bucket: &BucketName,
        upload: &Upload,
        number: u32,
        stored: PartRow,
    ) -> Result<(Part, Option<FileName>), BucketError> {
        let entry = Part::entry(bucket, upload.content, number)?;
        let of_upload = Upload::entry(bucket, &upload.key, upload.content)?;
        loop {
            let whole = self.store.entry(&of_upload).await?.filter(|it| it.value.is_some());
            let Some(whole) = whole else {
                return Err(BucketError::UnknownUpload { upload: upload.id.clone() });
            };
            let found = self.store.entry(&entry).await?;
            let revision = found.as_ref().map_or(0, |it| it.revision);
            let before = found.as_ref().map(Part::read).transpose()?.flatten();
            let put = Put::of(entry.clone(), &stored)?;
            let its = (of_upload.clone(), whole.revision);
            let mut commit = Commit::of(Write::Put(put))
                .expect(Expect::Revision { entry: its.0, revision: its.1 })
                .expect(Expect::Revision { entry: entry.clone(), revision });
            if before.is_some() {
                // A concurrent completion may have read the old part, whose file is removed next.
                // The new revision of the upload makes it retry.
                let Entry { entry, value, reference, .. } = whole;
                commit = commit.write(Write::Put(Put { entry, value, reference, expires: None }));
            }
            crash::point("part.prepared");
            let bytes = signed(stored.size) - before.as_ref().map_or(0, |it| signed(it.size));
            commit = commit.write(Write::Count(Count::of(parts_of(upload.content)?, bytes)));
            let place = Place::of_upload(bucket, &of_upload);
            let changes = [UsageChange { place, bytes, objects: 0 }];
            let before = before.map(|it| it.name(upload.content));
            let counter = self.usage_counter(&upload.key).await?;
            // If a concurrent change was committed first, decide again.
            let decided = counter.commit(self, commit, &changes, stored.size).await;
            if decided.as_ref().is_err_and(|it| !it.surely_unapplied()) {
                self.recheck(before.as_slice());
            }
            if let Ok(receipt) = decided? {
                crash::point("part.committed");
                let part = stored.part(number, receipt.at);
                return Ok((part, before));
            }
        }
    }

    /// All parts of an upload.
    pub(crate) async fn all_parts(
        &self,
        bucket: &BucketName,
        content: ContentId,
    ) -> Result<Vec<Part>, BucketError> {
        let (mut pages, mut all) = (self.pages(bucket.parts(), &content.0), Vec::new());
        while let Some(page) = pages.next().await? {
            for part in page.iter().filter_map(|it| Part::read(it).transpose()) {
                all.push(part?);
            }
        }
        Ok(all)
    }

    /// If the upload may have ended, the sweep removes its parts.
    pub(crate) fn note_lost_parts(&self, error: &BucketError) {
        if !error.surely_unapplied() {
            self.changes.note_lost_parts();
        }
    }

    /// Removes the rows of the parts of a finished upload. The sweep removes those that remain.
    pub(crate) async fn remove_part_rows(
        &self,
        bucket: &BucketName,
        content: ContentId,
    ) -> Result<(), BucketError> {
        let removed = self.remove_parts(bucket, content).await;
        removed.inspect_err(|_| self.changes.note_lost_parts())
    }

    async fn remove_parts(
        &self,
        bucket: &BucketName,
        content: ContentId,
    ) -> Result<(), BucketError> {
        loop {
            let entries = self.page(&bucket.parts(), &content.0, b"").await?;
            if entries.is_empty() {
                return Ok(());
            }
            let writes = removal(entries.into_iter().map(|it| it.entry).collect());
            self.commit(Commit { expects: Vec::new(), writes }).await?.ok();
        }
    }
}
