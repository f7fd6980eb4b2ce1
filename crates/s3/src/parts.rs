//! Parts of multipart uploads: upload, copy, list.

use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        CopyPartResult, ListPartsInput, ListPartsOutput, Part as ListedPart, StorageClass,
        UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
    },
    s3_error,
};
use steadfast_bucket::{
    BucketError, ByteRange, ExpectedContent, ExtraHashes, GetOptions, PART_BYTES_MAX, Part,
    PartError,
};

use crate::{
    checksum::{ChecksumFields, announced, with_checksums},
    condition,
    convert::{self, etag, s3_time, signed},
    errors::s3_error_of,
    list::limit,
    operations::S3Operations,
    receive::Incoming,
};

impl S3Operations {
    pub(crate) async fn part_put(
        &self,
        mut req: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let (bucket, key) = convert::blob_path(&req.input.bucket, &req.input.key)?;
        let number = number(req.input.part_number)?;
        let (body, length) = (req.input.body.take(), req.input.content_length);
        let incoming = Incoming::of(&mut req, body, length)?;
        incoming.check_size(&self.buckets, &bucket, PART_BYTES_MAX).await?;
        let writer = self.buckets.part_writer(&bucket, &key, &req.input.upload_id, number).await;
        let mut writer = writer.map_err(s3_error_of)?;
        if incoming.needs_sha256() {
            writer = writer.with_sha256();
        }
        // Completing the upload may verify the checksum of the whole, as S3 does by default.
        writer = writer.with_more(ExtraHashes { crc64nvme: true, ..incoming.more() });
        let expected = incoming.write_to(&mut writer).await?;
        let part = writer.finish(expected).await.map_err(s3_error_of)?;
        Ok(S3Response::new(UploadPartOutput {
            e_tag: Some(etag(&part.etag)),
            ..with_checksums!(UploadPartOutput, ChecksumFields::of_part(&part))
        }))
    }

    pub(crate) async fn part_copy(
        &self,
        req: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let input = req.input;
        let (bucket, key) = convert::blob_path(&input.bucket, &input.key)?;
        let from = convert::source(&input.copy_source)?;
        let number = number(input.part_number)?;
        let condition = condition::read(
            input.copy_source_if_match,
            input.copy_source_if_none_match,
            input.copy_source_if_modified_since.as_ref(),
            input.copy_source_if_unmodified_since.as_ref(),
        )?;
        let range = input.copy_source_range.as_deref().map(copy_range).transpose()?;
        let writer = self.buckets.part_writer(&bucket, &key, &input.upload_id, number).await;
        let more = ExtraHashes { crc64nvme: true, ..ExtraHashes::default() };
        let mut writer = writer.map_err(s3_error_of)?.with_more(more);
        let get = GetOptions { range, condition };
        let reading = self.buckets.get(&from.0, &from.1, get).await;
        let mut reading = reading.map_err(|error| s3_error_of(not_modified_fails(error)))?;
        if let Some(ByteRange::Between(_, last)) = range
            && reading.blob.size <= last
        {
            let text = "x-amz-copy-source-range ends behind the end of the source";
            return Err(s3_error!(InvalidRange, "{text}"));
        }
        while let Some(bytes) = reading.next().await.map_err(s3_error_of)? {
            writer.write(&bytes).await.map_err(s3_error_of)?;
        }
        let part = writer.finish(ExpectedContent::default()).await.map_err(s3_error_of)?;
        let result = CopyPartResult {
            e_tag: Some(etag(&part.etag)),
            last_modified: Some(s3_time(part.modified_at)),
            ..with_checksums!(CopyPartResult, ChecksumFields::of_part(&part))
        };
        let copy_part_result = Some(result);
        let output = UploadPartCopyOutput { copy_part_result, ..UploadPartCopyOutput::default() };
        Ok(S3Response::new(output))
    }

    pub(crate) async fn parts_list(
        &self,
        req: S3Request<ListPartsInput>,
    ) -> S3Result<S3Response<ListPartsOutput>> {
        let input = req.input;
        let (bucket, key) = convert::blob_path(&input.bucket, &input.key)?;
        let limit = limit("max-parts", input.max_parts)?;
        let after = input.part_number_marker.unwrap_or_default();
        let behind = u32::try_from(after)
            .map_err(|_| s3_error!(InvalidArgument, "part-number-marker must not be negative"))?;
        let upload = self.buckets.upload(&bucket, &key, &input.upload_id).await;
        let upload = upload.map_err(s3_error_of)?;
        let found = self.buckets.parts(&bucket, &upload, behind, limit + 1).await;
        let mut found = found.map_err(s3_error_of)?;
        let is_truncated = limit < found.len() && 0 < limit;
        found.truncate(limit);
        let last = found.last().and_then(|it| i32::try_from(it.number).ok());
        let (checksum_algorithm, checksum_type) = announced(upload.checksum);
        Ok(S3Response::new(ListPartsOutput {
            checksum_algorithm,
            checksum_type,
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            is_truncated: Some(is_truncated),
            max_parts: i32::try_from(limit).ok(),
            part_number_marker: Some(after),
            next_part_number_marker: Some(last.unwrap_or(after)),
            parts: Some(found.iter().map(listed).collect()),
            owner: Some(self.owner()),
            initiator: Some(self.initiator()),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            ..ListPartsOutput::default()
        }))
    }
}

fn listed(part: &Part) -> ListedPart {
    ListedPart {
        part_number: i32::try_from(part.number).ok(),
        e_tag: Some(etag(&part.etag)),
        size: Some(signed(part.size)),
        last_modified: Some(s3_time(part.modified_at)),
        ..with_checksums!(ListedPart, ChecksumFields::of_part(part))
    }
}

fn number(number: i32) -> S3Result<u32> {
    let wrong = || BucketError::Part { number: 0, reason: PartError::Number };
    u32::try_from(number).map_err(|_| s3_error_of(wrong()))
}

/// Parses the range of a copy. Both ends are required.
fn copy_range(text: &str) -> S3Result<ByteRange> {
    let ends = text.strip_prefix("bytes=").and_then(|it| it.split_once('-'));
    let ends = ends.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match ends {
        Some((first, last)) if first <= last => Ok(ByteRange::Between(first, last)),
        Some(_) | None => {
            let text = "x-amz-copy-source-range must be bytes=first-last";
            Err(s3_error!(InvalidArgument, "{text}"))
        }
    }
}

/// In a copy, an unmet condition is never "not modified".
fn not_modified_fails(error: BucketError) -> BucketError {
    let BucketError::NotModified { key, .. } = error else { return error };
    BucketError::Condition { key, reason: "it has not changed" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_copy_has_both_ends() {
        assert_eq!(copy_range("bytes=3-9").unwrap(), ByteRange::Between(3, 9));
        for bad in ["bytes=3-", "bytes=-3", "3-9", "bytes=9-3", "bytes=a-b", "bytes=1-2,4-5"] {
            assert!(copy_range(bad).is_err(), "{bad}");
        }
    }
}
