//! Operations on buckets: list, create, head, delete.

use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        Bucket, CreateBucketInput, CreateBucketOutput, DeleteBucketInput, DeleteBucketOutput,
        GetBucketLocationInput, GetBucketLocationOutput, GetBucketVersioningInput,
        GetBucketVersioningOutput, HeadBucketInput, HeadBucketOutput, ListBucketsInput,
        ListBucketsOutput, Owner,
    },
    s3_error,
};
use steadfast_bucket::{BucketInfo, BucketName};

use crate::{
    access::{scope_of, sees},
    convert,
    errors::s3_error_of,
    operations::S3Operations,
    presign::REGION,
};

/// Maximum number of buckets per page, as in S3.
const BUCKETS_MAX: usize = 10_000;

impl S3Operations {
    /// The owner of all buckets: the store.
    pub(crate) fn owner(&self) -> Owner {
        let name = self.buckets.account().to_owned();
        Owner { id: Some(name), display_name: None }
    }

    pub(crate) async fn buckets_list(
        &self,
        req: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        let (scope, input) = (scope_of(&req)?.clone(), &req.input);
        let max = match input.max_buckets {
            None => BUCKETS_MAX,
            Some(it @ 1..=10_000) => usize::try_from(it).unwrap_or(BUCKETS_MAX),
            Some(_) => return Err(s3_error!(InvalidArgument, "max-buckets must be 1 to 10000")),
        };
        let prefix = input.prefix.as_deref().unwrap_or_default();
        let mut after = input.continuation_token.as_deref().map(convert::bucket).transpose()?;
        let mut found: Vec<BucketInfo> = Vec::new();
        loop {
            let page = self.buckets.buckets(after.as_ref(), 1_000).await.map_err(s3_error_of)?;
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            found.extend(page.into_iter().filter(|it| {
                sees(&scope, it.name.as_str()) && it.name.as_str().starts_with(prefix)
            }));
            if max < found.len() {
                break;
            }
        }
        let is_more = max < found.len();
        found.truncate(max);
        let next = found.last().filter(|_| is_more).map(|it| it.name.to_string());
        let shown = |it: BucketInfo| Bucket {
            name: Some(it.name.to_string()),
            creation_date: Some(convert::s3_time(it.created_at)),
            ..Bucket::default()
        };
        Ok(S3Response::new(ListBucketsOutput {
            buckets: Some(found.into_iter().map(shown).collect()),
            continuation_token: next,
            owner: Some(self.owner()),
            prefix: input.prefix.clone(),
        }))
    }

    pub(crate) async fn bucket_create(
        &self,
        req: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        let configuration = req.input.create_bucket_configuration.as_ref();
        let location = configuration.and_then(|it| it.location_constraint.as_ref());
        // Clients send the region that they sign for.
        if location.is_some_and(|it| !["", "auto", REGION].contains(&it.as_str())) {
            return Err(s3_error!(
                InvalidLocationConstraint,
                "all buckets have one location; leave LocationConstraint out, or set the region \
                 of the client to auto"
            ));
        }
        self.buckets.create(&bucket).await.map_err(s3_error_of)?;
        let location = Some(format!("/{bucket}"));
        Ok(S3Response::new(CreateBucketOutput { location }))
    }

    pub(crate) async fn bucket_head(
        &self,
        req: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        let bucket_region = Some(REGION.into());
        Ok(S3Response::new(HeadBucketOutput { bucket_region, ..HeadBucketOutput::default() }))
    }

    pub(crate) async fn bucket_location(
        &self,
        req: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        // S3 has no location for us-east-1.
        Ok(S3Response::new(GetBucketLocationOutput::default()))
    }

    pub(crate) async fn bucket_versioning(
        &self,
        req: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<S3Response<GetBucketVersioningOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        // S3 answers with an empty document if versioning was never enabled.
        Ok(S3Response::new(GetBucketVersioningOutput::default()))
    }

    pub(crate) async fn bucket_delete(
        &self,
        req: S3Request<DeleteBucketInput>,
    ) -> S3Result<S3Response<DeleteBucketOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        self.buckets.delete_bucket(&bucket).await.map_err(s3_error_of)?;
        Ok(S3Response::new(DeleteBucketOutput::default()))
    }

    /// The bucket; an error if it does not exist.
    pub(crate) async fn existing_bucket(&self, name: &str) -> S3Result<BucketName> {
        let bucket = convert::bucket(name)?;
        Ok(self.buckets.bucket(&bucket).await.map_err(s3_error_of)?.name)
    }
}
