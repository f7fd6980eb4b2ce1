//! Events of the bucket become turns of the agent. A delivery ends in the commit of its turn.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::{BlobAction, BlobEvent, Consumer, Delivery, Object, Result, Settled};

use crate::{
    IngestUploadEvent, OnDelete, OrganizationAgent, ReportError, UPLOADS, is_name, split_key,
};

/// A message of the queue: an event of the bucket, or anything else that was sent to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UploadEvent {
    /// Has the fields of an event. They may still make no sense.
    Event(Box<BlobEvent>),
    /// Some other JSON.
    Malformed(Value),
}

impl UploadEvent {
    /// The event, or why it cannot be one of the bucket of images.
    fn check(&self) -> Result<&BlobEvent, &'static str> {
        let UploadEvent::Event(event) = self else {
            return Err("it does not have the fields of an event");
        };
        match &**event {
            it if it.bucket != UPLOADS.name() => Err("it is of another bucket"),
            it if it.action == BlobAction::Unknown => Err("its action is unknown"),
            it if it.sequence < 1 => Err("it has no sequence"),
            it if it.version.is_empty() && !it.action.is_deletion() => Err("it has no version"),
            it => Ok(it),
        }
    }
}

/// Takes the changes of the bucket in.
#[derive(Clone, Debug, Default)]
pub struct Ingestion {
    /// Messages that were acknowledged because they cannot be events of the bucket.
    pub malformed: Arc<AtomicU64>,
}

impl Consumer for Ingestion {
    type Message = UploadEvent;

    async fn deliver(&self, delivery: Delivery<UploadEvent>) -> Result<Settled> {
        take_in(delivery, None, &self.malformed).await
    }
}

/// Takes in events that were given up: an image is shown as failed, and a deletion is a deletion.
#[derive(Clone, Debug, Default)]
pub struct GaveUp {
    /// Messages that were acknowledged because they cannot be events of the bucket.
    pub malformed: Arc<AtomicU64>,
}

impl Consumer for GaveUp {
    type Message = UploadEvent;

    async fn deliver(&self, delivery: Delivery<UploadEvent>) -> Result<Settled> {
        let error = delivery.last_error().unwrap_or("the queue gave no reason");
        let failed = format!("its event could not be processed: {error}; retry it");
        take_in(delivery, Some(failed), &self.malformed).await
    }
}

async fn take_in(
    delivery: Delivery<UploadEvent>,
    failed: Option<String>,
    malformed: &AtomicU64,
) -> Result<Settled> {
    let message = delivery.message.clone();
    let event = match message.check() {
        Ok(event) => event,
        Err(reason) => {
            malformed.fetch_add(1, Ordering::Relaxed);
            let (queue, id) = (delivery.queue().to_owned(), delivery.id());
            tracing::warn!(queue, id, reason, "malformed event was acknowledged");
            return Ok(delivery.done());
        }
    };
    let Some((organization, name)) = split_key(event.key()) else {
        return misfit(delivery, event).await;
    };
    let (agent, name, sequence) =
        (OrganizationAgent::at(organization), name.to_owned(), event.sequence);
    if event.action.is_deletion() {
        return delivery.settle_with(agent, OnDelete { name, sequence }).await;
    }
    let (version, size) = (event.version.clone(), event.object.size.unwrap_or(0));
    let content_type = None;
    let ingest = IngestUploadEvent { name, sequence, version, size, content_type, failed };
    delivery.settle_with(agent, ingest).await
}

/// A key that a client made and that cannot be an image. Watchers of the organization are
/// notified, if the key names one.
async fn misfit(delivery: Delivery<UploadEvent>, event: &BlobEvent) -> Result<Settled> {
    tracing::warn!(key = event.key(), "event of a key that is no image was acknowledged");
    let organization = event.key().split('/').next().filter(|it| is_name(it));
    let Some(organization) = organization.filter(|_| !event.action.is_deletion()) else {
        return Ok(delivery.done());
    };
    let error = "keys are {organization}/{name}, both of letters, digits, `.`, `_` and `-`".into();
    let report = ReportError { name: event.key().into(), error };
    delivery.settle_with(OrganizationAgent::at(organization), report).await
}
