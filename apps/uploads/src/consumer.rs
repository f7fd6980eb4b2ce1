//! Events of the bucket become turns of the agent. A delivery ends in the commit of its turn.

use steadfast::{BlobAction, BlobEvent, Consumer, Delivery, Object, Result, Settled};

use crate::{IngestUploadEvent, OnDelete, OrganizationAgent, ReportError, is_name, split_key};

/// Takes the changes of the bucket in.
#[derive(Clone, Copy, Debug)]
pub struct Ingestion;

impl Consumer for Ingestion {
    type Message = BlobEvent;

    async fn deliver(&self, delivery: Delivery<BlobEvent>) -> Result<Settled> {
        take_in(delivery, None).await
    }
}

/// Takes in what could not be taken in: an image that failed is shown as failed, and a deletion is
/// a deletion.
#[derive(Clone, Copy, Debug)]
pub struct GaveUp;

impl Consumer for GaveUp {
    type Message = BlobEvent;

    async fn deliver(&self, delivery: Delivery<BlobEvent>) -> Result<Settled> {
        take_in(delivery, Some("its event could not be processed; retry it".into())).await
    }
}

async fn take_in(delivery: Delivery<BlobEvent>, failed: Option<String>) -> Result<Settled> {
    let event = delivery.message.clone();
    let Some((organization, name)) = split_key(event.key()) else {
        return misfit(delivery).await;
    };
    let (agent, name, sequence) =
        (OrganizationAgent::at(organization), name.to_owned(), event.sequence);
    match event.action {
        BlobAction::PutObject | BlobAction::CopyObject | BlobAction::CompleteMultipartUpload => {
            let (version, size) = (event.version.clone(), event.object.size.unwrap_or(0));
            let content_type = None;
            let ingest = IngestUploadEvent { name, sequence, version, size, content_type, failed };
            delivery.settle_with(agent, ingest).await
        }
        BlobAction::DeleteObject | BlobAction::LifecycleDeletion => {
            delivery.settle_with(agent, OnDelete { name, sequence }).await
        }
        BlobAction::Unknown => {
            tracing::warn!(key = event.key(), "an event of an unknown sort was passed over");
            Ok(delivery.done())
        }
    }
}

/// A key that a client made and that cannot be an image. Who watches the organization, if it names
/// one, is told.
async fn misfit(delivery: Delivery<BlobEvent>) -> Result<Settled> {
    let event = delivery.message.clone();
    tracing::warn!(key = event.key(), "a key that is no image of an organization was passed over");
    let organization = event.key().split('/').next().filter(|it| is_name(it));
    let Some(organization) = organization.filter(|_| !event.action.is_deletion()) else {
        return Ok(delivery.done());
    };
    let error = "keys are {organization}/{name}, both of letters, digits, `.`, `_` and `-`".into();
    let report = ReportError { name: event.key().into(), error };
    delivery.settle_with(OrganizationAgent::at(organization), report).await
}
