//! The agent of an organization, its messages, and those that it sends to watchers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_core::Job;

use crate::{Status, classifier::Label};

/// The images of one organization.
#[derive(Clone, Copy, Debug)]
pub struct OrganizationAgent {
    /// How long a deletion is remembered. It must be longer than events can be late.
    pub keep_tombstones: Duration,
    /// A row that did not change for this time is checked: its run may be lost.
    pub stuck_after: Duration,
}

impl Default for OrganizationAgent {
    fn default() -> Self {
        let keep_tombstones = Duration::from_hours(30 * 24);
        Self { keep_tombstones, stuck_after: Duration::from_mins(10) }
    }
}

/// An image was written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngestUploadEvent {
    /// Its name.
    pub name: String,
    /// The bucket's number of the change.
    pub sequence: i64,
    /// The version of the blob.
    pub version: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its media type, if it is known.
    pub content_type: Option<String>,
    /// Why it cannot be classified, if that is known already.
    pub failed: Option<String>,
}

/// An image was deleted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OnDelete {
    /// Its name.
    pub name: String,
    /// The bucket's number of the change.
    pub sequence: i64,
}

/// An image was deleted through the application, which does not wait for the event of the bucket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HideUpload {
    /// Its name.
    pub name: String,
    /// The bucket's number of the deletion.
    pub sequence: i64,
}

/// A run begins to classify. `false`: it is about an image that is not there any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MarkRunning {
    /// Which write of the image.
    pub event_id: String,
    /// Which run.
    pub workflow_id: String,
}

/// An image was classified.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersistClassificationSuccess {
    /// Which write of the image.
    pub event_id: String,
    /// Which run.
    pub workflow_id: String,
    /// The labels, the most likely first.
    pub top_five: Vec<Label>,
    /// Its media type, as its bytes have it.
    pub content_type: Option<String>,
}

/// A run says why it takes so long.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportProgress {
    /// Which write of the image.
    pub event_id: String,
    /// Which run.
    pub workflow_id: String,
    /// In words.
    pub message: String,
}

/// An image could not be classified.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersistClassificationFailure {
    /// Which write of the image.
    pub event_id: String,
    /// Which run.
    pub workflow_id: String,
    /// Why.
    pub error: String,
}

/// Somebody wants an image that has no label to be tried again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RetryUpload {
    /// Its name.
    pub name: String,
}

/// One image.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GetUpload {
    /// Its name.
    pub name: String,
}

/// The images, newest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GetUploads {
    /// Only those that are so far.
    pub status: Option<Status>,
    /// Only those that show this.
    pub label: Option<String>,
    /// Only those behind this one: when it was created, and its name.
    pub after: Option<(i64, String)>,
    /// The maximum number of rows.
    pub limit: u32,
}

/// Something came that cannot be an image of the organization.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReportError {
    /// The name of the image.
    pub name: String,
    /// The reason.
    pub error: String,
}

/// The time of old tombstones is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepTombstones;

/// The part of a run that progress is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgressStep {
    /// It reads the image.
    LoadImage,
    /// It asks the classifier, or waits for it.
    ClassifyImage,
    /// It writes the result into the row.
    PersistResult,
}

/// A message to everybody who watches an organization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum OrganizationMessage {
    /// An image came.
    UploadReceived {
        /// Its name.
        name: String,
        /// Which write of it.
        event_id: String,
    },
    /// Its run has begun.
    ClassificationWorkflowStarted {
        /// Its name.
        name: String,
        /// Which write of it.
        event_id: String,
        /// Which run.
        workflow_id: String,
    },
    /// Its run says how far it is.
    WorkflowProgress {
        /// Its name.
        name: String,
        /// Which run.
        workflow_id: String,
        /// How far the image is.
        status: Status,
        /// How far the run is.
        step: ProgressStep,
        /// In words.
        message: String,
    },
    /// It is known what it shows.
    ClassificationUpdated {
        /// Its name.
        name: String,
        /// Which write of it.
        event_id: String,
        /// The label.
        label: String,
        /// How sure that is.
        score: f64,
    },
    /// It could not be classified.
    ClassificationError {
        /// Its name.
        name: String,
        /// Which write of it.
        event_id: String,
        /// Why.
        error: String,
    },
    /// It was deleted.
    UploadDeleted {
        /// Its name.
        name: String,
        /// The bucket's number of the deletion.
        sequence: i64,
    },
    /// Something came that cannot be an image here.
    UploadError {
        /// The name of the image.
        name: String,
        /// The reason.
        error: String,
    },
}

/// It is time to look for stuck rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepStuck {
    /// Only names behind this one.
    pub after: String,
}

impl SweepStuck {
    /// A sweep from the first row on.
    pub(crate) fn first() -> Self {
        Self { after: String::new() }
    }
}

/// Asks which of these runs will never end by themselves.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindLostRuns {
    /// The runs of rows that are not final.
    pub workflow_ids: Vec<String>,
}

impl Job for FindLostRuns {
    const NAME: &'static str = "find-lost-runs";
    type Output = Vec<String>;
}
