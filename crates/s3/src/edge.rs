//! The operations, each in its file.

use s3s::{S3, S3Request, S3Response, S3Result, dto};
use steadfast_bucket::Buckets;

/// Translates S3 requests to what buckets can do.
pub(crate) struct Edge {
    pub(crate) buckets: Buckets,
}

impl Edge {
    pub(crate) fn new(buckets: Buckets) -> Self {
        Self { buckets }
    }
}

/// Writes the trait's methods, which only name those that do the work.
macro_rules! operations {
    ($($name:ident => $method:ident($input:ident) -> $output:ident;)*) => {
        #[async_trait::async_trait]
        impl S3 for Edge {
            $(
                async fn $name(
                    &self,
                    req: S3Request<dto::$input>,
                ) -> S3Result<S3Response<dto::$output>> {
                    self.$method(req).await
                }
            )*
        }
    };
}

operations! {
    list_buckets => buckets_list(ListBucketsInput) -> ListBucketsOutput;
    create_bucket => bucket_create(CreateBucketInput) -> CreateBucketOutput;
    head_bucket => bucket_head(HeadBucketInput) -> HeadBucketOutput;
    delete_bucket => bucket_delete(DeleteBucketInput) -> DeleteBucketOutput;
    get_bucket_location => bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput;
    get_bucket_versioning => bucket_versioning(GetBucketVersioningInput)
        -> GetBucketVersioningOutput;
    put_object => object_put(PutObjectInput) -> PutObjectOutput;
    get_object => object_get(GetObjectInput) -> GetObjectOutput;
    head_object => object_head(HeadObjectInput) -> HeadObjectOutput;
    delete_object => object_delete(DeleteObjectInput) -> DeleteObjectOutput;
    delete_objects => objects_delete(DeleteObjectsInput) -> DeleteObjectsOutput;
    copy_object => object_copy(CopyObjectInput) -> CopyObjectOutput;
    list_objects => objects_list(ListObjectsInput) -> ListObjectsOutput;
    list_objects_v2 => objects_list_v2(ListObjectsV2Input) -> ListObjectsV2Output;
    create_multipart_upload => upload_begin(CreateMultipartUploadInput)
        -> CreateMultipartUploadOutput;
    complete_multipart_upload => upload_complete(CompleteMultipartUploadInput)
        -> CompleteMultipartUploadOutput;
    abort_multipart_upload => upload_abort(AbortMultipartUploadInput)
        -> AbortMultipartUploadOutput;
    list_multipart_uploads => uploads_list(ListMultipartUploadsInput)
        -> ListMultipartUploadsOutput;
    upload_part => part_put(UploadPartInput) -> UploadPartOutput;
    upload_part_copy => part_copy(UploadPartCopyInput) -> UploadPartCopyOutput;
    list_parts => parts_list(ListPartsInput) -> ListPartsOutput;
}
