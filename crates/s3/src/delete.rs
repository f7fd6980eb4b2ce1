//! Deletes one or many blobs.

use futures_util::{StreamExt, stream};
use s3s::{
    S3Error, S3Request, S3Response, S3Result,
    dto::{
        DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput,
        DeletedObject, ETagCondition, Error, ObjectIdentifier,
    },
    s3_error,
};
use steadfast_bucket::{BlobKey, BucketName, Scope};

use crate::{
    access::{denied, scope_of},
    condition, convert,
    errors::s3_error_of,
    operations::S3Operations,
};

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
        let condition = condition::write(req.input.if_match, None)?;
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
        scope: &Scope,
        bucket: &BucketName,
        object: ObjectIdentifier,
    ) -> (String, Result<(), S3Error>) {
        let key = object.key.clone();
        (key, self.delete_one(scope, bucket, object).await)
    }

    async fn delete_one(
        &self,
        scope: &Scope,
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
        let condition = condition::write(object.e_tag.map(ETagCondition::ETag), None)?;
        self.buckets.delete(bucket, &key, condition).await.map_err(s3_error_of)?;
        Ok(())
    }
}
