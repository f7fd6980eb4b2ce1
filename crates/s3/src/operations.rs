//! Dispatches the operations of the S3 API, each to its file.

use s3s::{S3, S3Request, S3Response, S3Result, dto};
use steadfast_bucket::Buckets;

/// Implements the operations of S3 with buckets.
pub(crate) struct S3Operations {
    pub(crate) buckets: Buckets,
}

impl S3Operations {
    pub(crate) fn new(buckets: Buckets) -> Self {
        Self { buckets }
    }
}

/// Writes the methods of the trait, which only forward to the operations.
macro_rules! operations {
    (
        $($name:ident => $method:ident($input:ident) -> $output:ident;)*
        @unset $($unset:ident($unset_input:ident) -> $unset_output:ident = $code:literal;)*
        @empty $($empty:ident($empty_input:ident) -> $empty_output:ident;)*
    ) => {
        #[async_trait::async_trait]
        impl S3 for S3Operations {
            $(
                async fn $name(
                    &self,
                    req: S3Request<dto::$input>,
                ) -> S3Result<S3Response<dto::$output>> {
                    self.$method(req).await
                }
            )*

            $(
                async fn $unset(
                    &self,
                    req: S3Request<dto::$unset_input>,
                ) -> S3Result<S3Response<dto::$unset_output>> {
                    self.unset(&req.input.bucket, $code).await
                }
            )*

            $(
                async fn $empty(
                    &self,
                    req: S3Request<dto::$empty_input>,
                ) -> S3Result<S3Response<dto::$empty_output>> {
                    self.existing_bucket(&req.input.bucket).await?;
                    let is_truncated = Some(false);
                    let output = dto::$empty_output { is_truncated, ..Default::default() };
                    Ok(S3Response::new(output))
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
    list_object_versions => versions_list(ListObjectVersionsInput) -> ListObjectVersionsOutput;
    get_bucket_acl => bucket_acl_get(GetBucketAclInput) -> GetBucketAclOutput;
    put_bucket_acl => bucket_acl_put(PutBucketAclInput) -> PutBucketAclOutput;
    get_object_acl => object_acl_get(GetObjectAclInput) -> GetObjectAclOutput;
    put_object_acl => object_acl_put(PutObjectAclInput) -> PutObjectAclOutput;
    get_object_tagging => tags_get(GetObjectTaggingInput) -> GetObjectTaggingOutput;
    get_object_retention => retention_get(GetObjectRetentionInput) -> GetObjectRetentionOutput;
    get_object_legal_hold => legal_hold_get(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput;
    get_bucket_lifecycle_configuration => lifecycle_get(GetBucketLifecycleConfigurationInput)
        -> GetBucketLifecycleConfigurationOutput;
    get_bucket_logging => logging_get(GetBucketLoggingInput) -> GetBucketLoggingOutput;
    get_bucket_accelerate_configuration => accelerate_get(GetBucketAccelerateConfigurationInput)
        -> GetBucketAccelerateConfigurationOutput;
    get_bucket_notification_configuration => notification_get(
        GetBucketNotificationConfigurationInput
    ) -> GetBucketNotificationConfigurationOutput;
    get_bucket_request_payment => payment_get(GetBucketRequestPaymentInput)
        -> GetBucketRequestPaymentOutput;
    @unset
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput = "NoSuchBucketPolicy";
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput
        = "NoSuchBucketPolicy";
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput = "NoSuchCORSConfiguration";
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = "NoSuchTagSet";
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput
        = "NoSuchWebsiteConfiguration";
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput
        = "ServerSideEncryptionConfigurationNotFoundError";
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput
        = "ReplicationConfigurationNotFoundError";
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput)
        -> GetBucketOwnershipControlsOutput = "OwnershipControlsNotFoundError";
    get_object_lock_configuration(GetObjectLockConfigurationInput)
        -> GetObjectLockConfigurationOutput = "ObjectLockConfigurationNotFoundError";
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput
        = "NoSuchPublicAccessBlockConfiguration";
    get_bucket_analytics_configuration(GetBucketAnalyticsConfigurationInput)
        -> GetBucketAnalyticsConfigurationOutput = "NoSuchConfiguration";
    get_bucket_intelligent_tiering_configuration(GetBucketIntelligentTieringConfigurationInput)
        -> GetBucketIntelligentTieringConfigurationOutput = "NoSuchConfiguration";
    get_bucket_inventory_configuration(GetBucketInventoryConfigurationInput)
        -> GetBucketInventoryConfigurationOutput = "NoSuchConfiguration";
    get_bucket_metrics_configuration(GetBucketMetricsConfigurationInput)
        -> GetBucketMetricsConfigurationOutput = "NoSuchConfiguration";
    @empty
    list_bucket_analytics_configurations(ListBucketAnalyticsConfigurationsInput)
        -> ListBucketAnalyticsConfigurationsOutput;
    list_bucket_intelligent_tiering_configurations(ListBucketIntelligentTieringConfigurationsInput)
        -> ListBucketIntelligentTieringConfigurationsOutput;
    list_bucket_inventory_configurations(ListBucketInventoryConfigurationsInput)
        -> ListBucketInventoryConfigurationsOutput;
    list_bucket_metrics_configurations(ListBucketMetricsConfigurationsInput)
        -> ListBucketMetricsConfigurationsOutput;
}
