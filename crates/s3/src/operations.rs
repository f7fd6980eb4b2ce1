//! The table of the served operations of the S3 API, with the permission that each needs.

use s3s::{S3, S3Request, S3Response, S3Result, dto};
use steadfast_bucket::Buckets;

use crate::presign::REGION;

/// Implements the operations of S3 with buckets.
pub(crate) struct S3Operations {
    pub(crate) buckets: Buckets,
}

/// Writes the table, and the methods of the trait, which only forward to the operations. The others
/// need only that the bucket exists: those of `@unset` say that it lacks a setting, and those of
/// `@bucket` have a fixed output.
macro_rules! operations {
    (
        $($needs:ident: $name:ident => $method:ident($input:ident) -> $output:ident;)*
        @unset $(
            $unset:ident($unset_input:ident) -> $unset_output:ident = $code:literal, $lacks:literal;
        )*
        @bucket $(
            $fixed_needs:ident: $fixed:ident($fixed_input:ident) -> $fixed_output:ident {
                $($field:ident: $value:expr)?
            }
        )*
    ) => {
        /// The served operations. All others are refused.
        pub const OPERATIONS: &[ServedOperation] = &[
            $(ServedOperation { name: name_of(stringify!($input)), needs: Permission::$needs },)*
            $(ServedOperation {
                name: name_of(stringify!($unset_input)),
                needs: Permission::Bucket,
            },)*
            $(ServedOperation {
                name: name_of(stringify!($fixed_input)),
                needs: Permission::$fixed_needs,
            },)*
        ];

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
                    self.unset(&req.input.bucket, $code, $lacks).await
                }
            )*

            $(
                async fn $fixed(
                    &self,
                    req: S3Request<dto::$fixed_input>,
                ) -> S3Result<S3Response<dto::$fixed_output>> {
                    self.existing_bucket(&req.input.bucket).await?;
                    let output = S3Response::new(dto::$fixed_output::default());
                    $(
                        let mut output = output;
                        output.output.$field = Some($value);
                    )?
                    Ok(output)
                }
            )*
        }
    };
}

operations! {
    Key: list_buckets => buckets_list(ListBucketsInput) -> ListBucketsOutput;
    Everything: create_bucket => bucket_create(CreateBucketInput) -> CreateBucketOutput;
    Everything: delete_bucket => bucket_delete(DeleteBucketInput) -> DeleteBucketOutput;
    Write: put_object => object_put(PutObjectInput) -> PutObjectOutput;
    Read: get_object => object_get(GetObjectInput) -> GetObjectOutput;
    Read: head_object => object_head(HeadObjectInput) -> HeadObjectOutput;
    Write: delete_object => object_delete(DeleteObjectInput) -> DeleteObjectOutput;
    BucketWrite: delete_objects => objects_delete(DeleteObjectsInput) -> DeleteObjectsOutput;
    Copy: copy_object => object_copy(CopyObjectInput) -> CopyObjectOutput;
    List: list_objects => objects_list(ListObjectsInput) -> ListObjectsOutput;
    List: list_objects_v2 => objects_list_v2(ListObjectsV2Input) -> ListObjectsV2Output;
    Write: create_multipart_upload => upload_begin(CreateMultipartUploadInput)
        -> CreateMultipartUploadOutput;
    Write: complete_multipart_upload => upload_complete(CompleteMultipartUploadInput)
        -> CompleteMultipartUploadOutput;
    Write: abort_multipart_upload => upload_abort(AbortMultipartUploadInput)
        -> AbortMultipartUploadOutput;
    List: list_multipart_uploads => uploads_list(ListMultipartUploadsInput)
        -> ListMultipartUploadsOutput;
    Write: upload_part => part_put(UploadPartInput) -> UploadPartOutput;
    Copy: upload_part_copy => part_copy(UploadPartCopyInput) -> UploadPartCopyOutput;
    Read: list_parts => parts_list(ListPartsInput) -> ListPartsOutput;
    List: list_object_versions => versions_list(ListObjectVersionsInput)
        -> ListObjectVersionsOutput;
    Bucket: get_bucket_acl => bucket_acl_get(GetBucketAclInput) -> GetBucketAclOutput;
    Everything: put_bucket_acl => bucket_acl_put(PutBucketAclInput) -> PutBucketAclOutput;
    Read: get_object_acl => object_acl_get(GetObjectAclInput) -> GetObjectAclOutput;
    Write: put_object_acl => object_acl_put(PutObjectAclInput) -> PutObjectAclOutput;
    Read: get_object_tagging => tags_get(GetObjectTaggingInput) -> GetObjectTaggingOutput;
    Write: delete_object_tagging => tags_delete(DeleteObjectTaggingInput)
        -> DeleteObjectTaggingOutput;
    Read: get_object_retention => retention_get(GetObjectRetentionInput)
        -> GetObjectRetentionOutput;
    Read: get_object_legal_hold => legal_hold_get(GetObjectLegalHoldInput)
        -> GetObjectLegalHoldOutput;
    Bucket: get_bucket_lifecycle_configuration => lifecycle_get(
        GetBucketLifecycleConfigurationInput
    ) -> GetBucketLifecycleConfigurationOutput;
    Everything: delete_bucket_lifecycle => lifecycle_delete(DeleteBucketLifecycleInput)
        -> DeleteBucketLifecycleOutput;
    Bucket: get_bucket_cors => cors_get(GetBucketCorsInput) -> GetBucketCorsOutput;
    Everything: put_bucket_cors => cors_put(PutBucketCorsInput) -> PutBucketCorsOutput;
    Everything: delete_bucket_cors => cors_delete(DeleteBucketCorsInput)
        -> DeleteBucketCorsOutput;
    Bucket: get_bucket_notification_configuration => notification_get(
        GetBucketNotificationConfigurationInput
    ) -> GetBucketNotificationConfigurationOutput;
    @unset
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput = "NoSuchBucketPolicy",
        "policy: all is private; `steadfast keys create` gives access";
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput
        = "NoSuchBucketPolicy", "policy: all is private; `steadfast keys create` gives access";
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = "NoSuchTagSet",
        "tags, which are not supported; use the metadata of blobs";
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput
        = "NoSuchWebsiteConfiguration", "website, which is not supported";
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput
        = "ServerSideEncryptionConfigurationNotFoundError",
        "encryption: blobs are not sealed at rest; use an encrypted disk";
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput
        = "ReplicationConfigurationNotFoundError", "replication, which is not supported";
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput)
        -> GetBucketOwnershipControlsOutput = "OwnershipControlsNotFoundError",
        "ownership controls: the account of the server owns all blobs";
    get_object_lock_configuration(GetObjectLockConfigurationInput)
        -> GetObjectLockConfigurationOutput = "ObjectLockConfigurationNotFoundError",
        "object lock, which is not supported";
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput
        = "NoSuchPublicAccessBlockConfiguration",
        "public access block: all is private; `steadfast keys create` gives access";
    get_bucket_analytics_configuration(GetBucketAnalyticsConfigurationInput)
        -> GetBucketAnalyticsConfigurationOutput = "NoSuchConfiguration",
        "analytics, which are not supported";
    get_bucket_intelligent_tiering_configuration(GetBucketIntelligentTieringConfigurationInput)
        -> GetBucketIntelligentTieringConfigurationOutput = "NoSuchConfiguration",
        "intelligent tiering: the only storage class is STANDARD";
    get_bucket_inventory_configuration(GetBucketInventoryConfigurationInput)
        -> GetBucketInventoryConfigurationOutput = "NoSuchConfiguration",
        "inventory, which is not supported";
    get_bucket_metrics_configuration(GetBucketMetricsConfigurationInput)
        -> GetBucketMetricsConfigurationOutput = "NoSuchConfiguration",
        "metrics of its own; the server has them at /metrics";
    @bucket
    Bucket: head_bucket(HeadBucketInput) -> HeadBucketOutput { bucket_region: REGION.into() }
    // S3 has no location for us-east-1.
    Bucket: get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput {}
    // S3 answers with an empty document if versioning was never enabled.
    Bucket: get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput {}
    Bucket: get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput {}
    Bucket: get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput)
        -> GetBucketAccelerateConfigurationOutput {}
    Bucket: get_bucket_request_payment(GetBucketRequestPaymentInput)
        -> GetBucketRequestPaymentOutput {
            payer: dto::Payer::from_static(dto::Payer::BUCKET_OWNER)
        }
    Bucket: list_bucket_analytics_configurations(ListBucketAnalyticsConfigurationsInput)
        -> ListBucketAnalyticsConfigurationsOutput { is_truncated: false }
    Bucket: list_bucket_intelligent_tiering_configurations(
        ListBucketIntelligentTieringConfigurationsInput
    ) -> ListBucketIntelligentTieringConfigurationsOutput { is_truncated: false }
    Bucket: list_bucket_inventory_configurations(ListBucketInventoryConfigurationsInput)
        -> ListBucketInventoryConfigurationsOutput { is_truncated: false }
    Bucket: list_bucket_metrics_configurations(ListBucketMetricsConfigurationsInput)
        -> ListBucketMetricsConfigurationsOutput { is_truncated: false }
    // To delete a setting that no bucket has, a key needs the permission to change buckets.
    Everything: delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput {}
    Everything: delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput {}
    Everything: delete_bucket_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput {}
    Everything: delete_bucket_encryption(DeleteBucketEncryptionInput)
        -> DeleteBucketEncryptionOutput {}
    Everything: delete_bucket_replication(DeleteBucketReplicationInput)
        -> DeleteBucketReplicationOutput {}
    Everything: delete_bucket_ownership_controls(DeleteBucketOwnershipControlsInput)
        -> DeleteBucketOwnershipControlsOutput {}
    Everything: delete_public_access_block(DeletePublicAccessBlockInput)
        -> DeletePublicAccessBlockOutput {}
    Everything: delete_bucket_analytics_configuration(DeleteBucketAnalyticsConfigurationInput)
        -> DeleteBucketAnalyticsConfigurationOutput {}
    Everything: delete_bucket_intelligent_tiering_configuration(
        DeleteBucketIntelligentTieringConfigurationInput
    ) -> DeleteBucketIntelligentTieringConfigurationOutput {}
    Everything: delete_bucket_inventory_configuration(DeleteBucketInventoryConfigurationInput)
        -> DeleteBucketInventoryConfigurationOutput {}
    Everything: delete_bucket_metrics_configuration(DeleteBucketMetricsConfigurationInput)
        -> DeleteBucketMetricsConfigurationOutput {}
}

/// The name of an operation, from the name of its input.
const fn name_of(input: &'static str) -> &'static str {
    match input.split_at_checked(input.len().saturating_sub("Input".len())) {
        Some((name, _)) => name,
        None => input,
    }
}

/// Finds an operation; `None` if it is not served.
pub(crate) fn operation(name: &str) -> Option<&'static ServedOperation> {
    OPERATIONS.iter().find(|it| it.name == name)
}

/// The permission that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Any key; the response is filtered by its scope.
    Key,
    /// A key without limits. Such operations change buckets.
    Everything,
    /// Access to the bucket.
    Bucket,
    /// Access to the listed prefix, which is checked when it is known.
    List,
    /// Write access to the bucket; each key is checked separately.
    BucketWrite,
    /// Read access to the blob.
    Read,
    /// Write access to the blob.
    Write,
    /// The same, and read access to the source, which is checked when it is known.
    Copy,
}

impl Permission {
    /// Whether a key that only reads lacks it.
    pub fn is_write(self) -> bool {
        match self {
            Self::Everything | Self::BucketWrite | Self::Write | Self::Copy => true,
            Self::Key | Self::Bucket | Self::List | Self::Read => false,
        }
    }
}

/// An operation of the S3 API that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedOperation {
    /// The name, as in the reference of S3.
    pub name: &'static str,
    /// The permission that it needs.
    pub needs: Permission,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_is_not_in_the_table_is_not_served() {
        for name in ["PutBucketPolicy", "PostObject", "SelectObjectContent", ""] {
            assert_eq!(operation(name), None, "{name}");
        }
        let put = operation("PutObject").map(|it| it.needs);
        assert_eq!(put, Some(Permission::Write));
    }
}
