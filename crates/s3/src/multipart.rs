//! Multipart uploads: begin, upload or copy parts, complete, abort, list.

use http::header;
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumType,
        CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart, CopyPartResult,
        CreateMultipartUploadInput, CreateMultipartUploadOutput, Initiator,
        ListMultipartUploadsInput, ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput,
        MultipartUpload, Part as ListedPart, StorageClass, UploadPartCopyInput,
        UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
    },
    s3_error,
};
use steadfast_bucket::{
    BlobKey, BucketError, BucketName, ByteRange, ChecksumKind, ExpectedContent, GetOptions, Hashes,
    Part, PartError, PartTag, Upload,
};

use crate::{
    checksum::{
        ALGORITHMS, Algorithm, ChecksumFields, announced, declare_checksum, declare_composite,
        with_checksums,
    },
    convert::{self, etag, read_condition, request_attributes, s3_time, signed, write_condition},
    errors::s3_error_of,
    list::{Encoding, limit},
    operations::S3Operations,
    receive::Incoming,
};

/// The checksums of an input, in the order of [`ALGORITHMS`].
macro_rules! checksums_of {
    ($input:ident) => {
        [
            $input.checksum_crc32,
            $input.checksum_crc32c,
            $input.checksum_crc64nvme,
            $input.checksum_sha1,
            $input.checksum_sha256,
        ]
    };
}

impl S3Operations {
    pub(crate) async fn upload_begin(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = req.input;
        let (bucket, key) = convert::blob_path(&input.bucket, &input.key)?;
        let type_ = input.checksum_type.as_ref();
        let checksum = match &input.checksum_algorithm {
            Some(algorithm) => Some(Algorithm::of(algorithm.as_str())?.of_upload(type_)?),
            None if type_.is_some() => {
                let text = "x-amz-checksum-type needs x-amz-checksum-algorithm";
                return Err(s3_error!(InvalidRequest, "{text}"));
            }
            None => None,
        };
        let attributes = request_attributes(&req.headers);
        let begun = self.buckets.begin_upload_as(&bucket, &key, attributes, checksum).await;
        let (checksum_algorithm, checksum_type) = announced(checksum);
        Ok(S3Response::new(CreateMultipartUploadOutput {
            upload_id: Some(begun.map_err(s3_error_of)?.id),
            bucket: Some(input.bucket),
            key: Some(input.key),
            checksum_algorithm,
            checksum_type,
            ..CreateMultipartUploadOutput::default()
        }))
    }

    pub(crate) async fn upload_complete(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = req.input;
        let (bucket, key) = convert::blob_path(&input.bucket, &input.key)?;
        let condition = write_condition(input.if_match, input.if_none_match)?;
        let parts = input.multipart_upload.and_then(|it| it.parts).unwrap_or_default();
        let mut expected = ExpectedContent {
            size: input.mpu_object_size.map(size).transpose()?,
            ..ExpectedContent::default()
        };
        let begun = self.checksum_of_upload(&bucket, &key, &input.upload_id).await?;
        let type_ = type_of_whole(begun, input.checksum_type.as_ref())?;
        for (algorithm, value) in ALGORITHMS.iter().zip(checksums_of!(input)) {
            // CRC64NVME of the whole is known for every upload.
            let of_upload = type_.as_ref().filter(|_| algorithm.has_composite());
            let type_ = input.checksum_type.as_ref().or(of_upload);
            let is_composite = type_.is_some_and(|it| it.as_str() == ChecksumType::COMPOSITE);
            if let Some(value) = &value {
                declare_whole(&mut expected, algorithm, value, (parts.len(), is_composite))?;
            }
        }
        let tags = parts.into_iter().map(tag).collect::<S3Result<Vec<_>>>()?;
        let completed = self
            .buckets
            .complete_upload_as(&bucket, &key, &input.upload_id, &tags, condition, expected)
            .await;
        let blob = completed.map_err(s3_error_of)?;
        let host = req.headers.get(header::HOST).and_then(|it| it.to_str().ok());
        let sums = ChecksumFields::of_blob(&blob);
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            location: host.map(|it| format!("http://{it}/{bucket}/{key}")),
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(etag(&blob.etag)),
            checksum_type: Some(sums.type_of()),
            ..with_checksums!(CompleteMultipartUploadOutput, sums)
        }))
    }

    /// The checksum that an upload announced; also after its end, for a repeated request.
    async fn checksum_of_upload(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        id: &str,
    ) -> S3Result<Option<ChecksumKind>> {
        match self.buckets.upload(bucket, key, id).await {
            Ok(upload) => Ok(upload.checksum),
            Err(BucketError::UnknownUpload { .. }) => {
                let found = self.buckets.head(bucket, key).await.ok();
                let found = found.filter(|it| it.version() == id);
                let composite = [ChecksumKind::CompositeCrc32, ChecksumKind::CompositeCrc32c];
                let has = |kind: &ChecksumKind| {
                    found.as_ref().is_some_and(|it| it.more.contains_key(kind))
                };
                Ok(composite.into_iter().find(has))
            }
            Err(error) => Err(s3_error_of(error)),
        }
    }

    pub(crate) async fn upload_abort(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let (bucket, key) = convert::blob_path(&req.input.bucket, &req.input.key)?;
        let aborted = self.buckets.abort_upload(&bucket, &key, &req.input.upload_id).await;
        aborted.map_err(s3_error_of)?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }

    pub(crate) async fn uploads_list(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let input = req.input;
        let bucket = convert::bucket(&input.bucket)?;
        let encoding = Encoding::of(input.encoding_type)?;
        if input.delimiter.as_deref().is_some_and(|it| !it.is_empty()) {
            let text = "uploads cannot be listed with a delimiter; leave it out";
            return Err(s3_error!(NotImplemented, "{text}"));
        }
        let limit = limit("max-uploads", input.max_uploads)?;
        let prefix = input.prefix.as_deref().unwrap_or_default();
        let after = input.key_marker.as_deref().filter(|it| !it.is_empty());
        let id = input.upload_id_marker.as_deref().filter(|it| !it.is_empty());
        let after = after.map(|it| (it, id));
        let found = self.buckets.uploads(&bucket, prefix, after, limit + 1).await;
        let mut found = found.map_err(s3_error_of)?;
        let is_truncated = limit < found.len() && 0 < limit;
        found.truncate(limit);
        let last = found.last().filter(|_| is_truncated);
        Ok(S3Response::new(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            is_truncated: Some(is_truncated),
            max_uploads: i32::try_from(limit).ok(),
            next_key_marker: last.map(|it| encoding.text(it.key.as_str())),
            next_upload_id_marker: last.map(|it| it.id.clone()),
            key_marker: encoding.option(input.key_marker.as_deref()),
            upload_id_marker: input.upload_id_marker.clone(),
            prefix: encoding.option(input.prefix.as_deref()),
            uploads: Some(found.iter().map(|it| self.upload_shown(it, &encoding)).collect()),
            encoding_type: encoding.0,
            ..ListMultipartUploadsOutput::default()
        }))
    }

    fn upload_shown(&self, upload: &Upload, encoding: &Encoding) -> MultipartUpload {
        let (checksum_algorithm, checksum_type) = announced(upload.checksum);
        MultipartUpload {
            checksum_algorithm,
            checksum_type,
            key: Some(encoding.text(upload.key.as_str())),
            upload_id: Some(upload.id.clone()),
            initiated: Some(s3_time(upload.began_at)),
            initiator: Some(self.initiator()),
            owner: Some(self.owner()),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        }
    }

    /// The initiator of uploads: the store.
    fn initiator(&self) -> Initiator {
        Initiator { id: self.owner().id, display_name: None }
    }
}

/// The type that the upload announced. A request with a different one is refused.
fn type_of_whole(
    begun: Option<ChecksumKind>,
    type_: Option<&ChecksumType>,
) -> S3Result<Option<ChecksumType>> {
    let begun = announced(begun).1;
    if let (Some(begun), Some(type_)) = (&begun, type_)
        && begun.as_str() != type_.as_str()
    {
        let (begun, type_) = (begun.as_str(), type_.as_str());
        return Err(s3_error!(
            InvalidRequest,
            "the upload was begun with x-amz-checksum-type {begun}, not {type_}; complete it with \
             {begun} or without a type"
        ));
    }
    Ok(begun)
}

/// Adds the checksum of a multipart upload. S3 appends the number of parts to a composite one.
fn declare_whole(
    expected: &mut ExpectedContent,
    algorithm: &Algorithm,
    value: &str,
    (parts, is_composite): (usize, bool),
) -> S3Result<()> {
    let Some((sum, count)) = value.split_once('-') else {
        return match is_composite {
            true => declare_composite(expected, algorithm, value),
            false => declare_checksum(expected, algorithm, value),
        };
    };
    declare_composite(expected, algorithm, sum)?;
    if count != parts.to_string() {
        let text = "the number behind the checksum is not that of the parts";
        return Err(s3_error!(BadDigest, "{text}"));
    }
    Ok(())
}

fn size(size: i64) -> S3Result<u64> {
    let text = "x-amz-mp-object-size must not be negative";
    u64::try_from(size).map_err(|_| s3_error!(InvalidRequest, "{text}"))
}

fn tag(part: CompletedPart) -> S3Result<PartTag> {
    let number = part.part_number.and_then(|it| u32::try_from(it).ok());
    let number = number.ok_or_else(|| s3_error!(MalformedXML, "a part has no PartNumber"))?;
    let mut expected = ExpectedContent::default();
    for (algorithm, value) in ALGORITHMS.iter().zip(checksums_of!(part)) {
        if let Some(value) = value {
            declare_checksum(&mut expected, algorithm, &value)?;
        }
    }
    let etag = part.e_tag.map(|it| it.into_value());
    let ExpectedContent { crc32, sha256, more, .. } = expected;
    Ok(PartTag { number, etag, crc32, sha256, more })
}

impl S3Operations {
    pub(crate) async fn part_put(
        &self,
        mut req: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let (bucket, key) = convert::blob_path(&req.input.bucket, &req.input.key)?;
        let number = number(req.input.part_number)?;
        let (body, length) = (req.input.body.take(), req.input.content_length);
        let mut incoming = Incoming::of(&mut req, body, length)?;
        let writer = self.buckets.part_writer(&bucket, &key, &req.input.upload_id, number).await;
        // Completing the upload may verify the checksum of the whole, as S3 does by default.
        let hashes = incoming.hashes().and(ChecksumKind::Crc64nvme);
        let mut writer = writer.map_err(s3_error_of)?.with(hashes);
        writer.expect_size(incoming.length).await.map_err(s3_error_of)?;
        while let Some(bytes) = incoming.next().await? {
            writer.write(&bytes).await.map_err(s3_error_of)?;
        }
        let expected = incoming.expected()?;
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
        let condition = read_condition(
            input.copy_source_if_match,
            input.copy_source_if_none_match,
            input.copy_source_if_modified_since.as_ref(),
            input.copy_source_if_unmodified_since.as_ref(),
        )?;
        let range = input.copy_source_range.as_deref().map(copy_range).transpose()?;
        let writer = self.buckets.part_writer(&bucket, &key, &input.upload_id, number).await;
        let hashes = Hashes::default().and(ChecksumKind::Crc64nvme);
        let mut writer = writer.map_err(s3_error_of)?.with(hashes);
        let get = GetOptions { range, condition };
        let reading = self.buckets.get(&from.0, &from.1, get).await;
        let mut reading = reading.map_err(|it| s3_error_of(it.of_copy_source()))?;
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
