//! Blobs that nothing refers to: found once a day, and deleted.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    BucketError, Error, Handle, Job, Object, Outcome, Perform, Result, Turn, bucket::ListOptions,
    store::Timestamp,
};

use crate::{
    GenerationManager, GetArtifact, GetState, Library, Providers, TaskState, TaskView, Unreferred,
    artifact_id, blob_key, ids::is_id, is_workspace, task::COUNT_MAX,
};

/// The generation and the blob of each artifact.
type Artifacts = BTreeMap<String, (String, String)>;

/// How long after a sweep the next one comes. Younger blobs are not looked at either.
const EVERY: Duration = Duration::from_hours(24);
/// How long after a page the next one comes: nobody waits for a sweep.
const PAUSE: Duration = Duration::from_secs(1);
/// How long after a page that could not be looked at it is looked at again.
const AGAIN: Duration = Duration::from_hours(1);
/// Blobs of one page.
const PAGE: usize = 500;

/// Metadata of a blob: the generation and the workspace that refer to it.
pub(crate) const GENERATION: &str = "generation";
pub(crate) const WORKSPACE: &str = "workspace";

/// Finds blobs that nothing refers to. There is one for all workspaces, which share a bucket.
#[derive(Clone, Copy, Debug)]
pub struct OrphanSweep;

/// The name of the only one.
pub(crate) const SWEEP: &str = "artifacts";

/// Artifacts are made: it is time to sweep from now on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartSweep;

/// It is time to look at a page of blobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepPage {
    /// Only those behind this key.
    pub after: Option<String>,
}

/// Looks at a page of blobs, and deletes those that nothing refers to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FindOrphans {
    /// Only those behind this key.
    pub after: Option<String>,
    /// Only those that were written before, in milliseconds.
    pub until: i64,
}

/// The result of a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FoundOrphans {
    /// The artifacts whose blobs were deleted.
    pub deleted: Vec<String>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Job for FindOrphans {
    const NAME: &'static str = "generation-find-orphans";
    const TIMEOUT: Duration = Duration::from_mins(10);
    type Output = FoundOrphans;
}

impl Object for OrphanSweep {
    const CLASS: &'static str = "artifact-sweep";
    type Calls = (StartSweep, SweepPage, Outcome<FindOrphans>);
}

impl Handle<StartSweep> for OrphanSweep {
    const NAME: &'static str = "start-sweep";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, _: StartSweep) -> Result<()> {
        if turn.alarms()?.is_empty() {
            turn.set_alarm("sweep", EVERY, SweepPage { after: None });
        }
        Ok(())
    }
}

impl Handle<SweepPage> for OrphanSweep {
    const NAME: &'static str = "sweep-page";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: SweepPage) -> Result<()> {
        turn.perform(&FindOrphans { after: msg.after, until: turn.now().before(EVERY).0 });
        turn.set_alarm("sweep", EVERY, SweepPage { after: None });
        Ok(())
    }
}

impl Handle<Outcome<FindOrphans>> for OrphanSweep {
    const NAME: &'static str = "orphans-found";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<FindOrphans>) -> Result<()> {
        let (wait, after) = match msg.result {
            Ok(FoundOrphans { deleted, next }) => {
                if !deleted.is_empty() {
                    tracing::warn!(?deleted, "deleted blobs that nothing refers to");
                }
                (if next.is_some() { PAUSE } else { EVERY }, next)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot look for blobs that nothing refers to; will retry");
                (AGAIN, msg.job.after)
            }
        };
        turn.set_alarm("sweep", wait, SweepPage { after });
        Ok(())
    }
}

impl Perform<FindOrphans> for Arc<Providers> {
    /// A blob of a version that did not write who refers to it is left alone.
    async fn perform(&self, job: FindOrphans, _: &str) -> Result<FoundOrphans> {
        let limit = Some(PAGE);
        let options = ListOptions { after: job.after, limit, ..ListOptions::default() };
        let page = self.bucket().list(&options).await?;
        // The artifacts of each workspace, and the generations that they are of.
        let mut found: BTreeMap<String, Artifacts> = BTreeMap::new();
        for blob in page.blobs.iter().filter(|it| it.modified_at <= Timestamp(job.until)) {
            let of = |name: &str| blob.attributes.metadata.get(name).cloned();
            let (Some(generation), Some(workspace)) = (of(GENERATION), of(WORKSPACE)) else {
                continue;
            };
            let key = blob.key.to_string();
            if let Some(artifact) = artifact_at(&key, &workspace, &generation) {
                found.entry(workspace).or_default().insert(artifact, (generation, key));
            }
        }
        let mut deleted = Vec::new();
        for (workspace, artifacts) in found {
            deleted.extend(self.delete_orphans(&workspace, artifacts).await?);
        }
        Ok(FoundOrphans { deleted, next: page.next })
    }
}

/// The artifact at a key, if it is one of this generation. Users may copy a blob to any other key,
/// with its metadata, or write metadata of their own: such blobs are theirs.
fn artifact_at(key: &str, workspace: &str, generation: &str) -> Option<String> {
    let artifact = key.rsplit_once('/')?.1;
    let is_named = is_workspace(workspace) && is_id(generation);
    let is_its = is_named
        && blob_key(workspace, artifact) == key
        && (0..COUNT_MAX).any(|it| artifact_id(generation, it) == artifact);
    is_its.then(|| artifact.to_owned())
}

impl Providers {
    /// Deletes the blobs of artifacts that neither their library nor their manager refers to. The
    /// next sweep looks again at those that it fails for.
    async fn delete_orphans(&self, workspace: &str, artifacts: Artifacts) -> Result<Vec<String>> {
        let ask = Unreferred { ids: artifacts.keys().cloned().collect() };
        let unknown = match self.objects()?.call(Library::at(workspace), ask).await {
            Ok(unknown) => unknown,
            Err(error) => {
                tracing::warn!(%error, workspace, "cannot look for artifacts; skipped");
                return Ok(Vec::new());
            }
        };
        let mut deleted = Vec::new();
        for id in unknown {
            let Some((generation, key)) = artifacts.get(&id) else { continue };
            match self.delete_orphan(workspace, &id, generation, key).await {
                Ok(true) => deleted.push(id),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, key, "cannot look at a blob; skipped"),
            }
        }
        Ok(deleted)
    }

    /// Deletes the blob of an artifact that its library does not know. `false` if something refers
    /// to it.
    async fn delete_orphan(
        &self,
        workspace: &str,
        id: &str,
        generation: &str,
        key: &str,
    ) -> Result<bool> {
        let objects = self.objects()?;
        let manager = GenerationManager::at(generation);
        let shown = objects.call(manager, GetState).await.map_err(Error::retryable)?;
        let is_its = |it: &TaskView| it.artifact_id == id && it.status != TaskState::Cancelled;
        if shown.is_some_and(|it| it.tasks.iter().any(is_its)) {
            return Ok(false);
        }
        // A manager is forgotten when the library has what it made: look there again.
        let ask = GetArtifact { id: id.to_owned() };
        let found = objects.call(Library::at(workspace), ask).await.map_err(Error::retryable)?;
        if found.is_some() {
            return Ok(false);
        }
        match self.bucket().delete(key).await {
            Ok(_) | Err(BucketError::UnknownBlob { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}
