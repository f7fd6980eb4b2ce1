//! Features of S3 that buckets lack. Requests for them get the answer of S3 for "not set", so that
//! clients that check first can continue.

use s3s::{
    S3Error, S3ErrorCode, S3Request, S3Response, S3Result,
    dto::{
        AccessControlPolicy, DeleteBucketLifecycleInput, DeleteBucketLifecycleOutput,
        DeleteObjectTaggingInput, DeleteObjectTaggingOutput, GetBucketAccelerateConfigurationInput,
        GetBucketAccelerateConfigurationOutput, GetBucketAclInput, GetBucketAclOutput,
        GetBucketLifecycleConfigurationInput, GetBucketLifecycleConfigurationOutput,
        GetBucketLoggingInput, GetBucketLoggingOutput, GetBucketRequestPaymentInput,
        GetBucketRequestPaymentOutput, GetObjectAclInput, GetObjectAclOutput,
        GetObjectLegalHoldInput, GetObjectLegalHoldOutput, GetObjectRetentionInput,
        GetObjectRetentionOutput, GetObjectTaggingInput, GetObjectTaggingOutput, Grant, Grantee,
        Payer, Permission, PutBucketAclInput, PutBucketAclOutput, PutObjectAclInput,
        PutObjectAclOutput, Type,
    },
    s3_error,
};

use crate::{convert, errors::s3_error_of, operations::S3Operations, unsupported::public_acl};

impl S3Operations {
    /// The error "not set" for an existing bucket: the setting that it lacks, and the next step.
    pub(crate) async fn unset<T>(
        &self,
        bucket: &str,
        code: &'static str,
        lacks: &str,
    ) -> S3Result<T> {
        self.existing_bucket(bucket).await?;
        let code = S3ErrorCode::from_bytes(code.as_bytes())
            .unwrap_or_else(|| S3ErrorCode::Custom(code.into()));
        let mut error = S3Error::with_message(code, format!("bucket {bucket} has no {lacks}"));
        error.set_status_code(http::StatusCode::NOT_FOUND);
        Err(error)
    }

    pub(crate) async fn lifecycle_get(
        &self,
        req: S3Request<GetBucketLifecycleConfigurationInput>,
    ) -> S3Result<S3Response<GetBucketLifecycleConfigurationOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        let found = self.buckets.bucket(&bucket).await.map_err(s3_error_of)?;
        if found.lifecycle.is_empty() {
            let lacks = "lifecycle rules; `steadfast buckets lifecycle put` sets one";
            return self.unset(&req.input.bucket, "NoSuchLifecycleConfiguration", lacks).await;
        }
        let text = "the bucket has lifecycle rules; `steadfast buckets lifecycle list` shows them";
        Err(s3_error!(NotImplemented, "{text}"))
    }

    pub(crate) async fn lifecycle_delete(
        &self,
        req: S3Request<DeleteBucketLifecycleInput>,
    ) -> S3Result<S3Response<DeleteBucketLifecycleOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        let found = self.buckets.bucket(&bucket).await.map_err(s3_error_of)?;
        if found.lifecycle.is_empty() {
            return Ok(S3Response::new(DeleteBucketLifecycleOutput::default()));
        }
        let text = "the bucket has lifecycle rules; `steadfast buckets lifecycle delete` deletes \
                    one";
        Err(s3_error!(NotImplemented, "{text}"))
    }

    pub(crate) async fn logging_get(
        &self,
        req: S3Request<GetBucketLoggingInput>,
    ) -> S3Result<S3Response<GetBucketLoggingOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        Ok(S3Response::new(GetBucketLoggingOutput::default()))
    }

    pub(crate) async fn accelerate_get(
        &self,
        req: S3Request<GetBucketAccelerateConfigurationInput>,
    ) -> S3Result<S3Response<GetBucketAccelerateConfigurationOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        Ok(S3Response::new(GetBucketAccelerateConfigurationOutput::default()))
    }

    pub(crate) async fn payment_get(
        &self,
        req: S3Request<GetBucketRequestPaymentInput>,
    ) -> S3Result<S3Response<GetBucketRequestPaymentOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        let payer = Some(Payer::from_static(Payer::BUCKET_OWNER));
        Ok(S3Response::new(GetBucketRequestPaymentOutput { payer }))
    }

    pub(crate) async fn tags_get(
        &self,
        req: S3Request<GetObjectTaggingInput>,
    ) -> S3Result<S3Response<GetObjectTaggingOutput>> {
        self.blob_known(&req.input.bucket, &req.input.key).await?;
        let output = GetObjectTaggingOutput { tag_set: Vec::new(), version_id: None };
        Ok(S3Response::new(output))
    }

    pub(crate) async fn tags_delete(
        &self,
        req: S3Request<DeleteObjectTaggingInput>,
    ) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
        self.blob_known(&req.input.bucket, &req.input.key).await?;
        Ok(S3Response::new(DeleteObjectTaggingOutput::default()))
    }

    pub(crate) async fn retention_get(
        &self,
        req: S3Request<GetObjectRetentionInput>,
    ) -> S3Result<S3Response<GetObjectRetentionOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        Err(no_lock())
    }

    pub(crate) async fn legal_hold_get(
        &self,
        req: S3Request<GetObjectLegalHoldInput>,
    ) -> S3Result<S3Response<GetObjectLegalHoldOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        Err(no_lock())
    }

    pub(crate) async fn bucket_acl_get(
        &self,
        req: S3Request<GetBucketAclInput>,
    ) -> S3Result<S3Response<GetBucketAclOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        let (grants, owner) = (Some(vec![self.all_to_owner()]), Some(self.owner()));
        Ok(S3Response::new(GetBucketAclOutput { grants, owner }))
    }

    pub(crate) async fn object_acl_get(
        &self,
        req: S3Request<GetObjectAclInput>,
    ) -> S3Result<S3Response<GetObjectAclOutput>> {
        self.blob_known(&req.input.bucket, &req.input.key).await?;
        let (grants, owner) = (Some(vec![self.all_to_owner()]), Some(self.owner()));
        Ok(S3Response::new(GetObjectAclOutput { grants, owner, request_charged: None }))
    }

    pub(crate) async fn bucket_acl_put(
        &self,
        req: S3Request<PutBucketAclInput>,
    ) -> S3Result<S3Response<PutBucketAclOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        let public = public_acl(&req.uri, &req.headers);
        self.check_acl(public.as_deref(), req.input.access_control_policy.as_ref())?;
        Ok(S3Response::new(PutBucketAclOutput::default()))
    }

    pub(crate) async fn object_acl_put(
        &self,
        req: S3Request<PutObjectAclInput>,
    ) -> S3Result<S3Response<PutObjectAclOutput>> {
        self.blob_known(&req.input.bucket, &req.input.key).await?;
        let public = public_acl(&req.uri, &req.headers);
        self.check_acl(public.as_deref(), req.input.access_control_policy.as_ref())?;
        Ok(S3Response::new(PutObjectAclOutput::default()))
    }

    /// Refuses every access control list except the one in force: full control for the owner only.
    fn check_acl(
        &self,
        public: Option<&str>,
        policy: Option<&AccessControlPolicy>,
    ) -> S3Result<()> {
        let id = self.owner().id;
        let is_owners = |it: &Grant| it.grantee.as_ref().is_some_and(|it| it.id == id);
        let is_all = |it: &Grant| {
            let permission = it.permission.as_ref().map(|it| it.as_str());
            permission == Some(Permission::FULL_CONTROL)
        };
        let is_in_force = |policy: &AccessControlPolicy| {
            let grants = policy.grants.as_deref().unwrap_or_default();
            let owner = policy.owner.as_ref().and_then(|it| it.id.as_ref());
            owner.is_none_or(|it| Some(it) == id.as_ref())
                && grants.iter().all(is_owners)
                && grants.iter().any(is_all)
        };
        if public.is_none() && policy.is_none_or(is_in_force) {
            return Ok(());
        }
        let code = S3ErrorCode::Custom("AccessControlListNotSupported".into());
        let text = "buckets have no access control lists: all is private; give access with access \
                    keys (`steadfast keys create`) or presigned URLs";
        let mut error = S3Error::with_message(code, text);
        error.set_status_code(http::StatusCode::BAD_REQUEST);
        Err(error)
    }

    fn all_to_owner(&self) -> Grant {
        let type_ = Type::from_static(Type::CANONICAL_USER);
        let id = self.owner().id;
        let grantee = Grantee { id, type_, display_name: None, email_address: None, uri: None };
        let permission = Some(Permission::from_static(Permission::FULL_CONTROL));
        Grant { grantee: Some(grantee), permission }
    }

    async fn blob_known(&self, bucket: &str, key: &str) -> S3Result<()> {
        let (bucket, key) = convert::blob_path(bucket, key)?;
        self.buckets.head(&bucket, &key).await.map(drop).map_err(s3_error_of)
    }
}

fn no_lock() -> S3Error {
    s3_error!(InvalidRequest, "the bucket has no object lock configuration")
}
