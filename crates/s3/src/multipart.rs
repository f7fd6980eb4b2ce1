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
use steadfast_bucket::{ExpectedContent, PartTag, Upload};

use crate::{
    attributes,
    checksum::{Algorithm, ChecksumFields, declare_checksum, with_checksums},
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
        let algorithm = input.checksum_algorithm.as_ref().map(|it| Algorithm::of(it.as_str()));
        check_type(algorithm.transpose()?, input.checksum_type.as_ref())?;
        let attributes = attributes::of_request(&req.headers);
        let begun = self.buckets.begin_upload(&bucket, &key, attributes).await;
        Ok(S3Response::new(CreateMultipartUploadOutput {
            upload_id: Some(begun.map_err(s3_error_of)?.id),
            bucket: Some(input.bucket),
            key: Some(input.key),
            checksum_algorithm: input.checksum_algorithm,
            checksum_type: input.checksum_type,
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
        for (algorithm, value) in [
            (Algorithm::Crc32, &input.checksum_crc32),
            (Algorithm::Crc32c, &input.checksum_crc32c),
            (Algorithm::Crc64Nvme, &input.checksum_crc64nvme),
            (Algorithm::Sha1, &input.checksum_sha1),
            (Algorithm::Sha256, &input.checksum_sha256),
        ] {
            if let Some(value) = value {
                declare_checksum(&mut expected, algorithm, whole(algorithm, value, parts.len())?)?;
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
        MultipartUpload {
            key: Some(encoding.text(upload.key.as_str())),
            upload_id: Some(upload.id.clone()),
            initiated: Some(s3_time(upload.began_at)),
            initiator: Some(self.initiator()),
            owner: Some(self.owner()),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            ..MultipartUpload::default()
        }
    }

    /// The initiator of uploads: the store.
    pub(crate) fn initiator(&self) -> Initiator {
        Initiator { id: self.owner().id, display_name: None }
    }
}

/// CRCs cover the whole blob, hashes the hashes of the parts.
fn check_type(algorithm: Option<Algorithm>, asked: Option<&ChecksumType>) -> S3Result<()> {
    let fits = match (algorithm, asked.map(ChecksumType::as_str)) {
        (_, None) => true,
        (Some(it), Some(ChecksumType::COMPOSITE)) => it.is_composite(),
        (Some(it), Some(ChecksumType::FULL_OBJECT)) => !it.is_composite(),
        (None, Some(_)) | (Some(_), Some(_)) => false,
    };
    if fits {
        return Ok(());
    }
    let text = "x-amz-checksum-type is FULL_OBJECT with CRC64NVME, CRC32 and CRC32C, and COMPOSITE \
                with SHA1 and SHA256";
    Err(s3_error!(InvalidRequest, "{text}"))
}

/// The checksum of a multipart upload, without the number of parts that S3 appends to a composite
/// one.
fn whole(algorithm: Algorithm, value: &str, parts: usize) -> S3Result<&str> {
    match value.split_once('-') {
        Some((hash, count)) if algorithm.is_composite() && count == parts.to_string() => Ok(hash),
        Some(_) if algorithm.is_composite() => {
            let text = "the number behind the checksum is not that of the parts";
            Err(s3_error!(BadDigest, "{text}"))
        }
        Some(_) | None => Ok(value),
    }
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
