//! The event rules of a bucket as S3 notifications.

use s3s::{
    S3Request, S3Response, S3Result,
    dto::{
        Event, FilterRule, FilterRuleName, GetBucketNotificationConfigurationInput,
        GetBucketNotificationConfigurationOutput, NotificationConfigurationFilter,
        QueueConfiguration, S3KeyFilter,
    },
};
use steadfast_bucket::{EventType, Rule};

use crate::{
    access::scope_of, convert, errors::s3_error_of, operations::S3Operations, presign::REGION,
};

impl S3Operations {
    pub(crate) async fn notification_get(
        &self,
        req: S3Request<GetBucketNotificationConfigurationInput>,
    ) -> S3Result<S3Response<GetBucketNotificationConfigurationOutput>> {
        let bucket = convert::bucket(&req.input.bucket)?;
        let found = self.buckets.bucket(&bucket).await.map_err(s3_error_of)?;
        let (account, scope) = (self.buckets.account(), scope_of(&req)?);
        // Rules of other prefixes may be those of other organizations.
        let own = |it: &&Rule| scope.covers_list(bucket.as_str(), &it.prefix);
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
