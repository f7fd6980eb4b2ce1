//! Multipart uploads: begin, complete, abort, list.

use http::header;
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumType,
        CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart,
        CreateMultipartUploadInput, CreateMultipartUploadOutput, Initiator,
        ListMultipartUploadsInput, ListMultipartUploadsOutput, MultipartUpload, StorageClass,
    },
    s3_error,
};
use steadfast_bucket::{
    BlobKey, BucketError, BucketName, ExpectedContent, PartTag, Upload, UploadChecksum,
};

use crate::{
    attributes,
    checksum::{
        Algorithm, ChecksumFields, announced, declare_checksum, declare_composite, with_checksums,
    },
    condition,
    convert::{self, etag, s3_time},
    errors::s3_error_of,
    list::{Encoding, limit},
    operations::S3Operations,
};

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
        let attributes = attributes::of_request(&req.headers);
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
        let condition = condition::write(input.if_match, input.if_none_match)?;
        let parts = input.multipart_upload.and_then(|it| it.parts).unwrap_or_default();
        let mut expected = ExpectedContent {
            size: input.mpu_object_size.map(size).transpose()?,
            ..ExpectedContent::default()
        };
        let begun = self.checksum_of_upload(&bucket, &key, &input.upload_id).await?;
        let type_ = type_of_whole(begun, input.checksum_type.as_ref())?;
        for (algorithm, value) in [
            (Algorithm::Crc32, &input.checksum_crc32),
            (Algorithm::Crc32c, &input.checksum_crc32c),
            (Algorithm::Crc64Nvme, &input.checksum_crc64nvme),
            (Algorithm::Sha1, &input.checksum_sha1),
            (Algorithm::Sha256, &input.checksum_sha256),
        ] {
            // CRC64NVME of the whole is known for every upload.
            let of_upload = type_.as_ref().filter(|_| algorithm != Algorithm::Crc64Nvme);
            let type_ = input.checksum_type.as_ref().or(of_upload);
            let is_composite = type_.is_some_and(|it| it.as_str() == ChecksumType::COMPOSITE);
            if let Some(value) = value {
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
    ) -> S3Result<Option<UploadChecksum>> {
        match self.buckets.upload(bucket, key, id).await {
            Ok(upload) => Ok(upload.checksum),
            Err(BucketError::UnknownUpload { .. }) => {
                let found = self.buckets.head(bucket, key).await.ok();
                let found = found.filter(|it| it.version() == id).map(|it| it.more);
                let crc32 = found.and_then(|it| it.composite_crc32);
                let crc32c = found.and_then(|it| it.composite_crc32c);
                let crc32c = crc32c.map(|_| UploadChecksum::Crc32cComposite);
                Ok(crc32.map(|_| UploadChecksum::Crc32Composite).or(crc32c))
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
    pub(crate) fn initiator(&self) -> Initiator {
        Initiator { id: self.owner().id, display_name: None }
    }
}

/// The type that the upload announced. A request with a different one is refused.
fn type_of_whole(
    begun: Option<UploadChecksum>,
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
    algorithm: Algorithm,
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
    for (algorithm, value) in [
        (Algorithm::Crc32, part.checksum_crc32),
        (Algorithm::Crc32c, part.checksum_crc32c),
        (Algorithm::Crc64Nvme, part.checksum_crc64nvme),
        (Algorithm::Sha1, part.checksum_sha1),
        (Algorithm::Sha256, part.checksum_sha256),
    ] {
        if let Some(value) = value {
            declare_checksum(&mut expected, algorithm, &value)?;
        }
    }
    let etag = part.e_tag.map(|it| it.into_value());
    let ExpectedContent { crc32, sha256, more, .. } = expected;
    Ok(PartTag { number, etag, crc32, sha256, more })
}
