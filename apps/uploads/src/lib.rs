//! Images of organizations: dropped into a bucket, classified by a workflow, shown on a live page.
//!
//! It is the tour of the whole platform. A blob in the bucket [`UPLOADS`] makes an event in the
//! queue [`UPLOAD_EVENTS`]; a consumer gives it to the [`OrganizationAgent`], an object that keeps
//! one row for each image and starts an [`OrganizationWorkflow`]; the workflow asks a classifier
//! and tells the agent, and the agent tells everybody who watches.
//!
//! The bucket's number of each change decides which one is current, never a clock or the order of
//! arrival.

mod agent;
mod alarms;
pub mod classifier;
mod consumer;
pub mod http;
mod identity;
mod lost_runs;
mod models;
mod probe;
mod settings;
mod upload;
mod wire;
mod workflow;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use steadfast_core::{
    App, BlobEvent, Bucket, BucketSpec, Places, Queue, QueueSettings, QueueSpec, Result,
};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_web::{Serve, ServerContext};

use self::classifier::Classifier;
pub use self::{
    consumer::{GaveUp, Ingestion, UploadEvent},
    identity::{event_id, is_name, split_key, workflow_id},
    lost_runs::RunLookup,
    settings::Settings,
    upload::{Status, Upload},
    wire::{
        FindLostRuns, GetUpload, GetUploads, HideUpload, IngestUploadEvent, MarkRunning, OnDelete,
        OrganizationAgent, OrganizationMessage, PersistClassificationFailure,
        PersistClassificationSuccess, ProgressStep, ReportError, ReportProgress, RetryUpload,
        SweepStuck, SweepTombstones,
    },
    workflow::{Classification, OrganizationWorkflow, Outcome},
};

/// The code of an image that does not exist.
pub(crate) const IMAGE_NOT_FOUND: &str = "image_not_found";

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

/// The queue of changes that could not be handled. Its consumer does nothing but write a row, so
/// what fails is the program or its store: it tries again for more than two days.
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

/// The application, with the classifier that the settings choose.
pub fn app(settings: Settings) -> Result<App> {
    let (parts, check) = classifier::parts(&settings)?;
    let models = settings.uploads_models;
    let app = with_parts(parts).verb("models", move |_, args| models::run(args, models.as_ref()));
    Ok(app.before_work(check))
}

/// The parts of the application.
pub struct Parts {
    /// Says what is on an image.
    pub classifier: Arc<dyn Classifier>,
    /// How long an upload waits at first for a classifier that is not there yet.
    pub patience: Duration,
    /// Limits of an image.
    pub limits: ImageLimits,
    /// Threads that inspect images before they are stored. Images that are classified have others.
    pub pool: Pool,
    /// A notice about the classifier, if there is one.
    pub notice: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

/// The application, made of these.
pub fn with_parts(Parts { classifier, patience, limits, pool, notice }: Parts) -> App {
    let app = App::new("uploads");
    let (client, bytes_max) = (app.client(), limits.bytes_max);
    // Messages in its queues that are no events.
    let malformed: Arc<AtomicU64> = Arc::default();
    let count = malformed.clone();
    let runs = move || client.runtime().map(|it| it.runs().clone());
    let image_limits = limits.clone();
    let places = Arc::new(Places::new(2 * pool.threads()));
    let site = move |served: &ServerContext<'_>| http::Site {
        objects: served.runtime.objects().clone(),
        uploads: served.runtime.bucket(UPLOADS),
        organization: None,
        limits: image_limits.clone(),
        pool: pool.clone(),
        places: places.clone(),
        thumbnails: Copies::default(),
        connect: served.connect.clone(),
        notice: notice.clone(),
    };
    app.bucket(bucket())
        .queue(queue())
        .queue(dead_letters())
        .consume(INCOMING, Ingestion { malformed: malformed.clone() })
        .consume(INCOMING_DLQ, GaveUp { malformed })
        .object(OrganizationAgent::default())
        .perform::<FindLostRuns>(RunLookup::new(runs))
        .workflow(OrganizationWorkflow::new(classifier, patience).bytes_max(bytes_max))
        .counter("upload_events_malformed", "Malformed events acknowledged", move || {
            count.load(Ordering::Relaxed)
        })
        .page("Uploads", "/uploads/demo", "drop images, and see what is on them")
        .routes_with("", || http::routes(&limits), site)
}
