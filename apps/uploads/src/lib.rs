//! Images of organizations: dropped into a bucket, classified by a workflow, shown on a live page.
//!
//! It is the tour of the whole platform. A blob in the bucket [`UPLOADS`] makes an event in the
//! queue [`UPLOAD_EVENTS`]; a consumer gives it to the [`OrganizationAgent`], an object that keeps
//! one row for each image and starts an [`OrganizationWorkflow`]; the workflow asks a classifier
//! and tells the agent, and the agent tells everybody who watches.
//!
//! What is right is decided by the bucket's number of each change, never by a clock or by what
//! arrived first.

mod agent;
mod alarms;
mod consumer;
pub mod http;
mod identity;
mod probe;
mod stuck;
mod upload;
mod wire;
mod workflow;

use steadfast::{BlobEvent, Bucket, BucketSpec, Queue, QueueSettings, QueueSpec};

pub use self::{
    agent::OrganizationAgent,
    consumer::{GaveUp, Ingestion, UploadEvent},
    identity::{event_id, is_name, split_key, workflow_id},
    stuck::{FindLostRuns, RunLookup, SweepStuck},
    upload::{Status, Upload},
    wire::{
        GetUpload, GetUploads, HideUpload, IngestUploadEvent, MarkRunning, OnDelete,
        OrganizationMessage, PersistClassificationFailure, PersistClassificationSuccess,
        ProgressStep, ReportError, ReportProgress, RetryUpload, SweepTombstones,
    },
    workflow::{Classification, OrganizationWorkflow, Outcome},
};

/// The images, under `{organization}/{name}`.
pub const UPLOADS: Bucket = Bucket::named("uploads");
/// Every change of an image.
pub const UPLOAD_EVENTS: Queue<BlobEvent> = Queue::named("upload-events");
/// Changes that could not be handled.
pub const UPLOAD_EVENTS_DLQ: Queue<BlobEvent> = Queue::named("upload-events-dlq");
/// The queue of changes as its consumer reads it: anything may have been sent to it.
pub const INCOMING: Queue<UploadEvent> = Queue::named(UPLOAD_EVENTS.name());
/// The changes that could not be handled, as their consumer reads them.
pub const INCOMING_DLQ: Queue<UploadEvent> = Queue::named(UPLOAD_EVENTS_DLQ.name());

/// The bucket, with the rule that tells of its changes.
pub fn bucket() -> BucketSpec {
    UPLOADS.notify("", UPLOAD_EVENTS)
}

/// The queue of changes that could not be handled. Its consumer does nothing but write a row, so what
/// fails is the program or its store: it tries again for more than two days.
pub fn dead_letters() -> QueueSpec<BlobEvent> {
    UPLOAD_EVENTS_DLQ.retries(1_000)
}

/// The queue of changes: twenty retries with growing waits, which is about an hour, then the dead
/// letters.
pub fn queue() -> QueueSpec<BlobEvent> {
    UPLOAD_EVENTS
        .with(QueueSettings { max_retries: 20, ..QueueSettings::default() })
        .dead_letters(UPLOAD_EVENTS_DLQ)
}
