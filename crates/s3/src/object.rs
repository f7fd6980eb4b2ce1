//! Operations on blobs: put, get, head.

use http::{HeaderMap, HeaderName, StatusCode, header};
use s3s::{
    S3Error, S3ErrorCode, S3Request, S3Response, S3Result,
    dto::{
        ChecksumMode, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput,
        PutObjectInput, PutObjectOutput, Range,
    },
    s3_error,
};
use steadfast_bucket::{BLOB_BYTES_MAX, Blob, ByteRange, GetOptions, PARTS_MAX, PutOptions};

use crate::{
    attributes,
    checksum::{ChecksumFields, with_checksums},
    condition,
    convert::{self, etag, http_date, s3_time, signed},
    errors::s3_error_of,
    operations::S3Operations,
    outgoing,
    receive::Incoming,
};

/// The conditions of a read. The inputs have these fields in common, but no trait.
macro_rules! condition_of {
    ($input:ident) => {
        condition::read(
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
        let condition =
            condition::write(req.input.if_match.take(), req.input.if_none_match.take())?;
        let (body, length) = (req.input.body.take(), req.input.content_length);
        let incoming = Incoming::of(&mut req, body, length)?;
        incoming.check_size(&self.buckets, &bucket, BLOB_BYTES_MAX).await?;
        let mut writer = self.buckets.writer(&bucket, &key).await.map_err(s3_error_of)?;
        writer = match incoming.needs_sha256() {
            true => writer.with_md5_and_sha256(),
            false => writer.with_md5(),
        };
        writer = writer.with_more(incoming.more());
        let expected = incoming.write_to(&mut writer).await?;
        let attributes = attributes::of_request(&req.headers);
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
            body: Some(outgoing::body(reading)),
            ..with_checksums!(GetObjectOutput, sums.unwrap_or_default())
        };
        Ok(S3Response::with_headers(output, described(&blob, &overrides)))
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
        Ok(S3Response::with_headers(output, described(&blob, &overrides)))
    }
}

fn described(blob: &Blob, overrides: &[(HeaderName, Option<String>)]) -> HeaderMap {
    attributes::to_response(&blob.attributes, overrides)
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
            let code = S3ErrorCode::Custom("InvalidPartNumber".into());
            let mut error = S3Error::with_message(code, text);
            error.set_status_code(StatusCode::RANGE_NOT_SATISFIABLE);
            Err(error)
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
