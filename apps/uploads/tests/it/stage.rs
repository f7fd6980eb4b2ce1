//! The application on a store in memory, with a classifier that does what the image says.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use steadfast_core::{
    App, BlobAction, BlobEvent, Consumer, Object,
    bucket::{Blob, EventObject},
    test::TestApp,
};
use steadfast_uploads::{
    FindLostRuns, GaveUp, GetUpload, GetUploads, INCOMING, INCOMING_DLQ, Ingestion,
    OrganizationAgent, OrganizationWorkflow, RunLookup, UPLOAD_EVENTS, UPLOADS, Upload,
    UploadEvent, bucket,
    classifier::{Classifier, ClassifyError, Label},
    dead_letters, queue,
};

/// Answers with what the bytes say; some bytes make trouble.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) calls: Arc<AtomicUsize>,
    /// How often it was asked whether it is there.
    pub(crate) asked: Arc<AtomicUsize>,
    /// Outages that are to come, each with the next image.
    pub(crate) outages: Arc<AtomicUsize>,
    /// Set when the model is there.
    pub(crate) is_ready: Arc<AtomicBool>,
    /// Set while the provider answers nothing but errors.
    pub(crate) is_down: Arc<AtomicBool>,
}

#[async_trait]
impl Classifier for Fake {
    async fn classify(&self, image: &[u8]) -> Result<Vec<Label>, ClassifyError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let text = String::from_utf8_lossy(&image[..image.len().min(20)]).into_owned();
        let message = format!("as the image wants: {text}");
        let fewer = |it: usize| it.checked_sub(1);
        if self.outages.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok() {
            self.is_down.store(true, Ordering::SeqCst);
        }
        self.answer()?;
        match text.as_str() {
            "hangs" => std::future::pending().await,
            "down" => Err(ClassifyError::Unavailable { message }),
            "flaky" if call == 0 => Err(ClassifyError::Unavailable { message }),
            "nonsense" => Err(ClassifyError::Answer { message }),
            "later" if !self.is_ready.load(Ordering::SeqCst) => {
                Err(ClassifyError::NotReady { message })
            }
            _ => Ok((0..5).map(|it| label(&text, it)).collect()),
        }
    }

    async fn ready(&self) -> Result<(), ClassifyError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer()?;
        match self.is_ready.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(ClassifyError::NotReady { message: "not yet".into() }),
        }
    }

    fn name(&self) -> String {
        "fake".into()
    }
}

impl Fake {
    fn answer(&self) -> Result<(), ClassifyError> {
        match self.is_down.load(Ordering::SeqCst) {
            true => Err(ClassifyError::Unavailable { message: "the provider is down".into() }),
            false => Ok(()),
        }
    }
}

fn label(text: &str, place: i32) -> Label {
    let label = match place {
        0 => text.to_uppercase(),
        place => format!("{} {place}", text.to_uppercase()),
    };
    Label { label, score: 0.9 / f64::from(place + 1) }
}

/// The application; `told` says whether the bucket tells of its changes, or the test does.
pub(crate) fn program(fake: &Fake, told: bool) -> App {
    program_with(fake, told, Ingestion::default())
}

/// The same with another consumer of events.
pub(crate) fn program_with(
    fake: &Fake,
    told: bool,
    consumer: impl Consumer<Message = UploadEvent>,
) -> App {
    program_of(fake, told, consumer, GaveUp::default())
}

/// The same with another consumer of events that were given up as well.
pub(crate) fn program_of(
    fake: &Fake,
    told: bool,
    consumer: impl Consumer<Message = UploadEvent>,
    gave_up: impl Consumer<Message = UploadEvent>,
) -> App {
    let classifier: Arc<dyn Classifier> = Arc::new(fake.clone());
    let patience = Duration::from_secs(5);
    let app = App::new("test");
    let client = app.client();
    let runs = move || client.runtime().map(|it| it.runs().clone());
    app.perform::<FindLostRuns>(RunLookup::new(runs))
        .bucket(if told { bucket() } else { UPLOADS.into() })
        .queue(queue())
        .queue(dead_letters())
        .consume(INCOMING, consumer)
        .consume(INCOMING_DLQ, gave_up)
        .object(OrganizationAgent::default())
        .workflow(OrganizationWorkflow::new(classifier, patience))
}

pub(crate) async fn start(fake: &Fake, told: bool) -> TestApp {
    program(fake, told).test().await.unwrap()
}

pub(crate) const ACME: &str = "acme";

/// Puts an image into the bucket.
pub(crate) async fn put(app: &TestApp, name: &str, bytes: &str) -> Blob {
    app.bucket(UPLOADS).put(&format!("{ACME}/{name}"), bytes).await.unwrap()
}

/// Deletes it there; the number of the deletion.
pub(crate) async fn delete(app: &TestApp, name: &str) -> i64 {
    app.bucket(UPLOADS).delete(&format!("{ACME}/{name}")).await.unwrap().unwrap()
}

pub(crate) fn put_event(blob: &Blob) -> BlobEvent {
    let (key, size) = (blob.key.to_string(), Some(blob.size));
    BlobEvent {
        account: "test".into(),
        action: BlobAction::PutObject,
        bucket: UPLOADS.name().into(),
        object: EventObject { key, size, e_tag: Some(blob.etag.clone()) },
        event_time: "2026-01-01T00:00:00.000Z".into(),
        copy_source: None,
        version: blob.version(),
        sequence: blob.sequence,
        metadata: BTreeMap::new(),
    }
}

pub(crate) fn delete_event(name: &str, sequence: i64) -> BlobEvent {
    BlobEvent {
        account: "test".into(),
        action: BlobAction::DeleteObject,
        bucket: UPLOADS.name().into(),
        object: EventObject { key: format!("{ACME}/{name}"), size: None, e_tag: None },
        event_time: "2026-01-01T00:00:00.000Z".into(),
        copy_source: None,
        version: String::new(),
        sequence,
        metadata: BTreeMap::new(),
    }
}

/// Delivers an event, as if the bucket had told of it now.
pub(crate) async fn deliver(app: &TestApp, event: &BlobEvent) {
    app.queues().send(UPLOAD_EVENTS, event).await.unwrap();
}

pub(crate) async fn row(app: &TestApp, name: &str) -> Option<Upload> {
    app.call(OrganizationAgent::at(ACME), GetUpload { name: name.into() }).await.unwrap()
}

pub(crate) async fn rows(app: &TestApp) -> Vec<Upload> {
    let all = GetUploads { limit: 100, ..GetUploads::default() };
    app.call(OrganizationAgent::at(ACME), all).await.unwrap()
}

/// How many runs there are.
pub(crate) async fn runs(app: &TestApp) -> usize {
    app.store().count_runs("image-classification", None, 1_000).await.unwrap()
}
