//! The run that classifies one write of an image.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    BucketError, Ctx, Error, Object, Places, Result, Retry, Workflow,
    bucket::{Condition, GetOptions},
    store::backoff,
};
use steadfast_images::{ImageError, ImageFormat, ImageLimits};

use crate::{
    MarkRunning, OrganizationAgent, PersistClassificationFailure, PersistClassificationSuccess,
    ReportProgress, UPLOADS,
    classifier::{Classifier, ClassifyError, Label},
    probe::Probe,
};

/// How long a run waits at most between two questions whether the classifier is back.
const WAIT_MAX: Duration = Duration::from_mins(10);

/// How long a run waits at most before it tries an image again that the classifier did not take.
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// An image is given up when a classifier that is there did not take it so often. Outages do not
/// count.
const REFUSALS_MAX: u32 = 10;

/// An image is given up when the answers to it made no sense so often.
const ANSWERS_MAX: u32 = 5;

/// Reading an image is tried again for about an hour.
const READ: Retry =
    Retry::exponential(Duration::from_secs(1)).limit(20).delay_max(Duration::from_mins(5));

/// Most of this is the wait for the threads of the classifier.
const LOOK_TIMEOUT: Duration = Duration::from_hours(1);

/// Classifies images.
#[derive(Clone)]
pub struct OrganizationWorkflow {
    /// Names what images show.
    pub classifier: Arc<dyn Classifier>,
    /// How long to wait at first for a classifier that is away; then twice as long each time, up to
    /// ten minutes.
    pub patience: Duration,
    /// Places for images in memory: however many runs there are, only so many hold one. One
    /// organization has at most half of them.
    pub places: Arc<Places>,
    /// Bytes that an image may have. Larger ones are not read.
    pub bytes_max: usize,
    probe: Arc<Probe>,
}

impl OrganizationWorkflow {
    /// With places for 32 images, and the usual limits.
    pub fn new(classifier: Arc<dyn Classifier>, patience: Duration) -> Self {
        let (places, bytes_max) = (Arc::new(Places::new(32)), ImageLimits::default().bytes_max);
        Self { classifier, patience, places, bytes_max, probe: Arc::default() }
    }

    /// Images may have so many bytes.
    pub fn bytes_max(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }
}

/// The input of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Classification {
    /// The organization.
    pub organization: String,
    /// The name of the image.
    pub name: String,
    /// The version of the blob: no other will do.
    pub version: String,
    /// Which write of the image.
    pub event_id: String,
    /// This run.
    pub workflow_id: String,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The image has a label.
    Classified,
    /// It has none, and says why.
    Failed,
    /// There is a newer one, or none any more.
    Superseded,
}

/// The result of one attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Look {
    Labels {
        top_five: Vec<Label>,
        content_type: Option<String>,
    },
    /// The classifier is away.
    Away(String),
    /// The classifier is there, and did not take the image.
    Refused(String),
    /// The classifier answered nonsense.
    Answer(String),
    Hopeless(String),
    Superseded,
    /// There is no free place; when to look again.
    Crowded(Duration),
}

/// How often an image was tried in vain.
#[derive(Default)]
struct Tries {
    all: u32,
    refused: u32,
    nonsense: u32,
}

impl Tries {
    fn is_last_refusal(&mut self) -> bool {
        self.refused += 1;
        REFUSALS_MAX <= self.refused
    }

    fn is_last_answer(&mut self) -> bool {
        self.nonsense += 1;
        ANSWERS_MAX <= self.nonsense
    }

    /// How long to wait before the next try: not before the second, then longer and longer.
    fn pause(&mut self, patience: Duration) -> Option<Duration> {
        self.all = self.all.saturating_add(1);
        (1 < self.all).then(|| backoff(patience, self.all - 1, PAUSE_MAX))
    }
}

impl Workflow for OrganizationWorkflow {
    const NAME: &'static str = "image-classification";
    type Input = Classification;
    type Output = Outcome;

    async fn run(&self, ctx: &Ctx, input: Classification) -> Result<Outcome> {
        let agent = || OrganizationAgent::at(&input.organization);
        let (event_id, workflow_id) = (input.event_id.clone(), input.workflow_id.clone());
        let begin = MarkRunning { event_id: event_id.clone(), workflow_id: workflow_id.clone() };
        if !ctx.call(agent(), begin).await? {
            return Ok(Outcome::Superseded);
        }
        let mut tries = Tries::default();
        let error = loop {
            let look = ctx.step("classify", async || self.look(ctx, &input).await);
            let (message, is_last) = match look.retry(READ).timeout(LOOK_TIMEOUT).await {
                Ok(Look::Labels { top_five, content_type }) => {
                    let told = PersistClassificationSuccess {
                        event_id,
                        workflow_id,
                        top_five,
                        content_type,
                    };
                    let is_current = ctx.call(agent(), told).await?;
                    return Ok(if is_current { Outcome::Classified } else { Outcome::Superseded });
                }
                Ok(Look::Away(message)) => {
                    self.tell(ctx, &input, message.clone()).await?;
                    self.wait_for_classifier(ctx).await?;
                    (message, false)
                }
                Ok(Look::Refused(message)) => {
                    self.tell(ctx, &input, message.clone()).await?;
                    (message, tries.is_last_refusal())
                }
                Ok(Look::Answer(message)) => (message, tries.is_last_answer()),
                Ok(Look::Superseded) => return Ok(Outcome::Superseded),
                Ok(Look::Hopeless(error)) => break error,
                Ok(Look::Crowded(pause)) => {
                    ctx.sleep("turn", pause).await?;
                    continue;
                }
                Err(error) => break error.to_string(),
            };
            if is_last {
                break message;
            }
            if let Some(pause) = tries.pause(self.patience) {
                ctx.sleep("again", pause).await?;
            }
        };
        let told = PersistClassificationFailure { event_id, workflow_id, error };
        let is_current = ctx.call(agent(), told).await?;
        Ok(if is_current { Outcome::Failed } else { Outcome::Superseded })
    }
}

impl OrganizationWorkflow {
    async fn tell(&self, ctx: &Ctx, input: &Classification, message: String) -> Result<()> {
        ctx.progress(message.clone(), None);
        let (event_id, workflow_id) = (input.event_id.clone(), input.workflow_id.clone());
        let told = ReportProgress { event_id, workflow_id, message };
        ctx.call(OrganizationAgent::at(&input.organization), told).await
    }

    /// Waits as long as it takes: one step, which does not read the image.
    async fn wait_for_classifier(&self, ctx: &Ctx) -> Result<()> {
        let ready = async || self.is_there(ctx).await.map_err(Error::retryable);
        let wait = Retry::exponential(self.patience).limit(u32::MAX).delay_max(WAIT_MAX);
        ctx.step("wait-for-classifier", ready).retry(wait).await
    }

    async fn is_there(&self, ctx: &Ctx) -> Result<(), ClassifyError> {
        self.probe.ask(&*self.classifier, ctx.clock()).await
    }

    /// Loads and classifies in one step: images do not go through the record of a run.
    async fn look(&self, ctx: &Ctx, input: &Classification) -> Result<Look> {
        let key = format!("{}/{}", input.organization, input.name);
        let condition = Condition::version(&input.version);
        let get = GetOptions { condition, ..GetOptions::default() };
        // A run that waited here for long would take one of the permits of runs from other
        // organizations.
        let Some(place) = self.places.take_soon(&input.organization, ctx.clock()).await else {
            return Ok(Look::Crowded(self.places.pause(&input.organization, ctx.clock().now())));
        };
        let image = match ctx.bucket(UPLOADS).read(&key, get).await {
            Ok(reading) if (self.bytes_max as u64) < reading.blob.size => {
                let bytes = usize::try_from(reading.blob.size).unwrap_or(usize::MAX);
                let error = ImageError::TooLarge { bytes, max: self.bytes_max };
                return Ok(Look::Hopeless(error.to_string()));
            }
            Ok(reading) => reading.bytes().await?,
            Err(BucketError::Condition { .. } | BucketError::UnknownBlob { .. }) => {
                return Ok(Look::Superseded);
            }
            Err(error) => return Err(error.into()),
        };
        match self.classifier.classify(&image).await {
            Ok(top_five) => {
                let format = ImageFormat::sniff(&image).ok();
                let content_type = format.map(|it| it.content_type().to_owned());
                Ok(Look::Labels { top_five, content_type })
            }
            Err(ClassifyError::NotReady { message } | ClassifyError::Unavailable { message }) => {
                // Neither is needed to ask, and others may use the place meanwhile.
                drop((image, place));
                Ok(match self.is_there(ctx).await {
                    Ok(()) => Look::Refused(message),
                    Err(_) => Look::Away(message),
                })
            }
            Err(ClassifyError::Answer { message }) => Ok(Look::Answer(message)),
            Err(error @ ClassifyError::Image(_)) => Ok(Look::Hopeless(error.to_string())),
        }
    }
}
