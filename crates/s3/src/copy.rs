//! Copies of blobs.

use s3s::{
    S3Request, S3Response, S3Result,
    dto::{CopyObjectInput, CopyObjectOutput, CopyObjectResult, MetadataDirective},
    s3_error,
};
use steadfast_bucket::CopyOptions;

use crate::{
    attributes,
    checksum::{Algorithm, ChecksumFields, with_checksums},
    condition,
    convert::{self, etag, s3_time},
    errors::s3_error_of,
    operations::S3Operations,
};

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
            Some(MetadataDirective::REPLACE) => Some(attributes::of_request(&req.headers)),
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
        let source = condition::read(
            input.copy_source_if_match,
            input.copy_source_if_none_match,
            input.copy_source_if_modified_since.as_ref(),
            input.copy_source_if_unmodified_since.as_ref(),
        )?;
        let condition = condition::write_by_headers(&req.headers)?;
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
