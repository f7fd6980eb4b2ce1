//! Operations on buckets: list, create, delete, their event rules as S3 notifications, and
//! lists of versions. Buckets keep one version of each blob, which S3 calls `null`.

use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        Bucket, CreateBucketInput, CreateBucketOutput, DeleteBucketInput, DeleteBucketOutput,
        Event, FilterRule, FilterRuleName, GetBucketNotificationConfigurationInput,
        GetBucketNotificationConfigurationOutput, ListBucketsInput, ListBucketsOutput,
        ListObjectVersionsInput, ListObjectVersionsOutput, NotificationConfigurationFilter,
        ObjectVersion, ObjectVersionStorageClass, Owner, QueueConfiguration, S3KeyFilter,
    },
    s3_error,
};
use steadfast_bucket::{Blob, BucketInfo, EventType, Rule};

use crate::{
    access::{scope_of, sees},
    convert::{self, etag, s3_time, signed},
    errors::s3_error_of,
    list::{list_request, list_response},
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

    pub(crate) async fn bucket_delete(
        &self,
        req: S3Request<DeleteBucketInput>,
    ) -> S3Result<S3Response<DeleteBucketOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        self.buckets.delete_bucket(&bucket).await.map_err(s3_error_of)?;
        Ok(S3Response::new(DeleteBucketOutput::default()))
    }

    /// The bucket; an error if it does not exist.
    pub(crate) async fn existing_bucket(&self, name: &str) -> S3Result<BucketInfo> {
        self.buckets.bucket(&convert::bucket(name)?).await.map_err(s3_error_of)
    }
}

impl S3Operations {
    pub(crate) async fn notification_get(
        &self,
        req: S3Request<GetBucketNotificationConfigurationInput>,
    ) -> S3Result<S3Response<GetBucketNotificationConfigurationOutput>> {
        let found = self.existing_bucket(&req.input.bucket).await?;
        let (account, scope) = (self.buckets.account(), scope_of(&req)?);
        // Rules of other prefixes may be those of other organizations.
        let own = |it: &&Rule| scope.covers_list(found.name.as_str(), &it.prefix);
        let rules = found.rules.iter().filter(own);
        let shown: Vec<_> = rules.map(|it| shown(it, account)).collect();
        Ok(S3Response::new(GetBucketNotificationConfigurationOutput {
            queue_configurations: Some(shown).filter(|it| !it.is_empty()),
            ..GetBucketNotificationConfigurationOutput::default()
        }))
    }
}

fn shown(rule: &Rule, account: &str) -> QueueConfiguration {
    let filter = |name: &'static str, value: &str| FilterRule {
        name: Some(FilterRuleName::from_static(name)),
        value: Some(value.to_owned()),
    };
    let filters = [(FilterRuleName::PREFIX, &rule.prefix), (FilterRuleName::SUFFIX, &rule.suffix)];
    let filters = filters.into_iter().filter(|it| !it.1.is_empty());
    let filters: Vec<FilterRule> = filters.map(|(name, value)| filter(name, value)).collect();
    let filters = Some(filters).filter(|it| !it.is_empty());
    let key = filters.map(|it| S3KeyFilter { filter_rules: Some(it) });
    QueueConfiguration {
        id: Some(rule.id.clone()),
        events: rule.events.iter().flat_map(|it| events(*it)).copied().map(event).collect(),
        filter: key.map(|it| NotificationConfigurationFilter { key: Some(it) }),
        queue_arn: format!("arn:steadfast:sqs:{REGION}:{account}:{}", rule.queue),
    }
}

fn event(name: &'static str) -> Event {
    Event::from(name.to_owned())
}

fn events(of: EventType) -> &'static [&'static str] {
    match of {
        EventType::ObjectCreate => &["s3:ObjectCreated:*"],
        EventType::ObjectDelete => &["s3:ObjectRemoved:*", "s3:LifecycleExpiration:*"],
    }
}

impl S3Operations {
    pub(crate) async fn versions_list(
        &self,
        req: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        let input = req.input;
        let after = input.key_marker.clone().filter(|it| !it.is_empty());
        let asked = list_request!(input);
        let found = self.listing(&asked, after).await?;
        let encoding = &asked.encoding;
        let shown = |it: &Blob| ObjectVersion {
            key: Some(encoding.text(it.key.as_str())),
            version_id: Some("null".into()),
            is_latest: Some(true),
            e_tag: Some(etag(&it.etag)),
            size: Some(signed(it.size)),
            last_modified: Some(s3_time(it.modified_at)),
            owner: Some(self.owner()),
            storage_class: Some(ObjectVersionStorageClass::from_static(
                ObjectVersionStorageClass::STANDARD,
            )),
            ..ObjectVersion::default()
        };
        Ok(S3Response::new(ListObjectVersionsOutput {
            key_marker: encoding.option(Some(input.key_marker.as_deref().unwrap_or_default())),
            version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
            next_key_marker: encoding.option(found.next.as_deref()),
            next_version_id_marker: found.next.as_ref().map(|_| "null".into()),
            versions: Some(found.blobs.iter().map(shown).collect()),
            ..list_response!(ListObjectVersionsOutput, asked, found)
        }))
    }
}
