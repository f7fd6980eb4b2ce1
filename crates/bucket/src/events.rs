//! The last events of a bucket and the state of their deliveries.

use serde::{Deserialize, Serialize};
use steadfast_store::{Address, EntityKind, Recorded};

use crate::{BlobEvent, BucketError, BucketName, Buckets};

/// An event that a bucket sent, and the state of its delivery.
#[derive(Clone, Debug)]
pub struct SentEvent {
    /// The event.
    pub event: BlobEvent,
    /// Id of the rule that sent it, which may have changed since.
    pub rule: String,
    /// The message of the event, with its queue and state.
    pub message: Recorded,
}

/// The metadata of the message of an event.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sender {
    pub(crate) rule: String,
}

impl Buckets {
    /// The last events of a bucket before a version of its stream, newest first.
    #[steadfast_store::boxed]
    pub async fn events(
        &self,
        bucket: &BucketName,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SentEvent>, BucketError> {
        self.shared.bucket(bucket).await?;
        let stream = stream(bucket)?.id();
        let last = match before {
            Some(before) => before - 1,
            None => self.shared.store.version(stream).await?,
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX).min(last);
        if limit <= 0 {
            return Ok(Vec::new());
        }
        let found = self.shared.store.read_stream(stream, last - limit + 1, limit as usize).await?;
        let read = |message: Recorded| {
            let event = serde_json::from_str(message.data.as_str()).ok()?;
            let sender: Sender = serde_json::from_str(message.metadata.as_str()).ok()?;
            Some(SentEvent { event, rule: sender.rule, message })
        };
        let up_to = found.into_iter().filter(|it| it.version <= last);
        Ok(up_to.rev().filter_map(read).collect())
    }
}

/// The stream that a bucket sends its events from.
pub(crate) fn stream(bucket: &BucketName) -> Result<Address, BucketError> {
    Ok(Address::new(EntityKind::Bucket, bucket.as_str(), "events")?)
}
