//! The run that classifies one write of an image.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast::{
    BucketError, Ctx, Error, Object, Result, Workflow,
    bucket::{Condition, GetOptions},
};
use steadfast_ai::classify::{Classifier, ClassifyError, ImageFormat, Label};
use tokio::sync::Semaphore;

use crate::{
    MarkRunning, OrganizationAgent, PersistClassificationFailure, PersistClassificationSuccess,
    ReportProgress, UPLOADS,
};

/// A run that waits is read again each time, so it does not look too often.
const PATIENCE_MAX: Duration = Duration::from_mins(1);

/// Classifies images.
#[derive(Clone)]
pub struct OrganizationWorkflow {
    /// Who knows what images show.
    pub classifier: Arc<dyn Classifier>,
    /// How long to wait at first for a classifier that is not there yet; then longer and longer, up
    /// to a minute.
    pub patience: Duration,
    /// Places for images in memory: however many runs there are, only so many hold one.
    pub places: Arc<Semaphore>,
}

impl OrganizationWorkflow {
    /// With places for 32 images.
    pub fn new(classifier: Arc<dyn Classifier>, patience: Duration) -> Self {
        Self { classifier, patience, places: Arc::new(Semaphore::new(32)) }
    }
}

/// What a run begins with.
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

/// What one look at the image came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Look {
    Labels { top_five: Vec<Label>, content_type: Option<String> },
    NotReady(String),
    Hopeless(String),
    Superseded,
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
        let mut wait = self.patience;
        let error = loop {
            match ctx.step("classify", async || self.look(ctx, &input).await).await {
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
                Ok(Look::NotReady(message)) => {
                    ctx.progress(message.clone(), None);
                    let (event_id, workflow_id) = (event_id.clone(), workflow_id.clone());
                    let told = ReportProgress { event_id, workflow_id, message };
                    ctx.call(agent(), told).await?;
                    ctx.sleep("classifier", wait).await?;
                    wait = (2 * wait).min(PATIENCE_MAX);
                }
                Ok(Look::Superseded) => return Ok(Outcome::Superseded),
                Ok(Look::Hopeless(error)) => break error,
                Err(error) => break error.to_string(),
            }
        };
        let told = PersistClassificationFailure { event_id, workflow_id, error };
        let is_current = ctx.call(agent(), told).await?;
        Ok(if is_current { Outcome::Failed } else { Outcome::Superseded })
    }
}

impl OrganizationWorkflow {
    /// Loads and classifies in one step: images do not go through the record of a run.
    async fn look(&self, ctx: &Ctx, input: &Classification) -> Result<Look> {
        let key = format!("{}/{}", input.organization, input.name);
        let condition = Condition::version(&input.version);
        let get = GetOptions { condition, ..GetOptions::default() };
        let _place = self.places.acquire().await.map_err(Error::retryable)?;
        let image = match ctx.bucket(UPLOADS).read(&key, get).await {
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
            Err(ClassifyError::NotReady { message }) => Ok(Look::NotReady(message)),
            Err(error @ ClassifyError::Image(_)) => Ok(Look::Hopeless(error.to_string())),
            Err(error @ (ClassifyError::Unavailable { .. } | ClassifyError::Answer { .. })) => {
                Err(Error::retryable(error))
            }
        }
    }
}
