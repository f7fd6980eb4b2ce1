//! Operations on blobs: put, get, head, copy, delete.

use futures_util::{StreamExt, stream};
use http::{StatusCode, header};
use s3s::{
    Body, S3Error, S3Request, S3Response, S3Result, StdError,
    dto::{
        ChecksumMode, CopyObjectInput, CopyObjectOutput, CopyObjectResult, DeleteObjectInput,
        DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETagCondition,
        Error, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput,
        MetadataDirective, ObjectIdentifier, PutObjectInput, PutObjectOutput, Range, StreamingBlob,
    },
    s3_error,
};
use steadfast_bucket::{
    Blob, BlobKey, BlobReader, BucketName, ByteRange, CopyOptions, GetOptions, KeyScope, PARTS_MAX,
    PutOptions,
};

use crate::{
    access::{denied, scope_of},
    checksum::{Algorithm, ChecksumFields, with_checksums},
    convert::{
        self, etag, http_date, read_condition, request_attributes, response_headers, s3_time,
        signed, write_condition, write_condition_by_headers,
    },
    errors::{coded, s3_error_of},
    operations::S3Operations,
    receive::Incoming,
};

/// The conditions of a read. The inputs have these fields in common, but no trait.
macro_rules! condition_of {
    ($input:ident) => {
        read_condition(
            $input.if_match,
            $input.if_none_match,
            $input.if_modified_since.as_ref(),
            $input.if_unmodified_since.as_ref(),
        )?
    };
}

/// Response headers that the request overrides.
macro_rules! overrides_of {
    ($input:ident) => {
        [
            (header::CONTENT_TYPE, $input.response_content_type),
            (header::CACHE_CONTROL, $input.response_cache_control),
            (header::CONTENT_DISPOSITION, $input.response_content_disposition),
            (header::CONTENT_ENCODING, $input.response_content_encoding),
            (header::CONTENT_LANGUAGE, $input.response_content_language),
            (header::EXPIRES, $input.response_expires.as_ref().and_then(http_date)),
        ]
    };
}

impl S3Operations {
    pub(crate) async fn object_put(
        &self,
        mut req: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let (bucket, key) = convert::blob_path(&req.input.bucket, &req.input.key)?;
        let condition = write_condition(req.input.if_match.take(), req.input.if_none_match.take())?;
        let (body, length) = (req.input.body.take(), req.input.content_length);
        let mut incoming = Incoming::of(&mut req, body, length)?;
        let writer = self.buckets.writer(&bucket, &key).await.map_err(s3_error_of)?;
        let mut writer = writer.with(incoming.hashes());
        writer.expect_size(incoming.length).await.map_err(s3_error_of)?;
        while let Some(bytes) = incoming.next().await? {
            writer.write(&bytes).await.map_err(s3_error_of)?;
        }
        let expected = incoming.expected()?;
        let attributes = request_attributes(&req.headers);
        let put = PutOptions { attributes, expected, condition, once: None };
        let blob = writer.finish(put).await.map_err(s3_error_of)?;
        let sums = ChecksumFields::of_blob(&blob);
        Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(etag(&blob.etag)),
            checksum_type: Some(sums.type_of()),
            ..with_checksums!(PutObjectOutput, sums)
        }))
    }

    pub(crate) async fn object_get(
        &self,
        req: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = req.input;
        let (bucket, key) = convert::blob_path(&input.bucket, &input.key)?;
        let condition = condition_of!(input);
        let range = match (input.range, input.part_number) {
            (Some(_), Some(_)) => {
                return Err(s3_error!(InvalidRequest, "ask for a range or a part, not for both"));
            }
            (range, None) => range.map(our_range),
            (None, Some(number)) => {
                let blob = self.buckets.head(&bucket, &key).await.map_err(s3_error_of)?;
                Some(part_of(&blob, number)?)
            }
        };
        let get = GetOptions { range, condition };
        let reading = self.buckets.get(&bucket, &key, get).await.map_err(s3_error_of)?;
        let (blob, at) = (reading.blob.clone(), reading.range.clone());
        let content_range =
            range.map(|_| format!("bytes {}-{}/{}", at.start, at.end.saturating_sub(1), blob.size));
        // The stored checksum is that of the whole blob, not of a range.
        let sums = sums_of(&blob, input.checksum_mode.as_ref().filter(|_| range.is_none()));
        let overrides = overrides_of!(input);
        let output = GetObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(signed(at.end - at.start)),
            content_range,
            e_tag: Some(etag(&blob.etag)),
            last_modified: Some(s3_time(blob.modified_at)),
            parts_count: input.part_number.and_then(|_| parts_count(&blob)),
            checksum_type: sums.as_ref().map(ChecksumFields::type_of),
            body: Some(body_of(reading)),
            ..with_checksums!(GetObjectOutput, sums.unwrap_or_default())
        };
        Ok(S3Response::with_headers(output, response_headers(&blob.attributes, &overrides)))
    }

    pub(crate) async fn object_head(
        &self,
        req: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = req.input;
        let (bucket, key) = convert::blob_path(&input.bucket, &input.key)?;
        let condition = condition_of!(input);
        let blob = self.buckets.head_if(&bucket, &key, &condition).await.map_err(s3_error_of)?;
        let part = input.part_number.map(|it| part_of(&blob, it)).transpose()?;
        let part = part.map(|it| it.of(blob.size)).transpose().map_err(s3_error_of)?;
        let sums = sums_of(&blob, input.checksum_mode.as_ref().filter(|_| part.is_none()));
        let overrides = overrides_of!(input);
        let output = HeadObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(signed(part.map_or(blob.size, |it| it.end - it.start))),
            e_tag: Some(etag(&blob.etag)),
            last_modified: Some(s3_time(blob.modified_at)),
            parts_count: input.part_number.and_then(|_| parts_count(&blob)),
            checksum_type: sums.as_ref().map(ChecksumFields::type_of),
            ..with_checksums!(HeadObjectOutput, sums.unwrap_or_default())
        };
        Ok(S3Response::with_headers(output, response_headers(&blob.attributes, &overrides)))
    }
}

fn our_range(range: Range) -> ByteRange {
    match range {
        Range::Int { first, last: Some(last) } => ByteRange::Between(first, last),
        Range::Int { first, last: None } => ByteRange::From(first),
        Range::Suffix { length } => ByteRange::Last(length),
    }
}

/// The range of a part. A blob written in one piece has one part.
fn part_of(blob: &Blob, number: i32) -> S3Result<ByteRange> {
    let parts = 1..=PARTS_MAX;
    let Some(number) = u32::try_from(number).ok().filter(|it| parts.contains(it)) else {
        let text = format!("a part number must be 1 to {PARTS_MAX}, not {number}");
        return Err(s3_error!(InvalidArgument, "{text}"));
    };
    match blob.part_range(number) {
        Some(range) if range.is_empty() => Ok(ByteRange::From(range.start)),
        Some(range) => Ok(ByteRange::Between(range.start, range.end - 1)),
        None => {
            let count = blob.parts().max(1);
            let text = format!("the blob has no part {number}; the last one is {count}");
            Err(coded("InvalidPartNumber", StatusCode::RANGE_NOT_SATISFIABLE, text))
        }
    }
}

fn parts_count(blob: &Blob) -> Option<i32> {
    i32::try_from(blob.parts()).ok().filter(|it| 0 < *it)
}

fn sums_of(blob: &Blob, mode: Option<&ChecksumMode>) -> Option<ChecksumFields> {
    let is_asked = mode.is_some_and(|it| it.as_str() == ChecksumMode::ENABLED);
    is_asked.then(|| ChecksumFields::of_blob(blob))
}

/// The bytes of a blob.
pub(crate) fn body_of(reading: BlobReader) -> StreamingBlob {
    let pieces = stream::unfold(Some(reading), |reading| async {
        let mut reading = reading?;
        match reading.next().await {
            Ok(Some(bytes)) => Some((Ok(http_body::Frame::data(bytes)), Some(reading))),
            Ok(None) => None,
            Err(error) => {
                // The status was sent already: the response can only be aborted.
                let key = &reading.blob.key;
                tracing::warn!(%error, %key, "a blob was not read to its end");
                Some((Err(StdError::from(error)), None))
            }
        }
    });
    StreamingBlob::from(Body::http_body_unsync(http_body_util::StreamBody::new(pieces)))
}

impl S3Operations {
    pub(crate) async fn object_copy(
        &self,
        req: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        let input = req.input;
        let to = convert::blob_path(&input.bucket, &input.key)?;
        let from = convert::source(&input.copy_source)?;
        if let Some(algorithm) = &input.checksum_algorithm {
            Algorithm::of(algorithm.as_str())?;
        }
        let directive = input.metadata_directive.as_ref().map(MetadataDirective::as_str);
        let attributes = match directive {
            Some(MetadataDirective::REPLACE) => Some(request_attributes(&req.headers)),
            Some(MetadataDirective::COPY) | None => None,
            Some(other) => {
                let text = "x-amz-metadata-directive must be COPY or REPLACE";
                return Err(s3_error!(InvalidArgument, "{text}, not {other}"));
            }
        };
        if attributes.is_none() && from == to {
            return Err(s3_error!(
                InvalidRequest,
                "this copies a blob to itself and changes nothing; send x-amz-metadata-directive: \
                 REPLACE to change its metadata"
            ));
        }
        let source = read_condition(
            input.copy_source_if_match,
            input.copy_source_if_none_match,
            input.copy_source_if_modified_since.as_ref(),
            input.copy_source_if_unmodified_since.as_ref(),
        )?;
        let condition = write_condition_by_headers(&req.headers)?;
        let copy = CopyOptions { source, condition, attributes };
        let copied = self.buckets.copy((&from.0, &from.1), (&to.0, &to.1), copy).await;
        let blob = copied.map_err(s3_error_of)?;
        let sums = ChecksumFields::of_blob(&blob);
        let result = CopyObjectResult {
            e_tag: Some(etag(&blob.etag)),
            last_modified: Some(s3_time(blob.modified_at)),
            checksum_type: Some(sums.type_of()),
            ..with_checksums!(CopyObjectResult, sums)
        };
        let copy_object_result = Some(result);
        Ok(S3Response::new(CopyObjectOutput { copy_object_result, ..CopyObjectOutput::default() }))
    }
}

/// Maximum number of keys per request, as in S3.
const KEYS_MAX: usize = 1_000;
/// Concurrent deletions: they share commits.
const AT_ONCE: usize = 64;

impl S3Operations {
    pub(crate) async fn object_delete(
        &self,
        req: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let (bucket, key) = convert::blob_path(&req.input.bucket, &req.input.key)?;
        let condition = write_condition(req.input.if_match, None)?;
        self.buckets.delete(&bucket, &key, condition).await.map_err(s3_error_of)?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    pub(crate) async fn objects_delete(
        &self,
        req: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let scope = scope_of(&req)?.clone();
        let bucket = convert::bucket(&req.input.bucket)?;
        let objects = req.input.delete.objects;
        if objects.is_empty() || KEYS_MAX < objects.len() {
            return Err(s3_error!(MalformedXML, "list 1 to {KEYS_MAX} keys to delete"));
        }
        self.buckets.bucket(&bucket).await.map_err(s3_error_of)?;
        let deleting = objects.into_iter().map(|it| self.delete_listed(&scope, &bucket, it));
        let results: Vec<_> = stream::iter(deleting).buffered(AT_ONCE).collect().await;
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for (key, result) in results {
            match result {
                Ok(()) => deleted.push(DeletedObject { key: Some(key), ..Default::default() }),
                Err(error) => errors.push(Error {
                    key: Some(key),
                    code: Some(error.code().as_str().to_owned()),
                    message: error.message().map(str::to_owned),
                    version_id: None,
                }),
            }
        }
        let is_quiet = req.input.delete.quiet.unwrap_or(false);
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted: Some(deleted).filter(|it| !is_quiet && !it.is_empty()),
            errors: Some(errors).filter(|it| !it.is_empty()),
            ..DeleteObjectsOutput::default()
        }))
    }

    async fn delete_listed(
        &self,
        scope: &KeyScope,
        bucket: &BucketName,
        object: ObjectIdentifier,
    ) -> (String, Result<(), S3Error>) {
        let key = object.key.clone();
        (key, self.delete_one(scope, bucket, object).await)
    }

    async fn delete_one(
        &self,
        scope: &KeyScope,
        bucket: &BucketName,
        object: ObjectIdentifier,
    ) -> S3Result<()> {
        if !scope.covers_blob(bucket.as_str(), &object.key) {
            return Err(denied(scope));
        }
        if object.version_id.as_deref().is_some_and(|it| it != "null") {
            let text = "buckets keep one version of each key; leave VersionId out";
            return Err(s3_error!(InvalidArgument, "{text}"));
        }
        if object.last_modified_time.is_some() || object.size.is_some() {
            let text = "only the ETag can be a condition; leave LastModifiedTime and Size out";
            return Err(s3_error!(NotImplemented, "{text}"));
        }
        let key = BlobKey::new(&object.key).map_err(s3_error_of)?;
        let condition = write_condition(object.e_tag.map(ETagCondition::ETag), None)?;
        self.buckets.delete(bucket, &key, condition).await.map_err(s3_error_of)?;
        Ok(())
    }
}
